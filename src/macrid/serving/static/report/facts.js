// @ts-check
// Plain figures at the top of a section, and the researcher's below.

import { h } from "../core/dom.js";

/** @import { Child } from "#types" */
/** @import { Fact } from "./words.js" */

/** @param {Fact[]} facts */
export function factTiles(facts) {
  return h("div", { class: "report-facts-row" }, facts.map(({ figure, text, share, other }) => h(
    "div",
    { class: "report-fact" },
    h("strong", { text: figure }),
    h("p", { text }),
    share !== undefined && h("span", { class: "fact-bar", "aria-hidden": "true" },
      h("span", { class: "fact-fill", style: { width: at(share) } }), other && h("span", { class: "fact-other", style: { insetInlineStart: at(other.share) } })),
    other && h("p", { class: "quiet", text: other.text }),
  )));
}

/** @param {number} share */
const at = (share) => `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%`;

/**
 * @param {string} what
 * @param {...Child} children
 */
export function details(what, ...children) {
  return h("details", { class: "report-more" }, h("summary", {}, "Details", h("span", { class: "unseen", text: `: ${what}` })), h("div", { class: "report-stack" }, children));
}
