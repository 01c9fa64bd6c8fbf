// @ts-check
// Items as a file to take away.

import * as api from "../core/api.js";
import { csv } from "../share/csv.js";

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
 * A table with all attributes.
 * @param {Row[]} rows
 */
export function table(rows) {
  const names = [...new Set(rows.flatMap(({ attributes }) => Object.keys(attributes)))];
  return csv([["id", "title", ...names], ...rows.map(({ id, title, attributes }) => [id, title, ...names.map((name) => attributes[name])])]);
}

/** @param {Row[]} rows */
export const json = (rows) => `${JSON.stringify(rows.map(({ id, title, attributes }) => ({ id, title, ...attributes })), null, 2)}\n`;
