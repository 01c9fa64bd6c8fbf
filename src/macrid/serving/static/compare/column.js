// @ts-check
// One of two lists side by side; what is in both is joined by lines.

import { conceptColour } from "../core/colours.js";
import { h, svg } from "../core/dom.js";
import { failure, thumb, titleOf } from "../core/items.js";

/** @import { Answer } from "./ask.js" */
/** @import { Mark } from "./differences.js" */
/** @import { App, Scored } from "#types" */

const WORDS = { up: "higher", down: "lower" };

export class Column {
  list = h("div", { class: "compare-list" });
  element;
  #title = h("h3", { dir: "auto" });
  /** @type {App} */
  #app;

  /** @param {App} app @param {"left" | "right"} place */
  constructor(app, place) {
    this.#app = app;
    this.element = h("section", { class: `compare-column is-${place}`, "aria-label": place === "left" ? "Left list" : "Right list" }, this.#title, this.list);
  }

  /** @param {string} name */
  entitle(name) {
    this.#title.textContent = name;
  }

  /** @param {string} text */
  wait(text) {
    this.list.replaceChildren(h("p", { class: "state", text }));
  }

  /** @param {unknown} error @param {() => void} retry */
  fail(error, retry) {
    this.list.replaceChildren(failure(error, retry));
  }

  /** @param {Answer | null} answer @param {Map<string, Mark>} marks @param {string} other what to call the other list */
  draw(answer, marks, other) {
    if (!answer) return this.wait("Nobody is chosen yet. Choose a customer or some items under Recommendations.");
    const rows = answer.lists.filter(({ items }) => items.length);
    const isGrouped = answer.lists.length > 1;
    if (!rows.length) return this.wait("Nothing to recommend here.");
    this.list.replaceChildren(...rows.map(({ concept, items }) => h(
      "div",
      {},
      isGrouped && h("h4", { class: "row-head" }, h("span", { class: "dot", style: { "--c": conceptColour(concept) } }), answer.label(concept)),
      h("ol", {}, items.map((item, place) => this.#row(item, place + 1, answer, marks.get(item.id), other, isGrouped))),
    )));
  }

  /** @param {Scored} item @param {number} rank @param {Answer} answer @param {Mark | undefined} mark @param {string} other @param {boolean} isGrouped */
  #row(item, rank, answer, mark, other, isGrouped) {
    const label = isGrouped ? null : answer.label(item.concept);
    const place = !mark ? "" : mark.kind === "only" ? "only in this list" : mark.kind === "same" ? `the same place in the ${other} list` : `${mark.by} ${WORDS[mark.kind]} than in the ${other} list`;
    return h(
      "li",
      { class: `compare-row is-${mark?.kind ?? "only"}`, "data-id": item.id },
      h(
        "button",
        { type: "button", class: "compare-item", title: titleOf(item), on: { click: () => this.#app.openItem(item.id) } },
        h("span", { class: "compare-rank", text: rank }),
        thumb(answer.isOther ? { ...item, concept: null } : item, { size: 38 }),
        h(
          "span",
          { class: "compare-text" },
          h("span", { class: "compare-title", dir: "auto", text: titleOf(item) }),
          label && h("span", { class: "concept-tag" }, !answer.isOther && h("span", { class: "dot", style: { "--c": conceptColour(item.concept) } }), h("span", { class: "concept-label", text: label })),
        ),
        h("span", { class: "unseen", text: place }),
      ),
      mark && mark.kind !== "same" && h("span", { class: `compare-mark ${mark.kind}`, "aria-hidden": "true", title: place, text: mark.kind === "only" ? "only here" : `${mark.kind === "up" ? "↑" : "↓"} ${mark.by}` }),
    );
  }
}

export class Joins {
  element = svg("svg", { class: "compare-joins", "aria-hidden": "true" });

  /** @param {Column} left @param {Column} right */
  draw(left, right) {
    const { top, width } = this.element.getBoundingClientRect();
    if (!width) return;
    const middle = (/** @type {Element} */ row) => {
      const box = row.getBoundingClientRect();
      return box.top + box.height / 2 - top;
    };
    const there = new Map([...right.list.querySelectorAll(".compare-row")].map((row) => [/** @type {HTMLElement} */ (row).dataset.id, middle(row)]));
    this.element.replaceChildren(...[...left.list.querySelectorAll(".compare-row")].flatMap((row) => {
      const { id } = /** @type {HTMLElement} */ (row).dataset;
      const [from, to] = [middle(row), there.get(id)];
      if (to === undefined) return [];
      return [svg("path", { "data-id": id, class: from === to ? "" : from < to ? "down" : "up", d: `M0 ${from}C${width / 2} ${from} ${width / 2} ${to} ${width} ${to}` })];
    }));
  }
}
