// @ts-check
// Elements without a framework. Titles and names come from data: they only ever become text nodes or attribute values.

/** @import { Child, Props } from "#types" */

const SVG = "http://www.w3.org/2000/svg";

/** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {Props} [props] @param {...Child} children @returns {HTMLElementTagNameMap[T]} */
export const h = (tag, props, ...children) => build(document.createElement(tag), props, children);

/** @template {keyof SVGElementTagNameMap} T @param {T} tag @param {Props} [props] @param {...Child} children @returns {SVGElementTagNameMap[T]} */
export const svg = (tag, props, ...children) => build(document.createElementNS(SVG, tag), props, children);

export const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/**
 * The element with an id that index.html has.
 * @param {string} id
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return element;
}

/** @template {Element} E @param {E} node @returns {E} */
export function clear(node) {
  node.replaceChildren();
  return node;
}

/** @template {Element} E @param {E} node @param {...Child} children @returns {E} */
export function append(node, ...children) {
  for (const child of /** @type {Exclude<Child, Child[]>[]} */ (children.flat(/** @type {1} */ (Infinity)))) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/**
 * A button that shows an icon only; its name is read out and shown on hover.
 * @param {keyof typeof ICONS} name
 * @param {string} label
 * @param {() => unknown} click
 * @param {Props} [props]
 */
export function iconButton(name, label, click, props = {}) {
  const { class: extra = "", ...rest } = props;
  return h("button", { type: "button", class: `icon-button ${extra}`, "aria-label": label, title: label, on: { click: () => click() }, ...rest }, icon(name));
}

const ICONS = {
  add: "M10 4v12M4 10h12",
  check: "M4 10.5l4 4 8-9",
  close: "M5 5l10 10M15 5L5 15",
  undo: "M7 5L3.5 8.5 7 12M4 8.5h7.5a4.5 4.5 0 0 1 0 9H9",
  redo: "M13 5l3.5 3.5L13 12M16 8.5H8.5a4.5 4.5 0 0 0 0 9H11",
  keys: "M3 6h14v8H3zM6 9h.01M9 9h.01M12 9h.01M15 9h-.01M7 11.8h6",
  reset: "M4.5 10a5.5 5.5 0 1 0 1.8-4.1M4.5 3.5v3.2h3.2",
  code: "M7 6l-4 4 4 4M13 6l4 4-4 4",
  pencil: "M4 16l.8-3.4L13.2 4.2a1.6 1.6 0 0 1 2.3 0l.3.3a1.6 1.6 0 0 1 0 2.3L7.4 15.2z",
  previous: "M12 5l-5 5 5 5",
  next: "M8 5l5 5-5 5",
  shuffle: "M3 6h3.2l6.6 8H17M3 14h3.2l1.6-2M11.4 8.2L12.8 6H17M15 4l2 2-2 2M15 12l2 2-2 2",
  theme: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
  more: "M5 8l5 5 5-5",
  remove: "M4 10h12",
  swap: "M4 7h11M12 4l3 3-3 3M16 13H5M8 10l-3 3 3 3",
  upload: "M10 13V4M6.5 7.5L10 4l3.5 3.5M4 12v3.5h12V12",
  saved: "M5.5 3.5h9V17L10 13.5 5.5 17z",
  fit: "M3 7V3h4M13 3h4v4M17 13v4h-4M7 17H3v-4",
  pin: "M7 3h6l-.8 5.5L15 12H5l2.8-3.5zM10 12v5",
  ban: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM5.2 5.2l9.6 9.6",
  lasso: "M10 4c4 0 7 1.8 7 4.2S14 12.5 10 12.5 3 10.7 3 8.2 6 4 10 4zM6 12c-1.5 1-1.5 3 .3 3.2 1.5.2 1 2.3-.8 2.3",
};

/**
 * Buttons of which one is pressed.
 * @template {string} T
 * @param {string} label
 * @param {[value: T, text: string, title?: string][]} options
 * @param {(value: T) => void} choose
 */
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

/** @param {keyof typeof ICONS} name */
export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

/** @template {HTMLElement | SVGElement} E @param {E} node @param {Props | undefined} props @param {Child[]} children @returns {E} */
function build(node, props, children) {
  const { on = {}, style = {}, ...rest } = props ?? {};
  for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
  for (const [property, value] of Object.entries(style)) setStyle(node, property, value);
  for (const [name, value] of Object.entries(rest)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.append(String(value));
    else if (name === "value" && node instanceof HTMLElement && "value" in node) node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  return append(node, children);
}

/**
 * @param {HTMLElement | SVGElement} node
 * @param {string} property as CSS or as JavaScript spells it
 * @param {string | number | null | undefined} value
 */
function setStyle(node, property, value) {
  node.style.setProperty(property.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`), value === null || value === undefined ? null : String(value));
}
