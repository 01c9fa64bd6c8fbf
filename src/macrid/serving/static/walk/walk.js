// @ts-check
// Walk: from an item along one dimension, as a film strip.

import { conceptColour } from "../core/colours.js";
import { clear, h } from "../core/dom.js";
import { number } from "../core/format.js";
import { conceptTags, failure, thumb, titleOf } from "../core/items.js";
import { styles } from "../core/panel.js";
import { itemSearch } from "../core/search.js";
import { Book } from "./book.js";
import { find, startOf } from "./route.js";
import { Strip } from "./strip.js";

/** @import { App, State } from "#types" */
/** @import { Route } from "./route.js" */

const FEWEST = 4;
const MOST = 12;
const USUAL = 8;

/** @param {App} app */
export function create(app) {
  styles("walk/walk.css");
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
        h("h2", { id: "walk-title", text: "Walk" }),
        h("p", { class: "lede", text: "Start at one item and change one thing. The stops differ in that, and in as little else as the catalogue allows." }),
      ),
      h("div", { class: "walk-from" }, this.#origin, h("div", { class: "walk-search" }, search.element)),
      h("div", { class: "walk-controls" }, this.#pills, this.#stepper()),
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
      return void clear(this.#body).append(h("div", { class: "state", text: `${card.model} has no concepts, so there is nothing to walk along. A MacridVAE has them.` }));
    }
    if (state.walk.item === null && live.who === null && live.historyItems === null) return void this.#skeleton();
    const key = JSON.stringify([state.walk, state.walk.item ?? (state.user ?? state.history[0]), this.#steps, card.digest]);
    if (this.#asked?.key === key) return;
    this.#asked?.control.abort();
    const asked = { key, control: new AbortController() };
    this.#asked = asked;
    this.#shown?.book.stop();
    if (this.#shown) this.#body.classList.add("is-waiting");
    else this.#skeleton();
    try {
      const route = await find(state, card, this.#steps, asked.control.signal);
      if (this.#asked === asked) this.#draw(route);
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
      h("div", {}, h("span", { class: "walk-kicker", text: "Walking from" }), h("strong", { text: titleOf(item) }), conceptTags(item)),
    );
    this.#drawPills(route);
    this.element.style.setProperty("--c", conceptColour(walk.concept));
    this.#body.classList.remove("is-waiting");
    clear(this.#body).append(strip.element, book.element);
    strip.show(this.#current, { behavior: "instant" });
    book.show(this.#current);
    announce(`${walk.items.length} stops from ${dimension.low} to ${dimension.high}`);
  }

  /** @param {Route} route */
  #drawPills({ item, choices, dimension: chosen }) {
    this.#pills.replaceChildren(...choices.map((one) => h(
      "button",
      {
        type: "button", class: "walk-pill", "aria-pressed": String(one === chosen),
        title: one.strength === null ? null : `follows ${one.attribute ?? one.label}: strength ${number(one.strength)} of 1`,
        on: { click: () => this.#walkFrom(item.id, one.dimension) },
      },
      h("span", { class: "walk-pill-name", text: one.label }),
      h("span", { class: "walk-pill-ends", text: `${one.low} – ${one.high}`, title: `${one.low} – ${one.high}` }),
    )));
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
