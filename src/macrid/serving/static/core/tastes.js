// @ts-check
// Tastes: how a history, or a list, divides among the groups, as a bar and in words.

import { conceptColour } from "./colours.js";
import { h } from "./dom.js";
import { percent } from "./format.js";

/** @import { User } from "#types" */
/** @typedef {(concept: number) => string | null} Label what to call a group */

const LEAST = 0.02; // of a bar; less cannot be seen
const STRONGEST = 2; // in words

/** @param {number[]} shares @returns {{ concept: number, share: number }[]} largest first */
export function ranked(shares, least = LEAST) {
  return shares.map((share, concept) => ({ concept, share })).filter(({ share }) => share >= least).sort((one, other) => other.share - one.share);
}

/**
 * "Horror 41 %, Sci-Fi 22 %"
 * @param {number[]} shares
 * @param {Label} label
 */
export function inWords(shares, label, most = STRONGEST) {
  return ranked(shares).slice(0, most).map(({ concept, share }) => `${label(concept) ?? `group ${concept}`} ${percent(share)}`).join(", ");
}

/**
 * A stacked bar in the groups' colours.
 * @param {number[]} shares
 * @param {Label} label
 * @param {{ inOrder?: boolean, name?: string }} [options] `inOrder`: of the groups' numbers, to compare bars; `name`: what divides
 */
export function tasteBar(shares, label, { inOrder = false, name = "Tastes" } = {}) {
  const parts = ranked(shares);
  const shown = inOrder ? [...parts].sort((one, other) => one.concept - other.concept) : parts;
  return h(
    "span",
    { class: "taste-bar", role: "img", "aria-label": `${name}: ${inWords(shares, label, shares.length) || "none"}` },
    shown.map(({ concept, share }) =>
      h("span", { class: "taste", title: `${label(concept) ?? `group ${concept}`}: ${percent(share)}`, style: { "--c": conceptColour(concept), flexGrow: share } })),
  );
}

/**
 * What a customer likes: the bar, and the strongest groups in words; first of all what somebody searched for.
 * @param {Pick<User, "shares" | "taste">} user
 * @param {Label} label
 * @param {{ sought?: string | null, first?: string }} [options] `sought`: the taste that was searched for; `first`: other words
 */
export function tastes({ shares, taste }, label, { sought = null, first = "" } = {}) {
  const strongest = inWords(shares ?? [], label);
  const isExtra = sought !== null && typeof taste === "number" && !strongest.includes(sought);
  const liked = isExtra ? [`${sought} ${percent(taste)}`, inWords(shares ?? [], label, 1)] : [strongest];
  const words = [first, liked.filter(Boolean).join(", ")].filter(Boolean).join(" · ");
  return h("span", { class: "tastes" }, shares && tasteBar(shares, label), h("span", { class: "taste-words", dir: "auto", title: words, text: words }));
}
