// You: a known user, or a history of your own; how your interests divide.

import { get } from "./api.js";
import { conceptColour } from "./colours.js";
import { h, iconButton } from "./dom.js";
import { count, number, percent } from "./format.js";
import { thumb, titleOf } from "./items.js";
import { itemSearch, userSearch } from "./search.js";

const FEW = 12; // of a group at first
const FEWER = 5; // where there are many items
const MANY = 48;

export function create(app, root) {
  const { store, live } = app;
  const picker = userPicker(app);
  const search = itemSearch(app);
  const summary = h("p", { class: "summary" });
  const bar = h("div", { class: "interests", role: "img" });
  const groups = h("div", { class: "groups", "data-testid": "history", "aria-label": "Your history", role: "group" });
  const empty = h("button", { type: "button", class: "text-button", text: "Start empty", on: { click: startEmpty } });
  const toggle = h("button", { type: "button", class: "text-button history-toggle", "aria-expanded": "false", on: { click: openHistory } });
  const opened = new Set();

  root.replaceChildren(
    h("div", { class: "panel-head" }, h("h2", { text: "You" }), empty),
    picker.element,
    h("div", { class: "search-row" }, search.element, h("kbd", { "aria-hidden": "true", text: "/" })),
    summary,
    bar,
    toggle,
    groups,
  );

  function startEmpty() {
    store.set({ user: null, history: [], moves: [] }, { push: true });
    app.toast("Your history is empty", { undo: store.undo });
    search.input.value = "";
  }

  function openHistory() {
    const isOpen = root.classList.toggle("is-open");
    toggle.setAttribute("aria-expanded", String(isOpen));
    toggle.textContent = isOpen ? "Hide the history" : "Show the history";
  }

  function draw() {
    const items = live.historyItems;
    if (items === null) return;
    picker.draw();
    empty.hidden = items.length === 0;
    toggle.hidden = items.length === 0;
    toggle.textContent = root.classList.contains("is-open") ? "Hide the history" : "Show the history";
    const strange = items.filter((item) => item.isUnknown).length;
    summary.textContent = items.length
      ? `${count(items.length, "item")} in the history${strange ? `, ${number(strange)} unknown to the model` : ""}`
      : "Nothing here yet. Search, or click on something you like.";
    drawInterests(items);
    const focused = groups.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    groups.replaceChildren(...grouped(items));
    if (focused) (groups.querySelector(`[data-focus="${CSS.escape(focused)}"]`) ?? search.input).focus();
  }

  function drawInterests(items) {
    const places = items.length ? (live.encoded?.concepts ?? []) : [];
    const shares = places.filter((place) => place.share >= 0.005).sort((one, other) => other.share - one.share);
    bar.hidden = !app.card.has_concepts;
    bar.setAttribute(
      "aria-label",
      shares.length ? `Interests: ${shares.map((place) => `${app.label(place.concept)} ${percent(place.share)}`).join(", ")}` : "No interests yet",
    );
    bar.replaceChildren(
      ...shares.map((place) =>
        h("span", {
          class: "interest",
          title: `${app.label(place.concept)}: ${percent(place.share)}`,
          style: { "--c": conceptColour(place.concept), flexGrow: place.share },
        }),
      ),
    );
  }

  function grouped(items) {
    const found = new Map();
    for (const item of items) {
      const key = item.concept ?? null;
      if (!found.has(key)) found.set(key, []);
      found.get(key).push(item);
    }
    const shareOf = new Map((live.encoded?.concepts ?? []).map((place) => [place.concept, place.share]));
    const order = [...found].sort(([k, some], [j, others]) => (shareOf.get(j) ?? 0) - (shareOf.get(k) ?? 0) || others.length - some.length);
    const few = items.length > MANY ? FEWER : FEW;
    return order.map(([concept, some]) => group(concept, some, shareOf.get(concept), few));
  }

  function group(concept, items, share, few) {
    const isOpen = opened.has(concept) || items.length <= few + 1;
    const shown = isOpen ? items : items.slice(0, few);
    const label = concept === null ? (app.card.has_concepts ? "Unknown" : null) : app.label(concept);
    return h(
      "section",
      { class: "group", "data-concept": concept },
      label &&
        h(
          "h3",
          { class: "group-head" },
          h("span", { class: "dot", style: { "--c": conceptColour(concept) } }),
          h("span", { class: "group-name", text: label }),
          h("span", { class: "group-share", text: share === undefined ? number(items.length) : percent(share) }),
        ),
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
        app.card.has_pictures && thumb(item, { size: 48 }),
        !app.card.has_pictures && h("span", { class: "chip-title", dir: "auto", text: title }),
      ),
      iconButton("close", `Remove ${title}`, () => app.removeFromHistory(item.id), { class: "chip-remove", "data-focus": `remove-${item.id}` }),
    );
  }

  live.subscribe((what) => {
    if (what.includes("historyItems") || what.includes("encoded")) draw();
  });
  addEventListener("macrid:card", draw);
  draw();
}

function userPicker(app) {
  const { store } = app;
  const box = userSearch((user) => meet(user.id));
  const element = h(
    "div",
    { class: "user-row", hidden: app.card.users === 0 },
    iconButton("previous", "Previous user", () => step(-1)),
    box.element,
    iconButton("next", "Next user", () => step(1)),
    iconButton("shuffle", "Another user", another, { "data-testid": "another-user" }),
  );
  const ids = [];

  const meet = (user) => store.set({ user, history: [], moves: [], concept: null }, { push: true });

  async function upTo(place) {
    while (ids.length <= place && ids.length < app.card.users) {
      const { users } = await get("/users", { limit: 100, offset: ids.length });
      if (!users.length) break;
      ids.push(...users.map((user) => user.id));
    }
    return ids[place] ?? null;
  }

  async function step(by) {
    const { user } = store.get();
    while (user !== null && !ids.includes(user) && ids.length < app.card.users && (await upTo(ids.length)) !== null);
    const at = user === null ? -1 : ids.indexOf(user);
    const total = app.card.users;
    const to = at < 0 ? 0 : (at + by + total) % total;
    const id = await upTo(to);
    if (id !== null) meet(id);
  }

  async function another() {
    const { users } = await get("/users", { limit: 1, offset: Math.floor(Math.random() * app.card.users) });
    if (users.length) meet(users[0].id);
  }

  return {
    element,
    draw: () => {
      const { user } = store.get();
      box.input.placeholder = user ?? "Pick a known user";
      box.element.classList.toggle("has-value", user !== null);
    },
  };
}
