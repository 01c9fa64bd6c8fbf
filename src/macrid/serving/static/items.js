// Items as a person sees them: a picture, or something designed in its place, and cards.

import { showPicture } from "./api.js";
import { conceptColour } from "./colours.js";
import { h, icon, iconButton } from "./dom.js";
import { percent } from "./format.js";

let hasPictures = false;
let labelOf = () => null;

/** What the model card says about all items; label(concept) is what to call a concept. */
export function configure(card, label) {
  hasPictures = card.has_pictures;
  labelOf = label;
}

export const titleOf = (item) => item.title?.trim() || item.id;

/** A square picture, or initials on the colour of the concept where there is none. */
export function thumb(item, { alt = "", size = null, lazy = true } = {}) {
  const frame = h("span", { class: "thumb", style: size ? { "--thumb": `${size}px` } : {} });
  if (!hasPictures || item.isUnknown) {
    frame.append(placeholder(item, alt));
    return frame;
  }
  const img = h("img", { alt, loading: lazy ? "lazy" : "eager", decoding: "async", draggable: "false" });
  const giveUp = () => frame.replaceChildren(placeholder(item, alt));
  img.addEventListener("error", giveUp);
  frame.append(img);
  showPicture(img, item.id).catch(giveUp);
  return frame;
}

function placeholder(item, alt) {
  const props = alt ? { role: "img", "aria-label": alt } : { "aria-hidden": "true" };
  return h("span", { class: "placeholder", style: { "--c": conceptColour(item.concept) }, ...props }, initials(item));
}

/** Of a title its first letters, of an id its end, which tells it from others. */
function initials(item) {
  const words = titleOf(item).replace(/\s*\(\d{4}\)\s*$/, "").match(/[\p{L}\p{N}]+/gu) ?? ["?"];
  if (!item.title?.trim()) return [...words.at(-1)].slice(-4).join("");
  if (words.length === 1) return [...words[0]].slice(0, 2).join("");
  return words.slice(0, 2).map((word) => [...word][0].toLocaleUpperCase()).join("");
}

/** A dot in the colour of an item's likeliest concept and what that is called; how likely, where others together are likelier. */
export function conceptTag({ concept, concept_share: share }) {
  if (concept === null || concept === undefined || labelOf(concept) === null) return null;
  const text = typeof share === "number" && share < 0.5 ? `${labelOf(concept)} ${percent(share)}` : labelOf(concept);
  return h("span", { class: "concept-tag" }, h("span", { class: "dot", style: { "--c": conceptColour(concept) } }), h("span", { text }));
}

/**
 * A card. change: {kind: "in" | "up" | "down", by}; onOpen and onAdd get the item; isIn: already in the history.
 * `card.update({rank, change, isIn})` changes it in place.
 */
export function itemCard(item, { rank = null, change = null, isIn = false, onOpen = null, onAdd = null } = {}) {
  const badge = h("span", { class: "badge", hidden: true });
  const place = h("span", { class: "rank", "aria-hidden": "true" });
  const open = h(
    "button",
    { type: "button", class: "card-open", on: { click: () => onOpen?.(item) } },
    thumb(item),
    h("span", { class: "card-title", dir: "auto", text: titleOf(item) }),
    conceptTag(item),
  );
  const add = onAdd && iconButton("add", `Add ${titleOf(item)} to your history`, () => onAdd(item), { class: "card-add" });
  const card = h("article", { class: "card", "data-id": item.id, "data-concept": item.concept }, open, place, badge, add);
  card.update = ({ rank: to = null, change: how = null, isIn: has = false }) => {
    place.textContent = to ?? "";
    badge.hidden = how === null;
    badge.className = `badge ${how?.kind ?? ""}`;
    badge.textContent = how === null ? "" : how.kind === "in" ? "new" : `${how.kind === "up" ? "↑" : "↓"} ${how.by}`;
    badge.setAttribute("aria-label", how === null ? "" : how.kind === "in" ? "new in the list" : `${how.kind} by ${how.by}`);
    badge.setAttribute("role", "img");
    if (add) add.replaceChildren(icon(has ? "check" : "add"));
    add?.classList.toggle("is-in", has);
  };
  card.update({ rank, change, isIn });
  return card;
}

/** A small picture that opens the item. */
export function thumbButton(item, onOpen, { size = 40, label = titleOf(item) } = {}) {
  return h(
    "button",
    { type: "button", class: "thumb-button", title: label, "aria-label": label, "data-id": item.id, on: { click: () => onOpen(item.id) } },
    thumb(item, { size }),
  );
}

/** Something went wrong: what, and a way to try again. */
export function failure(error, retry) {
  return h(
    "div",
    { class: "state failure", role: "alert" },
    h("p", { text: error.detail ?? "Something went wrong on this page." }),
    retry && h("button", { type: "button", class: "button", text: "Try again", on: { click: retry } }),
  );
}
