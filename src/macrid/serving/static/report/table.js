// @ts-check

import { h } from "../core/dom.js";

/**
 * A wide table that scrolls by itself, with the keyboard too.
 * @param {string} label
 * @param {HTMLTableElement} table
 */
export function scrolled(label, table) {
  return h("div", { class: "report-scroll", tabindex: "0", role: "region", "aria-label": label }, table);
}
