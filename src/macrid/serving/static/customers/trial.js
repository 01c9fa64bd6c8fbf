// @ts-check
// What the sliders and rules that are on do to many customers: asked for whenever they change.

import * as api from "../core/api.js";
import { h } from "../core/dom.js";
import { failure } from "../core/items.js";
import { keyOf } from "../core/moves.js";
import { table } from "./csv.js";
import { headline, resultView, todayView } from "./result.js";

/** @import { App, CohortRequest, CohortResult } from "#types" */
/** @typedef {{ request: () => CohortRequest, open: (id: string) => void, answer: (result: CohortResult) => void }} Does `request`: whom it is about */

const USUAL_N = 10;
const LONGEST = 100; // that the service computes
const MOST = 500; // customers, so that it keeps up with a slider
const QUIET = 700; // ms without a change before it is read out

export class Trial {
  element = h("div", { class: "trial-result", "aria-busy": "true" }, h("div", { class: "skeleton block" }));
  /** @type {App} */
  #app;
  /** @type {Does} */
  #does;
  #control = new AbortController();
  #isBusy = false;
  #answered = ""; // what the result shown is the answer to
  #reading = 0;
  /** @type {Set<string>} What is folded out. */
  #isOpen = new Set();

  /**
   * @param {App} app
   * @param {Does} does
   */
  constructor(app, does) {
    [this.#app, this.#does] = [app, does];
  }

  draw() {
    this.#keepUp();
  }

  hide() {
    this.#control.abort();
    this.#control = new AbortController();
    this.#isBusy = false;
    clearTimeout(this.#reading);
  }

  /** @returns {CohortRequest} */
  #request() {
    const { moves, rules, run, n } = this.#app.store.get();
    return {
      ...this.#does.request(), moves, n: Math.min(n ?? USUAL_N, LONGEST), most: MOST,
      ...(Object.keys(rules).length && { rules }), ...(run !== null && { run }),
    };
  }

  /** @param {CohortRequest} request */
  #key({ moves, ...others }) {
    return `${this.#app.card.digest} ${keyOf(this.#app.store.get().moves)} ${JSON.stringify(others)}`;
  }

  /** One request at a time; if something has changed when it is answered, one for the newest state. */
  async #keepUp() {
    if (this.#isBusy) return;
    const { signal } = this.#control;
    this.#isBusy = true;
    try {
      for (let request = this.#request(); this.#key(request) !== this.#answered; request = this.#request()) {
        const key = this.#key(request);
        this.element.setAttribute("aria-busy", "true");
        const result = await api.cohort(request, signal);
        if (signal.aborted) return;
        this.#answered = key;
        this.#show(result, request);
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#answered = "";
      const isAway = error instanceof api.ApiError && error.status === 0;
      const last = isAway && this.element.querySelector(".trial-last"); // better than nothing
      if (last) last.classList.add("is-stale");
      this.element.replaceChildren(failure(error, () => this.#keepUp()), ...(last ? [last] : []));
    }
    this.#isBusy = false;
    this.element.removeAttribute("aria-busy");
  }

  /** @param {CohortResult} result @param {CohortRequest} request */
  #show(result, request) {
    const isToday = !request.moves?.length && !request.rules;
    const does = { open: this.#does.open, save: () => this.#save(request), isOpen: this.#isOpen };
    const view = isToday ? todayView(this.#app, result) : resultView(this.#app, result, request, does);
    view.classList.add("trial-last");
    this.element.replaceChildren(view);
    this.element.removeAttribute("aria-busy");
    this.#does.answer(result);
    clearTimeout(this.#reading);
    if (!isToday) this.#reading = window.setTimeout(() => this.#app.announce(headline(result)), QUIET);
  }

  /** The result for each customer, as a file. @param {CohortRequest} request */
  async #save(request) {
    try {
      const { per_user: rows } = await api.cohort({ ...request, per_user: true });
      const url = URL.createObjectURL(new Blob([table(rows ?? [])], { type: "text/csv;charset=utf-8" }));
      h("a", { href: url, download: `${this.#app.card.run}-customers.csv` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    } catch (error) {
      this.#app.toast(api.detailOf(error, "The file could not be made."));
    }
  }
}
