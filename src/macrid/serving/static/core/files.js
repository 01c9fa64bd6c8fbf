// @ts-check
// Files to take away, and their names.

import { h } from "./dom.js";

const LONGEST = 60; // characters of a part of a name

/**
 * A name that every system takes: words joined by "-", in any script.
 * @param {...(string | null)} parts
 */
export function fileName(...parts) {
  const words = parts.map((part) => (part ?? "").normalize("NFC").replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").slice(0, LONGEST).replace(/^-+|-+$/g, ""));
  return words.filter(Boolean).join("-") || "list";
}

/** The date, as in file names. */
export const today = (now = new Date()) => `${now.getFullYear()}-${String(now.getMonth() + 1).padStart(2, "0")}-${String(now.getDate()).padStart(2, "0")}`;

/**
 * @param {string} name
 * @param {string} text
 * @param {string} type
 */
export function download(name, text, type = "application/json") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser may still be reading it
}
