// @ts-check
// Where the model comes from: data, training, settings.

import { h } from "../core/dom.js";
import { anything, count, number } from "../core/format.js";
import { duration } from "./words.js";

/** @import { Child, Model } from "#types" */

const SOURCES = ["source", "name", "path"]; // of data: what they are is clear without their names

/** @param {Model} card @returns {Child} */
export function originView(card) {
  const { seconds, epochs, device, peak_memory_mb: memory } = /** @type {Record<string, any>} */ (card.metrics?.training ?? {});
  const final = /** @type {Record<string, any> | undefined} */ (card.metrics?.final);
  const data = Object.entries(card.data).filter(([, value]) => value !== null).map(([name, value]) => (SOURCES.includes(name) ? anything(value) : `${name} ${anything(value)}`));
  const facts = [
    ["Model", card.model],
    ["Run", card.run],
    ["macrid", card.version],
    ["Data", data.join(", ") || "unknown"],
    ["Items", number(card.items)],
    ["Training", seconds === undefined ? null : `${duration(seconds)}${epochs ? `, ${count(epochs, "epoch")}` : ""}`],
    ["Final training", final ? `on everybody: ${count(final.users, "customer")}, ${duration(final.seconds)}` : null],
    ["Device", device ?? null],
    ["Peak memory", memory === undefined ? null : `${number(Math.round(memory))} MB`],
  ].filter(([, value]) => value !== null);
  return [
    h("dl", { class: "report-facts" }, facts.map(([name, value]) => h("div", {}, h("dt", { text: name }), h("dd", { text: value })))),
    h("details", { class: "report-more" }, h("summary", { text: "Settings" }), h("div", { class: "report-settings" },
      settings("Model", card.settings), card.training && settings("Training", card.training))),
    h("p", { class: "quiet" }, "For programs: ", h("a", { href: "/docs", text: "how to ask for all of this over HTTP" }), "."),
  ];
}

/** @param {string} title @param {Record<string, unknown>} values */
function settings(title, values) {
  return h("div", {}, h("h4", { text: title }), h("dl", { class: "report-facts small" },
    Object.entries(values).map(([name, value]) => h("div", {}, h("dt", { text: name }), h("dd", { text: anything(value) })))));
}
