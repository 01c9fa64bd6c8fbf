// @ts-check
// Segments that a person has named: this browser keeps them, by the ids of their items, so they outlast a run.

import { keep, kept } from "../core/kept.js";

/** @typedef {{ name: string, items: string[] }} Segment */

const KEPT = "segments";
export const LONGEST_NAME = 80; // letters

/** @type {Segment[] | null} */
let known = null;
globalThis.addEventListener?.("storage", () => (known = null)); // another tab has kept some

/** All that are kept, in the order of their making. */
export function segments() {
  known ??= valid(kept(KEPT, []));
  return known;
}

/**
 * @param {Segment[]} all
 * @returns {boolean} whether they are kept; otherwise nothing has changed
 */
export function keepSegments(all) {
  if (!keep(KEPT, all)) return false;
  known = all;
  return true;
}

/**
 * The name of the kept segment that has exactly these items.
 * @param {string[]} ids
 * @returns {string | null}
 */
export function segmentNamed(ids) {
  const wanted = new Set(ids);
  const isSame = (/** @type {Segment} */ { items }) => items.length === wanted.size && items.every((id) => wanted.has(id));
  return segments().find(isSame)?.name ?? null;
}

/** @param {Segment[]} all @param {string} name @param {string[]} items @returns {Segment[]} with one more, under a name of its own */
export const withSegment = (all, name, items) => [...all, { name: freeName(all, name), items: [...new Set(items)] }];

/** @param {Segment[]} all @param {string} name @param {string} to @returns {Segment[]} */
export function renamed(all, name, to) {
  const others = all.filter((one) => one.name !== name);
  return all.map((one) => (one.name === name ? { ...one, name: freeName(others, to) } : one));
}

/** @param {Segment[]} all @param {string} name @returns {Segment[]} */
export const without = (all, name) => all.filter((one) => one.name !== name);

/**
 * On one line, and not that of another: "Horror", "Horror 2".
 * @param {Segment[]} all
 * @param {string} wanted
 */
function freeName(all, wanted) {
  const name = [...wanted.trim().replace(/\s+/g, " ")].slice(0, LONGEST_NAME).join("") || "Segment";
  const taken = new Set(all.map((one) => one.name));
  let free = name;
  for (let n = 2; taken.has(free); n += 1) free = `${name} ${n}`;
  return free;
}

/** @param {unknown} value what storage has, which anybody may have edited @returns {Segment[]} */
function valid(value) {
  const isOne = (/** @type {any} */ one) => typeof one?.name === "string" && Array.isArray(one.items) && one.items.every((/** @type {unknown} */ id) => typeof id === "string");
  return Array.isArray(value) ? value.filter(isOne).map(({ name, items }) => ({ name, items })) : [];
}
