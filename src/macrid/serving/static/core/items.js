// @ts-check
// Items as a person sees them: a picture, or something designed in its place, and cards.

import { detailOf, showPicture } from "./api.js";
import { conceptColour } from "./colours.js";
import { h, icon, iconButton } from "./dom.js";
import { percent } from "./format.js";

/** @import { CardChange } from "../picks/changes.js" */
/** @import { Model, Shown } from "#types" */

const POSTER = 120; // px from which there is room for words
let hasPictures = false;
let labelOf = /** @type {(concept: number) => string | null} */ (() => null);

/**
 * @param {Model} card
 * @param {(concept: number) => string | null} label what to call a concept
 */
export function configure(card, label) {
  hasPictures = card.has_pictures;
  labelOf = label;
}

/** @param {{ id: string, title?: string | null }} item */
export const titleOf = (item) => item.title?.trim() || item.id;

/**
 * A title as on a poster: "The Matrix" for "Matrix, The (1999)", where the year is among the facts.
 * @param {{ id: string, title?: string | null, facts?: string[] | null }} item
 */
export function posterTitle(item) {
  const title = titleOf(item);
  const [, name, year] = /^(.*\S)\s*\((\d{4})\)$/su.exec(title) ?? [];
  const short = name && item.facts?.includes(year) ? name : title;
  return short.replace(/^(.+), (the|a|an|les?|la|l'|il|el|der|die|das)$/isu, "$2 $1");
}

/**
 * A square picture, or a poster in words where there is none; a small one is a tile in the colour of the group.
 * @param {Shown} item
 * @param {{ alt?: string, size?: number | null, lazy?: boolean }} [options]
 */
export function thumb(item, { alt = "", size = null, lazy = true } = {}) {
  const frame = h("span", { class: "thumb", style: size ? { "--thumb": `${size}px` } : {} });
  if (!hasPictures || item.isUnknown) {
    frame.append(placeholder(item, alt, size));
    return frame;
  }
  const img = h("img", { alt, loading: lazy ? "lazy" : "eager", decoding: "async", draggable: "false" });
  const giveUp = () => frame.replaceChildren(placeholder(item, alt, size));
  img.addEventListener("error", giveUp);
  frame.append(img);
  showPicture(img, item.id).catch(giveUp);
  return frame;
}

/** @param {Shown} item @param {string} alt @param {number | null} size */
function placeholder(item, alt, size) {
  const props = alt ? { role: "img", "aria-label": alt } : { "aria-hidden": "true" };
  return h("span", { class: "placeholder", style: { "--c": conceptColour(item.concept) }, ...props }, (size === null || size >= POSTER) && poster(item));
}

/** @param {Shown} item */
function poster(item) {
  const [first, ...rest] = item.facts ?? [];
  return h(
    "span",
    { class: "poster" },
    h("span", { class: "poster-title", dir: "auto", text: posterTitle(item) }),
    h("span", { class: "poster-facts" }, first && h("span", { dir: "auto", text: first }), rest.map((text) => h("span", { dir: "auto", text }))),
  );
}

/**
 * The likeliest concept of an item; both of an item that two share. How likely, where that is in question.
 * @param {Shown} item
 */
export function conceptTags({ concept, concept_share: share, second_concept: second, second_share: secondShare }) {
  const isClear = typeof second !== "number" && (share ?? 1) >= 0.5;
  return [conceptTag(concept, isClear ? null : share), conceptTag(second, secondShare)];
}

/**
 * A dot in the colour of a concept, and its label.
 * @param {number | null | undefined} concept
 * @param {number | null | undefined} share
 */
function conceptTag(concept, share) {
  const label = concept === null || concept === undefined ? null : labelOf(concept);
  if (label === null) return null;
  return h(
    "span",
    { class: "concept-tag" },
    h("span", { class: "dot", style: { "--c": conceptColour(concept) } }),
    h("span", { class: "concept-label", text: label }),
    typeof share === "number" && h("span", { class: "concept-share", text: percent(share) }),
  );
}

/** What a person can do with a card. @typedef {{ open: () => void, like?: () => void, pin?: () => void, exclude?: () => void }} CardActions */

export class ItemCard {
  #rank = h("span", { class: "rank", "aria-hidden": "true" });
  #badge = h("span", { class: "badge", role: "img", hidden: true });
  #like;
  #pin;
  #title;

  /** @param {Shown} item @param {CardActions} does `like`: put it into the history, or take it out; `pin`: the same for pins */
  constructor(item, { open, like, pin, exclude }) {
    const title = (this.#title = titleOf(item));
    const quick = { tabindex: "-1" }; // the sheet has it, too
    this.#pin = pin && iconButton("pin", `Pin ${title}`, pin, { class: "card-tool card-pin", ...quick });
    this.#like = like && iconButton("add", `More like ${title}`, like, { class: "card-tool card-add" });
    this.element = h(
      "article",
      { class: "card", "data-id": item.id },
      h(
        "button",
        { type: "button", class: "card-open", title, on: { click: open } },
        thumb(item),
        h("span", { class: "card-title", dir: "auto", text: title }),
        conceptTags(item),
        item.new && h("span", { class: "card-new", text: "New item", title: item.placed }),
      ),
      this.#rank,
      this.#badge,
      like && h(
        "div",
        { class: "card-tools" },
        this.#pin,
        exclude && iconButton("ban", `Not this: ${title}`, exclude, { class: "card-tool card-ban" }),
        this.#like,
      ),
    );
  }

  /** @param {{ rank: number, change: CardChange | null, isInHistory: boolean, isPinned?: boolean }} now */
  update({ rank, change, isInHistory, isPinned = false }) {
    this.#rank.textContent = String(rank);
    this.#badge.hidden = change === null;
    this.#badge.className = `badge ${change?.kind ?? ""}`;
    this.#badge.textContent = change === null ? "" : change.kind === "in" ? "new" : `${change.kind === "up" ? "↑" : "↓"} ${change.by}`;
    this.#badge.setAttribute("aria-label", change === null ? "" : change.kind === "in" ? "new in the list" : `${change.kind} by ${change.by}`);
    this.#like?.replaceChildren(icon(isInHistory ? "check" : "add"));
    this.#like?.classList.toggle("is-in", isInHistory);
    this.#pin?.classList.toggle("is-in", isPinned);
    for (const name of ["aria-label", "title"]) {
      this.#pin?.setAttribute(name, `${isPinned ? "Unpin" : "Pin"} ${this.#title}`);
      this.#like?.setAttribute(name, isInHistory ? `Remove ${this.#title} from the history` : `More like ${this.#title}`);
    }
  }
}

/**
 * A small picture, or the title where there is none, that opens the item.
 * @param {Shown} item
 * @param {(id: string) => void} open
 * @param {{ size?: number, label?: string }} [options]
 */
export function thumbButton(item, open, { size = 40, label = titleOf(item) } = {}) {
  const looks = hasPictures
    ? thumb(item, { size })
    : h("span", { class: "title-tag", style: { "--c": conceptColour(item.concept) }, dir: "auto", text: posterTitle(item) });
  return h("button", { type: "button", class: "thumb-button", title: label, "aria-label": label, "data-id": item.id, on: { click: () => open(item.id) } }, looks);
}

/**
 * Something went wrong: what, and a way to try again.
 * @param {unknown} error
 * @param {() => unknown} retry
 */
export function failure(error, retry) {
  return h(
    "div",
    { class: "state failure", role: "alert" },
    h("p", { text: detailOf(error, "Something went wrong on this page.") }),
    h("button", { type: "button", class: "button", text: "Try again", on: { click: () => retry() } }),
  );
}
