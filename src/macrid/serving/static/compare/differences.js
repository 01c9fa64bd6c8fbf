// @ts-check
// What two lists differ in, as the page says it.

import { count, listed, plain } from "../core/format.js";

/** @import { components } from "#openapi" */
/** @import { List } from "#types" */
/** @typedef {components["schemas"]["Contrast"]} Contrast */
/** @typedef {{ kind: "only" | "same" | "up" | "down", by: number }} Mark where an item is, against the other list */

const MOST_SAID = 4;
const day = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" });

/** @param {List[]} lists @returns {Map<string, number>} each item's rank, in its row if there are several */
export const ranks = (lists) => new Map(lists.flatMap(({ items }) => items.map(({ id }, place) => [id, place + 1])));

/**
 * @param {List[]} lists
 * @param {List[]} others
 * @returns {Map<string, Mark>} for each item of the first
 */
export function marks(lists, others) {
  const there = ranks(others);
  const mark = (/** @type {number} */ rank, /** @type {number | undefined} */ other) => {
    if (other === undefined) return /** @type {Mark} */ ({ kind: "only", by: 0 });
    return /** @type {Mark} */ ({ kind: rank === other ? "same" : rank < other ? "up" : "down", by: Math.abs(rank - other) });
  };
  return new Map([...ranks(lists)].map(([id, rank]) => [id, mark(rank, there.get(id))]));
}

/** @param {List[]} left @param {List[]} right */
export function overlapInWords(left, right) {
  const [one, other] = [[...ranks(left)], ranks(right)];
  const both = one.filter(([id]) => other.has(id)).length;
  if (!one.length && !other.size) return "Both lists are empty";
  if (!both) return "No item is in both lists";
  if (both < one.length || both < other.size) return `${both} of ${one.length === other.size ? one.length : `${one.length} and ${other.size}`} items are in both lists`;
  if (one.every(([id, rank]) => other.get(id) === rank)) return "Both lists are the same";
  return `The same ${count(both, "item")}, in another order`;
}

/** @param {Contrast[]} attributes the clearest first */
export function contrastsInWords(attributes) {
  const said = attributes.slice(0, MOST_SAID);
  const is = said.filter(({ left_is }) => left_is).map((one) => `${one.left_is} (${one.name} ${values(one)})`);
  const has = said.filter(({ left_is }) => !left_is).map((one) => {
    const isMore = one.left > one.right;
    if (one.kind === "share") return `${isMore ? "more" : "less"} ${one.value} (${values(one)})`;
    return `${one.kind === "date" ? (isMore ? "a later" : "an earlier") : isMore ? "a higher" : "a lower"} ${one.name} (${values(one)})`;
  });
  const parts = [is.length ? `is ${listed(is)}` : "", has.length ? `has ${listed(has)}` : ""].filter(Boolean);
  return parts.length ? `The left list ${parts.join(", and ")}.` : "";
}

/** @param {Contrast} one */
function values(one) {
  const [left, right] = sidesOf(one);
  if (one.kind !== "share" || one.left_known !== one.right_known) return `${left} against ${right}`;
  return `${left.split(" ")[0]} against ${right}`;
}

/**
 * Of a contrast, what to show for each side: 1988, 12 of 24, 3 May 2024.
 * @param {Contrast} one
 * @returns {[left: string, right: string]}
 */
export function sidesOf({ kind, left, right, left_known, right_known }) {
  if (kind === "share") return [`${Math.round(left * left_known)} of ${left_known}`, `${Math.round(right * right_known)} of ${right_known}`];
  if (kind === "date") return [day.format(left * 1000), day.format(right * 1000)];
  const digits = [3, 4, 6, 9].find((count) => rounded(left, count) !== rounded(right, count)) ?? 3; // as many as it takes to tell them apart
  const text = (/** @type {number} */ x) => (digits === 3 ? plain(rounded(x, 3)) : String(rounded(x, digits)).replace("-", "−"));
  return [text(left), text(right)];
}

/** To so many digits, and at least to a whole number. @param {number} x @param {number} digits */
const rounded = (x, digits) => Number(x.toPrecision(Math.max(digits, String(Math.trunc(Math.abs(x))).length)));
