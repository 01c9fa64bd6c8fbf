// @ts-check
// How good the recommendations are, beside other models.

import { dotChart } from "../core/charts.js";
import { h } from "../core/dom.js";
import { count } from "../core/format.js";

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
  if (!scores?.metrics) return said.length ? said : h("p", { class: "quiet", text: "This run has no scores yet; macrid evaluate computes them." });
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
    h("p", { class: "quiet", text: `Measured on ${count(scores.users, "user")} never seen in ${final ? "the first training" : "training"}, with a fifth of each history hidden. Lines extend two standard errors to either side${hasOthers ? "; other models are grey" : ""}.` }),
    final && h("p", { class: "quiet", text: `Scores are of ${final.scores_are_of}. The model served here was then trained on everybody: ${count(final.users, "user")}, ${count(final.items, "item")}.` }),
    h("div", { class: "report-charts" }, charts),
    said,
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
  if (kind === "ndcg") return `How well a user's hidden items are ranked within the first ${at} places; 1 is perfect.`;
  if (kind === "recall") return `How many of a user's hidden items, at most ${at}, are among the first ${at}; 1 is all of them.`;
  return "Larger is better.";
}
