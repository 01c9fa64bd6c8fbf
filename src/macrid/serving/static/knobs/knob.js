// @ts-check
// One knob: a dimension of a group as a slider over the real customers, with named ends.

import { conceptColour } from "../core/colours.js";
import { h, iconButton, svg } from "../core/dom.js";
import { anything, number, pValue } from "../core/format.js";
import { thumbButton } from "../core/items.js";
import { withMove, without } from "../core/moves.js";

/** @import { App, Dimension, Move, Place, Props } from "#types" */

const ENDS = 3; // example items at each end
const STEPS = 200;
const CLOSE = 0.6; // strength from which a name fits closely
const LOOSE = 0.4;

/**
 * A slider that shows where it started, and says when it is dragged and when it is let go.
 * @param {Props} props
 * @param {{ drag: (value: number) => void, drop: (value: number) => void }} does
 */
export function slider(props, { drag, drop }) {
  const input = h("input", { type: "range", class: "slider", ...props });
  input.addEventListener("input", () => drag(Number(input.value)));
  input.addEventListener("change", () => drop(Number(input.value)));
  return {
    input,
    /**
     * @param {number} from parts of the way, from 0 to 1
     * @param {number} to
     */
    fill: (from, to) => {
      input.style.setProperty("--from", String(from));
      input.style.setProperty("--to", String(to));
    },
  };
}

export class Knob {
  element;
  /** @type {App} */
  #app;
  #slider;
  #you = h("span", { class: "here", hidden: true }, h("span", { text: "now" }));
  #reset;

  /** @param {App} app @param {Dimension} dimension */
  constructor(app, dimension) {
    this.#app = app;
    this.dimension = dimension;
    const [low, high] = dimension.range;
    const { concept, label } = dimension;
    this.#slider = slider({ min: low, max: high, step: (high - low) / STEPS, "aria-label": `${label}, ${app.label(concept)}` }, {
      drag: (to) => app.store.drag(this.#patch(to)),
      drop: (to) => this.#step(to),
    });
    this.#reset = iconButton("reset", `Reset ${label}`, () => this.#step(null), { class: "small" });
    /** @type {HTMLElement} */
    const head = h(
      "div",
      { class: "knob-head" },
      h("h4", { text: label }),
      app.card.can_rename && iconButton("pencil", `Rename ${label}`, async () => (await import("./rename.js")).renameDimension(app, dimension, head), { class: "small" }),
      this.#reset,
    );
    this.element = h(
      "section",
      { class: "knob", style: { "--c": conceptColour(concept) } },
      head,
      h("div", { class: "track" }, histogram(dimension), this.#slider.input, this.#you),
      h("div", { class: "ends" }, this.#end("low"), this.#end("high")),
      dimension.effect?.label && h("p", { class: "quiet effect", text: `All the way: ${dimension.effect.label}` }),
      evidence(dimension),
    );
  }

  /**
   * @param {Place | null} place the user's place in the concept, without moves
   * @param {Move | undefined} move
   */
  update(place, move) {
    const [low, high] = this.dimension.range;
    const inside = (/** @type {number} */ value) => Math.min(Math.max(value, low), high);
    const part = (/** @type {number} */ value) => (high > low ? (value - low) / (high - low) : 0.5);
    const { input, fill } = this.#slider;
    const from = place && inside(place.coordinates[this.dimension.dimension]);
    input.disabled = from === null;
    this.#reset.disabled = !move;
    this.#reset.classList.toggle("is-idle", !move);
    this.element.classList.toggle("is-moved", Boolean(move));
    this.#you.hidden = from === null;
    if (from === null) {
      input.value = String((low + high) / 2);
      input.setAttribute("aria-valuetext", "unknown");
      fill(0.5, 0.5);
      return;
    }
    const to = move?.to === undefined ? from : inside(move.to);
    if (document.activeElement !== input || Number(input.value) !== to) input.value = String(to);
    fill(part(from), part(to));
    this.#you.style.setProperty("--at", String(part(from)));
    this.#you.classList.toggle("is-far", part(from) > 0.8);
    input.setAttribute("aria-valuetext", this.#inWords(part(to), part(from)));
  }

  /** @param {number} to @param {number} from */
  #inWords(to, from) {
    const { low, high, name } = this.dimension;
    const [one, other] = name === null ? ["one end", "the other end"] : [low || "low", high || "high"];
    const where = `${Math.round(100 * to)} percent of the way from ${one} to ${other}`;
    return to === from ? `${where}, where the customer is` : `${where}; the customer is at ${Math.round(100 * from)}`;
  }

  /** @param {number | null} to */
  #step(to) {
    this.#app.store.step(this.#patch(to), `knob-${this.dimension.concept}-${this.dimension.dimension}`);
  }

  /** @param {number | null} to */
  #patch(to) {
    const { concept, dimension } = this.dimension;
    const { moves } = this.#app.store.get();
    return {
      moves: to === null ? without(moves, { concept, dimension }) : withMove(moves, { concept, dimension, to: Number(to.toFixed(5)) }),
      concept,
    };
  }

  /** @param {"low" | "high"} which */
  #end(which) {
    const { examples, concept } = this.dimension;
    return h(
      "div",
      { class: `end ${which}` },
      h("span", { class: "end-name", text: this.dimension[which] || which }),
      h(
        "span",
        { class: "end-items" },
        (examples[which] ?? []).slice(0, ENDS).map((item) => thumbButton({ ...item, concept }, this.#app.openItem, { size: 36 })),
      ),
    );
  }
}

/**
 * Where real users are, over the range of the slider.
 * @param {Dimension} dimension
 */
function histogram({ histogram: { low, high, counts, of }, range }) {
  const most = Math.max(...counts, 1);
  const width = (high - low) / counts.length;
  const x = (/** @type {number} */ value) => (100 * (value - range[0])) / (range[1] - range[0] || 1);
  const points = counts.map((count, bin) => `${x(low + (bin + 0.5) * width).toFixed(2)},${(30 - (28 * count) / most).toFixed(2)}`);
  const outline = `M${x(low).toFixed(2)},30 L${points.join(" L")} L${x(high).toFixed(2)},30 Z`;
  return svg(
    "svg",
    { class: "histogram", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": `Where other ${of === "users" ? "customers" : of} are` },
    svg("path", { d: outline }),
  );
}

/** @param {Dimension} dimension */
function evidence(dimension) {
  const rows = dimension.evidence.slice(0, 5).map(({ attribute, correlation, p }) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: anything(attribute) }),
      h("td", { text: typeof correlation === "number" ? number(Math.abs(correlation)) : "–" }),
      h("td", { text: typeof p === "number" ? pValue(p) : "–" }),
    ),
  );
  return h(
    "details",
    { class: "evidence" },
    h("summary", { text: "Details" }),
    h("p", { text: reason(dimension) }),
    h("p", { text: `The shape shows where other ${dimension.histogram.of === "users" ? "customers" : dimension.histogram.of} are.` }),
    h("p", { text: `Dimension ${dimension.dimension} of concept ${dimension.concept}.` }),
    rows.length > 0 &&
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ["Attribute", "Strength", "p-value"].map((text) => h("th", { scope: "col", text })))),
        h("tbody", {}, rows),
      ),
  );
}

/**
 * Why it is called what it is called: "Follows the Horror genre closely (0.83 of 1, checked on items it was not found on)."
 * @param {Dimension} dimension
 */
export function reason({ name, why, edited, attribute, strength, cross_validated: isCrossValidated }) {
  if (name === null) return why ?? "Nothing that is known about the items follows this slider closely enough to name it.";
  if (edited) return "Named by a person.";
  const [column, value] = (attribute ?? "").split(/: (.*)/s);
  const what = !attribute ? "what its items share" : value ? `${value} (${column})` : column;
  if (strength === null) return `Named after ${what}.`;
  const how = strength >= CLOSE ? "closely" : strength >= LOOSE ? "loosely" : "faintly";
  return `Follows ${what} ${how} (${number(strength)} of 1${isCrossValidated ? ", checked on items it was not found on" : ""}).`;
}
