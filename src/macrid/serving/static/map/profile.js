// @ts-check
// What sets a segment apart, in words.

import { count, number, percent } from "../core/format.js";

/** @import { SegmentNumber, SegmentProfile, SegmentValue } from "#types" */
/** @typedef {{ name: string, of: string, text: string, inside: number, outside: number }} Trait shares of items, from 0 to 1 */

const POPULARITY = "popularity";
const NEARLY_ALL = 0.9; // of the items

/**
 * "Horror: 78 % here, 6 % elsewhere".
 * @param {SegmentValue} value
 * @returns {Trait}
 */
export function trait({ label, attribute, concept, inside, outside }) {
  return { name: label, of: concept === null ? attribute : "group", text: `${percent(inside)} here, ${percent(outside)} elsewhere`, inside, outside };
}

/**
 * "year: 1987 here, 1994 elsewhere".
 * @param {SegmentNumber} number
 */
export function shift({ attribute, inside_text: here, outside_text: elsewhere }) {
  return { name: attribute === POPULARITY ? "customers per item" : attribute, text: `${here} here, ${elsewhere} elsewhere` };
}

/**
 * What it has less often, without what follows from the rest: where nearly all are watches, few are anything else.
 * @param {SegmentProfile} profile
 * @returns {SegmentValue[]}
 */
export function rarer({ more, less }) {
  const covered = (/** @type {string} */ attribute) => more.filter((value) => value.attribute === attribute).reduce((sum, { inside }) => sum + inside, 0);
  return less.filter(({ attribute }) => covered(attribute) < NEARLY_ALL);
}

/**
 * Nothing sets it apart, or too few items say so.
 * @param {SegmentProfile} profile
 */
export const isPlain = ({ more, less, numbers }) => !more.length && !less.length && !numbers.length;

/**
 * "412 of 1,000 customers".
 * @param {SegmentProfile["customers"]} customers
 * @param {number} atLeast items of the segment that they have
 */
export const whoText = ({ total, at_least: having }, atLeast) => `${number(having[atLeast - 1] ?? 0)} of ${count(total, "customer")}`;

/** @param {SegmentProfile["customers"]} customers */
export const fondText = ({ a_tenth: tenth }) => (tenth ? `For ${count(tenth, "customer")}, these items are at least a tenth of the history.` : "");
