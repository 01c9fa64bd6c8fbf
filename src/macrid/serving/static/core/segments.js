// @ts-check
// Buttons of which one is pressed.

import { h } from "./dom.js";

/** @template {string} T @param {string} label @param {[value: T, text: string, title?: string][]} options @param {(value: T) => void} choose */
export function segments(label, options, choose) {
  const buttons = new Map(
    options.map(([value, text, title]) => [
      value,
      h("button", { type: "button", text, title, "aria-pressed": "false", on: { click: () => choose(value) } }),
    ]),
  );
  return {
    element: h("div", { class: "segments", role: "group", "aria-label": label }, [...buttons.values()]),
    /** @param {T} chosen */
    select: (chosen) => buttons.forEach((button, value) => button.setAttribute("aria-pressed", String(value === chosen))),
    /** @param {T} value @param {string} text */
    name: (value, text) => {
      const button = buttons.get(value);
      if (button && button.textContent !== text) button.textContent = text;
    },
  };
}
