// @ts-check
// How training went, epoch by epoch.

import { lineChart, short } from "../core/charts.js";
import { h } from "../core/dom.js";
import { details } from "./facts.js";
import { scrolled } from "./table.js";
import { trainingText } from "./words.js";

/** @import { Child, Report } from "#types" */

/** @type {Record<string, [title: string, note: string | null]>} */
const CURVES = {
  ndcg: ["Validation NDCG@100", "Ranking quality for validation users after each epoch; the best epoch's model is kept."],
  loss: ["Loss", "What training minimises; its fall matters, not its size."],
  effective_concepts: ["Concepts in use", "How many concepts the items are spread over; near 1 would be a collapse."],
  seconds: ["Seconds per epoch", null],
};

/** @param {Report["log"]} log @param {Report["metrics"]} metrics @param {number} concepts @returns {Child} */
export function trainingView(log, metrics, concepts) {
  const { best_epoch: kept } = /** @type {Record<string, any>} */ (metrics?.training ?? {});
  const wasChosen = log.some((entry) => entry.ndcg !== null);
  const best = /** @type {number | null} */ (wasChosen ? (kept ?? log.filter((entry) => entry.best).at(-1)?.epoch ?? null) : null);
  const curves = Object.entries(CURVES).map(([name, [title, note]]) => {
    const points = log.flatMap(({ epoch: x, [name]: y }) => (typeof x === "number" && typeof y === "number" && Number.isFinite(y) ? [{ x, y }] : []));
    return points.length > 1 && lineChart(points, { title, note, best, domain: name === "effective_concepts" ? [0, Math.max(1, concepts)] : null });
  });
  const columns = ["epoch", ...Object.keys(CURVES)].filter((name) => log.some((entry) => name in entry));
  return [
    h("p", { class: "quiet", text: trainingText(log, metrics, best) }),
    details("training", h("p", { class: "quiet", text: "Point at a curve to read it. A round over all customers is an epoch." }), h("div", { class: "report-curves" }, curves), scrolled("Training, epoch by epoch", h(
      "table",
      {},
      h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col", class: "figure", text: CURVES[name]?.[0] ?? "Epoch" })))),
      h("tbody", {}, log.map((entry) => h("tr", { class: entry.epoch === best ? "is-best" : "" },
        columns.map((name) => h("td", { class: "figure", text: name === "epoch" ? entry.epoch : short(entry[name]) }))))),
    ))),
  ];
}
