// How the map is coloured: what was chosen, its legend, and the colours of the theme.

import * as api from "./api.js";
import { conceptColour } from "./colours.js";
import { append, clear, h } from "./dom.js";
import { byConcept, byValues, legend, rgb } from "./legend.js";

export class Colouring {
  select;
  key = h("div", { class: "map-key", role: "group", "aria-label": "Legend" });
  groups = null; // of every item
  colours = []; // of every group: [r, g, b]
  only = -1; // the group that stands out
  theme = null;
  #app;
  #within;
  #changed;
  #shown = undefined; // an attribute, null for concepts
  #now = null;
  #values = new Map();

  /** changed() is called when something looks different; colours are those inside `within`. */
  constructor(app, within, changed) {
    [this.#app, this.#within, this.#changed] = [app, within, changed];
    this.select = h(
      "select",
      {
        id: "map-by", class: "field", "data-testid": "map-by",
        on: { change: () => app.store.set({ by: this.select.value === "concept" ? null : this.select.value.slice(1) }, { push: true }) },
      },
      h("option", { value: "concept", text: app.card.has_concepts ? "concept" : "nothing" }),
      app.card.attributes.map(({ name }) => h("option", { value: `=${name}`, text: name })),
    );
  }

  forget() {
    this.#values.clear();
    this.#shown = undefined;
  }

  /** By concept, without waiting for anything; until `show`. */
  begin(map) {
    this.#shown = undefined;
    this.#take(byConcept(this.#app, map));
  }

  /** by: an attribute, or null for concepts. */
  async show(by, map) {
    const wanted = this.#app.card.attributes.some(({ name }) => name === by) ? by : null;
    if (this.#shown === wanted) return;
    this.#shown = wanted;
    this.select.value = wanted === null ? "concept" : `=${wanted}`;
    try {
      if (wanted !== null && !this.#values.has(wanted)) this.#values.set(wanted, await api.get("/map/values", { by: wanted }));
      if (this.#shown === wanted) this.#take(wanted === null ? byConcept(this.#app, map) : byValues(map, this.#values.get(wanted)));
    } catch (error) {
      this.#shown = undefined;
      this.#app.toast(error.detail ?? "The map could not be coloured.");
    }
  }

  /** Whether a concept's name is to stand back. */
  isFaded(concept) {
    return this.only >= 0 && this.#shown === null && this.#app.card.concepts[this.only]?.concept !== concept;
  }

  readTheme() {
    const css = (colour) => rgb(colour, this.#within);
    const text = (colour) => `rgb(${css(colour).join(" ")})`;
    this.theme = {
      surface: text("var(--surface)"),
      text: text("var(--ink)"),
      accent: text("var(--accent)"),
      background: css("var(--surface)"),
      concepts: new Map(this.#app.card.concepts.map(({ concept }) => [concept, text(conceptColour(concept))])),
    };
    this.colours = this.#now.entries.map(({ colour }) => css(colour));
  }

  #take(next) {
    this.#now = next;
    this.groups = next.groups;
    this.only = -1;
    this.readTheme();
    this.#drawLegend();
    this.#changed();
  }

  #drawLegend() {
    append(clear(this.key), legend(this.#now, this.only, (group) => {
      const at = [...this.key.querySelectorAll("button")].indexOf(document.activeElement);
      this.only = group;
      this.#drawLegend();
      this.key.querySelectorAll("button")[at]?.focus();
      this.#changed();
    }));
  }
}
