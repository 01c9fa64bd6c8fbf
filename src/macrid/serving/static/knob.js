// One knob: a dimension as a slider over the real users, with named ends.

import { conceptColour } from "./colours.js";
import { h, iconButton, svg } from "./dom.js";
import { anything, number, pValue } from "./format.js";
import { thumbButton } from "./items.js";
import { renameDimension } from "./rename.js";

const ENDS = 3; // example items at each end
const STEPS = 200;

export class Knob {
  #app;
  #input;
  #you = h("span", { class: "here", hidden: true }, h("span", { text: "you" }));
  #reset;
  #from = null;

  constructor(app, dimension) {
    this.#app = app;
    this.dimension = dimension;
    const [low, high] = dimension.range;
    const { concept, dimension: j, label } = dimension;
    this.#input = h("input", {
      type: "range", class: "slider", min: low, max: high, step: (high - low) / STEPS, "data-testid": "knob", "data-concept": concept, "data-dimension": j,
      "aria-label": `${label}, ${app.label(concept)}`,
    });
    this.#input.addEventListener("input", () => this.#set(Number(this.#input.value), false));
    this.#input.addEventListener("change", () => this.#set(Number(this.#input.value), true));
    this.#reset = iconButton("reset", `Reset ${label}`, () => this.#set(null, true), { class: "small", "data-testid": "reset-knob" });
    const head = h(
      "div",
      { class: "knob-head" },
      h("h4", { text: label }),
      app.card.can_rename && iconButton("pencil", `Rename ${label}`, () => renameDimension(app, dimension, head), { class: "small" }),
      this.#reset,
    );
    this.element = h(
      "section",
      { class: "knob", style: { "--c": conceptColour(concept) }, "data-dimension": j },
      head,
      h("div", { class: "track" }, histogram(dimension), this.#input, this.#you),
      h("div", { class: "ends" }, this.#end("low"), this.#end("high")),
      evidence(dimension),
    );
  }

  /** place: where somebody is in the concept, without moves. */
  update(place, move) {
    const [low, high] = this.dimension.range;
    const inside = (value) => Math.min(Math.max(value, low), high);
    this.#from = place ? inside(place.coordinates[this.dimension.dimension]) : null;
    const to = move ? inside(move.to) : this.#from;
    this.#input.disabled = this.#from === null;
    this.#reset.disabled = !move;
    this.#reset.classList.toggle("is-idle", !move);
    this.element.classList.toggle("is-moved", Boolean(move));
    this.#you.hidden = this.#from === null;
    if (to === null) {
      this.#input.value = (low + high) / 2;
      this.#input.style.setProperty("--from", 0.5);
      this.#input.style.setProperty("--to", 0.5);
      this.#input.setAttribute("aria-valuetext", "unknown");
      return;
    }
    if (document.activeElement !== this.#input || Number(this.#input.value) !== to) this.#input.value = to;
    const part = (value) => (high > low ? (value - low) / (high - low) : 0.5);
    this.#input.style.setProperty("--from", part(this.#from));
    this.#input.style.setProperty("--to", part(to));
    this.#you.style.setProperty("--at", part(this.#from));
    this.#you.classList.toggle("is-far", part(this.#from) > 0.8);
    this.#input.setAttribute("aria-valuetext", this.#inWords(part(to), part(this.#from)));
  }

  #inWords(to, from) {
    const [low, high] = this.#ends();
    const where = `${Math.round(100 * to)} percent of the way from ${low} to ${high}`;
    return to === from ? `${where}, where you are` : `${where}; you are at ${Math.round(100 * from)}`;
  }

  #ends() {
    const { low, high, name } = this.dimension;
    return name === null ? ["one end", "the other end"] : [low || "low", high || "high"];
  }

  #set(to, push) {
    const { store } = this.#app;
    const { concept, dimension } = this.dimension;
    const { moves, list } = store.get();
    const others = moves.filter((move) => move.concept !== concept || move.dimension !== dimension);
    const next = to === null ? others : [...others, { concept, dimension, to: Number(to.toFixed(5)) }];
    const patch = { moves: next, concept, list: list === "overall" && to !== null ? "concept" : list };
    store.set(patch, push ? { push, key: `knob-${concept}-${dimension}` } : {});
  }

  #end(which) {
    const { examples, low, high } = this.dimension;
    const items = (examples[which] ?? []).slice(0, ENDS);
    return h(
      "div",
      { class: `end ${which}` },
      h("span", { class: "end-name", text: (which === "low" ? low : high) || (which === "low" ? "low" : "high") }),
      h(
        "span",
        { class: "end-items" },
        items.map((item) => thumbButton({ ...item, concept: this.dimension.concept }, this.#app.openItem, { size: 36 })),
      ),
    );
  }
}

/** Where real users are, over the range of the slider. */
function histogram({ histogram: { low, high, counts, of }, range }) {
  const most = Math.max(...counts, 1);
  const width = (high - low) / counts.length;
  const x = (value) => (100 * (value - range[0])) / (range[1] - range[0] || 1);
  const points = counts.map((count, bin) => `${x(low + (bin + 0.5) * width).toFixed(2)},${(30 - (28 * count) / most).toFixed(2)}`);
  const outline = `M${x(low).toFixed(2)},30 L${points.join(" L")} L${x(high).toFixed(2)},30 Z`;
  return svg(
    "svg",
    { class: "histogram", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": `Where real ${of} are` },
    svg("path", { d: outline }),
  );
}

function evidence(dimension) {
  const rows = dimension.evidence.slice(0, 5).map((one) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: anything(one.attribute) }),
      h("td", { text: typeof one.correlation === "number" ? number(Math.abs(one.correlation)) : "–" }),
      h("td", { text: typeof one.p === "number" ? pValue(one.p) : "–" }),
    ),
  );
  const said = dimension.name === null
    ? (dimension.why ?? "No attribute goes with it clearly enough to give it a name.")
    : dimension.edited
      ? "Named by a person."
      : `Named after ${dimension.attribute ?? "what its items share"}${dimension.strength === null ? "" : `: strength ${number(dimension.strength)}`}` +
        `${dimension.p === null ? "" : `, ${pValue(dimension.p)}`}${dimension.cross_validated ? ", checked on items it was not found on" : ""}.`;
  return h(
    "details",
    { class: "evidence" },
    h("summary", { text: "Evidence" }),
    h("p", { text: said }),
    rows.length > 0 &&
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Attribute" }), h("th", { scope: "col", text: "Strength" }), h("th", { scope: "col", text: "Chance" }))),
        h("tbody", {}, rows),
      ),
  );
}
