// Report: how good the model is, how it was trained, and how far it comes apart.

import * as api from "./api.js";
import { dotChart, lineChart, short } from "./charts.js";
import { append, clear, h } from "./dom.js";
import { anything, count, number } from "./format.js";
import { failure } from "./items.js";
import { styles } from "./panel.js";
import { conceptList, scrolled } from "./reportconcepts.js";
import { inspectionView } from "./reportinspection.js";

const ASK_AGAIN = 2_000; // ms, while the inspection is on its way

const CURVES = {
  ndcg: ["Validation NDCG@100", "How well validation users are ranked after each epoch; the model of the best epoch is kept."],
  loss: ["Loss", "What training makes smaller; only its fall matters, not its size."],
  effective_concepts: ["Concepts in use", "How many concepts items are spread over; near 1 would be a collapse."],
  seconds: ["Seconds per epoch", null],
};

export function create(app) {
  styles("report.css");
  const scores = section("report-scores", "How good are the recommendations?");
  const training = section("report-training", "How training went");
  const concepts = section("report-concepts", "Concepts and their dimensions");
  const inspection = section("report-inspection", "How far does it come apart?");
  const origin = section("report-origin", "Where it comes from");
  const warnings = h("div", { class: "report-warnings" });
  const summary = h("p", { class: "lede" });
  const element = h(
    "section",
    { class: "report", "aria-labelledby": "report-title", "data-testid": "report" },
    h("header", { class: "report-head" }, h("h2", { id: "report-title", text: "Report" }), summary),
    warnings,
    scores.element,
    training.element,
    concepts.element,
    inspection.element,
    origin.element,
  );
  let [digest, report, isOpen, polling] = [null, null, false, 0];

  async function show() {
    isOpen = true;
    if (digest === app.card.digest && report) {
      if (report.state === "computing" && !polling) ask();
      return;
    }
    digest = app.card.digest;
    const { card } = app;
    summary.textContent = `${card.model} over ${count(card.items, "item")}${card.has_concepts ? ` in ${count(card.concepts.length, "concept")}` : ""}, from ${card.run}.`;
    drawConcepts();
    drawOrigin(card, card.metrics);
    training.element.hidden = false;
    inspection.element.hidden = !card.has_concepts;
    if (!report) for (const one of [scores, training, inspection]) one.fill(h("div", { class: "skeleton block", "aria-hidden": "true" }));
    await ask();
  }

  async function ask() {
    clearTimeout(polling);
    polling = 0;
    try {
      const answer = await api.get("/report");
      const told = (of) => JSON.stringify([of?.metrics, of?.log]);
      const isNew = told(report) !== told(answer);
      report = answer;
      if (isNew) {
        drawScores(report.metrics, app.card.model);
        drawTraining(report.log, report.metrics);
      }
      drawInspection();
      if (report.state === "computing" && isOpen) polling = setTimeout(ask, ASK_AGAIN);
    } catch (error) {
      report = null;
      digest = null;
      scores.fill(failure(error, () => show()));
      training.element.hidden = true;
      inspection.element.hidden = true;
    }
  }

  function drawScores(metrics, model) {
    const test = metrics?.test ?? metrics?.validation ?? null;
    if (!test?.metrics) return scores.fill(h("p", { class: "quiet", text: "This run has no scores yet; macrid evaluate computes them." }));
    const isTest = Boolean(metrics.test);
    const split = isTest ? "test" : "validation";
    const charts = Object.keys(test.metrics).map((name) => {
      const rows = [{ label: model, kind: "own", ...test.metrics[name] }];
      for (const [label, entry] of Object.entries(metrics.baselines ?? {})) {
        const found = (entry[split] ?? entry)?.metrics?.[name];
        if (found && label !== model) rows.push({ label, kind: "baseline", ...found });
      }
      rows.sort((a, b) => b.mean - a.mean);
      const limit = metrics.oracle?.[name];
      if (limit !== undefined) rows.push({ label: "best possible", kind: "limit", mean: limit?.mean ?? limit, se: null });
      return h("article", { class: "report-score", "data-metric": name },
        h("h4", { text: nameOf(name) }), h("p", { class: "quiet", text: meaningOf(name) }), dotChart(rows, { title: nameOf(name) }));
    });
    const hasOthers = Object.keys(metrics.baselines ?? {}).length > 0;
    return scores.fill(
      h("p", { class: "quiet", text: `Measured on ${count(test.users, "user")} that training never saw, with a fifth of each history hidden. Lines reach two standard errors to either side${hasOthers ? "; other models in grey" : ""}.` }),
      h("div", { class: "report-charts" }, charts),
    );
  }

  function drawTraining(log, metrics) {
    training.element.hidden = !log.length;
    if (!log.length) return;
    const best = metrics?.training?.best_epoch ?? log.filter((entry) => entry.best).at(-1)?.epoch ?? null;
    const curves = Object.entries(CURVES).map(([name, [title, note]]) => {
      const points = log.filter((entry) => Number.isFinite(entry[name])).map((entry) => ({ x: entry.epoch, y: entry[name] }));
      return points.length > 1 && lineChart(points, { title, note, best, domain: name === "effective_concepts" ? [0, Math.max(1, app.card.concepts.length)] : null });
    });
    const columns = ["epoch", ...Object.keys(CURVES)].filter((name) => log.some((entry) => name in entry));
    training.fill(
      h("p", { class: "quiet", text: `${count(log.length, "epoch")}${best === null ? "" : `, of which epoch ${best} was best`}. Point at a curve to read it.` }),
      h("div", { class: "report-curves" }, curves),
      h("details", { class: "report-more" }, h("summary", { text: "All figures" }), scrolled("Training, epoch by epoch", h(
        "table",
        {},
        h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col", class: "figure", text: CURVES[name]?.[0] ?? "Epoch" })))),
        h("tbody", {}, log.map((entry) => h("tr", { class: entry.epoch === best ? "is-best" : "" },
          columns.map((name) => h("td", { class: "figure", text: name === "epoch" ? entry.epoch : short(entry[name]) }))))),
      ))),
    );
  }

  function drawConcepts() {
    concepts.element.hidden = !app.card.has_concepts;
    if (app.card.has_concepts) concepts.fill(conceptList(app));
  }

  function drawInspection() {
    const { state, message, inspection: found } = report;
    const told = found?.warnings ?? [];
    clear(warnings).append(...told.map((text) => h("p", { class: "report-warning", role: "note" }, h("strong", { text: "Warning" }), h("span", { text }))));
    if (state === "computing") {
      inspection.fill(h("div", { class: "report-wait", role: "status" }, h("p", { class: "quiet", text: "Being measured; this takes a while the first time." }), h("div", { class: "skeleton block", "aria-hidden": "true" })));
    } else if (state === "failed" || !found) {
      inspection.fill(h("p", { class: "quiet", text: message ?? "There is nothing to tell about this model." }));
    } else inspection.fill(inspectionView(app, found));
  }

  function drawOrigin(card, metrics) {
    const made = metrics?.training ?? {};
    const facts = [
      ["Model", card.model],
      ["Run", card.run],
      ["macrid", card.version],
      ["Data", Object.entries(card.data).filter(([, value]) => value !== null).map(([name, value]) => (isOrigin(name) ? anything(value) : `${name} ${anything(value)}`)).join(", ") || "unknown"],
      ["Items", number(card.items)],
      ["Training", made.seconds === undefined ? null : `${duration(made.seconds)}${made.epochs ? `, ${count(made.epochs, "epoch")}` : ""}`],
      ["Device", made.device ?? null],
      ["Memory", made.peak_memory_mb === undefined ? null : `${number(Math.round(made.peak_memory_mb))} MB at most`],
    ].filter(([, value]) => value !== null);
    origin.fill(
      h("dl", { class: "report-facts" }, facts.map(([name, value]) => h("div", {}, h("dt", { text: name }), h("dd", { text: value })))),
      h("details", { class: "report-more" }, h("summary", { text: "Settings" }), h("div", { class: "report-settings" },
        settings("Model", card.settings), card.training && settings("Training", card.training))),
    );
  }

  addEventListener("macrid:card", () => isOpen && show());
  return {
    element,
    show,
    hide: () => {
      isOpen = false;
      clearTimeout(polling);
      polling = 0;
    },
  };
}

function section(id, title) {
  const body = h("div", { class: "report-body" });
  const element = h("section", { class: "report-section", "aria-labelledby": id }, h("h3", { id, text: title }), body);
  return {
    element,
    fill: (...children) => append(clear(body), children),
  };
}

function settings(title, values) {
  return h("div", {}, h("h4", { text: title }), h("dl", { class: "report-facts small" },
    Object.entries(values).map(([name, value]) => h("div", {}, h("dt", { text: name }), h("dd", { text: anything(value) })))));
}

const isOrigin = (name) => ["source", "name", "path"].includes(name);

function nameOf(metric) {
  const [kind, at] = metric.split("@");
  return `${kind === "ndcg" ? "NDCG" : kind[0].toUpperCase() + kind.slice(1)}${at ? `@${at}` : ""}`;
}

function meaningOf(metric) {
  const [kind, at] = metric.split("@");
  if (kind === "ndcg") return `How well the hidden items of a user are ranked, the first ${at} places counting; 1 is perfect.`;
  if (kind === "recall") return `How many of a user's hidden items, at most ${at}, are among the first ${at}; 1 is all of them.`;
  return "Larger is better.";
}

function duration(seconds) {
  if (seconds < 120) return `${number(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${number(seconds / 3600)} h`;
}

