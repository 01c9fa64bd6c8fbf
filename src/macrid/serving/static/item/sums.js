// @ts-check
// Sums that a person can check: what moved an item, and what belongs to what, in whole numbers that add up.

/** @import { Account, AccountPart } from "#types" */
/** @typedef {{ kind: "item" | "others" | "rule" | "move", places: number, part: AccountPart }} Row `part`: what the row is about */

/**
 * What moved an item, one row for each thing: items of the history, the strongest first, then rules, then moves.
 * @param {Account} account
 * @returns {Row[]}
 */
export function rowsOf({ parts }) {
  /** @type {Map<string | number, Row>} */
  const rows = new Map();
  parts.forEach((part, at) => {
    const kind = part.item ? "item" : part.count ? "others" : part.kind === "move" ? "move" : "rule";
    const key = kind === "item" ? `item ${part.item}` : kind === "others" ? kind : at; // by the model and by neighbours
    const row = rows.get(key);
    if (row) row.places += part.places;
    else rows.set(key, { kind, places: part.places, part });
  });
  const order = ["item", "others", "rule", "move"];
  const strength = (/** @type {Row} */ { kind, places }) => (kind === "item" ? Math.abs(places) : 0);
  return [...rows.values()]
    .filter(({ places }) => places !== 0)
    .sort((one, other) => order.indexOf(one.kind) - order.indexOf(other.kind) || strength(other) - strength(one));
}

/** @param {{ places: number }[]} rows */
export const total = (rows) => rows.reduce((sum, { places }) => sum + places, 0);

/**
 * The strongest rows, and how many others there are with what they come to.
 * @param {Row[]} rows
 * @param {number} most
 */
export function strongest(rows, most) {
  const order = rows.toSorted((one, other) => Number(one.kind === "others") - Number(other.kind === "others") || Math.abs(other.places) - Math.abs(one.places));
  const named = order.length <= most + 1 && !order.some(({ kind }) => kind === "others") ? order : order.slice(0, most).filter(({ kind }) => kind !== "others");
  const rest = order.filter((row) => !named.includes(row));
  return { named, others: rest.reduce((sum, { part }) => sum + (part.count ?? 1), 0), places: total(rest) };
}

/**
 * Titles of the items of the history that raise the score most, whatever that does to the place.
 * @param {Account} account
 * @param {number} most
 */
export function raisedBy({ parts }, most) {
  /** @type {Map<string, { label: string, amount: number }>} */
  const items = new Map();
  for (const { item, label, amount } of parts) {
    if (item) items.set(item, { label, amount: (items.get(item)?.amount ?? 0) + amount });
  }
  return [...items.values()].filter(({ amount }) => amount > 0).sort((one, other) => other.amount - one.amount).slice(0, most).map(({ label }) => label);
}

/** The place without the moves. @param {Account} account */
export const placeBefore = ({ stages }) => stages.findLast(({ kind }) => kind !== "move")?.rank ?? 0;

/**
 * Shares as whole per cents that add up to what the shares do, by largest remainders.
 * @param {number[]} shares
 */
export function wholePercents(shares) {
  const exact = shares.map((share) => 100 * share);
  const whole = exact.map(Math.floor);
  const missing = Math.round(exact.reduce((sum, x) => sum + x, 0)) - whole.reduce((sum, x) => sum + x, 0);
  const order = exact.map((x, at) => ({ at, rest: x - whole[at] })).sort((one, other) => other.rest - one.rest);
  order.slice(0, missing).forEach(({ at }) => (whole[at] += 1));
  return whole;
}

/**
 * Groups with at least 1 %, the largest first, and what is left of 100 % for the others.
 * @param {number[]} shares by group
 */
export function largeShares(shares) {
  const percents = wholePercents(shares);
  const large = percents.map((percent, concept) => ({ concept, percent })).filter(({ percent }) => percent >= 1);
  const rest = percents.length - large.length;
  return {
    large: large.sort((one, other) => other.percent - one.percent || shares[other.concept] - shares[one.concept]),
    others: rest,
    percent: 100 - large.reduce((sum, { percent }) => sum + percent, 0),
  };
}
