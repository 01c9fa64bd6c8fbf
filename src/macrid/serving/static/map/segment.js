// @ts-check
// The panel of a segment: what it is, who likes it, and what to do with it.

import * as api from "../core/api.js";
import { append, clear, h, iconButton } from "../core/dom.js";
import { download, fileName } from "../core/files.js";
import { count, number } from "../core/format.js";
import { failure, thumbButton, titleOf } from "../core/items.js";
import { BOM } from "../share/csv.js";
import { json, rowsOf, table } from "./export.js";
import { fondText, isPlain, rarer, shift, trait, whoText } from "./profile.js";
import { LONGEST_NAME } from "./segments.js";

/** @import { App, Found, SegmentProfile } from "#types" */
/** @import { Segment } from "./segments.js" */
/** @import { Trait } from "./profile.js" */
/** @typedef {{ name: string | null, ids: string[], missing: number }} Chosen name: of a kept one; missing: items of it that this run does not have */
/**
 * @typedef {object} Does
 * @property {(name: string, ids: string[]) => void} keep
 * @property {(name: string, to: string) => void} rename
 * @property {(name: string) => void} remove
 * @property {(ids: string[]) => void} only recommend from these
 * @property {(ids: string[]) => void} out never recommend these
 * @property {(ids: string[]) => void} add to the history
 * @property {(segment: { name: string, items: string[], at_least: number }) => void} meet its customers
 * @property {() => void} close
 */

const FEW = 6; // examples
const FIRST = 6; // traits before "show all"
const FIRST_LESS = 3;
const USUAL_LEAST = 2; // items of the segment that its customers have

export class SegmentPanel {
  element = h("section", { class: "segment", "aria-labelledby": "segment-title", hidden: true });
  /** @type {App} */
  #app;
  /** @type {Does} */
  #does;
  #control = new AbortController();

  /** @param {App} app @param {Does} does */
  constructor(app, does) {
    [this.#app, this.#does] = [app, does];
  }

  get isOpen() {
    return !this.element.hidden;
  }

  hide() {
    this.#control.abort();
    this.element.hidden = true;
  }

  /**
   * @param {Chosen} chosen
   * @param {{ fresh: number, room: number, fits: number }} limits fresh: items not in the history; room: how many it can
   *   take; fits: how many a rule can name
   */
  async show(chosen, limits) {
    this.#control.abort();
    this.#control = new AbortController();
    const { signal } = this.#control;
    const body = h("div", { class: "segment-body" }, h("div", { class: "skeleton line", "aria-hidden": "true" }), h("div", { class: "skeleton block", "aria-hidden": "true" }));
    append(clear(this.element), this.#head(chosen), this.#naming(chosen), body, this.#actions(chosen, limits));
    this.element.hidden = false;
    try {
      const profile = await api.segmentProfile(chosen.ids, signal);
      this.#app.live.remember(profile.examples);
      if (!signal.aborted) append(clear(body), this.#examples(profile.examples), this.#traits(profile), this.#customers(chosen, profile));
    } catch (error) {
      if (!signal.aborted) clear(body).append(failure(error, () => this.show(chosen, limits)));
    }
  }

  /** @param {Chosen} chosen */
  #head({ name, ids, missing }) {
    const items = count(ids.length, "item");
    return [
      h(
        "header",
        { class: "segment-head" },
        h("h3", { id: "segment-title", dir: "auto", text: name ?? `${items} selected` }),
        iconButton("close", "Close the segment", this.#does.close, { class: "small" }),
      ),
      name !== null && h("p", { class: "quiet", text: items }),
      missing > 0 && h("p", { class: "segment-missing", role: "note", text: `${count(missing, "other item")} of it ${missing === 1 ? "is" : "are"} not on this map and left out.` }),
    ];
  }

  /** @param {Chosen} chosen */
  #naming({ name, ids }) {
    const input = h("input", {
      class: "field", id: "segment-name", maxlength: String(LONGEST_NAME), autocomplete: "off", value: name ?? "", placeholder: "Name this segment",
      "aria-label": name === null ? "Name this segment" : "Name of the segment",
    });
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      const text = input.value.trim();
      if (!text || text === name) input.focus();
      else if (name === null) this.#does.keep(text, ids);
      else this.#does.rename(name, text);
    };
    return h(
      "form",
      { class: "segment-naming", on: { submit } },
      input,
      h("button", { class: "button", text: name === null ? "Keep" : "Rename" }),
      name !== null && h("button", { type: "button", class: "text-button", text: "Delete", on: { click: () => this.#does.remove(name) } }),
    );
  }

  /** @param {Found[]} items */
  #examples(items) {
    const few = items.slice(0, FEW);
    if (this.#app.card.has_pictures) return h("div", { class: "segment-few" }, few.map((item) => thumbButton(item, this.#app.openItem, { size: 40 })));
    return h("ul", { class: "segment-titles", "aria-label": "The most popular" }, few.map((item) => h("li", {},
      h("button", { type: "button", class: "segment-item", dir: "auto", title: titleOf(item), "data-id": item.id, text: titleOf(item), on: { click: () => this.#app.openItem(item.id) } }))));
  }

  /** @param {SegmentProfile} profile */
  #traits(profile) {
    if (isPlain(profile)) return h("p", { class: "quiet", text: "Nothing sets these items apart from the rest, as far as is known." });
    const { more, numbers } = profile;
    const less = rarer(profile);
    return [
      more.length > 0 && [h("h4", { text: "What it has more often" }), traitList(more.map(trait), FIRST, "More often")],
      numbers.length > 0 && [
        h("h4", { text: "Higher or lower" }),
        h("ul", { class: "traits" }, numbers.map(shift).map(({ name, text }) => h("li", { class: "trait" }, h("strong", { class: "trait-name", dir: "auto", text: name }), h("span", { class: "trait-text", text })))),
      ],
      less.length > 0 && [h("h4", { text: "Less often" }), traitList(less.map(trait), FIRST_LESS, "Less often")],
      details(profile),
    ];
  }

  /** @param {Chosen} chosen @param {SegmentProfile} profile */
  #customers({ name, ids }, { customers }) {
    if (!customers.total) return null;
    const most = Math.max(1, customers.at_least.length);
    const input = h("input", { class: "field", type: "number", id: "segment-least", min: "1", max: String(most), value: String(Math.min(USUAL_LEAST, most)) });
    const atLeast = () => Math.max(1, Math.min(most, Math.round(Number(input.value)) || 1));
    const who = h("strong", { role: "status" });
    const meet = h("button", {
      type: "button", class: "button", text: "Recommend to them", id: "segment-meet",
      on: { click: () => this.#does.meet({ name: name ?? count(ids.length, "item"), items: ids, at_least: atLeast() }) },
    });
    const tell = () => {
      who.textContent = whoText(customers, atLeast());
      meet.disabled = !customers.at_least[atLeast() - 1];
    };
    input.addEventListener("input", tell);
    tell();
    return [
      h("h4", { text: "Who likes it" }),
      h("p", { class: "segment-least" }, h("label", { for: "segment-least", text: "Has at least" }), input, h("span", { text: "of these:" }), who),
      h("p", { class: "quiet", text: fondText(customers) }),
      meet,
    ];
  }

  /** @param {Chosen} chosen @param {{ fresh: number, room: number, fits: number }} limits */
  #actions({ name, ids }, { fresh, room, fits }) {
    const isTooMany = ids.length > fits;
    const some = Math.min(fresh, room);
    const button = (/** @type {string} */ text, /** @type {() => unknown} */ click, /** @type {boolean} */ isOff = false, kind = "") =>
      h("button", { type: "button", class: `button ${kind}`, text, disabled: isOff, on: { click } });
    const save = async (/** @type {"csv" | "json"} */ kind) => {
      try {
        const rows = await rowsOf(ids, this.#app.card.limits.history);
        const file = `${fileName(name ?? "segment")}.${kind}`;
        if (kind === "csv") download(file, BOM + table(rows), "text/csv;charset=utf-8");
        else download(file, json(rows));
      } catch (error) {
        this.#app.toast(api.detailOf(error, "The file could not be made."));
      }
    };
    return h(
      "div",
      { class: "segment-actions", role: "group", "aria-label": "What to do with it" },
      button("Only recommend from this", () => this.#does.only(ids), isTooMany, "primary"),
      button("Keep out", () => this.#does.out(ids), isTooMany),
      button(some < fresh ? `Add the first ${number(some)} to the history` : "Add to history", () => this.#does.add(ids), some === 0),
      button("Export CSV", () => save("csv")),
      button("Export JSON", () => save("json")),
      isTooMany && h("p", { class: "quiet", text: `A rule can name ${number(fits)} items at most. Select fewer to recommend from them or to keep them out.` }),
    );
  }
}

/**
 * @param {Trait[]} traits
 * @param {number} first so many at first
 * @param {string} label
 */
function traitList(traits, first, label) {
  const list = h("ul", { class: "traits", "aria-label": label }, traits.slice(0, first).map(traitRow));
  if (traits.length <= first + 1) return append(list, traits.slice(first).map(traitRow));
  /** @type {HTMLButtonElement} */
  const more = h("button", {
    type: "button", class: "text-button", text: `Show all ${traits.length}`,
    on: {
      click: () => {
        append(list, traits.slice(first).map(traitRow));
        more.remove();
      },
    },
  });
  return [list, more];
}

/** @param {Trait} trait */
function traitRow({ name, of, text, inside, outside }) {
  const at = (/** @type {number} */ share) => `${(100 * share).toFixed(1)}%`;
  return h(
    "li",
    { class: "trait" },
    h("strong", { class: "trait-name", dir: "auto", title: name }, name, " ", h("span", { class: "trait-of", text: of })),
    h("span", { class: "trait-text", text }),
    h("span", { class: "trait-bar", "aria-hidden": "true" },
      h("span", { class: "trait-here", style: { width: at(inside) } }), h("span", { class: "trait-there", style: { insetInlineStart: at(outside) } })),
  );
}

/** @param {SegmentProfile} profile */
function details({ more, less, numbers }) {
  const rows = [...more, ...less].map(({ label, attribute, lift, z }) => [label, attribute, lift === null ? "–" : `${number(lift)} ×`, number(z)]);
  rows.push(...numbers.map(({ attribute, higher, z }) => [attribute, attribute, `${number(higher)} higher`, number(z)]));
  return h(
    "details",
    { class: "segment-details" },
    h("summary", { text: "Details" }),
    h("p", { class: "quiet", text: "Only differences that chance gives in less than 1 of 100 segments like this: binomial tests of values and rank tests (Mann–Whitney) of medians, corrected for their number. z: standard deviations from chance." }),
    h("div", { class: "segment-scroll", tabindex: "0", role: "region", "aria-label": "Statistics" }, h("table", {},
      h("thead", {}, h("tr", {}, ["Value", "Attribute", "Ratio", "z"].map((text) => h("th", { scope: "col", text })))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text) => h("td", { dir: "auto", text }))))))),
  );
}

export class KeptSegments {
  element = h("section", { class: "segments-kept", "aria-labelledby": "segments-title" });

  /**
   * @param {(Segment & { here: number })[]} all here: items of it on the map
   * @param {{ open: (segment: Segment) => void, remove: (name: string) => void }} does
   */
  draw(all, { open, remove }) {
    append(
      clear(this.element),
      h("h3", { id: "segments-title", text: "Segments" }),
      all.length === 0 && h("p", { class: "quiet", text: "Draw around items to see what they have in common: choose the loop on the map, or drag with Shift. Segments that you name are kept here." }),
      all.length > 0 && h("ul", {}, all.map((segment) => h(
        "li",
        { class: "segment-row" },
        h("button", { type: "button", class: "legend-entry", on: { click: () => open(segment) } },
          h("span", { class: "legend-label", dir: "auto", title: segment.name, text: segment.name }), h("span", { class: "legend-count", text: number(segment.here) })),
        iconButton("close", `Delete ${segment.name}`, () => remove(segment.name), { class: "small" }),
      ))),
    );
  }
}
