// @ts-check
// The shell: it starts everything, and holds the tabs, the theme, messages and what the panels share.

import * as api from "./core/api.js";
import { byId, h, iconButton } from "./core/dom.js";
import { configure, failure, titleOf } from "./core/items.js";
import { kept } from "./core/kept.js";
import { VIEWS } from "./core/link.js";
import { Live } from "./core/live.js";
import { styles } from "./core/panel.js";
import { Store } from "./core/store.js";
import * as knobs from "./knobs/knobs.js";
import * as picks from "./picks/picks.js";
import * as you from "./you/you.js";

/** @import { App, Panel, State, View } from "#types" */

const AWAY = 5_000; // ms after which a tab that is looked at again asks for news
const toasts = byId("toasts");
const store = new Store();
const live = new Live(store);

/** @type {App} */
const app = {
  card: /** @type {App["card"]} */ ({}), // until `start` has it
  store,
  live,
  concept: (k) => app.card.concepts.find((concept) => concept.concept === k) ?? null,
  label: (k) => app.concept(k)?.label ?? null,
  isInHistory: (id) => (live.historyItems ?? []).some((item) => item.id === id),
  addToHistory,
  removeFromHistory,
  moreLike,
  openItem: async (id) => (await import("./item/sheet.js")).open(app, id),
  walkFrom: (id) => store.step({ view: "walk", walk: { item: id, dimension: null } }),
  refreshCard,
  toast,
  announce,
};

async function start() {
  const first = store.isBlank ? api.users({ limit: 1 }).catch(() => null) : null;
  if (!first) live.meet();
  try {
    app.card = await api.model();
  } catch (error) {
    byId("main").replaceChildren(failure(error, () => location.reload()));
    return;
  }
  configure(app.card, app.label);
  store.run = app.card.run_id;
  shared.addEventListener("message", () => refreshCard(false).catch(() => {}));
  live.know(app.card);
  byId("run").textContent = app.card.run;
  document.title = `${app.card.run} · macrid studio`;
  document.documentElement.classList.toggle("no-concepts", !app.card.has_concepts);
  document.documentElement.classList.toggle("has-pictures", app.card.has_pictures);
  you.create(app, byId("you"));
  knobs.create(app, byId("knobs"));
  picks.create(app, byId("picks"));
  hero();
  tools();
  tabs();
  keys();
  show(store.get());
  store.subscribe((state, changed) => {
    if (changed.some((name) => ["user", "history", "view"].includes(name))) toasts.replaceChildren(); // they are about what was before
    show(state);
  });
  if (first) {
    const user = (await first)?.users[0]?.id;
    if (user !== undefined && store.isBlank) store.start({ user });
    else live.meet();
  }
  if (!kept("toured", false) && store.get().view === "picks") (await import("./tour/tour.js")).start(app);
}

/** Tabs of this browser tell each other when names have changed. */
const shared = new BroadcastChannel("macrid");

/** @param {boolean} isOwn whether the change was made here, so that other tabs must be told */
async function refreshCard(isOwn = true) {
  const { digest } = app.card;
  app.card = await api.model();
  if (isOwn) shared.postMessage("card");
  if (!isOwn && app.card.digest === digest) return;
  configure(app.card, app.label);
  dispatchEvent(new CustomEvent("macrid:card"));
}

/** Whoever comes back to a tab sees what others have renamed meanwhile. */
function followOthers() {
  let since = 0;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) since = performance.now();
    else if (performance.now() - since > AWAY) refreshCard(false).catch(() => {});
  });
}

function historyIds() {
  const { user, history } = store.get();
  return user === null ? history : (live.historyItems ?? []).map((item) => item.id);
}

/** @param {string} id */
function addToHistory(id) {
  if (app.isInHistory(id)) return;
  if (live.historyItems === null) {
    toast("One moment: the history is still loading");
    return;
  }
  store.step({ user: null, history: [...historyIds(), id] });
  announce("Added to the history");
}

/** @param {string} id */
function moreLike(id) {
  if (app.isInHistory(id)) return;
  addToHistory(id);
  toast(`More like ${titleOf(live.items.get(id) ?? { id })}`, { undo: store.undo });
}

/** @param {string} id */
function removeFromHistory(id) {
  store.step({ user: null, history: historyIds().filter((other) => other !== id) });
  toast("Removed from the history", { undo: store.undo });
}

function tabs() {
  const list = byId("tabs");
  for (const view of VIEWS) byId(`tab-${view}`).addEventListener("click", () => store.step({ view }));
  list.addEventListener("keydown", (event) => {
    const at = VIEWS.indexOf(store.get().view);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const view = VIEWS.at(to % VIEWS.length) ?? "picks";
    store.step({ view });
    byId(`tab-${view}`).focus();
  });
}

let shown = /** @type {View | null} */ (null);
/** @type {Map<View | null, Panel>} */
const panels = new Map();

/** @param {State} state */
async function show({ view }) {
  for (const one of VIEWS) {
    const tab = byId(`tab-${one}`);
    tab.setAttribute("aria-selected", String(one === view));
    tab.tabIndex = one === view ? 0 : -1;
    byId(`view-${one}`).hidden = one !== view;
  }
  if (shown !== view) {
    panels.get(shown)?.hide();
    shown = view;
    scrollTo(0, 0);
  }
  if (view === "picks") return;
  const panel = panels.get(view) ?? (await mount(view));
  if (panel && shown === view) panel.show(store.get());
}

/** @type {Map<View, Promise<Panel | null>>} */
const mounting = new Map();

/** @param {View} view */
function mount(view) {
  const loading = mounting.get(view) ?? load(view).finally(() => mounting.delete(view));
  mounting.set(view, loading);
  return loading;
}

/** @param {View} view @returns {Promise<Panel | null>} */
async function load(view) {
  const place = byId(`view-${view}`);
  place.replaceChildren(h("div", { class: "skeleton block tall", "aria-hidden": "true" }));
  try {
    const [module] = await Promise.all([import(`./${view}/${view}.js`), styles(`${view}/${view}.css`)]); // never shown unstyled
    const panel = module.create(app);
    panels.set(view, panel);
    place.replaceChildren(panel.element);
    return panel;
  } catch (error) {
    console.error(error);
    place.replaceChildren(failure(new api.ApiError(0, "This view could not be loaded."), () => show(store.get())));
    return null;
  }
}

function hero() {
  const away = h("span", { class: "away", role: "status", hidden: true });
  live.subscribe(() => {
    if (away.hidden !== live.isAway) return;
    away.hidden = !live.isAway;
    away.replaceChildren("No connection. This is the last list; trying again… ", h("button", { type: "button", class: "text-button", text: "Try now", on: { click: () => live.retry() } }));
  });
  addEventListener("online", () => live.retry());
  byId("hero").append(
    h("span", { class: "quiet", text: "Nothing here changes what customers really get." }),
    h("button", { type: "button", class: "text-button", text: "Show me around", on: { click: async () => (await import("./tour/tour.js")).start(app) } }),
    ...(app.card.can_train ? [h("button", { type: "button", class: "text-button", text: "Try it with your own data", on: { click: () => document.querySelector(/** @type {"button"} */ (".training-open"))?.click() } })] : []),
  );
  byId("hero").after(away);
}

function tools() {
  const undo = iconButton("undo", "Undo", store.undo, { title: "Undo (Ctrl+Z)" });
  const redo = iconButton("redo", "Redo", store.redo, { title: "Redo (Ctrl+Y)" });
  const update = () => {
    undo.disabled = !store.canUndo;
    redo.disabled = !store.canRedo;
  };
  store.subscribe(update);
  update();
  byId("tools").replaceChildren(
    undo,
    redo,
    iconButton("saved", "Saved", async () => (await import("./states/states.js")).open(app), { title: "Saved lists" }),
    iconButton("code", "Take this list away", async () => (await import("./share/share.js")).open(app)),
    h("button", { type: "button", class: "button", on: { click: async () => (await import("./share/share.js")).copyLink(app) } }, "Copy link"),
    iconButton("keys", "Keys", openKeys, { title: "Keys (?)" }),
    iconButton("theme", "Light or dark", switchTheme),
  );
  if (app.card.can_train) import("./training/training.js").then(({ mount }) => mount(app, byId("tools")));
}

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => dispatchEvent(new CustomEvent("macrid:theme")));

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("macrid-theme", root.dataset.theme);
  } catch {
    // Storage is off: the choice lasts for this visit.
  }
  dispatchEvent(new CustomEvent("macrid:theme"));
}

const openKeys = async () => (await import("./tour/keys.js")).open();

function keys() {
  followOthers();
  addEventListener("keydown", (event) => {
    const isText = event.target instanceof Element && event.target.matches("input:not([type=range]), textarea, select, [contenteditable]");
    if (isText || document.querySelector("dialog[open]")) return;
    const isCommand = event.ctrlKey || event.metaKey;
    const does = (isCommand ? COMMANDS : KEYS)[(event.shiftKey && isCommand ? "shift+" : "") + event.key.toLowerCase()];
    if (!does || event.altKey) return;
    event.preventDefault();
    does();
  });
}

/** @type {Record<string, () => unknown>} With Ctrl, or ⌘. */
const COMMANDS = { z: store.undo, y: store.redo, "shift+z": store.redo };

/** @type {Record<string, () => unknown>} */
const KEYS = {
  "?": openKeys,
  "/": () => focusOn("search"),
  w: () => focusOn("wishes"),
  s: () => focusOn("knobs"),
  r: () => focusOn("picks"),
};

/** @param {string} id of something in the first view */
function focusOn(id) {
  if (store.get().view !== "picks") store.step({ view: "picks" });
  const place = document.getElementById(id);
  place?.scrollIntoView({ block: "nearest" });
  place?.focus({ preventScroll: true });
}

/** @type {App["toast"]} */
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

/** @param {string} text */
function announce(text) {
  byId("live").textContent = text;
}

start();
