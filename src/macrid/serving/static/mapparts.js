// Parts of the map that stand over it: tools, the tooltip, the card of one item, what to do with several.

import { h, icon, svg } from "./dom.js";
import { count } from "./format.js";
import { conceptTag, thumb, titleOf } from "./items.js";

const PATHS = {
  in: "M10 4v12M4 10h12",
  out: "M4 10h12",
  fit: "M3 7V3h4M13 3h4v4M17 13v4h-4M7 17H3v-4",
  lasso: "M10 4c4 0 7 1.8 7 4.2S14 12.5 10 12.5 3 10.7 3 8.2 6 4 10 4zM6 12c-1.5 1-1.5 3 .3 3.2 1.5.2 1 2.3-.8 2.3",
};

/** does: {zoom(factor), fit(), outline(isOn)} */
export function toolbar(does) {
  const outline = tool("lasso", "Select several (or drag with Shift)", () => {
    const isOn = outline.getAttribute("aria-pressed") !== "true";
    outline.setAttribute("aria-pressed", String(isOn));
    does.outline(isOn);
  });
  outline.setAttribute("aria-pressed", "false");
  return h(
    "div",
    { class: "map-tools", role: "group", "aria-label": "View" },
    tool("in", "Zoom in", () => does.zoom(1.7)),
    tool("out", "Zoom out", () => does.zoom(1 / 1.7)),
    tool("fit", "Show everything", does.fit),
    outline,
  );
}

function tool(name, label, click) {
  return h(
    "button",
    { type: "button", class: "icon-button", "aria-label": label, title: label, "data-testid": `map-${name}`, on: { click: () => click() } },
    svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: PATHS[name] })),
  );
}

/** The panel around the stage and its legend. */
export function frame({ search, by, withPicks, stage, key }) {
  return h(
    "section",
    { class: "map", "aria-labelledby": "map-title" },
    h(
      "header",
      {},
      h("h2", { id: "map-title", text: "Map" }),
      h("p", { class: "lede", text: "Every dot is an item; items that the same people choose lie close together. Rings are your history, discs are where you are." }),
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
      text: "Drag to move, scroll or pinch to zoom, drag with Shift to select several. Keys: arrows move, + and − zoom, 0 shows everything, Enter takes the item nearest to the middle.",
    }),
  );
}

export function tipParts(item) {
  return [thumb(item, { size: 64, lazy: false }), h("div", {}, h("strong", { text: titleOf(item) }), conceptTag(item))];
}

export function cardParts(item, { isIn, change, more, close }) {
  return [
    thumb(item, { size: 88, lazy: false }),
    h(
      "div",
      { class: "map-about" },
      h("strong", { text: titleOf(item) }),
      conceptTag(item),
      h(
        "div",
        { class: "map-buttons" },
        h("button", { type: "button", class: "button primary", "data-testid": "map-add", text: isIn ? "Remove from history" : "Add to history", on: { click: change } }),
        h("button", { type: "button", class: "button", text: "More", on: { click: more } }),
      ),
    ),
    h("button", { type: "button", class: "icon-button small map-close", "aria-label": "Close", on: { click: close } }, icon("close")),
  ];
}

/** items: all that are selected, {id, concept}; fresh: how many are not in the history; room: how many it can take. */
export function selectionParts(items, { fresh, room, add, drop }) {
  const some = Math.min(fresh, room);
  return [
    h("strong", { text: `${count(items.length, "item")} selected` }),
    h("span", { class: "map-few", "aria-hidden": "true" }, items.slice(0, 5).map((item) => thumb({ title: null, ...item }, { size: 36 }))),
    h("button", { type: "button", class: "button primary", disabled: some === 0, "data-testid": "map-add-all",
      text: some < fresh ? `Add the first ${some}` : "Add to history", on: { click: () => add(some) } }),
    h("button", { type: "button", class: "button", text: "Clear", on: { click: drop } }),
  ];
}

/** Puts a box beside a place, inside a stage of a width and height. */
export function putBeside(box, x, y, { width, height }) {
  const left = x + 18 + box.offsetWidth < width - 8 ? x + 18 : x - 18 - box.offsetWidth;
  box.style.left = `${Math.max(8, Math.min(width - box.offsetWidth - 8, left))}px`;
  box.style.top = `${Math.max(8, Math.min(height - box.offsetHeight - 8, y - box.offsetHeight / 2))}px`;
}
