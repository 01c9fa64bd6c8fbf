// A box to type in, with what was found below it: arrow keys, Enter and Escape as in any combobox.

import { get } from "./api.js";
import { h } from "./dom.js";
import { conceptTag, thumb, titleOf } from "./items.js";
import { count } from "./format.js";

const PAUSE = 120; // ms after the last letter
let boxes = 0;

/**
 * load(text, signal) resolves to options; show(option) to what stands in the list; choose(option) takes one.
 * stays: keep the list open after a choice, to choose more.
 */
export function combobox({ label, placeholder, testid, load, show, choose, stays = false, nothing = "Nothing found" }) {
  const id = `combobox-${++boxes}`;
  const list = h("ul", { class: "options", id, role: "listbox", "aria-label": label, tabindex: "-1", hidden: true });
  const input = h("input", {
    class: "field", type: "text", role: "combobox", placeholder, "aria-label": label, "aria-controls": id, "aria-expanded": "false",
    "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", "data-testid": testid,
  });
  const element = h("div", { class: "combobox" }, input, list);
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
  const mark = (place) => {
    active = place;
    [...list.children].forEach((node, at) => node.setAttribute("aria-selected", String(at === place)));
    const node = list.children[place];
    if (!node) return;
    input.setAttribute("aria-activedescendant", node.id);
    node.scrollIntoView({ block: "nearest" });
  };
  const take = (option) => {
    choose(option);
    if (stays) {
      input.select();
      draw();
    } else {
      input.value = "";
      close();
    }
  };
  const say = (text) => {
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
  addEventListener("scroll", (event) => !list.hidden && !list.contains(event.target) && place(), { capture: true, passive: true });
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
            on: { pointerdown: (event) => event.preventDefault(), click: () => take(option), pointermove: () => active !== place && mark(place) },
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
      if (!signal.aborted) say(error.detail ?? "That did not work.");
    }
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(find, PAUSE);
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

/** Items by title, to add to the history or to take out of it. */
export function itemSearch(app, { label = "Search items", placeholder = "Add something you like…", testid = "search", choose, stays = true } = {}) {
  return combobox({
    label,
    placeholder,
    testid,
    stays,
    nothing: "Nothing like that here. Try another word.",
    load: async (q, signal) => {
      const { items } = await get("/items", { q, limit: 12 }, { signal });
      app.live.remember(items);
      return items;
    },
    show: (item) => [
      thumb(item, { size: 40 }),
      h(
        "span",
        { class: "option-text" },
        h("span", { class: "option-title", dir: "auto", text: titleOf(item) }),
        h("span", { class: "option-more" }, conceptTag(item), h("span", { text: count(item.popularity, "user") })),
      ),
      app.isInHistory(item.id) && h("span", { class: "option-in", text: "in your history" }),
    ],
    choose: choose ?? ((item) => (app.isInHistory(item.id) ? app.removeFromHistory(item.id) : app.addToHistory(item.id))),
  });
}

/** Known users by id. */
export function userSearch(choose) {
  return combobox({
    label: "Known user",
    placeholder: "Pick a known user",
    testid: "user",
    nothing: "No such user",
    load: async (q, signal) => (await get("/users", { q, limit: 20 }, { signal })).users,
    show: (user) => [h("span", { class: "option-title", text: user.id }), h("span", { class: "option-in", text: count(user.items, "item") })],
    choose,
  });
}
