// @ts-check
// What the service says moved, as a list of cards needs it.

import { plain } from "../core/format.js";

/** @import { Change, Difference, List, Moved } from "#types" */
/** @typedef {{ kind: "in" | "up" | "down", by: number }} CardChange `by`: places; 0 for what is new */

/**
 * By item.
 * @param {Moved | null} moved
 * @returns {Map<string, CardChange>}
 */
export function changes(moved) {
  /** @type {Map<string, CardChange>} */
  const found = new Map();
  if (!moved) return found;
  const places = (/** @type {Change} */ { before, after }) => Math.abs((before ?? 0) - (after ?? 0));
  for (const { id } of moved.in) found.set(id, { kind: "in", by: 0 });
  for (const change of moved.up) found.set(change.id, { kind: "up", by: places(change) });
  for (const change of moved.down) found.set(change.id, { kind: "down", by: places(change) });
  return found;
}

/**
 * Over all lists, how many items came in, went up or went down, and which are gone; null where nothing was moved.
 * @param {List[]} lists
 */
export function summary(lists) {
  const moved = lists.flatMap((list) => list.moved ?? []);
  if (!moved.length) return null;
  const total = (/** @type {"in" | "up" | "down"} */ kind) => moved.reduce((sum, one) => sum + one[kind].length, 0);
  return { in: total("in"), up: total("up"), down: total("down"), gone: moved.flatMap(({ out }) => out) };
}

/**
 * In the attribute's own terms: "year 1996 → 1988", "4 more Comedy", "3 fewer Horror"; null for less than can be told.
 * @param {Difference} difference
 * @returns {string | null}
 */
export function inTerms({ name, value, before, after }) {
  if (value === null) return rounded(before) === rounded(after) ? null : `${name} ${rounded(before)} → ${rounded(after)}`;
  const by = Math.round(after - before);
  return by === 0 ? null : `${Math.abs(by)} ${by < 0 ? "fewer" : "more"} ${value}`;
}

/** @param {number} x */
export const rounded = (x) => plain(Math.abs(x) >= 100 ? Math.round(x) : Number(x.toPrecision(3)));
