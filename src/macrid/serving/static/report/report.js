// @ts-check
// Report: how good the model is, how it was trained, and how cleanly it separates tastes.

import * as api from "../core/api.js";
import { append, clear, h } from "../core/dom.js";
import { count } from "../core/format.js";
import { failure } from "../core/items.js";
import { conceptList } from "./concepts.js";
import { diffView } from "./diff.js";
import { inspectionView } from "./inspection.js";
import { originView } from "./origin.js";
import { scoresView } from "./scores.js";
import { trainingView } from "./training.js";

/** @import { App, Child, Report } from "#types" */

const ASK_AGAIN = 2_000; // ms, while the inspection is on its way

/** @param {App} app */
export function create(app) {
  return new ReportView(app);
}

class ReportView {
  element;
  /** @type {App} */
  #app;
  #scores = new Section("report-scores", "How good are the recommendations?");
  #diff = new Section("report-diff", "What changed since the last run?");
  #training = new Section("report-training", "How did training go?");
  #concepts = new Section("report-concepts", "Groups and their sliders");
  #inspection = new Section("report-inspection", "How cleanly are tastes separated?");
  #origin = new Section("report-origin", "Where does it come from?");
  #warnings = h("div", { class: "report-warnings" });
  #summary = h("p", { class: "lede" });
  #digest = ""; // of the card that is shown
  /** @type {Report | null} */
  #report = null;
  #inspected = ""; // what is shown of the inspection
  #isOpen = false;
  #polling = 0;

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
    this.element = h(
      "section",
      { class: "report", "aria-labelledby": "report-title" },
      h("header", { class: "report-head" }, h("h2", { id: "report-title", text: "Report" }), this.#summary),
      this.#warnings,
      [this.#scores, this.#diff, this.#inspection, this.#concepts, this.#training, this.#origin].map(({ element }) => element),
    );
    addEventListener("macrid:card", () => this.#isOpen && this.show());
  }

  async show() {
    this.#isOpen = true;
    const { card } = this.#app;
    if (this.#digest === card.digest) { // empty after a failure
      if (this.#report?.state === "computing" && !this.#polling) this.#ask();
      return;
    }
    this.#digest = card.digest;
    this.#summary.textContent = `${count(card.items, "item")}${card.has_concepts ? ` in ${count(card.concepts.length, "group")}` : ""}: how well this model, ${card.run}, knows its customers.`;
    this.#concepts.element.hidden = !card.has_concepts;
    if (card.has_concepts) this.#concepts.fill(conceptList(this.#app));
    this.#origin.fill(originView(card));
    this.#training.element.hidden = false;
    this.#inspection.element.hidden = !card.has_concepts;
    if (!this.#report) {
      this.#inspected = "";
      for (const one of [this.#scores, this.#training, this.#inspection]) one.fill(h("div", { class: "skeleton block", "aria-hidden": "true" }));
    }
    await Promise.all([this.#ask(), this.#askDiff()]);
  }

  async #askDiff() {
    this.#diff.element.hidden = true;
    const { before, diff } = await api.diff().catch(() => ({ before: null, diff: null }));
    if (diff && before !== null) this.#diff.fill(diffView(diff, before));
    this.#diff.element.hidden = !diff;
  }

  hide() {
    this.#isOpen = false;
    clearTimeout(this.#polling);
    this.#polling = 0;
  }

  async #ask() {
    clearTimeout(this.#polling);
    this.#polling = 0;
    try {
      const report = await api.report();
      const measured = (/** @type {Report | null} */ of) => JSON.stringify([of?.metrics, of?.log]);
      if (measured(this.#report) !== measured(report)) this.#drawMeasured(report);
      this.#report = report;
      this.#drawInspection(report);
      if (report.state === "computing" && this.#isOpen) this.#polling = window.setTimeout(() => this.#ask(), ASK_AGAIN);
    } catch (error) {
      this.#report = null;
      this.#digest = "";
      this.#scores.fill(failure(error, () => this.show()));
      this.#training.element.hidden = true;
      this.#inspection.element.hidden = true;
    }
  }

  /** @param {Report} report */
  #drawMeasured({ metrics, log }) {
    const { card } = this.#app;
    this.#scores.fill(scoresView(metrics, card.model));
    this.#training.element.hidden = !log.length;
    if (log.length) this.#training.fill(trainingView(log, metrics, card.concepts.length));
  }

  /** @param {Report} report */
  #drawInspection({ state, message, inspection }) {
    const shown = JSON.stringify([this.#app.card.digest, state, message, inspection]);
    if (shown === this.#inspected) return; // somebody may be reading its details
    this.#inspected = shown;
    const warnings = /** @type {string[]} */ (inspection?.warnings ?? []);
    this.#warnings.replaceChildren(...warnings.map((text) => h("p", { class: "report-warning", role: "note" }, h("strong", { text: "Warning" }), h("span", { text }))));
    if (state === "computing") {
      this.#inspection.fill(h("div", { class: "report-wait", role: "status" },
        h("p", { class: "quiet", text: "Being measured. The first time takes a while." }), h("div", { class: "skeleton block", "aria-hidden": "true" })));
    } else if (state === "failed" || !inspection) {
      this.#inspection.fill(h("p", { class: "quiet", text: message ?? "Nothing to report for this model." }));
    } else this.#inspection.fill(inspectionView(this.#app, inspection));
  }
}

class Section {
  #body = h("div", { class: "report-body" });

  /** @param {string} id @param {string} title */
  constructor(id, title) {
    this.element = h("section", { class: "report-section", "aria-labelledby": id }, h("h3", { id, text: title }), this.#body);
  }

  /** @param {...Child} children */
  fill(...children) {
    append(clear(this.#body), children);
  }
}
