// @ts-check
// Customers: who they are, and what the sliders and rules that are on would do to many of them.

import { h, segments } from "../core/dom.js";
import { count, number } from "../core/format.js";
import { hand, handed } from "../core/kept.js";
import { Towards } from "../knobs/towards.js";
import { Settings } from "./settings.js";
import { CustomerTable } from "./table.js";
import { Trial } from "./trial.js";

/** @import { App, CohortRequest, CohortResult, Difference, State } from "#types" */
/** @typedef {{ name: string, items: string[], at_least: number }} Segment customers who have at least so many of some items */
/** @typedef {"all" | "chosen" | "segment"} Who */

/** @param {App} app */
export function create(app) {
  return new Customers(app);
}

class Customers {
  element;
  /** @type {App} */
  #app;
  #table;
  #trial;
  #settings;
  #towards;
  /** @type {Who} */
  #who = "all";
  /** @type {Segment | null} From the map. */
  #segment = null;
  #isOpen = false;
  /** What sliders say they do: here on average over the customers, not for the one that other views show. */
  #ofMany = { encoded: true, differences: /** @type {Difference[]} */ ([]), lists: [{ items: { length: 0 } }] };
  #segments = segments("Try it on", [["all", "All"], ["chosen", "Selected"], ["segment", "Segment"]], (who) => this.#choose(who));
  #forWhom = h("p", { class: "quiet" });

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
    this.#table = new CustomerTable(app, { open: (id) => this.#open(id), change: () => this.#selected() });
    this.#trial = new Trial(app, { request: () => this.#request(), open: (id) => this.#open(id), answer: (result) => this.#tell(result) });
    this.#settings = new Settings(app);
    this.#towards = new Towards(Object.create(app, { live: { value: this.#ofMany } }));
    const hasSliders = app.card.has_concepts;
    this.element = h(
      "section",
      { class: "customers", "aria-labelledby": "customers-title" },
      app.card.users === 0 ? nobody() : [
        h("div", { class: "customers-list" }, this.#table.element),
        h(
          "section",
          { class: "panel trial", "aria-labelledby": "trial-title" },
          h("div", { class: "panel-head" }, h("h2", { id: "trial-title", text: "Try it on many customers" }), this.#segments.element),
          this.#forWhom,
          this.#settings.element,
          h(
            "div",
            { class: hasSliders ? "trial-body" : "trial-body is-single" },
            hasSliders && h("div", { class: "trial-sliders" }, this.#towards.element),
            this.#trial.element,
          ),
        ),
      ],
    );
    app.store.subscribe((_, changed) => {
      if (this.#isOpen && changed.some((name) => ["moves", "rules", "n", "user", "history"].includes(name))) this.#draw();
    });
    addEventListener("macrid:card", () => this.#isOpen && this.#draw());
  }

  show() {
    if (this.#app.card.users === 0) return;
    const isNew = !this.#isOpen;
    this.#isOpen = true;
    this.#take();
    if (isNew) this.#table.show();
    this.#draw();
  }

  hide() {
    this.#isOpen = false;
    this.#trial.hide();
  }

  /** A segment that the map has left here. */
  #take() {
    /** @type {Segment | null} */
    const segment = handed("cohort");
    if (!segment || !Array.isArray(segment.items) || !segment.items.length) return;
    hand("cohort", null);
    [this.#segment, this.#who] = [segment, "segment"];
  }

  /** @param {Who} who */
  #choose(who) {
    this.#who = who;
    this.#draw();
  }

  #selected() {
    if (this.#table.chosen.size) this.#who = "chosen";
    else if (this.#who === "chosen") this.#who = "all";
    this.#draw();
  }

  #draw() {
    const { card } = this.#app;
    const { size } = this.#table.chosen;
    const [all, chosen, segment] = this.#segments.element.children;
    all.textContent = `All ${number(card.users)}`;
    chosen.textContent = size ? `Selected ${number(size)}` : "Selected";
    /** @type {HTMLButtonElement} */ (chosen).disabled = size === 0;
    /** @type {HTMLButtonElement} */ (chosen).title = size ? "" : "Tick some customers first";
    /** @type {HTMLElement} */ (segment).hidden = this.#segment === null;
    segment.textContent = this.#segment?.name ?? "Segment";
    this.#segments.select(this.#who);
    const { items, at_least: least } = this.#segment ?? { items: [], at_least: 0 };
    this.#forWhom.hidden = this.#who !== "segment";
    this.#forWhom.textContent = `Customers who have at least ${number(least)} of the ${count(items.length, "item")} of this segment.`;
    this.#table.mark(this.#app.store.get().user);
    this.#settings.draw();
    this.#towards.draw();
    this.#trial.draw();
  }

  /** @param {CohortResult} result */
  #tell({ n, attributes }) {
    this.#ofMany.lists = [{ items: { length: n } }];
    this.#ofMany.differences = attributes.map(({ name, is_share: isShare, before, after }) => ({
      name, value: isShare ? name.replace(/^.*?: /, "") : null, before: isShare ? n * before : before, after: isShare ? n * after : after,
    }));
    this.#towards.draw();
  }

  /** Whom the trial is about. @returns {CohortRequest} */
  #request() {
    if (this.#who === "chosen") return { users: [...this.#table.chosen] };
    return this.#who === "segment" && this.#segment ? { items: this.#segment.items, at_least: this.#segment.at_least } : {};
  }

  /** With the sliders and rules that are on: there one sees what they do to this one. @param {string} user */
  #open(user) {
    /** @type {State["list"]} */
    const list = this.#app.store.get().list === "concept" ? "overall" : this.#app.store.get().list;
    this.#app.store.step({ view: "picks", user, history: [], concept: null, list });
  }
}

function nobody() {
  return h(
    "div",
    { class: "state" },
    h("h2", { id: "customers-title", text: "Customers" }),
    h("p", { text: "No customers are known here: this model keeps none to look at." }),
    h("details", {}, h("summary", { text: "Details" }), h("p", { class: "quiet", text: "Serve it with a file of events (macrid serve RUN --users FILE), or train on data prepared with --heldout." })),
  );
}
