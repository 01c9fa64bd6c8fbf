// @ts-check
// Saved lists: kept under a name in this browser, opened again, sent as a link or a file.

import { h, iconButton } from "../core/dom.js";
import { download, fileName } from "../core/files.js";
import { keep, kept } from "../core/kept.js";
import { historyOf, styles } from "../core/panel.js";
import { copy } from "../share/share.js";
import { FileError, LARGEST_FILE, SUFFIX, added, checked, fromFile, queryOf, removed, renamed, savedOf, stateOf, toFile } from "./saved.js";
import { settings, suggestion } from "./words.js";

/** @import { App, Saved, State } from "#types" */
/** @typedef {Omit<State, "walk" | "by" | "compare">} Settled */

const KEY = "states";
const SAME_CUSTOMER = 0.5; // of the items that a customer had must be there for it to be the same one
const when = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
let isStyled = false;

/** @type {Saved[] | null} Where the browser keeps nothing, what this visit saved. */
let unkept = null;

/** @returns {Saved[]} newest first; those that somebody has broken are left out */
export function allSaved() {
  if (unkept) return unkept;
  const found = kept(KEY, /** @type {unknown} */ ([]));
  return (Array.isArray(found) ? found : []).flatMap((one) => {
    try {
      return [checked(one)];
    } catch {
      return [];
    }
  });
}

/** @param {App} app @param {Saved[]} all */
function keepAll(app, all) {
  const isKept = keep(KEY, all);
  unkept = isKept ? null : all;
  if (!isKept) app.toast("This browser keeps nothing more. Download the list as a file before you leave.", { kind: "bad" });
  return isKept;
}

/**
 * Show a saved list. Sliders and rules of another model are carried over by name, and a customer who is somebody else
 * there becomes the history that was saved.
 * @param {App} app
 * @param {Saved} saved
 */
export async function show(app, saved) {
  const { walk, by, compare, ...state } = stateOf(saved, app.card.run_id);
  const notes = saved.run.id === app.card.run_id ? [] : [...(await settleCustomer(saved, state)), ...settleGroup(app, saved, state)];
  app.store.step({ ...state, view: "picks" });
  app.toast([`Opened “${saved.name}”.`, ...notes].join(" "), { undo: app.store.undo });
}

/** @param {Saved} saved @param {Settled} state @returns {Promise<string[]>} what to say */
async function settleCustomer({ items }, state) {
  const { user } = state;
  if (user === null || !items?.length) return [];
  const here = new Set(await historyOf(state).catch(() => []));
  if (items.filter((id) => here.has(id)).length >= SAME_CUSTOMER * items.length) return [];
  Object.assign(state, { user: null, history: items });
  return [`Customer ${user} is ${here.size ? "somebody else" : "not known"} here, so the history that was saved is used.`];
}

/** @param {App} app @param {Saved} saved @param {Settled} state @returns {string[]} what to say */
function settleGroup(app, { concept_name }, state) {
  if (state.list !== "concept") {
    state.concept = null;
    return [];
  }
  const here = app.card.concepts.find(({ label }) => label === concept_name);
  Object.assign(state, here ? { concept: here.concept } : { concept: null, list: "overall" });
  return here ? [] : [`There is no group “${concept_name ?? "of that name"}” here, so the whole list is shown.`];
}

/** @param {App} app */
export async function open(app) {
  if (!isStyled) await styles("states/states.css");
  isStyled = true;
  const { store, live } = app;
  const name = h("input", { class: "field", id: "saved-name", maxlength: 80, autocomplete: "off" });
  const list = h("ul", { class: "saved-list", "aria-label": "Saved lists" });
  const wrong = h("p", { class: "saved-wrong", role: "alert", hidden: true });
  const file = h("input", { type: "file", accept: ".json,application/json", class: "unseen", id: "saved-file", tabindex: "-1", "aria-hidden": "true", on: { change: openFile } });
  /** @type {HTMLDialogElement} */
  const dialog = h(
    "dialog",
    {
      class: "dialog saved", "aria-labelledby": "saved-title",
      on: {
        close: () => (removeEventListener("storage", draw), dialog.remove()),
        click: (/** @type {Event} */ event) => event.target === dialog && dialog.close(),
        dragover: (/** @type {DragEvent} */ event) => event.preventDefault(),
        drop: (/** @type {DragEvent} */ event) => (event.preventDefault(), readFile(event.dataTransfer?.files[0])),
      },
    },
    h(
      "div",
      { class: "dialog-body" },
      h("div", { class: "panel-head" }, h("h2", { id: "saved-title", text: "Saved lists" }), iconButton("close", "Close", () => dialog.close())),
      h(
        "form",
        { class: "saved-form", on: { submit: (/** @type {Event} */ event) => (event.preventDefault(), save()) } },
        h("label", { for: "saved-name", text: "Save what is shown now as" }),
        h("div", { class: "saved-row" }, name, h("button", { class: "button primary", text: "Save", disabled: !live.who })),
      ),
      list,
      wrong,
      h(
        "div",
        { class: "saved-foot" },
        h("p", { class: "quiet", text: "Kept in this browser only. A link or a file brings a list elsewhere." }),
        h("button", { type: "button", class: "button", text: "Open a file…", on: { click: () => file.click() } }),
        file,
      ),
    ),
  );

  function suggest() {
    name.value = live.who ? suggestion(settings(store.get(), app.card)) : "";
    name.placeholder = live.who ? "A name" : "Choose a customer or some items first";
  }

  function save() {
    if (!live.who) return;
    const items = (live.historyItems ?? []).map(({ id }) => id);
    const all = added(allSaved(), savedOf(store.get(), { name: name.value, card: app.card, label: app.label, items }));
    const asked = name.value.trim();
    if (keepAll(app, all)) app.toast(all[0].name === asked || !asked ? `Saved “${all[0].name}”` : `There was one of that name: saved as “${all[0].name}”`);
    draw();
    /** @type {HTMLElement | null} */ (list.querySelector("button"))?.focus();
  }

  function openFile() {
    readFile(file.files?.[0]);
    file.value = "";
  }

  /** @param {File} [chosen] */
  async function readFile(chosen) {
    if (!chosen) return;
    wrong.hidden = true;
    try {
      if (chosen.size > LARGEST_FILE) throw new FileError(`${chosen.name} is too large to be a saved list. Those end with ${SUFFIX}.`);
      const all = added(allSaved(), fromFile(await chosen.text()));
      keepAll(app, all);
      dialog.close();
      await show(app, all[0]);
    } catch (error) {
      wrong.textContent = error instanceof FileError ? error.message : "This file cannot be read. Is it still there?";
      wrong.hidden = false;
    }
  }

  function draw() {
    const all = allSaved();
    list.replaceChildren(...(all.length ? all.map(row) : [h("li", { class: "state", text: "Nothing saved yet." })]));
  }

  /** @param {Saved} saved */
  function row(saved) {
    const words = settings(saved.state, app.card).map(({ text }) => text).join(" · ");
    const isOther = saved.run.id !== app.card.run_id;
    const title = h("button", { type: "button", class: "saved-name", dir: "auto", text: saved.name, title: `Open ${saved.name}`, on: { click: () => (dialog.close(), show(app, saved)) } });
    const of = ` “${saved.name}”`;
    /** @type {HTMLLIElement} */
    const element = h(
      "li",
      { class: "saved-item", "data-name": saved.name },
      h(
        "div",
        { class: "saved-about" },
        title,
        h("p", { class: "saved-words quiet", dir: "auto", text: words }),
        h("p", { class: "quiet" }, when.format(new Date(saved.saved)), isOther && h("span", { class: "saved-run", text: ` · made with ${saved.run.name === app.card.run ? "another version of this model" : saved.run.name}` })),
      ),
      h(
        "div",
        { class: "saved-tools" },
        h("button", { type: "button", class: "text-button", text: "Compare", "aria-label": `Compare${of} with what is shown now`, on: { click: () => compare(saved) } }),
        h("button", { type: "button", class: "text-button", text: "Link", "aria-label": `Copy the link of${of}`, on: { click: () => copy(app, location.origin + location.pathname + queryOf(saved), "Link copied") } }),
        h("button", { type: "button", class: "text-button", text: "File", "aria-label": `Download${of} as a file`, on: { click: () => download(fileName(saved.name) + SUFFIX, toFile(saved)) } }),
        iconButton("pencil", `Rename${of}`, () => rename(element, saved)),
        iconButton("close", `Delete${of}`, () => remove(saved)),
      ),
    );
    return element;
  }

  /** @param {Saved} saved */
  async function compare(saved) {
    const { sideOf } = await import("../compare/sides.js");
    dialog.close();
    store.step({ view: "compare", compare: { left: sideOf(saved), right: "now" } });
  }

  /** @param {Saved} saved */
  function remove(saved) {
    const before = allSaved();
    keepAll(app, removed(before, saved));
    draw();
    name.focus();
    app.toast(`Deleted “${saved.name}”`, { undo: () => (keepAll(app, before), draw()) });
  }

  /** @param {HTMLLIElement} element @param {Saved} saved */
  function rename(element, saved) {
    const input = h("input", { class: "field", "aria-label": `New name of “${saved.name}”`, value: saved.name, maxlength: 80 });
    let isDone = false;
    const finish = (/** @type {boolean} */ isWanted) => {
      if (isDone) return;
      isDone = true;
      if (isWanted && input.value.trim() && input.value.trim() !== saved.name) keepAll(app, renamed(allSaved(), saved, input.value));
      draw();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") event.preventDefault(), finish(true), name.focus();
      else if (event.key === "Escape") event.preventDefault(), event.stopPropagation(), finish(false), name.focus();
    });
    input.addEventListener("blur", () => finish(true));
    element.querySelector(".saved-name")?.replaceWith(input);
    input.select();
  }

  addEventListener("storage", draw); // another tab has saved something
  document.body.append(dialog);
  suggest();
  draw();
  dialog.showModal();
  name.select();
}
