// @ts-check
// Compare.

import { h } from "../core/dom.js";

/** @import { App } from "#types" */

/** @param {App} app */
export function create(app) {
  return { element: h("section", { class: "compare" }, h("h2", { text: app.card.run })), show: () => {}, hide: () => {} };
}
