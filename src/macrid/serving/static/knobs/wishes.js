// @ts-check
// A box for wishes in words: "more sci-fi, less horror, newer". What was understood is shown, and what was not.

import * as api from "../core/api.js";
import { h } from "../core/dom.js";
import { anything } from "../core/format.js";
import { titleOf } from "../core/items.js";
import { withMove } from "../core/moves.js";

/** @import { App, GeneralEffect, Move, Rules, Wishes } from "#types" */

/** @param {App} app */
export function create(app) {
  const input = h("input", {
    class: "field", id: "wishes", type: "text", maxlength: 1000, autocomplete: "off", spellcheck: "false", enterkeyhint: "go",
    placeholder: `Say it: “${example(app.card.towards_effects)}”`, "aria-label": "What you want, in words", "aria-describedby": "wishes-read",
  });
  const go = h("button", { class: "button", text: "Apply" });
  const read = h("div", { class: "wishes-read", id: "wishes-read", role: "status" });
  const form = h("form", { class: "wishes", on: { submit: (/** @type {Event} */ event) => (event.preventDefault(), send()) } }, h("div", { class: "wishes-row" }, input, go), read);

  async function send() {
    const text = input.value.trim();
    if (!text) return input.focus();
    if (!app.live.who) return app.toast("Choose a customer or some items first");
    try {
      const [wishes] = await Promise.all([api.words(text), placed(app)]);
      apply(app, wishes);
      draw(wishes);
      if (wishes.understood.length) input.value = "";
    } catch (error) {
      read.replaceChildren(h("p", { class: "wish is-unknown", text: api.detailOf(error) }));
    }
  }

  /** @param {Wishes} wishes */
  function draw({ understood, not_understood: unknown }) {
    read.replaceChildren(
      ...understood.map(({ text, meaning }) => h("p", { class: "wish" }, h("span", { class: "wish-text", text }), " → ", meaning)),
      ...unknown.map(({ text, why, choices }) => h(
        "p",
        { class: "wish is-unknown" },
        h("span", { class: "wish-text", text }),
        " → ",
        choices.length ? "which one? " : `not understood: ${why}`,
        choices.map((id) => h("button", {
          type: "button", class: "text-button", text: titleOf(app.live.items.get(id) ?? { id }),
          on: { click: () => (app.addToHistory(id), read.replaceChildren()) },
        })),
      )),
      ...(understood.length ? [h("button", { type: "button", class: "text-button", text: "Undo", on: { click: () => (app.store.undo(), read.replaceChildren()) } })] : []),
    );
    learn(unknown.flatMap(({ choices }) => choices), () => draw({ understood, not_understood: unknown, history: [], moves: [], where: null }));
  }

  /** Titles of items that may be meant. @param {string[]} ids @param {() => void} then */
  async function learn(ids, then) {
    const strange = ids.filter((id) => !app.live.items.has(id));
    if (!strange.length) return;
    const answer = await api.items(strange).catch(() => null);
    if (!answer?.items.length) return;
    app.live.remember(answer.items);
    then();
  }

  return form;
}

/** Once it is known where the customer is: some wishes move from there. @param {App} app @returns {Promise<void>} */
function placed({ live }) {
  return new Promise((done) => {
    if (live.encoded) done();
    else live.subscribe((parts) => parts.includes("encoded") && done());
  });
}

/** One step, which one undo takes back. @param {App} app @param {Wishes} wishes */
function apply(app, { moves, where, history }) {
  const { store, live } = app;
  const state = store.get();
  const next = moves.reduce((all, move) => {
    const one = absolute(app, /** @type {Move & { by?: number | null }} */ (move));
    return one ? withMove(all, one) : all;
  }, state.moves);
  /** @type {Rules} */
  const rules = where ? { ...state.rules, where: state.rules.where ? `(${state.rules.where}) and (${where})` : where } : state.rules;
  const known = state.user === null ? state.history : (live.historyItems ?? []).map(({ id }) => id);
  const named = history.map(({ id }) => id).filter((id) => !known.includes(id));
  store.step({ moves: next, rules, ...(named.length && { user: null, history: [...known, ...named] }) });
}

/**
 * A move as the page keeps it: coordinates are absolute.
 * @param {App} app
 * @param {Move & { by?: number | null }} move
 * @returns {Move | null}
 */
function absolute({ live }, { concept, dimension, to, by, share, towards, amount }) {
  if (typeof towards === "string" && typeof amount === "number") return { towards, amount };
  if (typeof concept !== "number") return null;
  if (typeof share === "number") return { concept, share };
  if (typeof dimension !== "number") return null;
  const here = live.encoded?.concepts.find((place) => place.concept === concept)?.coordinates[dimension];
  const there = typeof to === "number" ? to : here === undefined || typeof by !== "number" ? null : here + by;
  return there === null ? null : { concept, dimension, to: Number(there.toFixed(5)) };
}

/**
 * "newer, more comedy" in the words of these items.
 * @param {GeneralEffect[]} effects
 */
function example(effects) {
  const values = effects.flatMap(({ value }) => (value === null ? [] : [anything(value).toLowerCase()]));
  const number = effects.find(({ more }) => more !== "more");
  const parts = [number?.more, values[0] && `more ${values[0]}`].filter(Boolean);
  return parts.join(", ") || "more popular";
}
