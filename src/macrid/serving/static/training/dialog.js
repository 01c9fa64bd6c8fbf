// @ts-check
// The dialog: choose a file, check what was understood, watch the training, open the result.

import { detailOf } from "../core/api.js";
import { h, iconButton } from "../core/dom.js";
import { short } from "../core/charts.js";
import { chooseStep, uploadStep, waitStep } from "./choose.js";
import { curveChart } from "./curve.js";
import { discard, stop, train, upload } from "./service.js";
import { openRun } from "./training.js";
import { checkStep } from "./understood.js";
import { phase, times } from "./words.js";

/** @import { App } from "#types" */
/** @import { Training, Watch, What } from "./service.js" */

const STEPS = ["Your file", "What we understood", "Training"];
const STEP_OF = { idle: 0, uploading: 0, examining: 1, understood: 1, training: 2, ready: 2 };

/** @type {Dialog | null} */
let shown = null;

/** @param {App} app @param {Watch} watch */
export function open(app, watch) {
  shown ??= new Dialog(app, watch);
  shown.open();
}

class Dialog {
  #app;
  #watch;
  #body = h("div", { class: "training-body" });
  #steps = h("ol", { class: "training-steps", "aria-label": "Steps" }, STEPS.map((text) => h("li", { text })));
  #said = h("p", { class: "unseen", role: "status" });
  /** What is shown: drawn anew when it changes, updated in place while it does not. */
  #key = "";
  /** @type {((now: Training) => void) | null} */
  #update = null;
  /** @type {AbortController | null} */
  #sending = null;
  /** @type {string | null} */
  #trouble = null;

  /** @param {App} app @param {Watch} watch */
  constructor(app, watch) {
    this.#app = app;
    this.#watch = watch;
    /** @type {HTMLDialogElement} */
    this.element = h(
      "dialog",
      {
        class: "dialog training", "aria-labelledby": "training-title",
        on: {
          close: () => {
            watch.isSeen = false;
            this.#trouble = null;
          },
          // A file dropped beside its place would open in place of the page.
          dragover: (/** @type {Event} */ event) => event.preventDefault(),
          drop: (/** @type {Event} */ event) => event.preventDefault(),
        },
      },
      h(
        "div",
        { class: "dialog-body" },
        h("div", { class: "panel-head" }, h("h2", { id: "training-title", tabindex: "-1", text: "Open your own data" }), iconButton("close", "Close", () => this.element.close())),
        this.#steps,
        this.#body,
        this.#said,
      ),
    );
    document.body.append(this.element);
    watch.subscribe((now, before) => this.#show(now, before));
  }

  open() {
    if (this.element.open) return;
    this.#watch.isSeen = true;
    this.element.showModal();
    this.#key = ""; // runs may have come and gone
    if (this.#watch.now) this.#show(this.#watch.now, null);
    this.#watch.look();
  }

  /** @param {Training} now @param {Training | null} before */
  #show(now, before) {
    if (!this.element.open || this.#sending) return;
    const at = STEP_OF[now.state];
    [...this.#steps.children].forEach((step, i) => {
      step.classList.toggle("is-done", i < at);
      if (i === at) step.setAttribute("aria-current", "step");
      else step.removeAttribute("aria-current");
    });
    if (before && before.state === now.state && before.progress?.phase !== now.progress?.phase && now.progress) this.#say(phase(now.progress));
    const key = JSON.stringify([now.state, now.message, this.#trouble, now.understood, now.state === "understood" && now.files]);
    if (key === this.#key) {
      this.#refresh(now);
      return;
    }
    this.#key = key;
    this.#update = null;
    const focused = document.activeElement?.id;
    this.#body.replaceChildren(...this.#content(now));
    this.#refresh(now);
    this.#focusAgain(focused);
  }

  /** @param {Training} now */
  #refresh(now) {
    this.#update?.(now);
  }

  /** @param {Training} now @returns {Node[]} */
  #content(now) {
    const problem = this.#trouble ?? now.message;
    const told = problem ? [h("p", { class: "training-problem", role: "alert", dir: "auto", text: problem })] : [];
    switch (now.state) {
      case "idle": return [...told, chooseStep(this.#app, now.limit, (file) => this.#send("events", file))];
      case "uploading": return [...told, waitStep("A file is being sent, perhaps by another window.", () => this.#do(discard))];
      case "examining": return [...told, waitStep(`Reading ${now.files.events ?? "your file"} …`, () => this.#do(discard))];
      case "understood":
        return [
          ...told,
          checkStep(now, {
            take: (status) => this.#watch.set(status),
            send: (file) => this.#send("items", file),
            again: () => this.#do(discard),
            start: (options) => this.#do(() => train(options)),
            fail: (error) => this.#fail(error),
          }),
        ];
      case "training": return [...told, this.#progress()];
      case "ready": return [...told, this.#result(now)];
    }
  }

  /** How a training goes. */
  #progress() {
    const title = h("h3", {});
    const clock = h("p", { class: "quiet" });
    const chart = h("div", {});
    const bar = h("progress", { "aria-labelledby": "training-phase" });
    title.id = "training-phase";
    const keepIt = h("button", { type: "button", class: "button primary", on: { click: () => this.#do(stop) } }, "Stop and keep the best so far");
    const drop = h("button", { type: "button", class: "text-button", text: "Discard", on: { click: () => this.#do(discard) } });
    const hint = h("p", { class: "quiet" });
    const details = h("dl", { class: "training-details" });
    this.#update = ({ progress }) => {
      if (!progress) return;
      const { curve, is_stopping: isStopping, phase: name, done, total } = progress;
      title.textContent = phase(progress);
      clock.textContent = times(progress);
      if (name === "training" && total) Object.assign(bar, { max: total, value: done });
      else bar.removeAttribute("value");
      if (chart.dataset.points !== String(curve.length)) {
        chart.dataset.points = String(curve.length);
        chart.replaceChildren(curveChart(curve));
      }
      keepIt.hidden = name !== "training" || isStopping;
      keepIt.textContent = curve.length ? "Stop and keep the best so far" : "Stop";
      hint.textContent = isStopping || (name !== "training" && curve.length)
        ? "It keeps the pass that was best, and names its groups and sliders, which takes a moment."
        : curve.length
          ? "You may close this and go on working; the bar on top leads back here."
          : "Nothing would be kept yet: the first pass is not over.";
      const last = curve.at(-1);
      details.replaceChildren(
        ...[
          ["Epoch", last ? `${last.epoch} of at most ${progress.epochs}` : "–"],
          ["NDCG@100 on validation users", short(last?.accuracy)],
          ["Loss per user", short(last?.loss)],
          ...progress.notes.map((note) => ["Note", note]),
        ].map(([term, text]) => h("div", {}, h("dt", { text: term }), h("dd", { text }))),
      );
    };
    return h(
      "section",
      { class: "training-progress" },
      title,
      bar,
      clock,
      chart,
      hint,
      h("details", {}, h("summary", { text: "Details" }), details),
      h("p", { class: "training-foot" }, drop, keepIt),
    );
  }

  /** @param {Training} now */
  #result({ result }) {
    if (!result) return h("p", {});
    const { run, accuracy, baselines, is_stopped: isStopped, curve, concepts } = result;
    const popular = baselines.Popularity;
    const words = [
      accuracy === null ? "" : `On customers kept aside for this, its accuracy is ${short(accuracy)} of 1`,
      accuracy !== null && typeof popular === "number" ? `; recommending what is popular reaches ${short(popular)}` : "",
    ].join("");
    this.#say(`${run} is ready. ${words}`);
    return h(
      "section",
      { class: "training-result" },
      h("h3", { dir: "auto" }, `${run} is ready`),
      isStopped && h("p", { text: "It was stopped early and has the best pass so far." }),
      words && h("p", { text: `${words}.` }),
      concepts !== null && h("p", { class: "quiet", text: `It found ${concepts === 1 ? "one group" : `${concepts} groups`} of items.` }),
      curveChart(curve, "best"),
      h(
        "p",
        { class: "training-foot" },
        h("button", { type: "button", class: "text-button", text: "Train on another file", on: { click: () => this.#do(discard) } }),
        h("button", { type: "button", class: "button primary", on: { click: () => this.#open(run) } }, "Open it"),
      ),
    );
  }

  /** @param {string} run */
  async #open(run) {
    try {
      await discard();
      await openRun(this.#app, run);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {What} what @param {File} file */
  async #send(what, file) {
    const sending = (this.#sending = new AbortController());
    const bar = uploadStep(file, () => sending.abort());
    this.#trouble = null;
    this.#body.replaceChildren(bar.element);
    this.#focusAgain();
    try {
      const now = await upload(what, file, bar.update, sending.signal);
      this.#sending = null;
      this.#key = " ";
      this.#watch.set(now);
    } catch (error) {
      this.#sending = null;
      this.#key = " ";
      if (sending.signal.aborted) this.#watch.look();
      else this.#fail(error);
    }
  }

  /** @param {() => Promise<Training>} ask */
  async #do(ask) {
    this.#trouble = null;
    try {
      this.#watch.set(await ask());
    } catch (error) {
      this.#fail(error);
    }
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#trouble = detailOf(error);
    this.#watch.look();
  }

  /** @param {string} text */
  #say(text) {
    this.#said.textContent = text;
  }

  /**
   * What had the focus may be gone with the step.
   * @param {string} [id]
   */
  #focusAgain(id) {
    if (id) document.getElementById(id)?.focus();
    if (!this.element.contains(document.activeElement) || document.activeElement === this.element) this.element.querySelector("h2")?.focus();
  }
}
