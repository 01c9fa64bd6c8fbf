// @ts-check
// How much of the list comes from each group: one stacked bar, whose parts can be dragged wider or narrower.

import { conceptColour } from "../core/colours.js";
import { h, iconButton } from "../core/dom.js";
import { percent } from "../core/format.js";
import { isSame, moveOf, withMove, without } from "../core/moves.js";

/** @import { App, Move } from "#types" */

/** @type {Record<string, number>} What keys add to a share. */
const STEPS = { ArrowRight: 0.01, ArrowUp: 0.01, ArrowLeft: -0.01, ArrowDown: -0.01, PageUp: 0.1, PageDown: -0.1, Home: -1, End: 1 };
const WORTH_A_LABEL = 0.12; // parts narrower than that have no room for their percentage

export class Shares {
  element = h("section", { class: "shares", "aria-labelledby": "shares-title" });
  /** @type {App} */
  #app;
  /** @type {Map<number, Part>} */
  #parts = new Map();
  #bar = h("div", { class: "shares-bar" });
  #digest = "";

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
  }

  draw() {
    const { card, live, store } = this.#app;
    if (this.#digest !== card.digest) {
      this.#digest = card.digest;
      this.#parts = new Map(card.concepts.map(({ concept }) => [concept, new Part(this.#app, concept, this.#bar)]));
      const parts = [...this.#parts.values()];
      this.#bar.replaceChildren(...parts.map(({ element }) => element));
      this.element.replaceChildren(
        h("h3", { id: "shares-title", text: "How much of the list comes from each group" }),
        h("p", { class: "quiet", text: "Drag a colour wider or narrower; the others make room." }),
        this.#bar,
        h("ul", { class: "shares-list" }, parts.map(({ row }) => row)),
        h("details", { class: "evidence" }, h("summary", { text: "Details" }),
          h("p", { text: "Shares of the total probability, by concept. An item can belong to several groups, so the groups of the listed items may not match exactly." })),
      );
    }
    const { moves } = store.get();
    const unmoved = new Map((live.encoded?.concepts ?? []).map((place) => [place.concept, place.recommended]));
    // The part that is being moved must not go back to what was answered to an earlier move.
    const isBehind = !isSame(live.asked, moves);
    for (const [concept, part] of this.#parts) {
      const from = unmoved.get(concept) ?? null;
      const move = moveOf(moves, { concept });
      const isNewest = isBehind && move !== undefined && move === moves.at(-1);
      part.update(from, isNewest ? (move.share ?? null) : moves.length && live.shares ? live.shares[concept] : from, move);
    }
  }
}

class Part {
  /** @type {App} */
  #app;
  /** @type {number} */
  #concept;
  #label = h("span", { class: "part-value", "aria-hidden": "true" });
  #value = h("output", { class: "share-value" });
  #reset;
  #share = 0;
  #isHeld = false;

  /** @param {App} app @param {number} concept @param {HTMLElement} bar */
  constructor(app, concept, bar) {
    [this.#app, this.#concept] = [app, concept];
    const label = app.label(concept) ?? "";
    const style = { "--c": conceptColour(concept) };
    this.#reset = iconButton("reset", `Reset the share of ${label}`, () => this.#step(null), { class: "small share-reset" });
    this.element = h(
      "div",
      { class: "part", role: "slider", tabindex: "0", "aria-label": `share of ${label}`, "aria-valuemin": 0, "aria-valuemax": 100, style, on: { keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event) } },
      this.#label,
    );
    this.row = h("li", { class: "share-row", style }, h("span", { class: "dot" }), h("span", { class: "share-name", dir: "auto", text: label }), this.#value, this.#reset);
    this.#listen(bar);
  }

  /**
   * @param {number | null} from without moves
   * @param {number | null} to
   * @param {Move | undefined} move
   */
  update(from, to, move) {
    this.element.setAttribute("aria-disabled", String(from === null));
    this.#reset.classList.toggle("is-idle", !move);
    this.#reset.disabled = !move;
    if (!this.#isHeld) this.#show(to ?? 0, to === null);
  }

  /** @param {number} share */
  #show(share, isUnknown = false) {
    this.#share = share;
    const text = isUnknown ? "" : percent(share);
    this.element.style.setProperty("flex-grow", String(Math.max(share, 1e-6)));
    this.element.setAttribute("aria-valuenow", String(Math.round(100 * share)));
    this.element.setAttribute("aria-valuetext", isUnknown ? "unknown" : `${text} of the list`);
    this.element.title = `${this.#app.label(this.#concept)}: ${text}`;
    this.#value.textContent = text;
    this.#label.textContent = share >= WORTH_A_LABEL ? text : "";
  }

  /** @param {HTMLElement} bar */
  #listen(bar) {
    let [start, share] = [0, 0];
    const at = (/** @type {PointerEvent} */ event) => inside(share + (event.clientX - start) / bar.clientWidth);
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || this.element.getAttribute("aria-disabled") === "true") return;
      this.element.setPointerCapture(event.pointerId);
      [start, share, this.#isHeld] = [event.clientX, this.#share, true];
    });
    this.element.addEventListener("pointermove", (event) => {
      if (!this.#isHeld || event.clientX === start) return;
      this.#show(at(event));
      this.#app.store.drag(this.#patch(at(event)));
    });
    this.element.addEventListener("pointerup", (event) => {
      if (!this.#isHeld) return;
      this.#isHeld = false;
      if (event.clientX !== start) this.#step(at(event));
    });
    this.element.addEventListener("pointercancel", () => (this.#isHeld = false));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const by = STEPS[event.key];
    if (by === undefined || this.element.getAttribute("aria-disabled") === "true") return;
    event.preventDefault();
    const share = inside(this.#share + by);
    this.#show(share);
    this.#step(share);
  }

  /** @param {number | null} share */
  #step(share) {
    this.#app.store.step(this.#patch(share), `share-${this.#concept}`);
  }

  /** @param {number | null} share */
  #patch(share) {
    const concept = this.#concept;
    const { moves } = this.#app.store.get();
    return { moves: share === null ? without(moves, { concept }) : withMove(moves, { concept, share: Number(share.toFixed(5)) }) };
  }
}

/** @param {number} share */
const inside = (share) => Math.min(Math.max(share, 0), 1);
