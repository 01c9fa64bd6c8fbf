// @ts-check
// What became of sliders and rules that were made with another model, in words.

import { count, listed } from "./format.js";

/** @import { Recommended } from "#types" */

const MOST = 6; // named

/**
 * What to say beside a list: first what was carried over, then the other warnings.
 * @param {Recommended} answer
 * @param {number} sent how many sliders were sent
 */
export function warningsOf(answer, sent) {
  const { carried, rules, warnings = [] } = answer;
  const said = new Set((carried ?? []).map(({ warning }) => warning));
  const made = rules ? "This was made with another model" : "The sliders have changed since this was made";
  return [...carriedInWords(answer, sent, made), ...warnings.filter((warning) => !said.has(warning))];
}

/**
 * @param {Recommended} answer
 * @param {number} sent how many sliders were sent
 * @param {string} made how it came that they are others here
 * @returns {string[]} sentences; none where everything means the same here
 */
export function carriedInWords({ carried, unknown, rules }, sent, made) {
  const missing = (carried ?? []).filter(({ kept }) => !kept);
  const gone = rules ? (unknown?.length ?? 0) : 0; // of the same model, the history itself shows them
  if (!carried || (!carried.length && !gone)) return [];
  const lost = missing.filter(({ kind }) => kind === "move").length;
  const kept = sent - lost;
  const all = sent === 1 ? "its slider was" : sent === 2 ? "both sliders were" : `all ${sent} sliders were`;
  const how = kept < sent ? `${kept} of ${count(sent, "slider")} ${kept === 1 ? "was" : "were"}` : all;
  const parts = [...(lost ? [count(lost, "slider")] : []), ...(missing.length > lost ? [count(missing.length - lost, "rule")] : [])];
  const names = missing.slice(0, MOST).map(({ what }) => what);
  const more = missing.length - names.length;
  return [
    kept ? `${made}: ${how} carried over by name.` : `${made}.`,
    ...(missing.length ? [`${listed(parts)} ${missing.length === 1 ? "does" : "do"} not exist here: ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}.`] : []),
    ...(gone ? [`${count(gone, "item")} of the history ${gone === 1 ? "is" : "are"} not in this catalogue.`] : []),
  ];
}
