// @ts-check
// How the map is coloured: the choice, its legend, and the colours of the theme.

import * as api from "../core/api.js";
import { conceptColour } from "../core/colours.js";
import { append, clear, h } from "../core/dom.js";
import { count } from "../core/format.js";
import { islands } from "./density.js";
import { byConcept, byValues, legend } from "./legend.js";

/** @import { App, Map as ItemMap, MapValues } from "#types" */
/** @import { Island } from "./density.js" */
/** @import { Groups } from "./legend.js" */
/** @import { RGB } from "./painter.js" */
/** @import { Points } from "./plane.js" */
/** @typedef {{ surface: string, text: string, accent: string, background: RGB, edge: RGB, concepts: Map<number, string> }} Theme */

export class Colouring {
  /** @type {HTMLSelectElement} */
  select;
  key = h("div", { class: "map-key", role: "group", "aria-label": "Legend" });
  /** @type {RGB[]} Of every group. */
  colours = [];
  only = -1; // the group that stands out
  /** @type {Theme | null} */
  theme = null;
  /** @type {Groups | null} */
  #groups = null;
  /** @type {{ points: Points, groups: Groups | null, at: Island[] } | null} */
  #named = null;
  /** @type {App} */
  #app;
  /** @type {HTMLElement} */
  #within;
  /** @type {{ changed: () => void, select: (items: ArrayLike<number>) => void }} */
  #does;
  /** @type {string | null | undefined} An attribute, null for concepts. */
  #shown = undefined;
  /** @type {Map<string, MapValues>} */
  #values = new Map();

  /**
   * @param {App} app
   * @param {HTMLElement} within colours are those inside it
   * @param {{ changed: () => void, select: (items: ArrayLike<number>) => void }} does changed: called when something looks
   *   different; select: the items of a group
   */
  constructor(app, within, does) {
    [this.#app, this.#within, this.#does] = [app, within, does];
    this.select = h(
      "select",
      {
        id: "map-by", class: "field",
        on: { change: () => app.store.step({ by: this.select.value === "concept" ? null : this.select.value.slice(1) }) },
      },
      h("option", { value: "concept", text: app.card.has_concepts ? "group" : "nothing" }),
      app.card.attributes.map(({ name }) => h("option", { value: `=${name}`, text: name })),
    );
  }

  /** The group whose colour every item has. */
  get groups() {
    return this.#groups?.groups ?? null;
  }

  /** The items of the group that stands out; null where none does. */
  get chosen() {
    return this.only < 0 ? null : (this.#groups?.members[this.only] ?? null);
  }

  /** Whether a group stands out to which items belong that have the colour of another. */
  get hasSeveral() {
    return this.#groups?.hasSeveral ?? false;
  }

  /**
   * Where the groups shown are at home, with what they are called.
   * @param {Points} points
   */
  names(points) {
    if (this.#named?.points !== points || this.#named.groups !== this.#groups) {
      const { entries = [], members = [] } = this.#groups ?? {};
      const at = islands(points, members.map((items, group) => (entries[group].isRest ? [] : items)));
      this.#named = { points, groups: this.#groups, at };
    }
    return this.#named.at.map(({ group, x, y }) => ({ x, y, text: this.#groups?.entries[group].label ?? "", isFaded: this.only >= 0 && this.only !== group }));
  }

  forget() {
    this.#values.clear();
    this.#shown = undefined;
  }

  /**
   * By concept, without waiting for anything; until `show`.
   * @param {ItemMap} map
   */
  begin(map) {
    this.#shown = undefined;
    this.#take(byConcept(this.#app, map));
  }

  /**
   * @param {string | null} by an attribute, or null for concepts
   * @param {ItemMap} map
   */
  async show(by, map) {
    const wanted = this.#app.card.attributes.some(({ name }) => name === by) ? by : null;
    if (this.#shown === wanted) return;
    this.#shown = wanted;
    this.select.value = wanted === null ? "concept" : `=${wanted}`;
    try {
      const values = wanted === null ? null : (this.#values.get(wanted) ?? (await api.mapValues(wanted)));
      if (values) this.#values.set(values.name, values);
      if (this.#shown === wanted) this.#take(values ? byValues(map, values) : byConcept(this.#app, map));
    } catch (error) {
      this.#shown = undefined;
      this.#app.toast(api.detailOf(error));
    }
  }

  readTheme() {
    const css = (/** @type {string} */ colour) => rgb(colour, this.#within);
    const text = (/** @type {string} */ colour) => `rgb(${css(colour).join(" ")})`;
    this.theme = {
      surface: text("var(--surface)"),
      text: text("var(--ink)"),
      accent: text("var(--accent)"),
      background: css("var(--surface)"),
      edge: css("var(--ink)"),
      concepts: new Map(this.#app.card.concepts.map(({ concept }) => [concept, text(conceptColour(concept))])),
    };
    this.colours = (this.#groups?.entries ?? []).map(({ colour }) => css(colour));
  }

  /** @param {Groups} groups */
  #take(groups) {
    this.#groups = groups;
    this.only = -1;
    this.readTheme();
    this.#drawLegend();
    this.#does.changed();
  }

  #drawLegend() {
    if (!this.#groups) return;
    const pick = (/** @type {number} */ group) => {
      const at = [...this.key.querySelectorAll("button")].findIndex((button) => button === document.activeElement);
      this.only = group;
      this.#drawLegend();
      this.key.querySelectorAll("button")[at]?.focus();
      this.#does.changed();
    };
    const { chosen } = this;
    append(clear(this.key), legend(this.#groups, this.only, pick));
    if (chosen?.length) {
      this.key.append(h("button", { type: "button", class: "button legend-select", text: `Select ${count(chosen.length, "item")}`, on: { click: () => this.#does.select(chosen) } }));
    }
  }
}

const probe = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d", { willReadFrequently: true }));

/**
 * What a CSS colour is within an element right now.
 * @param {string} colour
 * @param {HTMLElement} within
 * @returns {RGB}
 */
function rgb(colour, within) {
  const span = h("span", { style: { color: colour } });
  within.append(span);
  probe.clearRect(0, 0, 1, 1);
  probe.fillStyle = getComputedStyle(span).color;
  span.remove();
  probe.fillRect(0, 0, 1, 1);
  const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
  return [r, g, b];
}
