// @ts-check
// The stops as a film strip, with the scale below.

import { h } from "../core/dom.js";
import { thumb, titleOf } from "../core/items.js";
import { differsText, factOf } from "./kept.js";
import { startOf } from "./route.js";
import { scale } from "./scale.js";

/** @import { Item } from "#types" */
/** @import { Route } from "./route.js" */

export class Strip {
  element;
  #scroll;
  #frames;
  #marks;

  /**
   * @param {Route} route
   * @param {{ hasPictures: boolean, go: (to: number) => void, open: (id: string) => void, walkFrom: (id: string) => void, keys: (event: KeyboardEvent) => void }} does
   */
  constructor(route, does) {
    const { dimension, walk, items } = route;
    this.#frames = walk.items.map((stop, i) => frame(route, stop, items[i], i, does));
    const strip = h(
      "ol",
      { class: `walk-strip${does.hasPictures ? "" : " has-posters"}`, "aria-label": `${dimension.label}, from ${dimension.low} to ${dimension.high}`, on: { keydown: does.keys } },
      this.#frames.map(({ element }) => element),
    );
    const below = scale(route);
    this.#marks = [...below.querySelectorAll("[data-stop]")];
    this.#scroll = h("div", { class: "walk-scroll" }, h("div", { class: "walk-track", style: { "--stops": walk.items.length } }, strip, below));
    this.element = h(
      "div",
      { class: "walk-film" },
      h(
        "div",
        { class: "walk-axis" },
        h("span", { class: "walk-end", text: dimension.low }),
        h("span", { class: "walk-line", "aria-hidden": "true" }, h("span", { class: "walk-name", text: dimension.label })),
        h("span", { class: "walk-end", text: dimension.high }),
      ),
      this.#scroll,
    );
  }

  /** @param {number} current @param {{ hasFocus?: boolean, behavior?: ScrollBehavior }} [options] */
  show(current, { hasFocus = false, behavior = "smooth" } = {}) {
    this.#frames.forEach(({ element, open, from }, i) => {
      element.classList.toggle("is-current", i === current);
      open.tabIndex = i === current ? 0 : -1;
      if (from) from.tabIndex = i === current ? 0 : -1;
    });
    for (const mark of this.#marks) mark.classList.toggle("is-current", mark.getAttribute("data-stop") === String(current));
    const { element, open } = this.#frames[current];
    if (hasFocus) open.focus({ preventScroll: true });
    const { scrollWidth, clientWidth } = this.#scroll;
    if (scrollWidth > clientWidth) this.#scroll.scrollTo({ left: element.offsetLeft - (clientWidth - element.offsetWidth) / 2, behavior });
  }
}

/**
 * @param {Route} route
 * @param {Route["walk"]["items"][number]} stop
 * @param {Item} item
 * @param {number} i
 * @param {{ hasPictures: boolean, go: (to: number) => void, open: (id: string) => void, walkFrom: (id: string) => void }} does
 */
function frame(route, stop, item, i, does) {
  const fact = factOf(route.dimension, item);
  const differs = differsText(stop.differs, item, route.items[startOf(route)], route.dimension);
  const open = h(
    "button",
    {
      type: "button", class: "walk-frame", tabindex: "-1", title: titleOf(stop),
      "aria-label": [titleOf(stop), stop.start && "the start", fact?.join(" "), differs].filter(Boolean).join(", "),
      on: { click: () => (does.go(i), does.open(stop.id)), focus: () => does.go(i) },
    },
    thumb(item, { lazy: false }),
    stop.start && h("span", { class: "walk-start", text: "start" }),
    does.hasPictures && h("span", { class: "walk-title", dir: "auto", text: titleOf(stop) }),
    h(
      "span",
      { class: "walk-value" },
      fact && h("span", {}, `${fact[0]} `, h("b", { dir: "auto", text: fact[1] })),
      differs && h("span", { class: "walk-differs", dir: "auto", text: differs }),
    ),
  );
  const from = stop.start
    ? null
    : h("button", {
      type: "button", class: "walk-here link", tabindex: "-1", text: "Vary this", "aria-label": `Vary ${titleOf(stop)}`,
      on: { click: () => does.walkFrom(stop.id) },
    });
  const element = h(
    "li",
    { class: `walk-stop${stop.start ? " is-start" : ""}`, "data-id": stop.id },
    open,
    from ?? h("span", { class: "walk-here", "aria-hidden": "true" }),
  );
  return { element, open, from };
}
