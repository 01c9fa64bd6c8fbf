// @ts-check
// The list shown to take away: as a table, as JSON, as a link, as code, and its rules for the service.

import * as api from "../core/api.js";
import { h, iconButton, segments } from "../core/dom.js";
import { download, fileName, today } from "../core/files.js";
import { styles } from "../core/panel.js";
import { SUFFIX, savedOf, toFile } from "../states/saved.js";
import { settings, suggestion } from "../states/words.js";
import { curl, http, python } from "./code.js";
import { BOM, json, table } from "./csv.js";

/** @import { App } from "#types" */
/** @typedef {"csv" | "json" | "link" | "curl" | "python" | "http" | "rules"} Kind */
/** @typedef {{ text: string, note?: string, file: [ending: string, type: string, content?: string] }} Form */

const LOCAL = /^(localhost|127\.|\[::1\])/;
let isStyled = false;

/** @param {App} app */
export async function copyLink(app) {
  await copy(app, location.origin + app.store.link(), "Link copied: it opens this list with these sliders");
}

/** @param {App} app */
export async function open(app) {
  const { live } = app;
  if (!live.who || !live.lists) {
    app.toast("Choose a customer or some items first");
    return;
  }
  if (!isStyled) await styles("share/share.css");
  isStyled = true;
  const forms = formsOf(app);
  const code = h("code");
  const note = h("p", { class: "quiet" });
  const save = h("button", { type: "button", class: "button", on: { click: take } });
  let shown = /** @type {Kind} */ ("csv");

  /** @param {Kind} kind */
  async function show(kind) {
    shown = kind;
    kinds.select(kind);
    const form = forms[kind];
    if (form instanceof Promise) code.textContent = "…";
    try {
      const { text, note: about = "", file } = await form;
      if (shown !== kind) return;
      code.textContent = text;
      note.textContent = about;
      note.hidden = !about;
      save.textContent = `Download ${file[0]}`;
    } catch (error) {
      if (shown === kind) code.textContent = api.detailOf(error);
    }
  }

  async function take() {
    const { text, file: [ending, type, content = text] } = await forms[shown];
    download(`${fileName(whoIn(app), today())}${ending}`, content, type);
  }

  const kinds = segments("As", [["csv", "CSV"], ["json", "JSON"], ["link", "Link"], ["curl", "curl"], ["python", "Python"], ["http", "Python over HTTP"], ["rules", "Rules"]], show);
  /** @type {HTMLDialogElement} */
  const dialog = h(
    "dialog",
    {
      class: "dialog code", "aria-labelledby": "code-title",
      on: { close: () => dialog.remove(), click: (/** @type {Event} */ event) => event.target === dialog && dialog.close() },
    },
    h(
      "div",
      { class: "dialog-body" },
      h("div", { class: "panel-head" }, h("h2", { id: "code-title", text: "Take this list away" }), iconButton("close", "Close", () => dialog.close())),
      kinds.element,
      h("pre", { tabindex: "0", role: "region", "aria-label": "Text" }, code),
      note,
      h(
        "p",
        { class: "dialog-foot" },
        save,
        h("button", { type: "button", class: "button primary", text: "Copy", on: { click: () => copy(app, code.textContent ?? "", "Copied") } }),
      ),
    ),
  );
  document.body.append(dialog);
  show("csv");
  dialog.showModal();
}

/** For file names. @param {App} app */
function whoIn(app) {
  const { user } = app.store.get();
  return user === null ? "history" : `customer ${user}`;
}

/**
 * @param {App} app
 * @returns {Record<Kind, Form | Promise<Form>>}
 */
function formsOf(app) {
  const { live, store, card } = app;
  const { request } = live;
  const state = store.get();
  const lists = live.lists ?? [];
  const concepts = request.by_concept ? lists.flatMap(({ concept }) => concept ?? []) : [];
  const history = (live.historyItems ?? []).map(({ id }) => id);
  const shown = { origin: location.origin, request, concepts, history, run: card.run, hasToken: api.hasToken(), hasShelves: live.hasShelves };
  const rules = request.rules ?? {};
  const label = (/** @type {number | null | undefined} */ concept) => app.label(concept ?? null);
  const known = attributesOf(app, [...new Set(lists.flatMap(({ items }) => items.map(({ id }) => id)))]);
  known.catch(() => {}); // said where it is shown
  const about = { run: card.run, run_id: card.run_id, user: state.user, history, moves: request.moves ?? [], rules };
  const saved = savedOf(state, { name: suggestion(settings(state, card)), card, label: app.label, items: history });
  const link = location.origin + store.link();
  return {
    csv: known.then((attributes) => ({ text: table(lists, attributes, label), file: [".csv", "text/csv;charset=utf-8", BOM + table(lists, attributes, label)] })),
    json: known.then((attributes) => ({ text: json(lists, attributes, label, about), file: [".json", "application/json"] })),
    link: {
      text: link,
      note: LOCAL.test(location.host)
        ? "This address works on this computer only. For somebody else, download the list as a file: they open it under “Saved”."
        : "Opens this list for everybody who can open this page. The file does the same: open it under “Saved”.",
      file: [SUFFIX, "application/json", toFile(saved)],
    },
    curl: { text: curl(shown), file: [".sh", "text/plain"] },
    python: { text: python(shown), file: [".py", "text/plain"] },
    http: { text: http(shown), file: [".py", "text/plain"] },
    rules: {
      text: JSON.stringify(rules, null, 2),
      note: `For one list, send it as “rules” with POST /v1/recommend. For every list of this service: curl -X PUT ${location.origin}/v1/rules -H 'Content-Type: application/json' -d @rules.json, which replaces the rules that GET /v1/rules shows.`,
      file: [".rules.json", "application/json"],
    },
  };
}

/** @param {App} app @param {string[]} ids @returns {Promise<Map<string, Record<string, unknown>>>} */
async function attributesOf({ card }, ids) {
  const parts = Array.from({ length: Math.ceil(ids.length / card.limits.history) }, (_, at) => ids.slice(at * card.limits.history, (at + 1) * card.limits.history));
  const answers = await Promise.all(parts.map(api.itemsInFull));
  return new Map(answers.flatMap(({ items }) => items.map(({ id, attributes }) => [id, attributes ?? {}])));
}

/**
 * @param {App} app
 * @param {string} text
 * @param {string} message once it is copied
 */
export async function copy(app, text, message) {
  try {
    await navigator.clipboard.writeText(text);
    app.toast(message);
  } catch {
    const area = h("textarea", { value: text, class: "unseen", "aria-hidden": "true" });
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    app.toast(document.execCommand("copy") ? message : "The browser blocks copying. The address bar has the link.");
    area.remove();
  }
}
