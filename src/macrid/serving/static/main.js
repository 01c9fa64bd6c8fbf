// The shell: it starts everything, and holds the tabs, the theme, messages and what the panels share.

import * as api from "./api.js";
import { conceptColour, ramp } from "./colours.js";
import { h, iconButton, svg } from "./dom.js";
import { configure, failure } from "./items.js";
import { Live } from "./live.js";
import * as knobs from "./knobs.js";
import * as picks from "./picks.js";
import * as share from "./share.js";
import * as sheet from "./sheet.js";
import * as store from "./store.js";
import * as you from "./you.js";

const byId = (id) => document.getElementById(id);
const toasts = byId("toasts");
const VIEWS = ["picks", "walk", "map", "report"];

const app = {
  card: null,
  api,
  store,
  live: new Live(store),
  h,
  svg,
  conceptColour,
  ramp,
  concept: (k) => app.card.concepts.find((concept) => concept.concept === k) ?? null,
  label: (k) => app.concept(k)?.label ?? null,
  isInHistory: (id) => (app.live.historyItems ?? []).some((item) => item.id === id),
  addToHistory,
  removeFromHistory,
  openItem: (id) => sheet.open(app, id),
  walkFrom: (id) => store.set({ view: "walk", walk: { item: id, dimension: null } }, { push: true }),
  refreshCard,
  toast,
  announce,
};

async function start() {
  const isFirst = store.isBlank();
  const first = isFirst ? api.get("/users", { limit: 1 }).catch(() => null) : app.live.meet();
  try {
    app.card = await api.get("/model");
  } catch (error) {
    byId("main").replaceChildren(failure(error, () => location.reload()));
    document.documentElement.dataset.state = "failed";
    return;
  }
  configure(app.card, app.label);
  app.live.know(app.card);
  byId("run").textContent = app.card.run;
  document.title = `${app.card.run} · macrid studio`;
  document.documentElement.classList.toggle("no-concepts", !app.card.has_concepts);
  document.documentElement.classList.toggle("has-pictures", app.card.has_pictures);
  you.create(app, byId("you"));
  knobs.create(app, byId("knobs"));
  picks.create(app, byId("picks"));
  tools();
  tabs();
  keys();
  show(store.get());
  store.subscribe((state, changed) => {
    if (["user", "history", "view"].some((key) => changed.includes(key))) toasts.replaceChildren(); // what they say is of before
    show(state);
  });
  if (isFirst) {
    const user = (await first)?.users[0]?.id ?? null;
    if (user !== null && store.isBlank()) store.set({ user }, { start: true });
    else app.live.meet();
  }
}

async function refreshCard() {
  app.card = await api.get("/model");
  configure(app.card, app.label);
  dispatchEvent(new CustomEvent("macrid:card"));
}

function historyIds() {
  const { user, history } = store.get();
  return user === null ? history : app.live.historyItems.map((item) => item.id);
}

function addToHistory(id) {
  if (app.isInHistory(id)) return;
  if (app.live.historyItems === null) {
    toast("One moment: the history is still being read");
    return;
  }
  store.set({ user: null, history: [...historyIds(), id] }, { push: true });
  announce("Added to your history");
}

function removeFromHistory(id) {
  store.set({ user: null, history: historyIds().filter((other) => other !== id) }, { push: true });
  toast("Removed from your history", { undo: store.undo });
}

const panels = new Map();

function tabs() {
  const list = byId("tabs");
  list.addEventListener("click", (event) => {
    const { view } = event.target.dataset;
    if (view) store.set({ view }, { push: true });
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? VIEWS.length - 1 : VIEWS.indexOf(store.get().view) + step;
    if (Number.isNaN(to)) return;
    event.preventDefault();
    const view = VIEWS.at(to % VIEWS.length);
    store.set({ view }, { push: true });
    byId(`tab-${view}`).focus();
  });
}

let shown = null;

async function show(state) {
  for (const view of VIEWS) {
    const tab = byId(`tab-${view}`);
    tab.setAttribute("aria-selected", String(view === state.view));
    tab.tabIndex = view === state.view ? 0 : -1;
    byId(`view-${view}`).hidden = view !== state.view;
  }
  if (shown !== state.view) {
    panels.get(shown)?.hide();
    shown = state.view;
    scrollTo(0, 0);
  }
  if (state.view === "picks") return;
  const panel = panels.get(state.view) ?? (await mount(state.view));
  if (panel && shown === state.view) panel.show(store.get());
}

const mounting = new Map();

function mount(view) {
  if (!mounting.has(view)) mounting.set(view, load(view).finally(() => mounting.delete(view)));
  return mounting.get(view);
}

async function load(view) {
  const place = byId(`view-${view}`);
  place.replaceChildren(h("div", { class: "skeleton block tall", "aria-hidden": "true" }));
  try {
    const module = await import(`./${view}.js`);
    const panel = module.create(app);
    panels.set(view, panel);
    place.replaceChildren(panel.element);
    return panel;
  } catch (error) {
    console.error(error);
    place.replaceChildren(failure({ detail: "This view could not be loaded." }, () => show(store.get())));
    return null;
  }
}

function tools() {
  const undo = iconButton("undo", "Undo", store.undo, { "data-testid": "undo" });
  const theme = iconButton("theme", "Light or dark", switchTheme);
  const update = () => (undo.disabled = !store.canUndo());
  store.subscribe(update);
  update();
  byId("tools").replaceChildren(
    undo,
    iconButton("code", "Copy as curl or Python", () => share.open(app), { "data-testid": "code" }),
    h("button", { type: "button", class: "button", "data-testid": "share-link", on: { click: () => share.copyLink(app) } }, "Copy link"),
    theme,
  );
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("macrid-theme", root.dataset.theme);
  } catch {
    // It is not remembered then.
  }
  dispatchEvent(new CustomEvent("macrid:theme"));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new CustomEvent("macrid:theme")));

function keys() {
  addEventListener("keydown", (event) => {
    const isText = event.target.matches?.("input:not([type=range]), textarea, select, [contenteditable]");
    if (isText || document.querySelector("dialog[open]")) return;
    if (event.key === "/" && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      if (store.get().view !== "picks") store.set({ view: "picks" }, { push: true });
      document.querySelector("[data-testid=search]").focus();
    } else if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !event.shiftKey) {
      event.preventDefault();
      store.undo();
    }
  });
}

function toast(text, { undo = null, kind = "" } = {}) {
  const box = h("div", { class: `toast ${kind}` }, h("span", { text }));
  const timer = setTimeout(() => box.remove(), undo ? 7000 : 4000);
  const close = () => {
    clearTimeout(timer);
    box.remove();
  };
  if (undo) box.append(h("button", { type: "button", class: "text-button", text: "Undo", on: { click: () => (close(), undo()) } }));
  // What is beside an open dialog cannot be clicked.
  (document.querySelector("dialog[open]") ?? document.body).append(toasts);
  toasts.replaceChildren(box);
}

function announce(text) {
  byId("live").textContent = text;
}

start();
