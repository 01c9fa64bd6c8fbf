// @ts-check
// Recommendations: the list, what the moves changed, and what it was before.

import * as api from "../core/api.js";
import { append, clear, h, segments } from "../core/dom.js";
import { count, listed, number } from "../core/format.js";
import { ItemCard, failure, thumbButton, titleOf } from "../core/items.js";
import { allInWords } from "../core/messages.js";
import * as rules from "../rules/rules.js";
import { Cards } from "./cards.js";
import { inTerms, summary } from "./changes.js";

/** @import { App, List } from "#types" */
/** @typedef {"now" | "before" | "both"} Compared */

const GONE = 4; // pictures of what has gone
const QUIET = 700; // ms without a new list before it is read out

/** @param {App} app @param {HTMLElement} root */
export function create(app, root) {
  const { store, live } = app;
  const lists = segments("List", [
    ["overall", "Overall"],
    ["concepts", "By group", "The best of every group"],
    ["shelves", "Shelves", "Rows by how much the customer likes each group, with what clearly belongs to it"],
    ["concept", "Only this group"],
  ], (list) => store.step({ list, ...(list === "concept" && { concept: store.get().concept ?? firstConcept() }) }));
  const views = segments("Compare", [
    ["now", "Now"],
    ["before", "Before"],
    ["both", "Both", "Side by side"],
  ], compare);
  const status = h("div", { class: "status" });
  const notes = h("p", { class: "notes", role: "status", hidden: true });
  const now = new Cards(app, "Recommended");
  const before = new Cards(app, "Before the sliders moved");
  const beforeHead = h("p", { class: "side-head", text: "Before" });
  const nowHead = h("p", { class: "side-head", text: "Now" });
  const sides = {
    before: h("div", { class: "side" }, beforeHead, before.element),
    now: h("div", { class: "side" }, nowHead, now.element),
  };
  const body = h("div", { class: "picks-body" }, sides.before, sides.now);
  const aside = h("div", { class: "picks-aside", hidden: true });
  let compared = /** @type {Compared} */ ("now");
  let reading = 0;

  root.replaceChildren(
    h("div", { class: "picks-head" }, h("h2", { text: "Recommendations" }), lists.element),
    rules.create(app),
    h("div", { class: "status-row" }, status, views.element),
    notes,
    aside,
    body,
  );

  const firstConcept = () => live.encoded?.concepts.reduce((a, b) => (b.share > a.share ? b : a)).concept ?? 0;

  /** @param {Compared} what */
  function compare(what) {
    compared = what;
    live.compare(what !== "now");
    draw();
  }

  function drawControls() {
    const { moves, list, concept } = store.get();
    lists.element.hidden = !app.card.has_concepts;
    lists.select(list);
    lists.name("concept", `Only ${app.label(concept ?? firstConcept()) ?? "one"}`);
    const hasMoves = moves.length > 0;
    if (!hasMoves && compared !== "now") compare("now");
    views.element.hidden = !live.who || !hasMoves;
    views.select(compared);
  }

  function draw() {
    drawControls();
    if (!live.who) return live.isStarted && drawEmpty();
    body.classList.toggle("is-away", live.isAway);
    if (live.error && !(live.isAway && live.lists)) return drawFailure();
    if (!live.lists) return;
    const { list } = store.get();
    if (list === "concepts" && live.lists.length === 1 && app.card.concepts.length > 1) return; // the rows are on their way
    if (app.card.has_concepts && live.hasShelves !== (list === "shelves") && live.rulesError === null) return;
    const unmoved = live.before;
    const shown = compared !== "now" && unmoved === null ? "now" : compared;
    aside.hidden = true;
    body.hidden = false;
    body.className = `picks-body is-${shown} is-${list}${live.isAway ? " is-away" : ""}`;
    sides.before.hidden = shown === "now";
    sides.now.hidden = shown === "before";
    beforeHead.hidden = nowHead.hidden = shown !== "both";
    now.draw(live.lists);
    if (shown !== "now") before.draw(unmoved ?? []);
    drawStatus(live.lists);
    const messages = allInWords(live.warnings);
    notes.hidden = !messages.length;
    notes.textContent = messages.join(" ");
    root.removeAttribute("aria-busy");
  }

  /** @param {List[]} shown */
  function drawStatus(shown) {
    const changed = summary(shown);
    if (!changed) {
      status.replaceChildren(h("span", { text: inWords(shown) }));
      return;
    }
    const words = [
      changed.in && `${number(changed.in)} new`,
      changed.up && `${number(changed.up)} up`,
      changed.down && `${number(changed.down)} down`,
    ].filter((text) => typeof text === "string");
    const gone = changed.gone.map((item) => ({ ...live.items.get(item.id), ...item }));
    const all = gone.length ? [...words, `${number(gone.length)} gone`] : words;
    const terms = shown.length === 1 ? live.differences.flatMap((difference) => inTerms(difference) ?? []) : [];
    append(
      clear(status),
      h("span", { class: "status-words", text: all.length ? words.join(" · ") : "The same list as before" }),
      terms.length > 0 && h("span", { class: "status-terms", dir: "auto", text: terms.join(" · ") }),
      gone.length > 0 &&
        h(
          "span",
          { class: "gone", role: "group", "aria-label": "Gone" },
          h("span", { class: "gone-count", text: `${number(gone.length)} gone` }),
          gone.slice(0, GONE).map((item) => thumbButton(item, app.openItem, { size: 30, label: `Gone: ${titleOf(item)}` })),
        ),
    );
    clearTimeout(reading);
    reading = window.setTimeout(() => app.announce(all.length ? `The list has changed: ${listed([...all, ...terms])}` : "The list has not changed"), QUIET);
  }

  /** @param {List[]} shown */
  function inWords(shown) {
    const { user } = store.get();
    const name = user === null ? "this history" : `customer ${user}`;
    if (live.hasShelves) return shown.length ? `${count(shown.length, "shelf", "shelves")} for ${name}, the favourite group first` : `No shelves for ${name}`;
    if (shown.length > 1) return `The best of every group for ${name}`;
    const [{ concept, items }] = shown;
    const rules = live.hasRules ? ", by your rules" : "";
    if (concept === null) return `The best ${number(items.length)} of ${number(app.card.items)} items for ${name}${rules}`;
    return `The best ${number(items.length)} of ${number(app.concept(concept)?.items ?? 0)} in ${app.label(concept)} for ${name}${rules}`;
  }

  function drawFailure() {
    aside.hidden = false;
    body.hidden = true;
    status.replaceChildren();
    aside.replaceChildren(
      failure(live.error, () => live.meet()),
      h("p", { class: "centre" }, h("button", {
        type: "button", class: "text-button", text: "Start over",
        on: { click: () => store.step({ user: null, history: [], moves: [], rules: {}, list: "overall" }) },
      })),
    );
    root.removeAttribute("aria-busy");
  }

  async function drawEmpty() {
    body.hidden = true;
    notes.hidden = true;
    status.replaceChildren(h("span", { text: "Click a few things this customer likes. The list starts with the first one." }));
    aside.hidden = false;
    try {
      const { items } = await api.search({ limit: 24 });
      if (live.who) return;
      live.remember(items);
      aside.replaceChildren(
        h("p", { class: "aside-title", id: "popular-title", text: "Popular with other customers" }),
        h("div", { class: "grid", role: "group", "aria-labelledby": "popular-title" },
          items.map((item) => new ItemCard(item, { open: () => app.addToHistory(item.id) }).element)),
      );
    } catch (error) {
      aside.replaceChildren(failure(error, drawEmpty));
    }
    root.removeAttribute("aria-busy");
  }

  live.subscribe((parts) => {
    if (parts.includes("busy")) now.element.setAttribute("aria-busy", String(live.isBusy));
    else draw();
  });
  store.subscribe((_, changed) => {
    if (changed.includes("concept") || changed.includes("list")) draw();
    else if (changed.includes("moves")) drawControls();
    if (changed.includes("moves")) now.reveal(store.get().concept);
  });
  addEventListener("macrid:card", draw);
  draw();
}
