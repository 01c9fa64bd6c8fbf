// @ts-check
// Choosing a known customer: by id or taste, the next, the previous, or any.

import * as api from "../core/api.js";
import { h, iconButton } from "../core/dom.js";
import { userSearch } from "../core/search.js";

/** @import { App } from "#types" */

export class UserPicker {
  element;
  /** @type {App} */
  #app;
  #box = userSearch(({ id }) => this.#choose(id), (k) => this.#app.label(k));
  /** @type {string[]} The first so many. */
  #ids = [];

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
    this.element = h(
      "div",
      { class: "user-row", hidden: app.card.users === 0 },
      iconButton("previous", "Previous customer", () => this.#step(-1)),
      this.#box.element,
      iconButton("next", "Next customer", () => this.#step(1)),
      iconButton("shuffle", "Random customer", () => this.#random()),
    );
  }

  draw() {
    const { user } = this.#app.store.get();
    this.#box.input.placeholder = user ?? "Choose a customer";
    this.#box.element.classList.toggle("has-value", user !== null);
  }

  /** @param {string} user */
  #choose(user) {
    this.#app.store.step({ user, history: [], moves: [], concept: null, list: this.#app.store.get().list === "concept" ? "overall" : this.#app.store.get().list });
  }

  /** @param {number} place */
  async #at(place) {
    while (this.#ids.length <= place && this.#ids.length < this.#app.card.users) {
      const { users } = await api.users({ limit: 100, offset: this.#ids.length });
      if (!users.length) break;
      this.#ids.push(...users.map(({ id }) => id));
    }
    return this.#ids[place] ?? null;
  }

  /** @param {1 | -1} by */
  async #step(by) {
    const { user } = this.#app.store.get();
    const total = this.#app.card.users;
    while (user !== null && !this.#ids.includes(user) && this.#ids.length < total && (await this.#at(this.#ids.length)) !== null);
    const at = user === null ? -1 : this.#ids.indexOf(user);
    const next = await this.#at(at < 0 ? 0 : (at + by + total) % total);
    if (next !== null) this.#choose(next);
  }

  async #random() {
    const { users } = await api.users({ limit: 1, offset: Math.floor(Math.random() * this.#app.card.users) });
    if (users.length) this.#choose(users[0].id);
  }
}
