// @ts-check
// Three steps that show a newcomer around, once; nothing is blocked meanwhile.

import { h } from "../core/dom.js";
import { keep } from "../core/kept.js";
import { styles } from "../core/panel.js";

/** @import { App } from "#types" */

/** @type {{ at: string, title: string, text: string }[]} */
const STEPS = [
  { at: "knobs", title: "1. Move a slider", text: "More of this, less of that. Or say it in words: “newer, less horror”." },
  { at: "picks", title: "2. Watch the list", text: "It follows while you drag. Marks say what is new and what moved; click anything to see why it is there." },
  { at: "you", title: "3. Whose list is it?", text: "Pick another customer, or start with an empty history. Undo takes everything back, and a link sends it to a colleague." },
];

let isOpen = false;

/** @param {App} app */
export async function start(app) {
  if (isOpen) return;
  isOpen = true;
  if (app.store.get().view !== "picks") app.store.step({ view: "picks" });
  await styles("tour/tour.css");
  const before = document.activeElement;
  const title = h("h2", { id: "tour-title" });
  const text = h("p");
  const dots = h("span", { class: "tour-dots", "aria-hidden": "true" }, STEPS.map(() => h("span")));
  /** @type {HTMLElement} */
  const next = h("button", { type: "button", class: "button primary", on: { click: () => show(step + 1) } });
  const skip = h("button", { type: "button", class: "text-button", text: "Skip", on: { click: end } });
  /** @type {HTMLElement} */
  const box = h(
    "div",
    { class: "tour", role: "dialog", "aria-labelledby": "tour-title", tabindex: "-1", on: { keydown: (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && end() } },
    title,
    text,
    h("div", { class: "tour-foot" }, dots, skip, next),
  );
  let step = -1;
  /** @type {HTMLElement | null} */
  let target = null;

  /** @param {number} to */
  function show(to, isAsked = true) {
    if (to >= STEPS.length) {
      end();
      return;
    }
    step = to;
    target?.classList.remove("is-toured");
    target = document.getElementById(STEPS[to].at);
    target?.classList.add("is-toured");
    const { top = 0, bottom = 0 } = target?.getBoundingClientRect() ?? {};
    if (top > innerHeight * 0.6 || bottom < innerHeight * 0.3) target?.scrollIntoView({ block: "start" });
    title.textContent = STEPS[to].title;
    text.textContent = STEPS[to].text;
    next.textContent = to + 1 < STEPS.length ? "Next" : "Start";
    [...dots.children].forEach((dot, at) => dot.classList.toggle("is-on", at === to));
    place();
    if (isAsked) box.focus({ preventScroll: true });
  }

  /** Beside the part of the page it is about, inside the window. */
  function place() {
    const { left, right, top } = target?.getBoundingClientRect() ?? { left: 0, right: 0, top: 0 };
    const [width, height] = [box.offsetWidth, box.offsetHeight];
    const beside = right + 14 + width < innerWidth ? right + 14 : left - 14 - width;
    const x = beside > 8 ? beside : (innerWidth - width) / 2;
    const y = Math.min(Math.max(top + 60, 90), innerHeight - height - 90);
    Object.assign(box.style, { left: `${Math.max(8, x)}px`, top: `${Math.max(8, y)}px` });
  }

  function end() {
    isOpen = false;
    keep("toured", true);
    target?.classList.remove("is-toured");
    removeEventListener("resize", place);
    box.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
  }

  app.store.subscribe(({ view }) => isOpen && view !== "picks" && end());
  document.body.append(box);
  addEventListener("resize", place);
  show(0, isIdle(before)); // somebody who is typing goes on typing
}

/** @param {Element | null} focused */
const isIdle = (focused) => focused === null || focused === document.body || focused instanceof HTMLButtonElement;
