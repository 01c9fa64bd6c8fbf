// @ts-check
// Which sliders and rules are on, each with a way to take it off.

import { append, clear, h, icon } from "../core/dom.js";
import { capital } from "../core/format.js";
import { sliderInWords, without } from "../core/moves.js";
import { inWords as rulesInWords } from "../rules/rules.js";

/** @import { App } from "#types" */

export class Settings {
  element = h("div", { class: "settings", role: "group", "aria-label": "Sliders and rules that are on" });
  /** @type {App} */
  #app;

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
  }

  draw() {
    const { store, card } = this.#app;
    const { moves, rules } = store.get();
    const parts = rulesInWords(rules, null).split(" · ").filter(Boolean);
    this.element.hidden = !moves.length && !parts.length;
    append(
      clear(this.element),
      moves.map((move) => chip(sliderInWords(move, card), () => store.step({ moves: without(moves, move) }))),
      parts.map((text) => h("span", { class: "setting", dir: "auto", text: capital(text) })),
      parts.length > 0 && h("button", { type: "button", class: "text-button", text: "Clear rules", on: { click: () => store.step({ rules: {} }) } }),
      moves.length > 1 && h("button", { type: "button", class: "text-button", text: "Reset sliders", on: { click: () => store.step({ moves: [] }) } }),
    );
  }
}

/** @param {string} text @param {() => void} remove */
function chip(text, remove) {
  return h("button", { type: "button", class: "setting", title: `Take off: ${text}`, "aria-label": `Take off: ${text}`, on: { click: remove } }, h("span", { dir: "auto", text }), icon("close"));
}
