// Elements without a framework. Titles and names come from data: they only ever become text nodes or attribute values.

const SVG = "http://www.w3.org/2000/svg";

export const h = (tag, props, ...children) => build(document.createElement(tag), props, children);

export const svg = (tag, props, ...children) => build(document.createElementNS(SVG, tag), props, children);

export function clear(node) {
  node.replaceChildren();
  return node;
}

export function append(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** A button that shows an icon only; its name is read out and shown on hover. */
export function iconButton(name, label, click, props = {}) {
  const { class: extra = "", ...rest } = props;
  return h("button", { type: "button", class: `icon-button ${extra}`, "aria-label": label, title: label, on: { click }, ...rest }, icon(name));
}

const ICONS = {
  add: "M10 4v12M4 10h12",
  check: "M4 10.5l4 4 8-9",
  close: "M5 5l10 10M15 5L5 15",
  undo: "M7 5L3.5 8.5 7 12M4 8.5h7.5a4.5 4.5 0 0 1 0 9H9",
  reset: "M4.5 10a5.5 5.5 0 1 0 1.8-4.1M4.5 3.5v3.2h3.2",
  share: "M10 12.5V3M6.5 6L10 2.8 13.5 6M4.5 10v6.5h11V10",
  code: "M7 6l-4 4 4 4M13 6l4 4-4 4",
  pencil: "M4 16l.8-3.4L13.2 4.2a1.6 1.6 0 0 1 2.3 0l.3.3a1.6 1.6 0 0 1 0 2.3L7.4 15.2z",
  previous: "M12 5l-5 5 5 5",
  next: "M8 5l5 5-5 5",
  shuffle: "M3 6h3.2l6.6 8H17M3 14h3.2l1.6-2M11.4 8.2L12.8 6H17M15 4l2 2-2 2M15 12l2 2-2 2",
  search: "M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM13 13l4 4",
  theme: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
  more: "M5 8l5 5 5-5",
};

export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

function build(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (name === "style") for (const [property, given] of Object.entries(value)) setStyle(node, property, given);
    else if (name === "text") node.append(String(value));
    else if (name === "value" && "value" in node && !(node instanceof SVGElement)) node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  return append(node, children);
}

function setStyle(node, property, value) {
  if (property.startsWith("--")) node.style.setProperty(property, value);
  else node.style[property] = value;
}
