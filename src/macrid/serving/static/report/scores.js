// @ts-check
// How good the recommendations are, beside other models.

import { dotChart } from "../core/charts.js";
import { h } from "../core/dom.js";
import { count } from "../core/format.js";
import { details, factTiles } from "./facts.js";
import { scoreFacts } from "./words.js";

/** @import { Child, Report } from "#types" */
/** @typedef {{ users: number, metrics: Record<string, { mean: number, se: number }> }} Scores */

/**
 * @param {Report["metrics"]} metrics as metrics.json has them
 * @param {string} model
 * @returns {Child}
 */
export function scoresView(metrics, model) {
  const { test, validation, baselines = {}, oracle = {}, final, remarks = [] } = /** @type {Record<string, any>} */ (metrics ?? {});
  const scores = /** @type {Scores | undefined} */ (test ?? validation);
  const said = /** @type {string[]} */ (remarks).map((text) => h("p", { class: "quiet", text: `${text[0].toUpperCase()}${text.slice(1)}.` }));
  if (!scores?.metrics) return said.length ? said : h("p", { class: "quiet", text: "Nobody has measured this run yet. Whoever runs the service can: macrid evaluate." });
  const split = test ? "test" : "validation";
  const charts = Object.entries(scores.metrics).map(([name, score]) => {
    const others = Object.entries(baselines).flatMap(([label, entry]) => {
      const other = (entry[split] ?? entry)?.metrics?.[name];
      return other && label !== model ? [{ label, kind: /** @type {const} */ ("baseline"), ...other }] : [];
    });
    const rows = [{ label: model, kind: /** @type {const} */ ("model"), ...score }, ...others].sort((a, b) => b.mean - a.mean);
    const limit = oracle[name];
    if (limit !== undefined) rows.push({ label: "best possible", kind: "limit", mean: limit?.mean ?? limit, se: null });
    return h("article", { class: "report-score", "aria-label": nameOf(name) },
      h("h4", { text: nameOf(name) }), h("p", { class: "quiet", text: meaningOf(name) }), dotChart(rows, { title: nameOf(name) }));
  });
  const hasOthers = Object.keys(baselines).length > 0;
  return [
    h("p", { class: "quiet", text: `Tried on ${count(scores.users, "customer")} whom the model had never seen: a fifth of each history was hidden, and the model had to find it.` }),
    factTiles(scoreFacts(metrics)),
    final && h("p", { class: "quiet", text: `The figures are of ${final.scores_are_of}. The model served here was then trained on everybody: ${count(final.users, "customer")}, ${count(final.items, "item")}.` }),
    details("the metrics", h("div", { class: "report-charts" }, charts),
      h("p", { class: "quiet", text: `Lines extend two standard errors to either side${hasOthers ? "; other models are grey" : ""}.` }), said),
  ];
}

/** @param {string} metric */
function nameOf(metric) {
  const [kind, at] = metric.split("@");
  return `${kind === "ndcg" ? "NDCG" : kind[0].toUpperCase() + kind.slice(1)}${at ? `@${at}` : ""}`;
}

/** @param {string} metric */
function meaningOf(metric) {
  const [kind, at] = metric.split("@");
  if (kind === "ndcg") return `Accuracy: how well a customer's hidden items are ranked within the first ${at} places; 1 is perfect.`;
  if (kind === "recall") return `How many of a customer's hidden items, at most ${at}, are among the first ${at}; 1 is all of them.`;
  return "Larger is better.";
}
