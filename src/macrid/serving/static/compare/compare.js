// @ts-check
// Compare: two lists side by side. Each is what is shown now, a saved list, another customer's, or another model's.

import * as api from "../core/api.js";
import { h, iconButton, segments } from "../core/dom.js";
import { settings } from "../states/words.js";
import { listOf } from "./ask.js";
import { Chooser } from "./chooser.js";
import { Column, Joins } from "./column.js";
import { contrastsInWords, marks, overlapInWords, ranks, sidesOf } from "./differences.js";
import { nameOf, readSide, stateOn } from "./sides.js";

/** @import { Answer } from "./ask.js" */
/** @import { Contrast } from "./differences.js" */
/** @import { Side } from "./sides.js" */
/** @import { App, State } from "#types" */
/** @typedef {"left" | "right"} Place */

const PLACES = /** @type {const} */ (["left", "right"]);

/** @param {App} app */
export function create(app) {
  return new Compare(app);
}

class Compare {
  element;
  #app;
  #choosers;
  #columns;
  #joins = new Joins();
  #asked = { left: "", right: "" };
  /** @type {Record<Place, Answer | null | undefined>} undefined until it is there */
  #answers = { left: undefined, right: undefined };
  #controls = { left: new AbortController(), right: new AbortController() };
  #contrasting = new AbortController();
  #overlap = h("p", { class: "compare-overlap" });
  #words = h("p", { class: "compare-words" });
  #table = h("tbody");
  #numbers = h(
    "details",
    { class: "compare-numbers", hidden: true },
    h("summary", { text: "In numbers" }),
    h(
      "table",
      { class: "compare-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Left" }), h("th", { scope: "col" }, h("span", { class: "unseen", text: "Attribute" })), h("th", { scope: "col", text: "Right" }))),
      this.#table,
    ),
  );
  #tabs;
  #hint = h("p", { class: "quiet", text: "Choose another customer, a saved list or another model above." });
  #isShown = false;

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
    const chooser = (/** @type {Place} */ place) => new Chooser(place === "left" ? "Left" : "Right", {
      choose: (side) => this.#choose({ [place]: side }),
      open: () => this.#open(place),
      hasCustomers: app.card.users > 0,
    });
    this.#choosers = { left: chooser("left"), right: chooser("right") };
    this.#columns = { left: new Column(app, "left"), right: new Column(app, "right") };
    this.#tabs = segments("Side", [["left", "Left"], ["right", "Right"]], (place) => this.#turnTo(place));
    const { left, right } = this.#columns;
    this.element = h(
      "div",
      { class: "compare" },
      h(
        "div",
        { class: "compare-head" },
        this.#choosers.left.element,
        iconButton("swap", "Swap sides", () => this.#swap(), { class: "compare-swap" }),
        this.#choosers.right.element,
      ),
      h(
        "div",
        { class: "compare-summary", role: "status" },
        this.#overlap,
        this.#words,
        this.#hint,
      ),
      this.#numbers,
      this.#tabs.element,
      h("div", { class: "compare-lists", on: { pointerover: light, focusin: light, pointerleave: dim, focusout: dim } }, left.element, this.#joins.element, right.element),
    );
    this.#tabs.element.classList.add("compare-tabs");
    this.#turnTo("left");
    new ResizeObserver(() => this.#join()).observe(this.element);
    addEventListener("macrid:card", () => this.#isShown && this.show(app.store.get()));
    this.#findRuns();
  }

  async #findRuns() {
    if (!this.#app.card.can_edit) return;
    const { runs } = await api.runs().catch(() => ({ runs: [] }));
    for (const place of PLACES) this.#choosers[place].runs = runs;
    if (this.#isShown) this.show(this.#app.store.get());
  }

  /** @param {State} state */
  show(state) {
    this.#isShown = true;
    const sides = { left: readSide(state.compare.left, "left"), right: readSide(state.compare.right, "right") };
    const states = { left: this.#stateOn(sides.left, state), right: this.#stateOn(sides.right, state) };
    const words = { left: this.#settings(sides.left, states.left), right: this.#settings(sides.right, states.right) };
    for (const place of PLACES) {
      this.#choosers[place].draw(sides[place]);
      this.#choosers[place].drawSettings(words[place], words[place === "left" ? "right" : "left"]);
      this.#columns[place].entitle(nameOf(sides[place]));
      this.#tabs.name(place, nameOf(sides[place]));
      this.#ask(place, sides[place], states[place]);
    }
  }

  hide() {
    this.#isShown = false;
  }

  /** @param {Side} side @param {State} state */
  #stateOn(side, state) {
    return stateOn(side, state, this.#app.card.run_id);
  }

  /** @param {Side} side @param {State} state */
  #settings(side, state) {
    return [...settings(state, this.#app.card), ...(side.kind === "run" ? [{ key: "run", text: `the model “${side.run}”` }] : [])];
  }

  /** @param {Partial<State["compare"]>} patch */
  #choose(patch) {
    const { store } = this.#app;
    store.step({ compare: { ...store.get().compare, ...patch } });
  }

  #swap() {
    const { left, right } = this.#app.store.get().compare;
    this.#choose({ left: right || "now", right: left || "plain" });
  }

  /** @param {Place} place */
  #open(place) {
    const { store } = this.#app;
    const { walk, by, compare, ...state } = this.#stateOn(readSide(store.get().compare[place], place), store.get());
    store.step({ ...state, view: "picks" });
  }

  /** @param {Place} place */
  #turnTo(place) {
    this.#tabs.select(place);
    this.element.dataset.side = place;
  }

  /**
   * @param {Place} place
   * @param {Side} side
   * @param {State} state
   */
  async #ask(place, side, state) {
    const { view, walk, by, compare, ...asked } = state;
    const key = JSON.stringify([asked, side.kind === "run" && side.run, this.#app.card.digest]);
    if (key === this.#asked[place]) return;
    this.#asked[place] = key;
    this.#controls[place].abort();
    this.#controls[place] = new AbortController();
    const { signal } = this.#controls[place];
    const column = this.#columns[place];
    const wait = setTimeout(() => column.wait(side.kind === "run" ? `Loading ${side.run}…` : "One moment…"), 300);
    try {
      const answer = await listOf(state, this.#app.card, { beside: side.kind === "run" ? side.run : null, signal });
      if (signal.aborted) return;
      for (const { items } of answer?.isOther ? [] : (answer?.lists ?? [])) this.#app.live.remember(items);
      this.#answers[place] = answer;
      this.#choosers[place].drawNotes(answer?.notes ?? []);
      this.#draw();
    } catch (error) {
      if (signal.aborted) return;
      this.#asked[place] = "";
      this.#answers[place] = undefined;
      this.#choosers[place].drawNotes([]);
      column.fail(error, () => this.show(this.#app.store.get()));
      this.#draw();
    } finally {
      clearTimeout(wait);
    }
  }

  #draw() {
    const { left, right } = this.#answers;
    const [there, here] = [right?.lists ?? [], left?.lists ?? []];
    const isWhole = Boolean(left && right);
    if (left !== undefined) this.#columns.left.draw(left, isWhole ? marks(here, there) : new Map(), "right");
    if (right !== undefined) this.#columns.right.draw(right, isWhole ? marks(there, here) : new Map(), "left");
    this.#join();
    this.#drawSummary();
  }

  async #drawSummary() {
    const { left, right } = this.#answers;
    this.#contrasting.abort();
    this.#contrasting = new AbortController();
    const { signal } = this.#contrasting;
    this.#overlap.textContent = left && right ? overlapInWords(left.lists, right.lists) : "";
    const isSame = this.#overlap.textContent === "Both lists are the same";
    this.#hint.hidden = !isSame;
    /** @type {Contrast[]} */
    let attributes = [];
    if (left && right && !isSame) {
      const ids = [left, right].map(({ lists }) => [...ranks(lists).keys()]);
      attributes = await api.contrast(ids[0], ids[1], signal).then((answer) => answer.attributes, () => []);
      if (signal.aborted) return;
    }
    this.#words.textContent = contrastsInWords(attributes);
    this.#table.replaceChildren(...attributes.map(row));
    this.#numbers.hidden = !attributes.length;
    this.#join();
  }

  #join() {
    this.#joins.draw(this.#columns.left, this.#columns.right);
  }
}

/** @param {Contrast} one */
function row(one) {
  const [left, right] = sidesOf(one);
  const cell = (/** @type {string} */ text, /** @type {boolean} */ isMore) => h("td", { class: isMore ? "is-more" : "", text });
  return h("tr", {}, cell(left, one.left > one.right), h("th", { scope: "row", dir: "auto", text: one.name }), cell(right, one.right > one.left));
}

/** Light up an item in both lists, and the line between. @param {Event} event */
function light(event) {
  if (!(event.target instanceof Element) || !(event.currentTarget instanceof Element)) return;
  const id = /** @type {HTMLElement | null} */ (event.target.closest("[data-id]"))?.dataset.id;
  for (const one of event.currentTarget.querySelectorAll("[data-id]")) one.classList.toggle("is-lit", id !== undefined && /** @type {HTMLElement} */ (one).dataset.id === id);
}

/** @param {Event} event */
function dim(event) {
  if (event.currentTarget instanceof Element) for (const one of event.currentTarget.querySelectorAll(".is-lit")) one.classList.remove("is-lit");
}
