// @ts-check
// A flip book of the stops: one large picture at a time, and what differs from the start.

import { clear, h, iconButton } from "../core/dom.js";
import { anything } from "../core/format.js";
import { thumb, titleOf } from "../core/items.js";
import { startOf } from "./route.js";

/** @import { Route } from "./route.js" */

const FRAME = 750; // ms
const MOST_FACTS = 8;

export class Book {
  element;
  #about = h("div", { class: "walk-tell" });
  #play = h("button", { type: "button", class: "button walk-play", on: { click: () => (this.#playing ? this.stop() : this.#start()) } }, "Play");
  /** @type {HTMLElement[]} */
  #pages;
  /** @type {Route} */
  #route;
  #current = 0;
  #playing = 0;
  /** @type {(to: number) => void} */
  #go;

  /** @param {Route} route @param {{ hasPictures: boolean, go: (to: number) => void, add: (id: string) => void }} does */
  constructor(route, { hasPictures, go, add }) {
    [this.#route, this.#go] = [route, go];
    this.#pages = hasPictures ? route.items.map((item) => h("div", { class: "walk-page" }, thumb(item, { lazy: false, alt: titleOf(item) }))) : [];
    this.element = h(
      "div",
      { class: "walk-stage" },
      h("div", { class: "walk-book" }, this.#pages),
      h("div", { class: "walk-about" }, this.#about, h(
        "div",
        { class: "walk-buttons" },
        iconButton("previous", "Previous stop", () => go(this.#current - 1), { title: "Previous stop (←)" }),
        this.#play,
        iconButton("next", "Next stop", () => go(this.#current + 1), { title: "Next stop (→)" }),
        h("button", { type: "button", class: "button", text: "Add to history", on: { click: () => add(route.items[this.#current].id) } }),
      )),
    );
  }

  /** @param {number} current */
  show(current) {
    this.#current = current;
    this.#pages.forEach((page, i) => {
      page.classList.toggle("is-current", i === current);
      page.setAttribute("aria-hidden", String(i !== current));
    });
    const { items, dimension } = this.#route;
    const item = items[current];
    const first = items[startOf(this.#route)];
    const names = Object.keys(item.attributes).filter((name) => item.attributes[name] !== null);
    names.sort((a, b) => Number(b === dimension.attribute) - Number(a === dimension.attribute));
    const differs = (/** @type {string} */ name) => first !== item && anything(first.attributes[name]) !== anything(item.attributes[name]);
    clear(this.#about).append(
      h("p", { class: "walk-kicker", text: `Stop ${current + 1} of ${items.length}${first === item ? " · the start" : ""}` }),
      h("h3", { dir: "auto", text: titleOf(item) }),
      h("dl", { class: "walk-facts" }, names.slice(0, MOST_FACTS).map((name) => h(
        "div",
        { class: name === dimension.attribute ? "is-it" : differs(name) ? "is-other" : "" },
        h("dt", { text: name }),
        h("dd", { dir: "auto" }, h("span", { text: anything(item.attributes[name]) }),
          differs(name) && h("small", { text: `start: ${anything(first.attributes[name])}` })),
      ))),
    );
  }

  stop() {
    clearInterval(this.#playing);
    this.#playing = 0;
    this.#play.textContent = "Play";
  }

  #start() {
    this.#go(0);
    this.#play.textContent = "Stop";
    this.#playing = window.setInterval(() => {
      if (this.#current + 1 >= this.#route.items.length) this.stop();
      else this.#go(this.#current + 1);
    }, FRAME);
  }
}
