// @ts-check
// Why an item has its place: a sentence, and a sum that can be checked.

import * as api from "../core/api.js";
import { conceptColour } from "../core/colours.js";
import { append, clear, h } from "../core/dom.js";
import { count, number, percent, signed } from "../core/format.js";
import { thumbButton } from "../core/items.js";
import { placeBefore, raisedBy, rowsOf, strongest, total } from "./sums.js";

/** @import { Account, App, Child, ExplainRequest, Explanation, Item, Move } from "#types" */
/** @import { Row } from "./sums.js" */

const NAMED = 3; // in the sentence
const LONGEST = 80; // characters of a title there

export class Why {
  element = h("section", { class: "why", hidden: true, "aria-live": "polite" });
  /** @type {App} */
  #app;
  /** @type {Item} */
  #item;
  #asked = ""; // what the latest question was

  /** @param {App} app @param {Item} item */
  constructor(app, item) {
    [this.#app, this.#item] = [app, item];
  }

  /** Asks again if anything has changed. */
  async update() {
    const request = this.#request();
    const asked = JSON.stringify(request);
    if (asked === this.#asked) return;
    this.#asked = asked;
    if (!request) {
      this.element.hidden = true;
      return;
    }
    this.element.setAttribute("aria-busy", "true");
    try {
      const { items, fallback } = await api.explain(request);
      if (asked === this.#asked) this.#draw(items[0], { concept: request.concept ?? null, isPopular: Boolean(fallback) });
    } catch (error) {
      if (asked !== this.#asked) return;
      this.element.hidden = false;
      clear(this.element).append(heading(), h("p", { class: "quiet", text: api.detailOf(error) }));
    } finally {
      if (asked === this.#asked) this.element.removeAttribute("aria-busy");
    }
  }

  /** The list shown, or the overall one where the item belongs elsewhere. @returns {ExplainRequest | null} */
  #request() {
    const { live, isInHistory } = this.#app;
    if (!live.who || isInHistory(this.#item.id)) return null;
    const { by_concept: _, concept, rules, ...request } = live.request;
    const { shelves: __, ...others } = rules ?? {};
    return {
      ...request,
      ...(concept === this.#item.concept && { concept }),
      ...(Object.keys(others).length && { rules: others }),
      items: [this.#item.id],
    };
  }

  /** @param {Explanation} explanation @param {{ concept: number | null, isPopular: boolean }} list */
  #draw({ share, account }, { concept, isPopular }) {
    const rows = rowsOf(account);
    const group = concept === null ? "" : ` in ${this.#app.label(concept)}`;
    this.element.hidden = false;
    append(
      clear(this.element),
      heading(),
      h("p", { class: "why-place" }, account.left_out.length ? "Not in the list" : [`Place ${number(account.rank)}`, h("span", { class: "quiet", text: ` of ${number(account.of)}${group}` })]),
      h("p", { class: "why-said" }, this.#sentence(account, rows, isPopular)),
      rows.length > 0 && this.#table(account, rows),
      typeof share === "number" && !isPopular &&
        h("p", { class: "quiet" }, `${percent(share)} of the history is in `, h("strong", { text: this.#app.label(this.#item.concept ?? null) ?? "this group" }), "."),
      this.#details(account),
    );
  }

  /** @param {Account} account @param {Row[]} rows @param {boolean} isPopular @returns {Child[]} */
  #sentence(account, rows, isPopular) {
    const before = placeBefore(account);
    const moved = rows.filter(({ kind }) => kind === "move");
    const start = account.stages[0].rank;
    /** @type {Child[]} */
    const said = account.left_out.length ? [`Left out (${account.left_out.join("; ")}); otherwise at place ${number(account.rank)}. `] : [];
    if (moved.length) {
      const by = before - account.rank;
      return [...said, by ? `${steps(by)} since the sliders moved: ` : "The sliders cancel out: ", this.#listed(moved), "."];
    }
    if (isPopular && !rows.length) return [...said, "There is no history yet: this is what is popular."];
    if (!rows.length) {
      const titles = raisedBy(account, 2).map(title);
      const speak = titles.length ? [" In the history, ", titles[0], titles.length > 1 && [" and ", titles[1]], titles.length > 1 ? " speak" : " speaks", " for it most."] : [];
      return [...said, "The same place as for customers in general.", ...speak];
    }
    const by = start - account.rank;
    return [...said, by ? `${steps(by)}, from ${number(start)} for customers in general: ` : "The same place as for customers in general: ", this.#listed(rows), "."];
  }

  /** @param {Row[]} rows @returns {Child[]} */
  #listed(rows) {
    const { named, others, places } = strongest(rows, NAMED);
    const shown = (/** @type {Row} */ row, label = this.#label(row)) => (row.kind === "item" ? title(label) : row.kind === "rule" ? `“${label}”` : label);
    const parts = named.map((row) => [shown(row), ` ${change(row.places)}`]);
    if (others) parts.push([`${count(others, "other")} ${change(places)}`]);
    return parts.flatMap((part, at) => (at ? [", ", ...part] : part));
  }

  /** @param {Row} row */
  #label({ kind, part }) {
    if (kind === "others") return part.label;
    if (part.move) return this.#slider(/** @type {Move} */ (part.move), part.label);
    return kind === "item" ? part.label : sentenceCase(part.label);
  }

  /** @param {Move} move @param {string} otherwise */
  #slider({ concept, towards, amount, share, name }, otherwise) {
    const group = typeof concept === "number" ? this.#app.label(concept) : null;
    if (typeof share === "number" && group !== null) return `${group} at ${percent(share)}`;
    if (typeof towards === "string") return sentenceCase(`${towards.split(": ").at(-1)} ${(amount ?? 0) < 0 ? "↓" : "↑"}`);
    return sentenceCase(name && group !== null ? `${name}, ${group}` : otherwise);
  }

  /** @param {Account} account @param {Row[]} rows */
  #table(account, rows) {
    const most = Math.max(...rows.map(({ places }) => Math.abs(places)));
    const before = placeBefore(account);
    const line = (/** @type {Row} */ row) =>
      h(
        "tr",
        { class: row.places > 0 ? "up" : "down" },
        h("th", { scope: "row" }, h("span", { class: "why-what" }, this.#picture(row), h("span", { class: "why-label", dir: "auto", text: this.#label(row) }), row.part.standing && h("span", { class: "quiet", text: "always on" }))),
        h("td", { class: "why-bar", "aria-hidden": "true" }, h("span", { style: { "--part": row.places / most } })),
        h("td", { class: "why-places", text: change(row.places) }),
      );
    const place = (/** @type {string} */ text, /** @type {number} */ rank) =>
      h("tr", { class: "why-stop" }, h("th", { scope: "row", colspan: 2, text }), h("td", { class: "why-places", text: number(rank) }));
    const moves = rows.filter(({ kind }) => kind === "move");
    const others = rows.filter(({ kind }) => kind !== "move");
    return h(
      "table",
      { class: "why-sum" },
      h("caption", { class: "unseen", text: "Places gained (+) and lost (−)" }),
      h("thead", { class: "unseen" }, h("tr", {}, ["What", "", "Places"].map((text) => h("th", { scope: "col", text })))),
      h(
        "tbody",
        {},
        place("Place for customers in general", account.stages[0].rank),
        others.map(line),
        moves.length > 0 && others.length > 0 && place("Place before the sliders moved", before),
        moves.map(line),
      ),
      h(
        "tfoot",
        {},
        h("tr", { class: "why-total" }, h("th", { scope: "row", colspan: 2, text: "Together" }), h("td", { class: "why-places", text: change(total(rows)) })),
        place(account.left_out.length ? "Place it would have" : "Place now", account.rank),
      ),
    );
  }

  /** @param {Row} row */
  #picture({ kind, part }) {
    if (kind === "item" && part.item) {
      const known = this.#app.live.items.get(part.item) ?? { id: part.item, title: part.label };
      return thumbButton(known, this.#app.openItem, { size: 32, label: `Open ${part.label}` });
    }
    const concept = kind === "move" ? part.move?.concept : null;
    return h("span", { class: `why-mark ${kind}`, "aria-hidden": "true", style: { "--c": conceptColour(typeof concept === "number" ? concept : null) } });
  }

  /** Scores, for researchers. @param {Account} account */
  #details({ stages, parts, score }) {
    const name = this.#app.card.score_name === "log p" ? "Log-probability" : "Score";
    const by = { history: " (model)", neighbours: " (neighbours)", rule: "", move: "", everybody: "" };
    const line = (/** @type {string} */ label, /** @type {string} */ value) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: "why-label", dir: "auto", text: label })), h("td", { text: value }));
    return h(
      "details",
      { class: "why-details" },
      h("summary", { text: "Details" }),
      h("p", { class: "quiet", text: "Each item passed counts as one place, shared among the items of the history that pushed for it; likewise for places lost. Stages follow each other: popularity, the history by the model, the history by neighbours, rules, sliders." }),
      h(
        "table",
        { class: "why-scores" },
        h("caption", { class: "unseen", text: `${name}, part by part` }),
        h("thead", {}, h("tr", {}, h("th", { scope: "col", text: name }), h("th", { scope: "col" }, h("span", { class: "unseen", text: "Amount" })))),
        h("tbody", {}, line("Customers in general", signed(stages[0].score, 3)), parts.map((part) => line(part.label + by[part.kind], signed(part.amount, 3)))),
        h("tfoot", {}, line("Together", signed(score, 3))),
      ),
    );
  }
}

/** In a sentence, where it must not be endless. @param {string} text */
const title = (text) => h("em", { dir: "auto", text: text.length > LONGEST ? `${[...text.slice(0, LONGEST)].slice(0, -1).join("")}…` : text });

const heading = () => h("h3", { text: "Why is this here?" });

/** @param {number} places */
const change = (places) => `${places < 0 ? "−" : places ? "+" : "±"}${number(Math.abs(places))}`;

/** @param {number} places */
const steps = (places) => `${places > 0 ? "Up" : "Down"} ${count(Math.abs(places), "place")}`;

/** @param {string} text */
const sentenceCase = (text) => text.charAt(0).toLocaleUpperCase() + text.slice(1);
