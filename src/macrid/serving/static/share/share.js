// @ts-check
// The state of the page to take away: as a link or as code.

import { hasToken } from "../core/api.js";
import { h, iconButton, segments } from "../core/dom.js";
import { curl, http, python } from "./code.js";

/** @import { App } from "#types" */

/** @param {App} app */
export async function copyLink(app) {
  await copy(app, location.origin + app.store.link(), "Link copied: it opens this list with these knobs");
}

/** @param {App} app */
export function open(app) {
  const { live } = app;
  if (!live.who) {
    app.toast("Choose a user or some items first");
    return;
  }
  const { request } = live;
  const concepts = request.by_concept ? (live.lists ?? []).flatMap(({ concept }) => concept ?? []) : [];
  const history = (live.historyItems ?? []).map(({ id }) => id);
  const shown = { origin: location.origin, request, concepts, history, run: app.card.run, hasToken: hasToken(), hasShelves: live.hasShelves };
  const texts = { curl: curl(shown), python: python(shown), http: http(shown) };
  const code = h("code");
  const show = (/** @type {keyof typeof texts} */ kind) => {
    code.textContent = texts[kind];
    kinds.select(kind);
  };
  const kinds = segments("As", [["curl", "curl"], ["python", "Python"], ["http", "Python over HTTP"]], show);
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
      h("div", { class: "panel-head" }, h("h2", { id: "code-title", text: "This list as code" }), iconButton("close", "Close", () => dialog.close())),
      kinds.element,
      h("pre", { tabindex: "0", role: "region", "aria-label": "Code" }, code),
      h(
        "p",
        { class: "dialog-foot" },
        h("button", { type: "button", class: "button primary", text: "Copy", on: { click: () => copy(app, code.textContent ?? "", "Copied") } }),
      ),
    ),
  );
  document.body.append(dialog);
  show("curl");
  dialog.showModal();
}

/**
 * @param {App} app
 * @param {string} text
 * @param {string} message once it is copied
 */
async function copy(app, text, message) {
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
