// @ts-check
// The groups of the report, with their sliders and the evidence for their names.

import * as api from "../core/api.js";
import { gauge } from "../core/charts.js";
import { conceptColour } from "../core/colours.js";
import { append, clear, h } from "../core/dom.js";
import { count, listed, number, pValue, percent, signed } from "../core/format.js";
import { failure, thumb, thumbButton } from "../core/items.js";
import { scrolled } from "./table.js";

/** @import { App, Concept, Dimension } from "#types" */

/**
 * One disclosure for each concept, the largest first.
 * @param {App} app
 */
export function conceptList(app) {
  const sorted = [...app.card.concepts].sort((a, b) => b.share - a.share);
  return h(
    "div",
    { class: "report-stack" },
    h("p", { class: "quiet", text: "A group is a kind of thing customers look for; its sliders are what varies within it. Names come from facts about items that training never saw, and only where they hold." }),
    h("div", { class: "report-concepts" }, sorted.map((concept) => oneConcept(app, concept))),
  );
}

/** @param {App} app @param {Concept} concept */
function oneConcept(app, concept) {
  const named = concept.dimensions.filter(({ name }) => name !== null);
  const inside = h("div", { class: "concept-inside" });
  const details = h(
    "details",
    { class: "report-concept", style: { "--c": conceptColour(concept.concept) } },
    h(
      "summary",
      {},
      h("span", { class: "concept-swatch", "aria-hidden": "true" }),
      h("span", { class: "concept-name" }, h("strong", { dir: "auto", text: concept.label }),
        h("span", { class: "quiet", text: named.length ? listed(named.map(({ label }) => label).slice(0, 6)) : "no named sliders" })),
      h("span", { class: "concept-thumbs" }, concept.typical.slice(0, 3).map((item) => thumb({ concept: concept.concept, ...item }, { size: 40 }))),
      h("span", { class: "concept-share" },
        gauge(concept.share, { colour: conceptColour(concept.concept), text: percent(concept.share), label: "share of all items" }),
        h("span", { class: "quiet", text: count(concept.items, "item") })),
    ),
    inside,
  );
  details.addEventListener("toggle", () => {
    if (details.open && !inside.firstChild) append(inside, contents(app, concept));
  });
  return details;
}

/** @param {App} app @param {Concept} concept */
function contents(app, concept) {
  const more = h("div", { class: "concept-more" });
  /** @type {HTMLButtonElement} */
  const all = h("button", { type: "button", class: "button", text: "All sliders, and the evidence for them", on: { click: () => fillAll(app, concept, more, all) } });
  return [
    h("div", { class: "concept-typical" },
      concept.typical.map((item) => thumbButton({ concept: concept.concept, ...item }, app.openItem, { size: 64 })),
      h("p", { class: "quiet", text: nameEvidence(concept) })),
    evidenceOf(concept),
    sliderTable(concept.dimensions.filter(({ name }) => name !== null), concept.label),
    h("p", {}, all),
    more,
  ];
}

/** @param {App} app @param {Concept} concept @param {HTMLElement} place @param {HTMLButtonElement} button */
async function fillAll(app, concept, place, button) {
  button.disabled = true;
  try {
    const { dimensions } = await api.dimensions(concept.concept);
    clear(place).append(dimensionTable(dimensions, `${concept.label}, all sliders`));
    button.remove();
  } catch (error) {
    button.disabled = false;
    clear(place).append(failure(error, () => fillAll(app, concept, place, button)));
  }
}

/** @param {Concept} concept */
function nameEvidence(concept) {
  const parts = [`${percent(concept.interactions)} of all choices are in this group.`];
  if (concept.edited) parts.push("Named by a person.");
  else if (concept.fit !== null) {
    const { share, base, held_out: heldOut } = concept.fit;
    parts.push(`Its name is true of ${percent(share)} of these choices, and of ${percent(base)} of all choices (${percent(heldOut)} on items that were not used to find the name).`);
  } else if (concept.name === null) parts.push(concept.why ? `No name: ${concept.why}.` : "No name: no attribute sets its items apart.");
  else if (concept.strength !== null) parts.push(`The name fits ${number(concept.strength)} of 1${concept.p === null ? "" : ` (${pValue(concept.p)})`}.`);
  return parts.join(" ");
}

/**
 * What is more common here than elsewhere.
 * @param {Concept} concept
 */
function evidenceOf(concept) {
  const rows = concept.evidence.flatMap(({ attribute, value, inside, outside }) =>
    typeof inside === "number" && typeof outside === "number" ? [{ attribute, value, inside, outside }] : []).slice(0, 5);
  if (!rows.length) return null;
  return scrolled(`What sets ${concept.label} apart`, h(
    "table",
    {},
    h("caption", { text: "More common here than elsewhere" }),
    h("thead", {}, h("tr", {}, ["Attribute", "Value", "Here", "Elsewhere"].map((text) => h("th", { scope: "col", text })))),
    h("tbody", {}, rows.map((entry) => h("tr", {}, h("td", { text: entry.attribute }), h("td", { text: entry.value }),
      h("td", {}, gauge(entry.inside, { text: percent(entry.inside) })), h("td", {}, gauge(entry.outside, { text: percent(entry.outside) }))))),
  ));
}

/** @param {Dimension[]} sliders with names @param {string} label */
function sliderTable(sliders, label) {
  return sliders.length > 0 && scrolled(`Sliders of ${label}`, h(
    "table",
    {},
    h("caption", { text: "Its sliders" }),
    h("thead", {}, h("tr", {}, ["Slider", "From", "To"].map((text) => h("th", { scope: "col", text })))),
    h("tbody", {}, sliders.map(({ label: name, low, high, edited }) => h("tr", {},
      h("th", { scope: "row" }, h("span", { text: name }), edited && h("span", { class: "report-chip", text: "edited" })), h("td", { text: low }), h("td", { text: high })))),
  ));
}

/** @param {Dimension[]} dimensions @param {string} label */
function dimensionTable(dimensions, label) {
  return scrolled(`Sliders of ${label}`, h(
    "table",
    { class: "dimension-table" },
    h("caption", { text: "Sliders. Follows: how closely a slider follows what it is named after, from 0 to 1" }),
    h("thead", {}, h("tr", {}, ["Slider", "From", "To", "Follows", "Evidence"].map((text) => h("th", { scope: "col", text })))),
    h("tbody", {}, dimensions.map((dimension) => h(
      "tr",
      {},
      h("th", { scope: "row" }, h("span", { text: dimension.label }), dimension.edited && h("span", { class: "report-chip", text: "edited" })),
      h("td", { text: dimension.low }),
      h("td", { text: dimension.high }),
      h("td", {}, dimension.strength === null ? "–" : gauge(dimension.strength, { text: number(dimension.strength) })),
      h("td", { class: "quiet wide", text: evidenceText(dimension) }),
    ))),
  ));
}

/** @param {Dimension} dimension */
function evidenceText(dimension) {
  if (dimension.name === null && !dimension.attribute) return dimension.why ?? "no attribute follows it";
  const parts = [];
  if (dimension.attribute) parts.push(dimension.attribute);
  if (dimension.p !== null) parts.push(pValue(dimension.p));
  if (dimension.attribute) parts.push(dimension.cross_validated ? "cross-validated" : "not cross-validated");
  const [first] = dimension.evidence;
  if (typeof first?.correlation === "number") parts.push(`correlation ${signed(first.correlation)}`);
  return parts.join(" · ") || "named by a person";
}
