// @ts-check
// The customer: a known one, or a history put together here; how the interests divide.

import { conceptColour } from "../core/colours.js";
import { h, iconButton } from "../core/dom.js";
import { count, number, percent } from "../core/format.js";
import { thumb, titleOf } from "../core/items.js";
import { itemSearch } from "../core/search.js";
import { UserPicker } from "./users.js";

/** @import { App, Shown } from "#types" */

const FEW = 12; // of a group at first
const FEWER = 5; // where there are many items
const MANY = 48;
const LEAST = 0.005; // of a history; less is rounded away

/** @param {App} app @param {HTMLElement} root */
export function create(app, root) {
  const { store, live } = app;
  const picker = new UserPicker(app);
  const search = itemSearch(app, { name: "search" });
  const summary = h("p", { class: "summary" });
  const bar = h("div", { class: "interests", role: "img" });
  const groups = h("div", { class: "groups", role: "group", "aria-label": "History" });
  const title = h("h2", { dir: "auto" });
  const empty = h("button", { type: "button", class: "text-button", text: "Start empty", title: "A new customer with an empty history", on: { click: startEmpty } });
  const toggle = h("button", { type: "button", class: "text-button history-toggle", "aria-expanded": "false", on: { click: toggleHistory } });
  /** @type {Set<number | null>} */
  const opened = new Set();

  root.replaceChildren(
    h("div", { class: "panel-head" }, title, empty),
    picker.element,
    h("div", { class: "search-row" }, search.element, h("kbd", { "aria-hidden": "true", text: "/" })),
    summary,
    bar,
    toggle,
    groups,
  );

  function startEmpty() {
    store.step({ user: null, history: [], moves: [] });
    app.toast("A new customer with an empty history", { undo: store.undo });
    search.input.value = "";
  }

  function toggleHistory() {
    const isOpen = root.classList.toggle("is-open");
    toggle.setAttribute("aria-expanded", String(isOpen));
    toggle.textContent = isOpen ? "Hide history" : "Show history";
  }

  function draw() {
    const items = live.historyItems;
    if (items === null) return;
    picker.draw();
    const { user } = store.get();
    title.textContent = user === null ? "New customer" : "Customer";
    empty.hidden = items.length === 0;
    toggle.hidden = items.length === 0;
    toggle.textContent = root.classList.contains("is-open") ? "Hide history" : "Show history";
    const strange = items.filter((item) => item.isUnknown).length;
    summary.textContent = items.length
      ? `${count(items.length, "item")} in the history${strange ? `, ${number(strange)} of them unknown here` : ""}`
      : "Nothing in the history yet. Search, or click something in the list.";
    drawInterests(items);
    const focused = document.activeElement instanceof HTMLElement && groups.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    groups.replaceChildren(...grouped(items));
    if (focused) /** @type {HTMLElement} */ (groups.querySelector(`[data-focus="${CSS.escape(focused)}"]`) ?? search.input).focus();
  }

  /** What is worth showing of the customer's interests, largest first. */
  const interestsOf = () => (live.encoded?.concepts ?? []).filter((place) => place.share >= LEAST).sort((one, other) => other.share - one.share);

  /** @param {Shown[]} items */
  function drawInterests(items) {
    const shares = items.length ? interestsOf() : [];
    bar.hidden = !app.card.has_concepts;
    bar.setAttribute(
      "aria-label",
      shares.length ? `Interests: ${shares.map((place) => `${app.label(place.concept)} ${percent(place.share)}`).join(", ")}` : "No interests yet",
    );
    bar.replaceChildren(
      ...shares.map(({ concept, share }) =>
        h("span", { class: "interest", title: `${app.label(concept)}: ${percent(share)}`, style: { "--c": conceptColour(concept), flexGrow: share } })),
    );
  }

  /** Every group that the bar shows, largest first, with the items that belong to it. @param {Shown[]} items */
  function grouped(items) {
    /** @type {Map<number | null, Shown[]>} */
    const byConcept = new Map();
    /** @type {Map<number | null, number>} */
    const shareOf = new Map(items.length ? interestsOf().map((place) => [place.concept, place.share]) : []);
    for (const concept of shareOf.keys()) byConcept.set(concept, []);
    for (const item of items) byConcept.set(item.concept ?? null, [...(byConcept.get(item.concept ?? null) ?? []), item]);
    const order = [...byConcept].sort(([k, some], [j, others]) => (shareOf.get(j) ?? 0) - (shareOf.get(k) ?? 0) || others.length - some.length);
    const few = items.length > MANY ? FEWER : FEW;
    return order.map(([concept, some]) => group(concept, some, shareOf.get(concept), few));
  }

  /** @param {number | null} concept @param {Shown[]} items @param {number | undefined} share @param {number} few */
  function group(concept, items, share, few) {
    const isOpen = opened.has(concept) || items.length <= few + 1;
    const shown = isOpen ? items : items.slice(0, few);
    const label = concept === null ? (app.card.has_concepts ? "Unknown" : null) : app.label(concept);
    return h(
      "section",
      { class: "group" },
      label &&
        h(
          "h3",
          { class: "group-head" },
          h("span", { class: "dot", style: { "--c": conceptColour(concept) } }),
          h("span", { class: "group-name", dir: "auto", text: label }),
          h("span", { class: "group-share", text: share === undefined ? number(items.length) : percent(share) }),
        ),
      !items.length && h("p", { class: "quiet group-none", text: "through items that belong to other groups, too" }),
      h(
        "ul",
        { class: app.card.has_pictures ? "chips pictures" : "chips" },
        shown.map(chip),
        !isOpen &&
          h(
            "li",
            {},
            h("button", {
              type: "button", class: "chip-more", text: `+ ${items.length - shown.length} more`, "data-focus": `more-${concept}`,
              on: { click: () => (opened.add(concept), draw()) },
            }),
          ),
      ),
    );
  }

  /** @param {Shown} item */
  function chip(item) {
    const title = titleOf(item);
    return h(
      "li",
      { class: item.isUnknown ? "chip is-unknown" : "chip", "data-id": item.id },
      h(
        "button",
        {
          type: "button", class: "chip-open", title, "aria-label": title, "data-focus": `open-${item.id}`, disabled: item.isUnknown,
          on: { click: () => app.openItem(item.id) },
        },
        app.card.has_pictures ? thumb(item, { size: 48 }) : h("span", { class: "chip-title", dir: "auto", text: title }),
      ),
      iconButton("close", `Remove ${title}`, () => app.removeFromHistory(item.id), { class: "chip-remove", "data-focus": `remove-${item.id}` }),
    );
  }

  live.subscribe((parts) => {
    if (parts.includes("historyItems") || parts.includes("encoded")) draw();
  });
  addEventListener("macrid:card", draw);
  draw();
}
