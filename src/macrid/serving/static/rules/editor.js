// @ts-check
// What one attribute must be: values to tick, a range, yes or no.

import { h, iconButton, segments } from "../core/dom.js";
import { number, plain } from "../core/format.js";

/** @import { Child, ItemAttribute } from "#types" */
/** @import { Filter } from "./filters.js" */

const MANY = 14; // values from which there is a box to find one

/**
 * @param {ItemAttribute} attribute
 * @param {Filter} filter
 * @param {{ change: (filter: Filter) => void, remove: () => void }} does
 * @param {Child} [extra] beside the title
 */
export function editor(attribute, filter, { change, remove }, extra = null) {
  const { name, kind } = attribute;
  const body = kind === "text" ? ticks(attribute, filter, change) : kind === "boolean" ? truth(filter, change) : range(attribute, filter, change);
  return h(
    "div",
    { class: "filter", role: "group", "aria-label": name, "data-name": name },
    h("div", { class: "filter-head" }, h("span", { class: "filter-name", text: name }), extra, iconButton("close", `Remove ${name}`, remove, { class: "small" })),
    body,
  );
}

/** @param {ItemAttribute} attribute @param {Filter} filter @param {(filter: Filter) => void} change */
function ticks({ name, values }, filter, change) {
  const chosen = new Set(filter.values ?? []);
  const listed = [...[...chosen].filter((value) => !values.some((one) => one.value === value)).map((value) => ({ value, items: null })), ...values];
  const buttons = listed.map(({ value, items }) => h(
    "button",
    {
      type: "button", class: "tick", "aria-pressed": String(chosen.has(value)), "data-value": value,
      on: { click: () => change({ name, values: chosen.has(value) ? [...chosen].filter((one) => one !== value) : [...chosen, value] }) },
    },
    h("span", { dir: "auto", text: value }),
    items !== null && h("span", { class: "tick-count", text: number(items) }),
  ));
  const box = listed.length > MANY && h("input", {
    class: "field", type: "search", placeholder: `Find a value of ${name}…`, "aria-label": `Find a value of ${name}`,
    on: { input: (/** @type {Event} */ event) => {
      const wanted = /** @type {HTMLInputElement} */ (event.target).value.trim().toLowerCase();
      buttons.forEach((button, at) => (button.hidden = !listed[at].value.toLowerCase().includes(wanted)));
    } },
  });
  return [box, h("div", { class: "ticks" }, buttons)];
}

/** @param {ItemAttribute} attribute @param {Filter} filter @param {(filter: Filter) => void} change */
function range({ name, kind, low, high }, filter, change) {
  const type = kind === "date" ? "date" : "number";
  const field = (/** @type {"low" | "high"} */ which, /** @type {number | string | null} */ end) => {
    /** @type {HTMLInputElement} */
    const input = h("input", {
      class: "field", type, step: "any", value: filter[which] ?? "", "aria-label": `${name}, ${which === "low" ? "at least" : "at most"}`,
      placeholder: typeof end === "number" ? plain(end) : (end ?? ""),
      on: { change: () => change({ name, ...other(filter, which), ...(input.value && { [which]: input.value }) }) },
    });
    return input;
  };
  return h("div", { class: "filter-range" }, h("span", { text: "from" }), field("low", low), h("span", { text: "to" }), field("high", high));
}

/** @param {Filter} filter @param {"low" | "high"} which @returns {Partial<Filter>} the other end */
const other = ({ low, high }, which) => (which === "low" ? (high ? { high } : {}) : low ? { low } : {});

/** @param {Filter} filter @param {(filter: Filter) => void} change */
function truth({ name, truth: is }, change) {
  const choice = segments(name, [["yes", "Yes"], ["no", "No"]], (value) => change({ name, truth: value === "yes" }));
  if (is !== undefined) choice.select(is ? "yes" : "no");
  return choice.element;
}
