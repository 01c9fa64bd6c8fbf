// @ts-check
// Variations: from an item along one dimension, with everything else held, as a film strip.

import { conceptColour } from "../core/colours.js";
import { clear, h } from "../core/dom.js";
import { number, signed } from "../core/format.js";
import { conceptTags, failure, thumb, titleOf } from "../core/items.js";
import { itemSearch } from "../core/search.js";
import { Book } from "./book.js";
import { keptTexts, tiedText } from "./kept.js";
import { find, startOf } from "./route.js";
import { Strip } from "./strip.js";

/** @import { App, State } from "#types" */
/** @import { Route } from "./route.js" */

const FEWEST = 4;
const MOST = 12;
const USUAL = 8;

/** @param {App} app */
export function create(app) {
  return new WalkView(app);
}

class WalkView {
  element;
  /** @type {App} */
  #app;
  /** @type {{ key: string, control: AbortController } | null} The walk shown or on its way. */
  #asked = null;
  /** @type {{ route: Route, strip: Strip, book: Book } | null} */
  #shown = null;
  #current = 0;
  #steps = USUAL;
  #isOpen = false;
  #origin = h("div", { class: "walk-item" });
  #pills = h("div", { class: "walk-pills", role: "group", "aria-label": "What to change" });
  #keeps = h("div", { class: "walk-keeps" });
  /** @type {{ key: string, names: string[], free: Set<string> }} What is known about the start, and what need not be kept. */
  #known = { key: "", names: [], free: new Set() };
  #body = h("div", { class: "walk-body" });

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
    const search = itemSearch(app, {
      label: "Start from another item", placeholder: "Start from another item…", stays: false,
      choose: ({ id, concept }) => this.#walkFrom(id, concept === this.#shown?.route.item.concept ? this.#shown?.route.dimension.dimension : null),
    });
    this.element = h(
      "section",
      { class: "walk", "aria-labelledby": "walk-title" },
      h(
        "header",
        { class: "walk-head" },
        h("h2", { id: "walk-title", text: "Variations" }),
        h("p", { class: "lede", text: "Start at one item and change one thing. Everything else stays as close to it as the catalogue allows." }),
      ),
      h("div", { class: "walk-from" }, this.#origin, h("div", { class: "walk-search" }, search.element)),
      h("div", { class: "walk-controls" }, this.#pills, h("div", { class: "walk-options" }, this.#keeps, this.#stepper())),
      this.#body,
    );
    app.live.subscribe((parts) => this.#isOpen && parts.includes("historyItems") && this.show(app.store.get()));
    addEventListener("macrid:card", () => this.#isOpen && this.show(app.store.get()));
  }

  /** @param {State} state */
  async show(state) {
    this.#isOpen = true;
    const { card, live } = this.#app;
    if (!card.has_concepts) {
      this.element.classList.add("is-bare");
      return void clear(this.#body).append(h("div", { class: "state", text: `There is nothing to vary: ${card.model} does not sort items into groups. A MacridVAE does.` }));
    }
    if (state.walk.item === null && live.who === null && live.historyItems === null) return void this.#skeleton();
    const start = JSON.stringify([state.walk, state.walk.item ?? (state.user ?? state.history[0]), card.digest]);
    if (this.#known.key !== start) this.#known = { key: start, names: [], free: new Set() };
    const { names, free } = this.#known;
    const hold = free.size ? names.filter((name) => !free.has(name)) : null;
    const key = JSON.stringify([start, this.#steps, hold]);
    if (this.#asked?.key === key) return;
    this.#asked?.control.abort();
    const asked = { key, control: new AbortController() };
    this.#asked = asked;
    this.#shown?.book.stop();
    if (this.#shown) this.#body.classList.add("is-waiting");
    else this.#skeleton();
    try {
      const route = await find(state, card, this.#steps, hold, asked.control.signal);
      if (this.#asked !== asked) return;
      if (hold === null) this.#known.names = route.walk.held;
      this.#draw(route);
    } catch (error) {
      if (this.#asked !== asked) return;
      this.#asked = null;
      this.#shown = null;
      this.#body.classList.remove("is-waiting");
      clear(this.#body).append(failure(error, () => this.show(this.#app.store.get())));
    }
  }

  hide() {
    this.#isOpen = false;
    this.#shown?.book.stop();
  }

  #stepper() {
    const output = h("output", { for: "walk-steps", text: this.#steps });
    const range = h("input", {
      type: "range", id: "walk-steps", min: FEWEST, max: MOST, step: 1, value: this.#steps, "aria-valuetext": `${this.#steps} stops`,
      on: { change: () => this.show(this.#app.store.get()) },
    });
    range.addEventListener("input", () => {
      this.#steps = Number(range.value);
      range.setAttribute("aria-valuetext", `${this.#steps} stops`);
      output.textContent = range.value;
    });
    return h("div", { class: "walk-steps" }, h("label", { for: "walk-steps", text: "Stops" }), range, output);
  }

  #skeleton() {
    clear(this.#body).append(h("div", { class: "walk-strip is-skeleton", "aria-hidden": "true" },
      Array.from({ length: this.#steps }, () => h("div", { class: "skeleton walk-bone" }))));
  }

  /** @param {string} id @param {number | null} [dimension] */
  #walkFrom(id, dimension = null) {
    this.#app.store.step({ walk: { item: id, dimension } });
  }

  /** @param {Route} route */
  #draw(route) {
    const { card, openItem, addToHistory, announce } = this.#app;
    const { item, dimension, walk } = route;
    const go = (/** @type {number} */ to) => this.#go(to);
    const strip = new Strip(route, {
      hasPictures: card.has_pictures, go, open: openItem, walkFrom: (id) => this.#walkFrom(id, dimension.dimension), keys: (event) => this.#keys(event),
    });
    const book = new Book(route, { hasPictures: card.has_pictures, go, add: addToHistory });
    this.#shown = { route, strip, book };
    this.#current = startOf(route);
    clear(this.#origin).append(
      thumb(item, { size: 56, lazy: false }),
      h("div", {}, h("span", { class: "walk-kicker", text: "Starting at" }), h("strong", { dir: "auto", text: titleOf(item) }), conceptTags(item)),
    );
    this.#drawPills(route);
    this.#drawKeeps(route);
    this.element.style.setProperty("--c", conceptColour(walk.concept));
    this.#body.classList.remove("is-waiting");
    const texts = keptTexts(walk);
    clear(this.#body).append(strip.element, h("p", { class: "walk-kept", text: texts.join(" ") }), book.element, details(route));
    strip.show(this.#current, { behavior: "instant" });
    book.show(this.#current);
    announce([`${walk.items.length} variations from ${dimension.low} to ${dimension.high}.`, ...texts].join(" "));
  }

  /** @param {Route} route */
  #drawPills({ item, choices, dimension: chosen }) {
    this.#pills.replaceChildren(...choices.map((one) => h(
      "button",
      {
        type: "button", class: "walk-pill", "aria-pressed": String(one === chosen),
        on: { click: () => this.#walkFrom(item.id, one.dimension) },
      },
      h("span", { class: "walk-pill-name", text: one.label }),
      h("span", { class: "walk-pill-ends", text: endsText(one), title: `${one.low} – ${one.high}` }),
    )));
  }

  /**
   * What is known about the start: each to be kept, or not.
   * @param {Route} route
   */
  #drawKeeps({ walk }) {
    const { names, free } = this.#known;
    const focused = this.#keeps.querySelector(":focus")?.textContent;
    const buttons = names.map((name) => h("button", {
      type: "button", class: "walk-keep", text: name, "aria-pressed": String(!free.has(name)), title: free.has(name) ? `Keep ${name}, too` : `Let ${name} vary`,
      on: { click: () => (free.has(name) ? free.delete(name) : free.add(name), this.show(this.#app.store.get())) },
    }));
    this.#keeps.replaceChildren(...(names.length ? [h("span", { text: "Keep" }), h("span", { class: "walk-keep-all", role: "group", "aria-label": "What to keep" }, buttons)] : []), tiedText(walk.tied));
    buttons.find((button) => button.textContent === focused)?.focus();
  }

  /** @param {number} to */
  #go(to, hasFocus = false) {
    if (!this.#shown || to === this.#current || to < 0 || to >= this.#shown.route.items.length) return;
    this.#current = to;
    this.#shown.strip.show(to, { hasFocus });
    this.#shown.book.show(to);
  }

  /** @param {KeyboardEvent} event */
  #keys(event) {
    if (!this.#shown || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = { ArrowRight: this.#current + 1, ArrowLeft: this.#current - 1, Home: 0, End: this.#shown.route.items.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#shown.book.stop();
    this.#go(to, true);
  }
}

/** @param {Route["dimension"]} dimension */
const endsText = ({ low, high }) => (low === `other than ${high}` ? "less – more" : `${low} – ${high}`);

/**
 * The same in a researcher's words.
 * @param {Route} route
 */
function details({ dimension, walk }) {
  const { strength, attribute, label } = dimension;
  const ends = walk.range.map((end, i) => `${signed(end)}${walk.open[i] ? "" : " (beyond it, another concept is closer)"}`);
  return h(
    "details",
    { class: "walk-details" },
    h("summary", { text: "Details" }),
    h("p", { text: `A walk along dimension ${walk.dimension} of concept ${walk.concept}${strength === null ? "" : `, whose rank correlation with ${attribute ?? label} is ${number(strength)}`}. Its coordinate goes from ${ends.join(" to ")}; the stops are at ${walk.items.map((stop) => signed(stop.value)).join(", ")}.` }),
    h("p", { text: "Numbers count as kept within a tenth of their spread in the concept. An attribute that explains half of what is varied cannot be kept. Of the items that keep the most, stops are the most alike by their vectors." }),
  );
}
