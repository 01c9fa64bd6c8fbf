// @ts-check
// What stands over the map: tools, the tooltip, the card of one item, what to do with several.

import { append, clear, h, iconButton } from "../core/dom.js";
import { count } from "../core/format.js";
import { conceptTags, thumb, titleOf } from "../core/items.js";

/** @import { Item } from "#types" */
/** @import { XY } from "./marks.js" */

/** @param {{ zoom: (factor: number) => void, fit: () => void, outline: (isOn: boolean) => void }} does */
export function toolbar(does) {
  /** @type {HTMLElement} */
  const outline = iconButton("lasso", "Select several (or drag with Shift)", () => {
    const isOn = outline.getAttribute("aria-pressed") !== "true";
    outline.setAttribute("aria-pressed", String(isOn));
    does.outline(isOn);
  }, { "aria-pressed": "false" });
  return h(
    "div",
    { class: "map-tools", role: "group", "aria-label": "View" },
    iconButton("add", "Zoom in", () => does.zoom(1.7)),
    iconButton("remove", "Zoom out", () => does.zoom(1 / 1.7)),
    iconButton("fit", "Show everything", does.fit),
    outline,
  );
}

/**
 * The panel around the stage and its legend.
 * @param {Record<"search" | "by" | "withPicks" | "stage" | "key", HTMLElement>} parts
 */
export function frame({ search, by, withPicks, stage, key }) {
  return h(
    "section",
    { class: "map", "aria-labelledby": "map-title" },
    h(
      "header",
      {},
      h("h2", { id: "map-title", text: "Map" }),
      h("p", { class: "lede", text: "Every dot is an item; items chosen by the same people lie close together. Rings mark your history, discs mark your place in each concept." }),
    ),
    h(
      "div",
      { class: "map-controls" },
      h("div", { class: "map-search" }, search),
      h("div", { class: "map-choice" }, h("label", { for: "map-by", text: "Colour by" }), by),
      h("div", { class: "map-choice" }, withPicks, h("label", { for: "map-picks", text: "Your picks ◇" })),
    ),
    h("div", { class: "map-body" }, stage, key),
    h("p", {
      class: "map-help", id: "map-help",
      text: "Drag to move, scroll or pinch to zoom, drag with Shift to select several. Keys: arrows move, + and − zoom, 0 shows everything, Enter opens the item nearest the middle.",
    }),
  );
}

export class Tip {
  element = h("div", { class: "map-tip", role: "tooltip", hidden: true });

  /** @param {Item} item @param {XY} at @param {{ width: number, height: number }} stage */
  show(item, at, stage) {
    append(clear(this.element), thumb(item, { size: 64, lazy: false }), h("div", {}, h("strong", { text: titleOf(item) }), conceptTags(item)));
    this.element.hidden = false;
    putBeside(this.element, at, stage);
  }

  hide() {
    this.element.hidden = true;
  }
}

export class ItemBox {
  element = h("div", { class: "map-card", hidden: true, role: "dialog", "aria-label": "Item" });

  get isOpen() {
    return !this.element.hidden;
  }

  /** @param {Item} item @param {{ isInHistory: boolean, change: () => void, more: () => void, close: () => void }} does */
  show(item, { isInHistory, change, more, close }) {
    append(
      clear(this.element),
      thumb(item, { size: 88, lazy: false }),
      h(
        "div",
        { class: "map-about" },
        h("strong", { text: titleOf(item) }),
        conceptTags(item),
        h(
          "div",
          { class: "map-buttons" },
          h("button", { type: "button", class: "button primary", text: isInHistory ? "Remove from your history" : "Add to your history", on: { click: change } }),
          h("button", { type: "button", class: "button", text: "More", on: { click: more } }),
        ),
      ),
      iconButton("close", "Close", close, { class: "small map-close" }),
    );
    this.element.hidden = false;
  }

  hide() {
    this.element.hidden = true;
  }

  focus() {
    this.element.querySelector("button")?.focus({ preventScroll: true });
  }

  /** @param {XY} at @param {{ width: number, height: number }} stage */
  put(at, stage) {
    if (this.isOpen) putBeside(this.element, at, stage);
  }
}

export class Selection {
  element = h("div", { class: "map-chosen", hidden: true, role: "group", "aria-label": "Selected items" });

  get isOpen() {
    return !this.element.hidden;
  }

  /**
   * @param {{ id: string, concept: number }[]} items
   * @param {{ fresh: number, room: number, add: (n: number) => void, drop: () => void }} does
   *   fresh: how many are not in the history; room: how many it can take
   */
  show(items, { fresh, room, add, drop }) {
    const some = Math.min(fresh, room);
    append(
      clear(this.element),
      h("strong", { text: `${count(items.length, "item")} selected` }),
      h("span", { class: "map-few", "aria-hidden": "true" }, items.slice(0, 5).map((item) => thumb(item, { size: 36 }))),
      h("button", {
        type: "button", class: "button primary", disabled: some === 0,
        text: some < fresh ? `Add the first ${some}` : "Add to your history", on: { click: () => add(some) },
      }),
      h("button", { type: "button", class: "button", text: "Clear", on: { click: drop } }),
    );
    this.element.hidden = false;
  }

  hide() {
    this.element.hidden = true;
  }
}

/**
 * Puts a box beside a place, inside the stage.
 * @param {HTMLElement} box
 * @param {XY} at
 * @param {{ width: number, height: number }} stage
 */
function putBeside(box, [x, y], { width, height }) {
  const left = x + 18 + box.offsetWidth < width - 8 ? x + 18 : x - 18 - box.offsetWidth;
  box.style.left = `${Math.max(8, Math.min(width - box.offsetWidth - 8, left))}px`;
  box.style.top = `${Math.max(8, Math.min(height - box.offsetHeight - 8, y - box.offsetHeight / 2))}px`;
}
