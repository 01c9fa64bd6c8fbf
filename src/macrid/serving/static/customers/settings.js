// @ts-check
// Which sliders and rules are on, each with a way to take it off.

import { append, clear, h, icon } from "../core/dom.js";
import { capital, percent } from "../core/format.js";
import { without } from "../core/moves.js";
import { inWords as rulesInWords } from "../rules/rules.js";

/** @import { App, Model, Move } from "#types" */

const FURTHEST = 2; // of a slider for more or less of something

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
      moves.map((move) => chip(moveInWords(move, card), () => store.step({ moves: without(moves, move) }))),
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

/**
 * "Less Horror, 50 %"; "Older, 20 %"; "40 % from bags"; "Size of bags, 80 % towards large"
 * @param {Move} move
 * @param {Model} card
 */
export function moveInWords({ concept, dimension, to, share, towards, amount = 0, name, concept_name }, card) {
  if (towards !== undefined) {
    const effect = card.towards_effects.find((one) => one.name === towards);
    const [plainly, way] = amount < 0 ? ["less", effect?.less] : ["more", effect?.more];
    const what = !way || way === plainly ? `${plainly} ${towards.replace(/^.*?: /, "")}` : way;
    return `${capital(what)}, ${percent(Math.min(1, Math.abs(amount) / FURTHEST))}`;
  }
  const group = card.concepts.find((one) => one.concept === concept);
  const label = group?.label ?? concept_name ?? `group ${concept}`;
  if (share !== undefined) return `${percent(share)} from ${label}`;
  const slider = group?.dimensions.find((one) => one.dimension === dimension);
  if (!slider || to === undefined) return `${capital(name ?? `slider ${dimension}`)} of ${label}`;
  const [low, high] = slider.range;
  const part = Math.min(1, Math.max(0, (to - low) / (high - low || 1)));
  return `${capital(slider.label)} of ${label}, ${percent(part)} towards ${slider.high || "high"}`;
}
