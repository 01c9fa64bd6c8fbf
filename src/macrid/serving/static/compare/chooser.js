// @ts-check
// What one side of a comparison shows: chosen from what is shown now, customers, saved lists and other models.

import { h } from "../core/dom.js";
import { percent } from "../core/format.js";
import { userSearch } from "../core/search.js";
import { allSaved } from "../states/states.js";
import { nameOf, sideOf, writeSide } from "./sides.js";

/** @import { components } from "#openapi" */
/** @import { Side } from "./sides.js" */
/** @import { Setting } from "../states/words.js" */

const CUSTOMER = "customer:"; // before it is known which one

export class Chooser {
  element;
  /** @type {components["schemas"]["RunBeside"][]} */
  runs = [];
  /** @type {HTMLSelectElement} */
  #select;
  #customer;
  #settings = h("ul", { class: "side-settings" });
  #notes = h("p", { class: "notes", hidden: true });
  #open;
  #isAsking = false; // which customer
  /** @type {Side} */
  #side = { kind: "now" };

  /**
   * @param {"Left" | "Right"} place
   * @param {{ choose: (side: string) => void, open: () => void, hasCustomers: boolean }} does
   */
  constructor(place, { choose, open, hasCustomers }) {
    this.hasCustomers = hasCustomers;
    const id = `compare-${place.toLowerCase()}`;
    this.#select = h("select", { class: "field", id, on: { change: () => this.#chosen(choose) } });
    this.#customer = userSearch(({ id: user }) => {
      this.#isAsking = false;
      choose(writeSide({ kind: "customer", user }));
    });
    this.#open = h("button", { type: "button", class: "text-button", text: "Open this list", on: { click: open } });
    this.element = h(
      "div",
      { class: "compare-side" },
      h("div", { class: "side-label" }, h("label", { for: id, text: place }), this.#open),
      this.#select,
      this.#customer.element,
      this.#settings,
      this.#notes,
    );
  }

  /** @param {(side: string) => void} choose */
  #chosen(choose) {
    const { value } = this.#select;
    this.#isAsking = value === CUSTOMER;
    if (!this.#isAsking) choose(value);
    this.draw(this.#side);
    if (this.#isAsking) this.#customer.input.focus();
  }

  /** @param {Side} side */
  draw(side) {
    this.#side = side;
    const value = writeSide(side);
    const saved = allSaved().map((one) => /** @type {[string, string]} */ ([sideOf(one), one.name]));
    const others = this.runs.filter(({ is_current }) => !is_current).map((run) => /** @type {[string, string]} */ ([writeSide({ kind: "run", run: run.name }), inWords(run)]));
    /** @type {[string, string][]} */
    const customers = this.hasCustomers ? [[CUSTOMER, "Another customer, the same sliders…"]] : [];
    const known = new Set(["now", "plain", ...saved.map(([one]) => one), ...others.map(([one]) => one)]);
    this.#select.replaceChildren(
      ...(known.has(value) ? [] : [option([value, nameOf(side)])]),
      option(["now", nameOf({ kind: "now" })]),
      option(["plain", nameOf({ kind: "plain" })]),
      ...customers.map(option),
      ...group("Saved lists", saved),
      ...group("Other models", others),
    );
    this.#select.value = this.#isAsking ? CUSTOMER : value;
    this.#customer.element.hidden = !this.#isAsking && side.kind !== "customer";
    this.#customer.input.placeholder = side.kind === "customer" && !this.#isAsking ? side.user : "Choose a customer";
    this.#open.hidden = side.kind === "now" || side.kind === "run";
  }

  /** @param {Setting[]} all @param {Setting[]} others of the other side */
  drawSettings(all, others) {
    const there = new Set(others.map(({ key, text }) => `${key} ${text}`));
    this.#settings.replaceChildren(...all.map(({ key, text }) => {
      const differs = !there.has(`${key} ${text}`);
      return h("li", { class: differs ? "side-setting is-different" : "side-setting", dir: "auto", text, title: differs ? `${text}: only on this side` : text });
    }));
  }

  /** @param {string[]} notes */
  drawNotes(notes) {
    this.#notes.hidden = !notes.length;
    this.#notes.textContent = notes.join(" ");
  }
}

/** @param {components["schemas"]["RunBeside"]} run */
const inWords = ({ name, accuracy }) => (accuracy === null ? name : `${name} (accuracy ${percent(accuracy)})`);

/** @param {[value: string, text: string]} one */
const option = ([value, text]) => h("option", { value, text });

/** @param {string} label @param {[string, string][]} options */
const group = (label, options) => (options.length ? [h("optgroup", { label }, options.map(option))] : []);
