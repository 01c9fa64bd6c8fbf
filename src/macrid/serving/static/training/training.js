// @ts-check
// In the top bar: the way to one's own data, how a training goes, and the way back from its result.

import { h, icon, iconButton } from "../core/dom.js";
import { keep, kept } from "../core/kept.js";
import { styles } from "../core/panel.js";
import { serve, Watch } from "./service.js";
import { phase } from "./words.js";

/** @import { App } from "#types" */
/** @import { Training } from "./service.js" */

const OPENED = "opened"; // the run that was opened last, and the one before it
const styled = styles("training/training.css");

/** @param {App} app @param {HTMLElement} tools */
export async function mount(app, tools) {
  const watch = new Watch();
  const open = async () => (await import("./dialog.js")).open(app, watch);
  const text = h("span", { class: "chip-text" });
  const chip = h("button", { type: "button", class: "button training-chip", hidden: true, on: { click: open } }, h("span", { class: "chip-dot", "aria-hidden": "true" }), text);
  const button = h("button", { type: "button", class: "button training-open", title: "Open your own data", on: { click: open } }, icon("upload"), h("span", { class: "wide", text: "Open your own data" }), h("span", { class: "narrow", "aria-hidden": "true", text: "Your data" }));
  watch.subscribe((now) => {
    const words = chipText(now);
    chip.hidden = words === null;
    button.hidden = words !== null; // both lead to the dialog
    chip.classList.toggle("is-ready", now.state === "ready");
    if (words !== null && text.textContent !== words) text.textContent = words;
  });
  await styled;
  tools.prepend(wayBack(app), chip, button);
  watch.look();
}

/** @param {Training} now @returns {string | null} */
function chipText({ state, progress, result }) {
  if (state === "training" && progress) return progress.phase === "training" ? `Training: pass ${Math.min(progress.curve.length + 1, progress.epochs)}` : phase(progress);
  if (state === "ready" && result) return `${result.run} is ready`;
  return state === "examining" ? "Reading your file" : null;
}

/** @param {App} app */
function wayBack(app) {
  const { run = "", before = "" } = kept(OPENED, null) ?? {};
  if (run !== app.card.run || !before) return "";
  const leave = () => {
    keep(OPENED, null);
    box.remove();
  };
  const back = async () => {
    try {
      await openRun(app, before, false);
    } catch {
      app.toast(`${before} cannot be opened any more`);
      leave();
    }
  };
  const box = h(
    "span",
    { class: "training-back" },
    h("button", { type: "button", class: "text-button", title: `Back to ${before}`, on: { click: back } }, `Back to ${before}`),
    iconButton("close", "Stay here", leave, { class: "small" }),
  );
  return box;
}

/**
 * Have another run served, and show it.
 * @param {App} app
 * @param {string} run
 * @param {boolean} offersReturn
 */
export async function openRun(app, run, offersReturn = true) {
  const before = app.card.run;
  await serve(run);
  keep(OPENED, offersReturn ? { run, before } : null);
  location.assign("/"); // what was chosen belongs to the run before
}
