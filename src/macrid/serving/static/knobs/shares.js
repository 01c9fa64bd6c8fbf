// @ts-check
// How much of each concept is recommended, as sliders.

import { conceptColour } from "../core/colours.js";
import { h, iconButton } from "../core/dom.js";
import { percent } from "../core/format.js";
import { isSame, moveOf, withMove, without } from "../core/moves.js";
import { slider } from "./knob.js";

/** @import { App, Move } from "#types" */

export class Shares {
  element = h("section", { class: "shares", "aria-labelledby": "shares-title" });
  /** @type {App} */
  #app;
  /** @type {Map<number, ShareRow>} */
  #rows = new Map();
  #digest = "";

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
  }

  draw() {
    const { card, live, store } = this.#app;
    if (this.#digest !== card.digest) {
      this.#digest = card.digest;
      this.#rows = new Map(card.concepts.map(({ concept }) => [concept, new ShareRow(this.#app, concept)]));
      this.element.replaceChildren(
        h("h3", { id: "shares-title", text: "How much of each" }),
        h("p", { class: "quiet", text: "Each concept's share of the recommendations. An item can belong to several concepts, so the list may not match exactly." }),
        ...[...this.#rows.values()].map((row) => row.element),
      );
    }
    const { moves } = store.get();
    const unmoved = new Map((live.encoded?.concepts ?? []).map((place) => [place.concept, place.recommended]));
    // The slider that is being moved must not go back to what was answered to an earlier move.
    const isBehind = !isSame(live.asked, moves);
    for (const [concept, row] of this.#rows) {
      const from = unmoved.get(concept) ?? null;
      const move = moveOf(moves, { concept });
      const isNewest = isBehind && move !== undefined && move === moves.at(-1);
      row.update(from, isNewest ? (move.share ?? null) : moves.length && live.shares ? live.shares[concept] : from, move);
    }
  }
}

class ShareRow {
  element;
  /** @type {App} */
  #app;
  /** @type {number} */
  #concept;
  #slider;
  #value = h("output", { class: "share-value" });
  #reset;
  #from = /** @type {number | null} */ (null);
  #isHeld = false;

  /** @param {App} app @param {number} concept */
  constructor(app, concept) {
    [this.#app, this.#concept] = [app, concept];
    const label = app.label(concept);
    this.#reset = iconButton("reset", `Reset the share of ${label}`, () => this.#step(null), { class: "small share-reset" });
    this.#slider = slider({ min: 0, max: 1, step: 0.005, "aria-label": `share of ${label}` }, {
      drag: (share) => {
        this.#isHeld = true;
        this.#show(share);
        app.store.drag(this.#patch(share));
      },
      drop: (share) => {
        this.#isHeld = false;
        this.#step(share);
      },
    });
    this.element = h(
      "div",
      { class: "share-row", style: { "--c": conceptColour(concept) } },
      h("span", { class: "share-name" }, h("span", { class: "dot" }), h("span", { text: label })),
      this.#slider.input,
      this.#value,
      this.#reset,
    );
  }

  /**
   * @param {number | null} from without moves
   * @param {number | null} to
   * @param {Move | undefined} move
   */
  update(from, to, move) {
    this.#from = from;
    this.#slider.input.disabled = from === null;
    this.#reset.classList.toggle("is-idle", !move);
    this.#reset.disabled = !move;
    if (this.#isHeld) return;
    this.#slider.input.value = String(to ?? 0);
    this.#show(to);
  }

  /** @param {number | null} share */
  #show(share) {
    this.#value.textContent = share === null ? "" : percent(share);
    this.#slider.input.setAttribute("aria-valuetext", share === null ? "unknown" : `${percent(share)} of the recommendations`);
    this.#slider.fill(this.#from ?? share ?? 0, share ?? 0);
  }

  /** @param {number | null} share */
  #step(share) {
    this.#app.store.step(this.#patch(share), `share-${this.#concept}`);
  }

  /** @param {number | null} share */
  #patch(share) {
    const concept = this.#concept;
    const { moves, list } = this.#app.store.get();
    return {
      moves: share === null ? without(moves, { concept }) : withMove(moves, { concept, share }),
      list: list === "concept" ? /** @type {const} */ ("overall") : list,
    };
  }
}
