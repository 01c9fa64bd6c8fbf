// @ts-check
// The sliders: more of and less of what the items have; then each group's own; then how much of each group.

import * as api from "../core/api.js";
import { conceptColour } from "../core/colours.js";
import { byId, h, icon, iconButton } from "../core/dom.js";
import { count, percent } from "../core/format.js";
import { moveOf } from "../core/moves.js";
import { Knob } from "./knob.js";
import { Shares } from "./shares.js";
import { Towards } from "./towards.js";
import * as wishes from "./wishes.js";

/** @import { App, Dimension } from "#types" */

const FEW = 5;

/** @param {App} app @param {HTMLElement} root */
export function create(app, root) {
  if (app.card.has_concepts) return new Knobs(app, root);
  return root.replaceChildren(
    h("h2", { text: "No sliders" }),
    h(
      "div",
      { class: "state" },
      h("p", { text: "This model cannot be steered. Filters and rules still work." }),
      h("p", { class: "quiet", text: `${app.card.model} has no groups of items. A MacridVAE trained on the same data has: macrid train DATA` }),
    ),
  );
}

class Knobs {
  /** @type {App} */
  #app;
  /** @type {HTMLElement} */
  #root;
  #reset = h("button", { type: "button", class: "text-button", text: "Reset all", on: { click: () => this.#app.store.step({ moves: [] }) } });
  #drawer = h("button", { type: "button", class: "drawer-toggle", "aria-expanded": "false", on: { click: () => this.#toggleDrawer() } }, h("span", { text: "Sliders" }), icon("more"));
  #pills = h("div", { class: "pills", role: "tablist", "aria-label": "Groups", on: { keydown: (/** @type {KeyboardEvent} */ event) => this.#keys(event) } });
  #panel = h("div", { class: "concept-panel", role: "tabpanel", id: "concept-panel", tabindex: "-1" });
  /** @type {HTMLDetailsElement} */
  #fine = h("details", { class: "fine" }, h("summary", {}, h("h3", { text: "Fine-tune a group" })), this.#pills, this.#panel);
  #shares;
  #towards;
  /** @type {Map<number, Dimension[]>} All dimensions of a concept, once they were asked for. */
  #all = new Map();
  /** @type {Knob[]} */
  #knobs = [];
  #drawn = ""; // what the panel shows
  #digest = ""; // of the pills

  /** @param {App} app @param {HTMLElement} root */
  constructor(app, root) {
    [this.#app, this.#root] = [app, root];
    this.#shares = new Shares(app);
    this.#towards = new Towards(app);
    this.#fine.open = app.store.get().concept !== null || this.#hasOwnMoves() || !app.card.towards_effects.length;
    root.replaceChildren(
      this.#drawer,
      h("div", { class: "panel-head" }, h("h2", { text: "More of, less of" }), this.#reset),
      h("div", { class: "knobs-body" }, wishes.create(app), this.#towards.element, this.#fine, this.#shares.element),
    );
    app.live.subscribe((parts) => {
      if (parts.includes("encoded")) this.#draw();
      else if (parts.includes("lists")) {
        this.#shares.draw();
        this.#towards.draw();
      }
    });
    app.store.subscribe((_, changed) => {
      if (changed.includes("concept") && app.store.get().concept !== null) this.#fine.open = true;
      if (changed.some((name) => ["moves", "concept", "user", "history"].includes(name))) this.#draw();
    });
    addEventListener("macrid:card", () => {
      this.#all.clear();
      this.#draw();
    });
    this.#draw();
  }

  #hasOwnMoves() {
    return this.#app.store.get().moves.some(({ dimension }) => dimension !== undefined);
  }

  #toggleDrawer() {
    const isOpen = this.#root.classList.toggle("is-open");
    this.#drawer.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) byId("picks").scrollIntoView({ block: "start" });
  }

  /** The chosen concept, else the one with most of the history. */
  #chosen() {
    const { store, live, card } = this.#app;
    const { concept } = store.get();
    if (this.#app.concept(concept)) return concept;
    const places = live.encoded?.concepts;
    return places?.length ? places.reduce((a, b) => (b.share > a.share ? b : a)).concept : (card.concepts[0]?.concept ?? null);
  }

  #draw() {
    const { store, live } = this.#app;
    const concept = this.#chosen();
    const { moves } = store.get();
    this.#root.classList.toggle("is-waiting", !live.who);
    this.#reset.disabled = moves.length === 0;
    this.#drawPills(concept);
    if (concept !== null) {
      this.#drawPanel(concept);
      const place = live.encoded?.concepts.find((one) => one.concept === concept) ?? null;
      for (const knob of this.#knobs) knob.update(place, moveOf(moves, { concept, dimension: knob.dimension.dimension }));
    }
    this.#shares.draw();
    this.#towards.draw();
  }

  /** @param {number | null} chosen */
  #drawPills(chosen) {
    const { card, store, live } = this.#app;
    if (this.#digest !== card.digest) {
      this.#digest = card.digest;
      this.#pills.replaceChildren(
        ...card.concepts.map(({ concept, label }) =>
          h(
            "button",
            {
              type: "button", class: "pill", role: "tab", id: `pill-${concept}`, "aria-controls": "concept-panel",
              style: { "--c": conceptColour(concept) }, on: { click: () => store.step({ concept }) },
            },
            h("span", { class: "dot" }),
            h("span", { dir: "auto", text: label }),
          ),
        ),
      );
    }
    const shareOf = new Map((live.encoded?.concepts ?? []).map((place) => [place.concept, place.share]));
    card.concepts.forEach(({ concept }, at) => {
      const pill = /** @type {HTMLElement} */ (this.#pills.children[at]);
      const share = shareOf.get(concept);
      pill.setAttribute("aria-selected", String(concept === chosen));
      pill.tabIndex = concept === chosen ? 0 : -1;
      pill.classList.toggle("is-moved", store.get().moves.some((move) => move.concept === concept && move.share === undefined));
      pill.title = share === undefined ? "" : `${percent(share)} of the history`;
    });
    this.#panel.setAttribute("aria-labelledby", `pill-${chosen}`);
  }

  /** @param {KeyboardEvent} event */
  #keys(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const { concepts } = this.#app.card;
    const at = concepts.findIndex(({ concept }) => concept === this.#chosen());
    const { concept } = concepts[(at + step + concepts.length) % concepts.length];
    this.#app.store.step({ concept });
    byId(`pill-${concept}`).focus();
  }

  /** @param {number} k */
  #drawPanel(k) {
    const app = this.#app;
    const key = JSON.stringify([k, app.card.digest, this.#all.has(k)]);
    const concept = app.concept(k);
    if (key === this.#drawn || !concept) return;
    this.#drawn = key;
    const all = this.#all.get(k);
    const shown = all ? ordered(all) : ordered(concept.dimensions).slice(0, FEW);
    this.#knobs = shown.map((dimension) => new Knob(app, dimension));
    /** @type {HTMLElement} */
    const head = h(
      "div",
      { class: "concept-head", style: { "--c": conceptColour(k) } },
      h("h4", { dir: "auto", text: concept.label }),
      app.card.can_rename && iconButton("pencil", `Rename ${concept.label}`, async () => (await import("./rename.js")).renameConcept(app, concept, head), { class: "small" }),
      h("span", { class: "quiet", text: count(concept.items, "item") }),
    );
    this.#panel.replaceChildren(
      head,
      h("button", { type: "button", class: "text-button", text: `List only ${concept.label}`, on: { click: () => app.store.step({ concept: k, list: "concept" }) } }),
      ...(concept.name === null && concept.why ? [h("p", { class: "quiet", text: concept.why })] : []),
      ...this.#knobs.map((knob) => knob.element),
      ...(shown.length ? [] : [h("p", { class: "state", text: "No slider of this group does anything that could be measured." })]),
      all
        ? h("button", { type: "button", class: "text-button", text: "Fewer sliders", on: { click: () => (this.#all.delete(k), this.#draw()) } })
        : h("button", { type: "button", class: "text-button", text: "All sliders of this group", on: { click: () => this.#more(k) } }),
    );
  }

  /** @param {number} k */
  async #more(k) {
    try {
      this.#all.set(k, (await api.dimensions(k)).dimensions);
      this.#draw();
    } catch (error) {
      this.#app.toast(api.detailOf(error));
    }
  }
}

/**
 * Named ones first, popularity after what an item is like; those without a name last.
 * @param {Dimension[]} dimensions
 */
function ordered(dimensions) {
  const place = (/** @type {Dimension} */ { name, kind }) => (name === null ? 2 : kind === "popularity" ? 1 : 0);
  return [...dimensions].sort((one, other) => place(one) - place(other));
}
