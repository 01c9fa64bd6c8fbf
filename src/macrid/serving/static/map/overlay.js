// @ts-check
// What stands over the map: tools, the tooltip, the card of one item; and the frame around it.

import { append, clear, h, iconButton } from "../core/dom.js";
import { number } from "../core/format.js";
import { conceptTags, thumb, titleOf } from "../core/items.js";

/** @import { Item } from "#types" */
/** @import { XY } from "./marks.js" */

/** @param {{ zoom: (factor: number) => void, fit: () => void, outline: (isOn: boolean) => void }} does */
export function toolbar(does) {
  /** @type {HTMLElement} */
  const outline = iconButton("lasso", "Draw around items (or drag with Shift)", () => {
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
 * The panel around the stage, the segment that is open, the legend, and the segments that are kept.
 * @param {Record<"search" | "by" | "withPicks" | "stage" | "segment" | "key" | "kept", HTMLElement>} parts
 */
export function frame({ search, by, withPicks, stage, segment, key, kept }) {
  return h(
    "section",
    { class: "map", "aria-labelledby": "map-title" },
    h(
      "header",
      {},
      h("h2", { id: "map-title", text: "Map" }),
      h("p", { class: "lede", text: "Every dot is an item; items chosen by the same customers lie close together. Rings: the history. Discs: where this customer is in each group." }),
    ),
    h(
      "div",
      { class: "map-controls" },
      h("div", { class: "map-search" }, search),
      h("div", { class: "map-choice" }, h("label", { for: "map-by", text: "Colour by" }), by),
      h("div", { class: "map-choice" }, withPicks, h("label", { for: "map-picks", text: "Recommendations ◇" })),
    ),
    h("div", { class: "map-body" }, stage, segment, key, kept),
    h("p", {
      class: "map-help", id: "map-help",
      text: "Drag to move, scroll or pinch to zoom, drag with Shift to draw around items. Keys: arrows move, + and − zoom, 0 shows everything, Enter opens the item nearest the middle.",
    }),
  );
}

export class Tip {
  element = h("div", { class: "map-tip", role: "tooltip", hidden: true });

  /** @param {Item} item @param {XY} at @param {{ width: number, height: number }} stage */
  show(item, at, stage) {
    append(clear(this.element), thumb(item, { size: 64, lazy: false }), h("div", {}, h("strong", { dir: "auto", text: titleOf(item) }), conceptTags(item)));
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
        h("strong", { dir: "auto", text: titleOf(item) }),
        conceptTags(item),
        h(
          "div",
          { class: "map-buttons" },
          h("button", { type: "button", class: "button primary", text: isInHistory ? "Remove from history" : "Add to history", on: { click: change } }),
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

/** On a small screen, where the panel of a segment is below the map: what is selected, and a way there. */
export class Selection {
  element = h("div", { class: "map-chosen", hidden: true, role: "group", "aria-label": "Selected items" });

  /** @param {number} items @param {{ look: () => void, drop: () => void }} does */
  show(items, { look, drop }) {
    append(
      clear(this.element),
      h("strong", { text: `${number(items)} selected` }),
      h("button", { type: "button", class: "button primary", text: "What are they?", on: { click: look } }),
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
