// @ts-check
// All keys, in a dialog.

import { h, iconButton } from "../core/dom.js";
import { styles } from "../core/panel.js";

const styled = styles("tour/tour.css");

/** @type {[keys: string[], does: string][]} */
const KEYS = [
  [["?"], "Show this list"],
  [["/"], "Search for an item"],
  [["W"], "Say what you want in words"],
  [["S"], "Go to the sliders"],
  [["R"], "Go to the recommendations"],
  [["←", "→"], "Move the slider; with Home and End all the way"],
  [["Ctrl Z"], "Undo"],
  [["Ctrl Y"], "Redo"],
  [["Esc"], "Close what is open"],
];

export async function open() {
  await styled;
  /** @type {HTMLDialogElement} */
  const dialog = h(
    "dialog",
    {
      class: "dialog keys", "aria-labelledby": "keys-title",
      on: { close: () => dialog.remove(), click: (/** @type {Event} */ event) => event.target === dialog && dialog.close() },
    },
    h(
      "div",
      { class: "dialog-body" },
      h("div", { class: "panel-head" }, h("h2", { id: "keys-title", text: "Keys" }), iconButton("close", "Close", () => dialog.close())),
      h("dl", { class: "keys-list" }, KEYS.map(([keys, does]) => h("div", {}, h("dt", {}, keys.map((key) => h("kbd", { text: key }))), h("dd", { text: does })))),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}
