// @ts-check
// The first step: a file, or another run. And waiting for a file.

import { h } from "../core/dom.js";
import { runs } from "./service.js";
import { openRun } from "./training.js";
import { size } from "./words.js";

/** @import { App } from "#types" */
/** @import { RunBeside } from "./service.js" */

export const ACCEPT = ".csv,.tsv,.tab,.txt,.dat,.data,.parquet,.pq,.gz,.bz2,.zst";
const EXAMPLE = [["customer", "item", "rating"], ["ann", "bag-17", "5"], ["ann", "lamp-4", "3"], ["ben", "bag-17", "4"]];
const LOCAL = ["localhost", "127.0.0.1", "[::1]"];

/**
 * @param {App} app
 * @param {number} limit bytes
 * @param {(file: File) => void} take
 */
export function chooseStep(app, limit, take) {
  const trouble = h("p", { class: "training-problem", role: "alert", hidden: true });
  const accept = (/** @type {FileList | null | undefined} */ files) => {
    const file = files?.[0];
    if (!file) return;
    const wrong = file.size > limit ? `${file.name} has ${size(file.size)}; the limit is ${size(limit)}.` : file.size ? "" : `${file.name} is empty, or a folder.`;
    trouble.textContent = wrong;
    trouble.hidden = !wrong;
    if (!wrong) take(file);
  };
  const [head, ...rows] = EXAMPLE;
  return h(
    "section",
    { class: "training-choose" },
    h("p", {}, "Each row of the file says that ", h("strong", { text: "one customer chose one item" }), ": bought, watched, liked or clicked it. Ratings and other columns may be there, too."),
    h(
      "table",
      { class: "training-example" },
      h("caption", { class: "unseen", text: "An example" }),
      h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col", text })))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text) => h("td", { text }))))),
    ),
    dropZone("Drop a CSV or Parquet file here", accept),
    trouble,
    h("p", { class: "quiet", text: `${LOCAL.includes(location.hostname) ? "Your file stays on this computer." : "The file goes to this service and nowhere else."} Up to ${size(limit)}.` }),
    others(app),
  );
}

/**
 * A place to drop a file on, which is also the way to choose one.
 * @param {string} text
 * @param {(files: FileList | null | undefined) => void} accept
 */
function dropZone(text, accept) {
  /** @type {HTMLInputElement} */
  const input = h("input", { type: "file", class: "unseen", accept: ACCEPT, on: { change: () => accept(input.files) } });
  /** @type {HTMLElement} */
  const zone = h(
    "label",
    {
      class: "drop",
      on: {
        dragover: (/** @type {DragEvent} */ event) => {
          event.preventDefault();
          zone.classList.add("is-over");
        },
        dragleave: () => zone.classList.remove("is-over"),
        drop: (/** @type {DragEvent} */ event) => {
          event.preventDefault();
          zone.classList.remove("is-over");
          accept(event.dataTransfer?.files);
        },
      },
    },
    h("span", { class: "drop-text" }, text, h("span", { class: "quiet" }, " or ")),
    input,
    h("span", { class: "button", text: "Choose a file" }),
  );
  return zone;
}

/**
 * The runs beside this one.
 * @param {App} app
 */
function others(app) {
  const place = h("section", { class: "training-others", hidden: true });
  runs().then((found) => {
    const rest = found.filter((run) => !run.is_current);
    if (!rest.length) return;
    place.hidden = false;
    place.append(h("h3", { text: "Or switch to" }), h("ul", {}, rest.map((run) => h("li", {}, choice(app, run)))));
  }, () => {}); // without them, the rest of the step stands
  return place;
}

/** @param {App} app @param {RunBeside} run */
function choice(app, run) {
  const made = new Date(run.trained).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  const button = h(
    "button",
    {
      type: "button", class: "button training-run",
      on: {
        click: async () => {
          button.disabled = true;
          try {
            await openRun(app, run.name);
          } catch (error) {
            button.disabled = false;
            app.toast(error instanceof Error ? error.message : "It cannot be opened");
          }
        },
      },
    },
    h("span", { class: "run-name", dir: "auto", text: run.name }),
    h("span", { class: "quiet", text: run.source === "demo" ? "the built-in shop" : made }),
  );
  return button;
}

/**
 * While a file is being sent.
 * @param {File} file
 * @param {() => void} cancel
 */
export function uploadStep(file, cancel) {
  const bar = h("progress", { max: 1, value: "0", "aria-label": "Sent" });
  const text = h("p", { class: "quiet" });
  const update = (/** @type {number} */ share) => {
    bar.value = share;
    text.textContent = share < 1 ? `${size(share * file.size)} of ${size(file.size)}` : "Reading it …";
  };
  update(0);
  const element = h(
    "section",
    { class: "training-wait" },
    h("h3", { dir: "auto", text: file.name }),
    bar,
    text,
    h("p", { class: "training-foot" }, h("button", { type: "button", class: "button", text: "Cancel", on: { click: cancel } })),
  );
  return { element, update };
}

/** @param {string} text @param {() => void} cancel */
export function waitStep(text, cancel) {
  return h(
    "section",
    { class: "training-wait" },
    h("h3", { dir: "auto", text }),
    h("progress", { "aria-label": "Working" }),
    h("p", { class: "training-foot" }, h("button", { type: "button", class: "button", text: "Cancel", on: { click: cancel } })),
  );
}
