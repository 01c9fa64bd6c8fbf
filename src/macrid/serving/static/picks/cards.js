// @ts-check
// Lists of cards; those that stay are moved, not made again.

import { conceptColour } from "../core/colours.js";
import { h, isCalm } from "../core/dom.js";
import { percent } from "../core/format.js";
import { ItemCard } from "../core/items.js";
import { isPinned, toggleExcluded, togglePin } from "../rules/chosen.js";
import { changes } from "./changes.js";

/** @import { App, List, Scored } from "#types" */

export class Cards {
  element;
  #app;
  /** @type {Map<string, ItemCard>} */
  #cards = new Map();
  /** @type {Map<string, { list: HTMLElement, element: HTMLElement, share: HTMLElement }>} */
  #sections = new Map();

  /** @param {App} app @param {string} label */
  constructor(app, label) {
    this.#app = app;
    this.element = h("div", { class: "lists", role: "region", "aria-label": label });
  }

  /** @param {List[]} lists */
  draw(lists) {
    const were = new Map([...this.#cards].map(([key, { element }]) => [key, element.getBoundingClientRect()]));
    /** @type {Map<string, ItemCard>} */
    const cards = new Map();
    const sections = lists.map(({ concept, items, moved, share }) => {
      const section = this.#section(concept, lists.length > 1 || share !== undefined);
      section.share.textContent = share === undefined ? "" : percent(share);
      const changed = changes(moved);
      const elements = items.map((item, place) => {
        const key = `${concept}/${item.id}`;
        const card = this.#cards.get(key) ?? this.#card(item);
        cards.set(key, card);
        card.update({ rank: place + 1, change: changed.get(item.id) ?? null, isInHistory: this.#app.isInHistory(item.id), isPinned: isPinned(this.#app, item.id) });
        return card.element;
      });
      const { scrollLeft } = section.list; // which snapping would change
      arrange(section.list, elements);
      section.list.scrollLeft = scrollLeft;
      if (!elements.length) section.list.replaceChildren(h("p", { class: "state", text: "Nothing left to recommend here. Loosen a rule, or move a slider back." }));
      return section.element;
    });
    arrange(this.element, sections);
    this.#cards = cards;
    this.#animate(were);
  }

  /**
   * Bring the row of a concept whose knob is turned into view.
   * @param {number | null} concept
   */
  reveal(concept) {
    const row = this.element.children.length > 1 && this.element.querySelector(`.list[data-concept="${concept}"]`);
    if (!row) return;
    const { top, bottom } = row.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) row.scrollIntoView({ block: "center", behavior: isCalm() ? "auto" : "smooth" });
  }

  /** @param {Scored} item */
  #card(item) {
    const app = this.#app;
    return new ItemCard(item, {
      open: () => app.openItem(item.id),
      like: () => (app.isInHistory(item.id) ? app.removeFromHistory(item.id) : app.moreLike(item.id)),
      pin: () => togglePin(app, item.id),
      exclude: () => toggleExcluded(app, item.id),
    });
  }

  /**
   * @param {number | null} concept
   * @param {boolean} isRow one of several
   */
  #section(concept, isRow) {
    const key = `${concept}/${isRow}/${this.#app.card.digest}`;
    const known = this.#sections.get(key);
    if (known) return known;
    const label = this.#app.label(concept);
    const list = h("div", { class: isRow ? "strip" : "grid", ...(isRow && { tabindex: "0", role: "group", "aria-label": label }) });
    const share = h("span", { class: "quiet" });
    const head = isRow && h(
      "h3",
      { class: "row-head" },
      h("span", { class: "dot", style: { "--c": conceptColour(concept) } }),
      h("button", {
        type: "button", class: "row-name", text: label, title: `Only ${label}, with its sliders`,
        on: { click: () => this.#app.store.step({ concept, list: "concept" }) },
      }),
      share,
    );
    const section = { list, share, element: h("div", { class: "list", "data-concept": concept }, head, list) };
    this.#sections.set(key, section);
    return section;
  }

  /**
   * From where each card was to where it is.
   * @param {Map<string, DOMRect>} were
   */
  #animate(were) {
    if (isCalm() || !were.size || this.element.offsetParent === null) return;
    /** @type {[HTMLElement, Keyframe[]][]} */
    const moves = [];
    for (const [key, { element }] of this.#cards) {
      element.getAnimations().forEach((animation) => animation.cancel());
      const [from, to] = [were.get(key), element.getBoundingClientRect()];
      if (to.top > innerHeight || to.bottom < 0) continue;
      if (!from?.width) moves.push([element, [{ opacity: 0, transform: "scale(.92)" }, { opacity: 1, transform: "none" }]]);
      else if (from.left !== to.left || from.top !== to.top) {
        moves.push([element, [{ transform: `translate(${from.left - to.left}px, ${from.top - to.top}px)` }, { transform: "none" }]]);
      }
    }
    for (const [element, frames] of moves) element.animate(frames, { duration: 260, easing: "cubic-bezier(.2, .7, .2, 1)" });
  }
}

/**
 * Make these the children, touching only what differs.
 * @param {Element} parent
 * @param {Element[]} nodes
 */
function arrange(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  nodes.forEach((node, at) => {
    if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null);
  });
}
