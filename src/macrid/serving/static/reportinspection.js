// What `macrid inspect` measures, in words.

import { gauge, short } from "./charts.js";
import { conceptColour } from "./colours.js";
import { h } from "./dom.js";
import { number } from "./format.js";
import { scrolled } from "./reportconcepts.js";

export function inspectionView(app, found) {
  const original = typeof found.dci_within?.original === "number" ? ` Along the original axes ${two(found.dci_within.original)}.` : "";
  const tiles = [
    tile("Concepts in use", found.effective_concepts, `of ${app.card.concepts.length}; the closer, the more evenly items are spread.`, found.effective_concepts / app.card.concepts.length),
    tile("Independence", found.independence, "How little the dimensions of users repeat each other; 1 is not at all."),
    tile("Disentanglement", found.dci?.disentanglement, "Whether each dimension tells of one attribute only; 1 is yes."),
    tile("Completeness", found.dci?.completeness, "Whether each attribute is told by one dimension only; 1 is yes."),
    tile("Informativeness", found.dci?.informativeness, "How well attributes can be read off the dimensions; 1 is perfectly."),
    tile("Within concepts", found.dci_within?.in_use, `Disentanglement inside each concept, along the axes in use; 1 is best.${original}`),
    tile("Gap (MIG)", found.mig?.mean, "How far the best dimension of an attribute is ahead of the next, over all dimensions; 1 is best."),
  ].filter(Boolean);
  const notes = found.notes ?? [];
  const isTurned = found.axes?.in_use?.includes("attributes");
  return h(
    "div",
    { class: "report-stack" },
    h("p", {
      class: "quiet",
      text: `Measured after training, with attributes that training never saw.${isTurned ? " The axes in use were turned towards these attributes afterwards; evidence and disentanglement are of items that they were not fitted to." : ""}`,
    }),
    h("div", { class: "report-tiles" }, tiles),
    attributeTable(found),
    independence(app, found),
    notes.length > 0 && h("details", { class: "report-more" }, h("summary", { text: `Notes (${notes.length})` }), h("ul", {}, notes.map((text) => h("li", { text })))),
  );
}

const two = (value) => (Math.round(100 * value) / 100 + 0).toFixed(2);

function tile(title, value, meaning, share = value) {
  if (typeof value !== "number") return null;
  return h("div", { class: "report-tile" }, h("span", { class: "tile-title", text: title }), h("strong", { text: short(value) }),
    gauge(share, { text: "" }), h("p", { class: "quiet", text: meaning }));
}

function attributeTable(found) {
  const rows = Object.entries(found.attributes ?? {}).sort((a, b) => b[1].nmi - a[1].nmi);
  if (!rows.length) return null;
  const readable = found.dci?.factors ?? {};
  return h(
    "div",
    { class: "report-stack" },
    h("h4", { text: "What concepts and dimensions tell about each attribute" }),
    h("p", { class: "quiet", text: "Agreement (NMI): whether knowing the concept tells the attribute, from 0 to 1. Purity: how many items have the attribute that is most frequent in their concept; the most frequent value alone would reach the grey figure. Read off: how well all dimensions together foretell it." }),
    scrolled("Attributes", h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ["Attribute", "Agreement", "ARI", "Purity", "Read off"].map((text) => h("th", { scope: "col", text })))),
      h("tbody", {}, rows.map(([name, score]) => h(
        "tr",
        {},
        h("th", { scope: "row", text: name }),
        h("td", {}, gauge(score.nmi, { text: two(score.nmi) })),
        h("td", { class: "figure", text: two(score.ari) }),
        h("td", { class: "figure" }, two(score.purity), typeof score.largest === "number" && h("small", { class: "quiet", text: ` ${two(score.largest)}` })),
        h("td", {}, typeof readable[name] === "number" ? gauge(readable[name], { text: two(readable[name]) }) : "–"),
      ))),
    )),
  );
}

function independence(app, found) {
  const values = found.independence_per_concept ?? [];
  if (!values.length || values.some((value) => typeof value !== "number")) return null;
  const evidence = found.axes?.evidence_in_use ?? [];
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
      h("td", { text: found.axes?.in_use?.[k] ?? "–" }),
    ))),
  )));
}
