// @ts-check
// Items that a rule names, each with a way to take it out.

import * as api from "../core/api.js";
import { h, icon } from "../core/dom.js";
import { thumb, titleOf } from "../core/items.js";

/** @import { App } from "#types" */

export class Chips {
  element;
  #list = h("div", { class: "rule-items" });
  #app;
  #remove;
  #does;
  #asked = new Set();
  /** @type {string[]} */
  #ids = [];

  /**
   * @param {App} app
   * @param {string} label
   * @param {string} does what a click does, before the title
   * @param {(id: string) => void} remove
   */
  constructor(app, label, does, remove) {
    this.#app = app;
    this.#does = does;
    this.#remove = remove;
    this.element = h("div", { class: "rule", role: "group", "aria-label": label, hidden: true }, h("p", { class: "rule-label", text: label }), this.#list);
  }

  /** @param {string[]} ids */
  draw(ids) {
    this.#ids = ids;
    this.element.hidden = !ids.length;
    this.#list.replaceChildren(...ids.map((id) => this.#chip(id)));
    this.#learn(ids.filter((id) => !this.#app.live.items.has(id) && !this.#asked.has(id)));
  }

  /** @param {string} id */
  #chip(id) {
    const item = this.#app.live.items.get(id) ?? { id, isUnknown: true };
    const label = `${this.#does} ${titleOf(item)}`;
    return h(
      "button",
      { type: "button", class: "rule-item", title: label, "aria-label": label, "data-id": id, on: { click: () => this.#remove(id) } },
      thumb(item, { size: 24 }),
      h("span", { class: "rule-item-title", dir: "auto", text: titleOf(item) }),
      icon("close"),
    );
  }

  /** Titles of items that come from a link. @param {string[]} ids */
  async #learn(ids) {
    if (!ids.length) return;
    ids.forEach((id) => this.#asked.add(id));
    const answer = await api.items(ids).catch(() => null);
    if (!answer?.items.length) return;
    this.#app.live.remember(answer.items);
    this.draw(this.#ids);
  }
}
