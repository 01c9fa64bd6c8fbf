// Picks: what is recommended, what the moves changed, and what it was before.

import { get } from "./api.js";
import { conceptColour } from "./colours.js";
import { append, clear, h } from "./dom.js";
import { listed, number } from "./format.js";
import { failure, itemCard, thumbButton, titleOf } from "./items.js";
import { compare } from "./live.js";

const GONE = 4; // pictures of what has gone
const QUIET = 700; // ms without a new list before it is read out
const CALM = matchMedia("(prefers-reduced-motion: reduce)");

export function create(app, root) {
  const { store, live } = app;
  const lists = segments("List", [
    ["overall", "Overall"],
    ["concepts", "By concept"],
    ["concept", "Only this concept"],
  ], (list) => store.set({ list, ...(list === "concept" && { concept: store.get().concept ?? firstConcept() }) }, { push: true }));
  const views = segments("Compare", [
    ["now", "Now"],
    ["before", "Before"],
    ["both", "Both", "Side by side"],
  ], (view) => {
    compared = view;
    draw();
  });
  const status = h("div", { class: "status" });
  const notes = h("p", { class: "notes", hidden: true });
  const now = new Cards(app, { "data-testid": "picks", "aria-label": "Recommended" });
  const before = new Cards(app, { "data-testid": "before", "aria-label": "Before the moves" });
  const beforeHead = h("p", { class: "side-head", text: "Before" });
  const nowHead = h("p", { class: "side-head", text: "Now" });
  const body = h(
    "div",
    { class: "picks-body" },
    h("div", { class: "side" }, beforeHead, before.element),
    h("div", { class: "side" }, nowHead, now.element),
  );
  const aside = h("div", { class: "picks-aside", hidden: true });
  let compared = "now";
  let sequence = 0;
  let reading = 0;

  root.replaceChildren(
    h("div", { class: "picks-head" }, h("h2", { text: "Picks" }), lists.element),
    h("div", { class: "status-row" }, status, views.element),
    notes,
    aside,
    body,
  );

  const firstConcept = () => live.encoded?.concepts.reduce((a, b) => (b.share > a.share ? b : a)).concept ?? 0;

  function drawControls() {
    const { moves, list, concept } = store.get();
    lists.element.hidden = !app.card.has_concepts;
    lists.select(list);
    lists.name("concept", `Only ${app.label(concept ?? firstConcept()) ?? "one"}`);
    const hasMoves = moves.length > 0;
    if (!hasMoves) compared = "now";
    views.element.classList.toggle("is-idle", !hasMoves);
    views.element.inert = !hasMoves;
    views.element.hidden = !live.who;
    views.select(compared);
  }

  function draw() {
    const { list, concept } = store.get();
    drawControls();
    if (!live.who) return live.isStarted && drawEmpty();
    if (live.error) return drawFailure();
    if (!live.now) return;
    if (list !== "overall" && !live.now.concepts) return; // the rows are on their way
    const groups = live.groups();
    aside.hidden = true;
    body.hidden = false;
    body.className = `picks-body is-${compared} is-${list}`;
    before.element.parentElement.hidden = compared === "now";
    now.element.parentElement.hidden = compared === "before";
    beforeHead.hidden = nowHead.hidden = compared !== "both";
    Object.assign(now.element.dataset, { list, concept: concept ?? "" });
    now.draw(groups.map((group) => ({ ...group, ...compare(group.items, group.before) })));
    if (compared !== "now") before.draw(groups.map((group) => ({ ...group, items: group.before ?? group.items, changes: new Map() })));
    drawStatus(groups);
    notes.hidden = !live.now.warnings?.length;
    notes.textContent = (live.now.warnings ?? []).join(" ");
    painted();
  }

  function painted() {
    now.element.dataset.sequence = ++sequence;
    const detail = { sequence, moves: live.asked };
    requestAnimationFrame(() =>
      setTimeout(() => {
        performance.mark("list", { detail });
        if (document.documentElement.dataset.state === "ready") return;
        document.documentElement.dataset.state = "ready";
        (globalThis.requestIdleCallback ?? setTimeout)(() => live.prepare());
      }),
    );
  }

  function drawStatus(groups) {
    const { user } = store.get();
    const name = user === null ? "your history" : user;
    if (!live.asked.length || groups.some((group) => !group.before)) {
      const [{ concept, items }] = groups;
      const text = groups.length > 1
        ? `The best of every concept for ${name}`
        : concept === null
          ? `The ${number(items.length)} best of ${number(app.card.items)} items for ${name}`
          : `The ${number(items.length)} best of ${number(app.concept(concept).items)} in ${app.label(concept)}`;
      status.replaceChildren(h("span", { text }));
      return;
    }
    const all = groups.map((group) => compare(group.items, group.before));
    const kinds = { in: 0, up: 0, down: 0 };
    for (const { changes } of all) for (const { kind } of changes.values()) kinds[kind] += 1;
    const gone = all.flatMap((one) => one.gone);
    const words = [
      kinds.in && `${number(kinds.in)} new`,
      kinds.up && `${number(kinds.up)} up`,
      kinds.down && `${number(kinds.down)} down`,
    ].filter(Boolean);
    const said = [...words, gone.length && `${number(gone.length)} gone`].filter(Boolean);
    append(
      clear(status),
      h("span", { class: "status-words", text: said.length ? words.join(" · ") : "The same list as before" }),
      gone.length > 0 &&
        h(
          "span",
          { class: "gone", role: "group", "aria-label": "Gone" },
          h("span", { class: "gone-count", text: `${number(gone.length)} gone` }),
          gone.slice(0, GONE).map((item) => thumbButton(item, app.openItem, { size: 30, label: `Gone: ${titleOf(item)}` })),
        ),
    );
    clearTimeout(reading);
    reading = setTimeout(() => app.announce(said.length ? `The list has changed: ${listed(said)}` : "The list has not changed"), QUIET);
  }

  function drawFailure() {
    aside.hidden = false;
    body.hidden = true;
    status.replaceChildren();
    aside.replaceChildren(
      failure(live.error, () => live.meet()),
      h("p", { class: "centre" }, h("button", {
        type: "button", class: "text-button", text: "Start afresh",
        on: { click: () => store.set({ user: null, history: [], moves: [], list: "overall" }, { push: true }) },
      })),
    );
    document.documentElement.dataset.state = "failed";
  }

  async function drawEmpty() {
    body.hidden = true;
    status.replaceChildren(h("span", { text: "Click on a few things you like; the list begins with the first one." }));
    aside.hidden = false;
    document.documentElement.dataset.state = "ready";
    try {
      const { items } = await get("/items", { limit: 24 });
      if (live.who) return;
      live.remember(items);
      aside.replaceChildren(
        h("p", { class: "aside-title", text: "Popular here" }),
        h("div", { class: "grid", "data-testid": "popular" }, items.map((item) => itemCard(item, { onOpen: () => app.addToHistory(item.id) }))),
      );
    } catch (error) {
      aside.replaceChildren(failure(error, drawEmpty));
    }
  }

  live.subscribe((what) => {
    if (what.includes("busy")) now.element.setAttribute("aria-busy", String(live.isBusy));
    if (what.includes("now") || what.includes("historyItems") || what.includes("encoded")) draw();
  });
  store.subscribe((_, changed) => {
    if (changed.includes("concept") || changed.includes("list")) draw();
    else if (changed.includes("moves")) drawControls();
    if (changed.includes("moves")) now.reveal(store.get().concept);
  });
  addEventListener("macrid:card", draw);
  draw();
}

/** Cards in groups; those that stay are moved, not made again. */
class Cards {
  #app;
  #cards = new Map();
  #sections = new Map();

  constructor(app, props) {
    this.#app = app;
    this.element = h("div", { class: "lists", role: "region", ...props });
  }

  draw(groups) {
    const were = new Map([...this.#cards].map(([key, card]) => [key, card.getBoundingClientRect()]));
    const keep = new Set();
    const sections = groups.map((group) => {
      const section = this.#section(group.concept, groups.length > 1);
      const cards = group.items.map((item, place) => {
        const key = `${group.concept}/${item.id}`;
        keep.add(key);
        const card = this.#cards.get(key) ?? this.#card(item);
        this.#cards.set(key, card);
        card.update({ rank: place + 1, change: group.changes.get(item.id) ?? null, isIn: this.#app.isInHistory(item.id) });
        return card;
      });
      place(section.list, cards);
      if (!cards.length) section.list.replaceChildren(h("p", { class: "state", text: "Nothing left to recommend here." }));
      return section.element;
    });
    place(this.element, sections);
    for (const key of [...this.#cards.keys()]) if (!keep.has(key)) this.#cards.delete(key);
    this.#animate(were);
  }

  #card(item) {
    const app = this.#app;
    return itemCard(item, {
      onOpen: () => app.openItem(item.id),
      onAdd: () => (app.isInHistory(item.id) ? app.removeFromHistory(item.id) : app.addToHistory(item.id)),
    });
  }

  #section(concept, hasHead) {
    const key = `${concept}/${hasHead}/${this.#app.card.digest}`;
    if (!this.#sections.has(key)) {
      const list = h("div", { class: hasHead ? "strip" : "grid", ...(hasHead && { tabindex: "0", role: "group", "aria-label": this.#app.label(concept) }) });
      const head = hasHead && h(
        "h3",
        { class: "row-head" },
        h("span", { class: "dot", style: { "--c": conceptColour(concept) } }),
        h("button", {
          type: "button", class: "row-name", text: this.#app.label(concept), title: `Only ${this.#app.label(concept)}, with its knobs`,
          on: { click: () => this.#app.store.set({ concept, list: "concept" }, { push: true }) },
        }),
      );
      this.#sections.set(key, { list, element: h("div", { class: "list", "data-concept": concept }, head, list) });
    }
    return this.#sections.get(key);
  }

  /** The row of a concept whose knob is turned. */
  reveal(concept) {
    const row = this.element.children.length > 1 && this.element.querySelector(`.list[data-concept="${concept}"]`);
    if (!row) return;
    const { top, bottom } = row.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) row.scrollIntoView({ block: "center", behavior: CALM.matches ? "auto" : "smooth" });
  }

  /** From where each card was to where it is. */
  #animate(were) {
    if (CALM.matches || !were.size || this.element.offsetParent === null) return;
    const moves = [];
    for (const [key, card] of this.#cards) {
      card.getAnimations().forEach((animation) => animation.cancel());
      const [from, to] = [were.get(key), card.getBoundingClientRect()];
      if (to.top > innerHeight || to.bottom < 0) continue;
      if (!from?.width) moves.push([card, [{ opacity: 0, transform: "scale(.92)" }, { opacity: 1, transform: "none" }]]);
      else if (from.left !== to.left || from.top !== to.top) {
        moves.push([card, [{ transform: `translate(${from.left - to.left}px, ${from.top - to.top}px)` }, { transform: "none" }]]);
      }
    }
    for (const [card, frames] of moves) card.animate(frames, { duration: 260, easing: "cubic-bezier(.2, .7, .2, 1)" });
  }
}

/** Make these the children, touching only what differs. */
function place(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
  nodes.forEach((node, at) => {
    if (parent.childNodes[at] !== node) parent.insertBefore(node, parent.childNodes[at] ?? null);
  });
}

/** Buttons of which one is pressed. */
export function segments(label, options, choose) {
  const buttons = new Map(
    options.map(([value, text, title]) => [
      value,
      h("button", { type: "button", text, title, "aria-pressed": "false", "data-value": value, on: { click: () => choose(value) } }),
    ]),
  );
  return {
    element: h("div", { class: "segments", role: "group", "aria-label": label }, [...buttons.values()]),
    select: (chosen) => buttons.forEach((button, value) => button.setAttribute("aria-pressed", String(value === chosen))),
    name: (value, text) => {
      const button = buttons.get(value);
      if (button.textContent !== text) button.textContent = text;
    },
  };
}
