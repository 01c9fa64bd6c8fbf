// @ts-check
// What `macrid inspect` measures, in words.

import { gauge, short } from "../core/charts.js";
import { conceptColour } from "../core/colours.js";
import { h } from "../core/dom.js";
import { number } from "../core/format.js";
import { details, factTiles } from "./facts.js";
import { scrolled } from "./table.js";
import { tasteFacts } from "./words.js";

/** @import { App, Child } from "#types" */
/** @typedef {Record<string, any>} Inspection as `macrid inspect --json` has it */

/** @param {App} app @param {Inspection} inspection @returns {Child} */
export function inspectionView(app, inspection) {
  const original = typeof inspection.dci_within?.original === "number" ? ` Along the original axes: ${two(inspection.dci_within.original)}.` : "";
  const concepts = app.card.concepts.length;
  const tiles = [
    tile("Concepts in use", inspection.effective_concepts, `Of ${concepts}; the closer, the more evenly items are spread.`, inspection.effective_concepts / concepts),
    tile("Independence", inspection.independence, "How little users' dimensions repeat each other; 1 is not at all."),
    tile("Disentanglement", inspection.dci?.disentanglement, "Whether each dimension predicts only one attribute; 1 is yes."),
    tile("Completeness", inspection.dci?.completeness, "Whether each attribute is predicted by only one dimension; 1 is yes."),
    tile("Informativeness", inspection.dci?.informativeness, "How well the dimensions predict attributes; 1 is perfectly."),
    tile("Within concepts", inspection.dci_within?.in_use, `Disentanglement inside each concept, along the axes in use; 1 is best.${original}`),
    tile("Gap (MIG)", inspection.mig?.mean, "How far an attribute's best dimension is ahead of the next, over all dimensions; 1 is best."),
  ].filter(Boolean);
  /** @type {string[]} */
  const notes = inspection.notes ?? [];
  const isTurned = inspection.axes?.in_use?.includes("attributes");
  const turned = isTurned ? " The sliders' directions were turned towards these attributes afterwards; evidence and disentanglement are measured on items left out of that." : "";
  return [
    h("p", { class: "quiet", text: "Measured after training, with facts about items that training never saw." }),
    factTiles(tasteFacts(app.card, inspection)),
    details(
      "separation",
      turned && h("p", { class: "quiet", text: turned.trim() }),
      h("div", { class: "report-tiles" }, tiles),
      attributeTable(inspection),
      independence(app, inspection),
      notes.length > 0 && h("details", { class: "report-more" }, h("summary", { text: `Notes (${notes.length})` }), h("ul", {}, notes.map((text) => h("li", { text })))),
    ),
  ];
}

/** @param {number} value */
const two = (value) => (Math.round(100 * value) / 100 + 0).toFixed(2);

/**
 * @param {string} title
 * @param {unknown} value
 * @param {string} meaning
 * @param {unknown} share of the bar
 */
function tile(title, value, meaning, share = value) {
  if (typeof value !== "number") return null;
  return h("div", { class: "report-tile" }, h("span", { class: "tile-title", text: title }), h("strong", { text: short(value) }),
    gauge(Number(share), { text: "" }), h("p", { class: "quiet", text: meaning }));
}

/** @param {Inspection} inspection */
function attributeTable(inspection) {
  /** @type {[string, Record<string, number>][]} */
  const rows = Object.entries(inspection.attributes ?? {}).sort((a, b) => b[1].nmi - a[1].nmi);
  if (!rows.length) return null;
  const predicted = inspection.dci?.factors ?? {};
  return h(
    "div",
    { class: "report-stack" },
    h("h4", { text: "What concepts and dimensions say about each attribute" }),
    h("p", { class: "quiet", text: "Agreement (NMI): how much the concept reveals about the attribute, from 0 to 1. Purity: the share of items with the most frequent value of their concept; in grey, what the most frequent value overall would reach. Prediction: how well all dimensions together predict it." }),
    scrolled("Attributes", h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ["Attribute", "Agreement", "ARI", "Purity", "Prediction"].map((text) => h("th", { scope: "col", text })))),
      h("tbody", {}, rows.map(([name, score]) => h(
        "tr",
        {},
        h("th", { scope: "row", text: name }),
        h("td", {}, gauge(score.nmi, { text: two(score.nmi) })),
        h("td", { class: "figure", text: two(score.ari) }),
        h("td", { class: "figure" }, two(score.purity), typeof score.largest === "number" && h("small", { class: "quiet", text: ` ${two(score.largest)}` })),
        h("td", {}, typeof predicted[name] === "number" ? gauge(predicted[name], { text: two(predicted[name]) }) : "–"),
      ))),
    )),
  );
}

/** @param {App} app @param {Inspection} inspection */
function independence(app, inspection) {
  /** @type {number[]} */
  const values = inspection.independence_per_concept ?? [];
  if (!values.length || values.some((value) => typeof value !== "number")) return null;
  const evidence = inspection.axes?.evidence_in_use ?? [];
  return h("details", { class: "report-more" }, h("summary", { text: "Concept by concept" }), scrolled("Concept by concept", h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ["Concept", "Independence", "Evidence", "Axes"].map((text) => h("th", { scope: "col", text })))),
    h("tbody", {}, values.map((value, k) => h(
      "tr",
      {},
      h("th", { scope: "row", text: app.label(k) ?? `concept ${k}` }),
      h("td", {}, gauge(value, { colour: conceptColour(k), text: number(value) })),
      h("td", { class: "figure", text: typeof evidence[k] === "number" ? two(evidence[k]) : "–" }),
      h("td", { text: inspection.axes?.in_use?.[k] ?? "–" }),
    ))),
  )));
}
