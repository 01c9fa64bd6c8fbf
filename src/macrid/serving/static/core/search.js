// @ts-check
// A box to type in, with what was found below it: arrow keys, Enter and Escape as in any combobox.

import * as api from "./api.js";
import { h } from "./dom.js";
import { conceptTags, thumb, titleOf } from "./items.js";
import { count } from "./format.js";
import { tastes } from "./tastes.js";

/** @import { Label } from "./tastes.js" */
/** @import { App, Child, Found, User } from "#types" */

const PAUSE = 120; // ms after the last letter
let boxes = 0;

/**
 * @template {{ id: string }} T
 * @param {object} options
 * @param {string} options.label
 * @param {string} options.placeholder
 * @param {string} [options.name] its id
 * @param {(text: string, signal: AbortSignal) => Promise<T[]>} options.load
 * @param {(option: T) => Child} options.show
 * @param {(option: T) => void} options.choose
 * @param {boolean} [options.stays] keep the list open after a choice, to choose more
 * @param {string} [options.nothing]
 */
function combobox({ label, placeholder, name, load, show, choose, stays = false, nothing = "Nothing found" }) {
  const id = `combobox-${++boxes}`;
  const list = h("ul", { class: "options", id, role: "listbox", "aria-label": label, tabindex: "-1", hidden: true });
  const input = h("input", {
    class: "field", type: "text", role: "combobox", placeholder, "aria-label": label, "aria-controls": id, "aria-expanded": "false",
    "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", id: name,
  });
  const element = h("div", { class: "combobox" }, input, list);
  /** @type {T[]} */
  let options = [];
  let active = -1;
  let timer = 0;
  let control = new AbortController();

  const close = () => {
    clearTimeout(timer);
    control.abort();
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    active = -1;
  };
  const mark = (/** @type {number} */ place) => {
    active = place;
    [...list.children].forEach((node, at) => node.setAttribute("aria-selected", String(at === place)));
    const node = list.children[place];
    if (!node) return;
    input.setAttribute("aria-activedescendant", node.id);
    node.scrollIntoView({ block: "nearest" });
  };
  const take = (/** @type {T} */ option) => {
    choose(option);
    if (stays) {
      input.select();
      draw();
    } else {
      input.value = "";
      close();
    }
  };
  const say = (/** @type {string} */ text) => {
    options = [];
    list.replaceChildren(h("li", { class: "option note", role: "option", "aria-disabled": "true", "aria-selected": "false", text }));
    reveal();
  };
  const place = () => {
    const { left, top, bottom, width } = input.getBoundingClientRect();
    const below = innerHeight - bottom - 16;
    const isBelow = below > 220 || below > top;
    Object.assign(list.style, {
      left: `${left}px`, top: isBelow ? `${bottom + 6}px` : "auto", bottom: isBelow ? "auto" : `${innerHeight - top + 6}px`,
      minWidth: `${width}px`, maxWidth: `${Math.min(440, innerWidth - left - 14)}px`, maxHeight: `${Math.min(440, isBelow ? below : top - 16)}px`,
    });
  };
  addEventListener("scroll", (event) => !list.hidden && !(event.target instanceof Node && list.contains(event.target)) && place(), { capture: true, passive: true });
  addEventListener("resize", () => !list.hidden && place());
  const reveal = () => {
    list.hidden = false;
    place();
    input.setAttribute("aria-expanded", "true");
  };
  const draw = () => {
    const at = active;
    list.replaceChildren(
      ...options.map((option, place) =>
        h(
          "li",
          {
            class: "option", role: "option", id: `${id}-${place}`, "aria-selected": "false", "data-id": option.id,
            on: { pointerdown: (/** @type {Event} */ event) => event.preventDefault(), click: () => take(option), pointermove: () => active !== place && mark(place) },
          },
          show(option),
        ),
      ),
    );
    reveal();
    if (at >= 0) mark(Math.min(at, options.length - 1));
  };
  const find = async () => {
    control.abort();
    control = new AbortController();
    const { signal } = control;
    try {
      const found = await load(input.value.trim(), signal);
      if (signal.aborted || document.activeElement !== input) return;
      options = found;
      active = -1;
      if (found.length) draw();
      else say(nothing);
    } catch (error) {
      if (!signal.aborted) say(api.detailOf(error));
    }
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(find, PAUSE);
  });
  input.addEventListener("focus", find);
  input.addEventListener("click", () => list.hidden && find());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) find();
      else if (options.length) mark((active + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length);
    } else if (event.key === "Enter" && options.length && !list.hidden) {
      event.preventDefault();
      take(options[Math.max(active, 0)]);
    } else if (event.key === "Escape") {
      if (!list.hidden) event.stopPropagation();
      if (list.hidden) input.value = "";
      close();
    }
  });
  return { element, input };
}

/**
 * Items by title or attributes, to add to the history or to take out of it.
 * @param {App} app
 * @param {{ label?: string, placeholder?: string, name?: string, choose?: (item: Found) => void, stays?: boolean }} [options]
 */
export function itemSearch(app, { label = "Search items", placeholder = "Add an item to the history…", name, choose, stays = true } = {}) {
  return combobox({
    label,
    placeholder,
    name,
    stays,
    nothing: "Nothing matches. Try another word.",
    load: async (q, signal) => {
      const { items } = await api.search({ q, limit: 12 }, signal);
      app.live.remember(items);
      return items;
    },
    show: (item) => [
      thumb(item, { size: 40 }),
      h(
        "span",
        { class: "option-text" },
        h("span", { class: "option-title", dir: "auto", text: titleOf(item) }),
        h(
          "span",
          { class: "option-more" },
          item.matched.length ? h("span", { class: "option-matched", dir: "auto", text: item.matched.join(" · ") }) : conceptTags(item),
          h("span", { class: "option-users", text: count(item.popularity, "customer") }),
        ),
      ),
      app.isInHistory(item.id) && h("span", { class: "option-in", text: "in the history" }),
    ],
    choose: choose ?? ((item) => (app.isInHistory(item.id) ? app.removeFromHistory(item.id) : app.addToHistory(item.id))),
  });
}

/**
 * Known customers, by id or by what they like.
 * @param {(user: User) => void} choose
 * @param {Label} [label] of a group
 */
export function userSearch(choose, label = () => null) {
  /** @type {string | null} */
  let sought = null;
  return combobox({
    label: "Customer",
    placeholder: "Choose a customer",
    nothing: "No customer has this id or taste.",
    load: async (q, signal) => {
      const { users, taste } = await api.users({ q, limit: 20 }, signal);
      sought = taste?.name ?? null;
      return users;
    },
    show: (user) => h(
      "span",
      { class: "option-user" },
      h("span", { class: "option-title", dir: "auto", text: `Customer ${user.id}` }),
      tastes(user, label, { sought, first: count(user.items, "item") }),
    ),
    choose,
  });
}
