// @ts-check
// What moved since the run that the training started from.

import { gauge } from "../core/charts.js";
import { conceptColour } from "../core/colours.js";
import { h } from "../core/dom.js";
import { count, listed, number, percent, signed } from "../core/format.js";
import { scrolled } from "./table.js";

/** @import { Child } from "#types" */
/** @typedef {Record<string, any>} Diff as `macrid diff --json` has it */

/** @param {Diff} diff @param {string} before @returns {Child} */
export function diffView(diff, before) {
  const { verdict, items } = diff;
  const parts = [`${are(items.common, "item")} in both runs`, items.new && `${are(items.new)} new`, items.gone && `${are(items.gone)} gone`].filter(Boolean);
  return [
    h("p", { class: "quiet", text: `Training started from ${before}: ${listed(parts)}.` }),
    h("div", { class: "diff-verdict", "data-safe": String(verdict.safe) },
      h("strong", { text: verdict.safe ? "Safe to swap in" : "Check before swapping it in" }),
      h("ul", {}, [...verdict.against.map((/** @type {string} */ text) => reason(text, false)), ...verdict.for.map((/** @type {string} */ text) => reason(text, true))])),
    h("div", { class: "report-tiles diff-tiles" }, tiles(diff)),
    diff.concepts.length > 0 && conceptTable(diff.concepts),
    knobTable(diff.knobs.filter((/** @type {Diff} */ { status }) => status !== "kept")),
  ];
}

/** @param {number} n @param {string} [one] "1 item is", "2 are" */
const are = (n, one) => `${one ? count(n, one) : number(n)} ${n === 1 ? "is" : "are"}`;

/** @param {string} text @param {boolean} isGood */
function reason(text, isGood) {
  return h("li", { class: isGood ? "is-good" : "is-bad" }, h("span", { class: "unseen", text: isGood ? "For it: " : "Against it: " }), h("span", { text }));
}

/** @param {Diff} diff */
function tiles({ numbers, lists, accuracy }) {
  const how = accuracy.same_users ? "customer by customer" : accuracy.final ? "before final training" : "measured on other customers";
  const change = accuracy.change === null ? "" : ` Change ${signed(accuracy.change, 4)} ± ${accuracy.se.toFixed(4)}, ${how}.`;
  return [
    tile("Groups", numbers.ari, "Agreement on which items belong together (ARI); 1 is perfect."),
    tile("Names", numbers.names_kept, "Names of groups kept.", true),
    tile("Sliders", numbers.knobs_kept, "Named sliders at the same place, with the same direction.", true),
    tile("Lists", numbers.overlap, `Of their first ten items, what ${count(lists.users, "customer")} keep on average.`, true),
    tile("First items", numbers.same_top, "Customers whose first item stays.", true),
    tile("Accuracy", numbers.ndcg_after, `NDCG@100 on test customers; was ${numbers.ndcg_before === null ? "unknown" : numbers.ndcg_before.toFixed(3)}.${change}`, false, 3),
  ];
}

/** @param {string} title @param {number | null} value @param {string} meaning */
function tile(title, value, meaning, isShare = false, digits = 2) {
  return value !== null && h("div", { class: "report-tile" }, h("span", { class: "tile-title", text: title }),
    h("strong", { text: isShare ? percent(value) : value.toFixed(digits) }), gauge(value, { text: "" }), h("p", { class: "quiet", text: meaning }));
}

/** @param {Diff[]} concepts */
function conceptTable(concepts) {
  return scrolled("Groups before and after", h("table", {},
    h("thead", {}, h("tr", {}, ["Group", "Items", "Stay", "Moved away"].map((text) => h("th", { scope: "col", class: text === "Items" || text === "Stay" ? "figure" : "", text })))),
    h("tbody", {}, concepts.map((row) => h("tr", {},
      h("th", { scope: "row", class: "diff-concept", style: { "--c": conceptColour(row.after) } }, h("span", { class: "concept-swatch", "aria-hidden": "true" }), h("span", { text: changed(row.label_before, row.label_after) })),
      h("td", { class: "figure", text: changed(number(row.items_before), number(row.items_after)) }),
      h("td", { class: "figure", text: row.stay === null ? "–" : percent(row.stay) }),
      h("td", { text: moved(row) }))))));
}

/** @param {Diff} row */
function moved({ moved: shown, moved_items: total }) {
  const titles = shown.slice(0, 2).map((/** @type {Diff} */ { id, title }) => title ?? id);
  return total > titles.length ? `${titles.join("; ")}; ${number(total - titles.length)} more` : titles.join("; ");
}

/** @param {string | null} before @param {string | null} after */
const changed = (before, after) => (before === after ? after ?? "–" : `${before ?? "–"} → ${after ?? "–"}`);

/** @param {Diff[]} knobs */
function knobTable(knobs) {
  return knobs.length > 0 && h("details", { class: "report-more" }, h("summary", { text: `Sliders that changed (${knobs.length})` }),
    scrolled("Sliders that changed", h("table", {},
      h("thead", {}, h("tr", {}, ["Slider", "Name", "Is now"].map((text) => h("th", { scope: "col", text })))),
      h("tbody", {}, knobs.map(({ concept, dimension, name, status, to }) => h("tr", {},
        h("td", { text: `${concept}.${dimension}` }), h("td", { text: name }), h("td", { text: to ? `${status} to ${to.join(".")}` : status })))))));
}
