// @ts-check
// Attributes moved in all concepts together, as sliders, strongest first.

import { h, iconButton } from "../core/dom.js";
import { moveOf, withMove, without } from "../core/moves.js";
import { slider } from "./knob.js";

/** @import { App, MeasuredEffect, Move } from "#types" */

const FEW = 5;
const FURTHEST = 2; // in halves of the range of real users: from anywhere, it leads to the end

export class Towards {
  element = h("section", { class: "towards", "aria-labelledby": "towards-title" });
  /** @type {App} */
  #app;
  /** @type {Map<string, TowardsRow>} */
  #rows = new Map();
  #drawn = ""; // what the rows show
  #isLong = false;

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
  }

  draw() {
    const { card, live, store } = this.#app;
    const effects = card.towards_effects;
    const { moves } = store.get();
    const isShown = (/** @type {MeasuredEffect} */ { name }, /** @type {number} */ at) => this.#isLong || at < FEW || moveOf(moves, { towards: name });
    const shown = effects.filter(isShown);
    const key = JSON.stringify([card.digest, shown.map(({ name }) => name)]);
    if (key !== this.#drawn) {
      this.#drawn = key;
      this.#rows = new Map(shown.map((effect) => [effect.name, this.#rows.get(effect.name) ?? new TowardsRow(this.#app, effect)]));
      this.#fill(effects.length > FEW);
    }
    this.element.hidden = !effects.length;
    for (const [towards, row] of this.#rows) row.update(moveOf(moves, { towards }), Boolean(live.encoded));
  }

  /** @param {boolean} hasMore */
  #fill(hasMore) {
    const toggle = () => {
      this.#isLong = !this.#isLong;
      this.draw();
    };
    this.element.replaceChildren(
      h("h3", { id: "towards-title", text: "In all concepts" }),
      ...[...this.#rows.values()].map((row) => row.element),
      ...(hasMore ? [h("button", { type: "button", class: "text-button", text: this.#isLong ? "Fewer attributes" : "More attributes", on: { click: toggle } })] : []),
    );
  }
}

class TowardsRow {
  element;
  /** @type {App} */
  #app;
  /** @type {string} */
  #towards;
  #slider;
  #reset;
  #isHeld = false;

  /** @param {App} app @param {MeasuredEffect} effect */
  constructor(app, { name, label }) {
    [this.#app, this.#towards] = [app, name];
    this.#reset = iconButton("reset", `Reset ${name} in all concepts`, () => this.#step(null), { class: "small" });
    this.#slider = slider({ min: -FURTHEST, max: FURTHEST, step: FURTHEST / 50, "aria-label": `${name}, all concepts` }, {
      drag: (amount) => {
        this.#isHeld = true;
        this.#show(amount);
        app.store.drag(this.#patch(amount));
      },
      drop: (amount) => {
        this.#isHeld = false;
        this.#step(amount);
      },
    });
    this.element = h(
      "div",
      { class: "towards-row" },
      h("span", { class: "towards-name" }, h("span", { text: name }), h("span", { class: "quiet", text: label })),
      this.#slider.input,
      this.#reset,
    );
  }

  /** @param {Move | undefined} move @param {boolean} isEnabled */
  update(move, isEnabled) {
    this.#slider.input.disabled = !isEnabled;
    this.#reset.classList.toggle("is-idle", !move);
    this.#reset.disabled = !move;
    if (this.#isHeld) return;
    this.#slider.input.value = String(move?.amount ?? 0);
    this.#show(move?.amount ?? 0);
  }

  /** @param {number} amount */
  #show(amount) {
    const way = `${Math.round((100 * Math.abs(amount)) / FURTHEST)} percent of the way to ${amount > 0 ? "more" : "less"}`;
    this.#slider.input.setAttribute("aria-valuetext", amount === 0 ? "not moved" : way);
    this.#slider.fill(0.5, (amount + FURTHEST) / (2 * FURTHEST));
  }

  /** @param {number | null} amount */
  #step(amount) {
    this.#app.store.step(this.#patch(amount), `towards-${this.#towards}`);
  }

  /** @param {number | null} amount */
  #patch(amount) {
    const towards = this.#towards;
    const { moves, list } = this.#app.store.get();
    return {
      moves: amount ? withMove(moves, { towards, amount: Number(amount.toFixed(5)) }) : without(moves, { towards }),
      list: list === "concept" ? /** @type {const} */ ("overall") : list,
    };
  }
}
