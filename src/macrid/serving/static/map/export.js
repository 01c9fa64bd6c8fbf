// @ts-check
// Items as a file to take away.

import * as api from "../core/api.js";
import { h } from "../core/dom.js";

/** @import { LookedUp } from "#types" */
/** @typedef {{ id: string, title: string, attributes: Record<string, unknown> }} Row */

/**
 * Everything known about items, in portions that the service takes.
 * @param {string[]} ids
 * @param {number} most at a time
 * @returns {Promise<Row[]>}
 */
export async function rowsOf(ids, most) {
  const rows = [];
  for (let at = 0; at < ids.length; at += most) {
    const { items } = await api.items(ids.slice(at, at + most), undefined, { attributes: true });
    rows.push(...items.map((/** @type {LookedUp} */ { id, title, attributes }) => ({ id, title: title ?? "", attributes: attributes ?? {} })));
  }
  return rows;
}

/**
 * A table as spreadsheets read it (RFC 4180). A text that a spreadsheet would take for a formula begins with an apostrophe.
 * @param {Row[]} rows
 */
export function csv(rows) {
  const names = [...new Set(rows.flatMap(({ attributes }) => Object.keys(attributes)))];
  const lines = [["id", "title", ...names], ...rows.map(({ id, title, attributes }) => [id, title, ...names.map((name) => attributes[name])])];
  return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}

/** @param {unknown} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = Array.isArray(value) ? value.join("|") : typeof value === "object" ? JSON.stringify(value) : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {Row[]} rows */
export const json = (rows) => `${JSON.stringify(rows.map(({ id, title, attributes }) => ({ id, title, ...attributes })), null, 2)}\n`;

/**
 * @param {string} name of the file
 * @param {string} type
 * @param {string} text
 */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** @param {string} name @returns {string} for a file, on any system */
export const fileName = (name) => name.normalize("NFC").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60).toLowerCase() || "segment";
