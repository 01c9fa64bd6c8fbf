// @ts-check
// More of, less of: attributes moved in all groups together, as sliders, strongest first.

import { h, iconButton } from "../core/dom.js";
import { capital } from "../core/format.js";
import { FURTHEST, moveOf, withMove, without } from "../core/moves.js";
import { rounded } from "../picks/changes.js";
import { slider } from "./knob.js";

/** @import { App, Difference, GeneralEffect, Move } from "#types" */

const FEW = 6;
let sets = 0; // of sliders on this page

/** A set of sliders; several may be on the page, and follow one another. */
export class Towards {
  element;
  /** @type {App} */
  #app;
  /** @type {Map<string, TowardsRow>} */
  #rows = new Map();
  #drawn = ""; // what the rows show
  #isLong = false;
  #list = h("div", { class: "towards-rows" });
  #filter = h("input", {
    class: "field", type: "search", placeholder: "Find a slider…", "aria-label": "Find a slider", autocomplete: "off", spellcheck: "false", hidden: true,
    on: { input: () => this.draw() },
  });
  #toggle = h("button", { type: "button", class: "text-button", on: { click: () => this.#switch() } });
  #none = h("p", { class: "quiet", role: "status", hidden: true });

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
    const id = `towards-title-${(sets += 1)}`;
    this.element = h(
      "section",
      { class: "towards", "aria-labelledby": id },
      h("h3", { id, class: "unseen", text: "More of, less of" }),
      this.#filter,
      h("p", { class: "towards-ends", "aria-hidden": "true" }, h("span", { text: "less" }), h("span", { text: "more" })),
      this.#list,
      this.#none,
      this.#toggle,
    );
  }

  #switch() {
    this.#isLong = !this.#isLong;
    this.#filter.value = "";
    this.draw();
    if (this.#isLong) this.#filter.focus();
  }

  draw() {
    const { card, live, store } = this.#app;
    const { moves } = store.get();
    const effects = [...card.towards_effects, ...unmeasured(card.towards_effects, moves)];
    const wanted = this.#filter.value.trim().toLowerCase();
    const shown = effects.filter((effect, at) =>
      wanted ? `${effect.name} ${labelOf(effect, effects)}`.toLowerCase().includes(wanted) : this.#isLong || at < FEW || moveOf(moves, { towards: effect.name }));
    const key = JSON.stringify([card.digest, shown.map(({ name }) => name)]);
    if (key !== this.#drawn) {
      this.#drawn = key;
      this.#rows = new Map(shown.map((effect) => [effect.name, this.#rows.get(effect.name) ?? new TowardsRow(this.#app, effect, labelOf(effect, effects))]));
      this.#list.replaceChildren(...[...this.#rows.values()].map((row) => row.element));
    }
    this.element.hidden = !effects.length;
    this.#filter.hidden = !this.#isLong;
    this.#toggle.hidden = effects.length <= FEW;
    this.#toggle.textContent = this.#isLong ? "Fewer sliders" : `More sliders (${effects.length - FEW})`;
    this.#none.hidden = shown.length > 0;
    this.#none.textContent = wanted ? `No slider is called “${wanted.slice(0, 40)}”. Sliders that would change nothing are left out.` : "";
    const differences = new Map(live.differences.map((difference) => [difference.name, difference]));
    for (const [towards, row] of this.#rows) row.update(moveOf(moves, { towards }), Boolean(live.encoded), differences.get(towards));
  }
}

/**
 * Attributes that were moved, by words or a link, and have no measured effect.
 * @param {GeneralEffect[]} effects
 * @param {Move[]} moves
 * @returns {Pick<GeneralEffect, "name" | "attribute" | "value" | "label" | "less" | "more">[]}
 */
function unmeasured(effects, moves) {
  const known = new Set(effects.map(({ name }) => name));
  return moves.flatMap(({ towards }) => {
    if (towards === undefined || known.has(towards)) return [];
    const [attribute, value = null] = towards.split(/: (.*)/s);
    return [{ name: towards, attribute, value, label: "", less: "less", more: "more" }];
  });
}

/**
 * "Comedy" rather than "genres: Comedy", unless another attribute has that value, too.
 * @param {Pick<GeneralEffect, "name" | "attribute" | "value">} effect
 * @param {Pick<GeneralEffect, "value">[]} all
 */
function labelOf({ attribute, value }, all) {
  if (value === null) return capital(attribute);
  return all.filter((one) => one.value === value).length > 1 ? `${capital(value)} (${attribute})` : capital(value);
}

class TowardsRow {
  element;
  /** @type {App} */
  #app;
  /** @type {Pick<GeneralEffect, "name" | "value" | "label" | "less" | "more">} */
  #effect;
  #slider;
  #reset;
  #does = h("span", { class: "towards-does" });
  #isHeld = false;

  /**
   * @param {App} app
   * @param {Pick<GeneralEffect, "name" | "value" | "label" | "less" | "more">} effect
   * @param {string} label
   */
  constructor(app, effect, label) {
    [this.#app, this.#effect] = [app, effect];
    this.#reset = iconButton("reset", `Reset ${label}`, () => this.#step(null), { class: "small" });
    this.#slider = slider({ min: -FURTHEST, max: FURTHEST, step: FURTHEST / 50, "aria-label": label, title: `${effect.less} ↔ ${effect.more}` }, {
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
      h("span", { class: "towards-name" }, h("span", { dir: "auto", text: label }), this.#does),
      this.#slider.input,
      this.#reset,
    );
  }

  /** @param {Move | undefined} move @param {boolean} isEnabled @param {Difference | undefined} difference */
  update(move, isEnabled, difference) {
    this.#slider.input.disabled = !isEnabled;
    this.#reset.classList.toggle("is-idle", !move);
    this.#reset.disabled = !move;
    this.element.classList.toggle("is-moved", Boolean(move));
    this.#does.textContent = move && difference ? inTerms(difference, this.#app.live.lists?.[0]?.items.length ?? 0) : this.#effect.label;
    this.#does.title = this.#effect.label && `All the way: ${this.#effect.label}, on average over customers`;
    if (this.#isHeld) return;
    this.#slider.input.value = String(move?.amount ?? 0);
    this.#show(move?.amount ?? 0);
  }

  /** @param {number} amount */
  #show(amount) {
    const { less, more } = this.#effect;
    const way = `${Math.round((100 * Math.abs(amount)) / FURTHEST)} percent ${amount > 0 ? more : less}`;
    this.#slider.input.setAttribute("aria-valuetext", amount === 0 ? "as it is" : way);
    this.#slider.fill(0.5, (amount + FURTHEST) / (2 * FURTHEST));
  }

  /** @param {number | null} amount */
  #step(amount) {
    this.#app.store.step(this.#patch(amount), `towards-${this.#effect.name}`);
  }

  /** @param {number | null} amount */
  #patch(amount) {
    const { moves } = this.#app.store.get();
    const towards = this.#effect.name;
    return { moves: amount ? withMove(moves, { towards, amount: Number(amount.toFixed(5)) }) : without(moves, { towards }) };
  }
}

/**
 * "now 1988, was 1996"; "now 64 %, was 29 %"; "still 1995"
 * @param {Difference} difference
 * @param {number} n items of the list
 */
function inTerms({ value, before, after }, n) {
  const shown = (/** @type {number} */ x) => (value !== null && n ? `${Math.round((100 * x) / n)} %` : rounded(x));
  return shown(after) === shown(before) ? `still ${shown(after)}` : `now ${shown(after)}, was ${shown(before)}`;
}
