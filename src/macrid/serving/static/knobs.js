// Knobs: the dimensions of a concept as sliders, and how much of each concept is recommended.

import { get } from "./api.js";
import { conceptColour } from "./colours.js";
import { h, icon, iconButton } from "./dom.js";
import { number, percent } from "./format.js";
import { Knob } from "./knob.js";
import { renameConcept } from "./rename.js";

const FEW = 5;

export function create(app, root) {
  const { store, live } = app;
  if (!app.card.has_concepts) {
    root.replaceChildren(
      h("h2", { text: "Knobs" }),
      h(
        "div",
        { class: "state" },
        h("p", { text: `${app.card.model} has no concepts, so there is nothing to turn.` }),
        h("p", { class: "quiet", text: "Train a MacridVAE on the same data to get knobs: macrid train DATA --model macridvae" }),
      ),
    );
    return;
  }
  const reset = h("button", {
    type: "button", class: "text-button", text: "Reset all", "data-testid": "reset-all",
    on: { click: () => store.set({ moves: [] }, { push: true }) },
  });
  const drawer = h("button", { type: "button", class: "drawer-toggle", "aria-expanded": "false", on: { click: toggleDrawer } }, h("span", { text: "Knobs" }), icon("more"));
  const pills = h("div", { class: "pills", role: "tablist", "aria-label": "Concepts" });
  const panel = h("div", { class: "concept-panel", role: "tabpanel", id: "concept-panel", tabindex: "-1" });
  const shares = h("section", { class: "shares", "aria-label": "How much of each" });
  const all = new Map(); // concept → all of its dimensions, once they were asked for
  let knobs = [];
  let rows = new Map();
  let drawn = null;

  root.replaceChildren(
    drawer,
    h("div", { class: "panel-head" }, h("h2", { text: "Knobs" }), reset),
    h("div", { class: "knobs-body" }, h("p", { class: "quiet", text: "Drag a slider: the list follows. Hills show where real users are." }), pills, panel, shares),
  );

  function toggleDrawer() {
    const isOpen = root.classList.toggle("is-open");
    drawer.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) document.getElementById("picks").scrollIntoView({ block: "start" });
  }

  /** The chosen concept, else the one most of the history lies in. */
  function chosen() {
    const { concept } = store.get();
    if (app.concept(concept)) return concept;
    const places = live.encoded?.concepts;
    return places?.length ? places.reduce((a, b) => (b.share > a.share ? b : a)).concept : (app.card.concepts[0]?.concept ?? null);
  }

  function drawPills(concept) {
    const shareOf = new Map((live.encoded?.concepts ?? []).map((place) => [place.concept, place.share]));
    if (pills.dataset.digest !== app.card.digest) {
      pills.dataset.digest = app.card.digest;
      pills.replaceChildren(
        ...app.card.concepts.map(({ concept: k, label }) =>
          h(
            "button",
            {
              type: "button", class: "pill", role: "tab", id: `pill-${k}`, "aria-controls": "concept-panel", "data-concept": k,
              style: { "--c": conceptColour(k) }, on: { click: () => store.set({ concept: k }, { push: true }) },
            },
            h("span", { class: "dot" }),
            h("span", { text: label }),
          ),
        ),
      );
    }
    for (const pill of pills.children) {
      const k = Number(pill.dataset.concept);
      const isMoved = store.get().moves.some((move) => move.concept === k && move.share === undefined);
      pill.setAttribute("aria-selected", String(k === concept));
      pill.tabIndex = k === concept ? 0 : -1;
      pill.classList.toggle("is-moved", isMoved);
      pill.title = shareOf.has(k) ? `${percent(shareOf.get(k))} of the history` : "";
    }
    panel.setAttribute("aria-labelledby", `pill-${concept}`);
  }

  pills.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = [...pills.children].indexOf(event.target.closest("[role=tab]"));
    const next = pills.children[(at + step + pills.children.length) % pills.children.length];
    store.set({ concept: Number(next.dataset.concept) }, { push: true });
    next.focus();
  });

  function drawPanel(k) {
    const key = JSON.stringify([k, app.card.digest, all.has(k)]);
    if (key === drawn) return;
    drawn = key;
    const concept = app.concept(k);
    const dimensions = ordered(all.get(k) ?? concept.dimensions);
    const shown = all.has(k) ? dimensions : dimensions.slice(0, FEW);
    knobs = shown.map((dimension) => new Knob(app, dimension));
    const head = h(
      "div",
      { class: "concept-head", style: { "--c": conceptColour(k) } },
      h("h3", { text: concept.label }),
      app.card.can_rename && iconButton("pencil", `Rename ${concept.label}`, () => renameConcept(app, concept, head), { class: "small" }),
      h("span", { class: "quiet", text: `${number(concept.items)} items` }),
    );
    panel.replaceChildren(
      head,
      ...(concept.name === null && concept.why ? [h("p", { class: "quiet", text: concept.why })] : []),
      ...knobs.map((knob) => knob.element),
      all.has(k)
        ? h("button", { type: "button", class: "text-button", text: "Fewer", on: { click: () => (all.delete(k), draw()) } })
        : h("button", { type: "button", class: "text-button", text: "More knobs", "data-testid": "more-knobs", on: { click: () => more(k) } }),
    );
    if (!shown.length) panel.append(h("p", { class: "state", text: "No dimension of this concept has evidence yet." }));
  }

  async function more(k) {
    try {
      const { dimensions } = await get(`/concepts/${k}/dimensions`);
      all.set(k, dimensions);
      draw();
    } catch (error) {
      app.toast(error.detail ?? "That did not work.");
    }
  }

  function drawShares() {
    if (shares.dataset.digest !== app.card.digest) {
      shares.dataset.digest = app.card.digest;
      rows = new Map(app.card.concepts.map(({ concept }) => [concept, shareRow(app, concept)]));
      shares.replaceChildren(
        h("h3", { text: "How much of each" }),
        h("p", { class: "quiet", text: "The part of all recommended probability that a concept brings in. An item may count for several concepts, so a list can show others, too." }),
        ...[...rows.values()].map((row) => row.element),
      );
    }
    const moved = live.now?.shares ?? null;
    const places = new Map((live.encoded?.concepts ?? []).map((place) => [place.concept, place]));
    const { moves } = store.get();
    // The slider that is being moved must not go back to what was answered to an earlier move.
    const isBehind = JSON.stringify(live.asked) !== JSON.stringify(moves);
    for (const [k, row] of rows) {
      const from = places.get(k)?.recommended ?? null;
      const move = moves.find((one) => one.concept === k && one.share !== undefined);
      const isNewest = isBehind && move !== undefined && move === moves.at(-1);
      row.update({ from, to: isNewest ? move.share : moves.length && moved ? moved[k] : from, move });
    }
  }

  function draw() {
    const concept = chosen();
    const { moves } = store.get();
    root.classList.toggle("is-waiting", !live.who);
    reset.disabled = moves.length === 0;
    drawPills(concept);
    if (concept !== null) drawPanel(concept);
    const place = live.encoded?.concepts.find((one) => one.concept === concept) ?? null;
    for (const knob of knobs) {
      knob.update(place, moves.find((move) => move.concept === concept && move.dimension === knob.dimension.dimension));
    }
    drawShares();
  }

  live.subscribe((what) => {
    if (what.includes("encoded")) draw();
    else if (what.includes("now")) drawShares();
  });
  store.subscribe((_, changed) => {
    if (changed.includes("moves") || changed.includes("concept") || changed.includes("user") || changed.includes("history")) draw();
  });
  addEventListener("macrid:card", () => {
    all.clear();
    draw();
  });
  draw();
}

/** Named ones first, how popular something is after what it is like; those without a name last. */
function ordered(dimensions) {
  const place = (dimension) => (dimension.name === null ? 2 : dimension.kind === "popularity" ? 1 : 0);
  return [...dimensions].sort((one, other) => place(one) - place(other));
}

/** A slider for the share of a concept. */
function shareRow(app, concept) {
  const { store } = app;
  const label = app.label(concept);
  const value = h("output", { class: "share-value" });
  const reset = iconButton("reset", `Reset the share of ${label}`, () => set(null), { class: "small share-reset" });
  const input = h("input", {
    type: "range", class: "slider", min: 0, max: 1, step: 0.005, "data-testid": "share", "data-concept": concept, "aria-label": `share of ${label}`,
  });
  let isHeld = false;

  function set(share, push = true) {
    const { moves, list } = store.get();
    const others = moves.filter((move) => move.concept !== concept || move.share === undefined);
    const next = share === null ? others : [...others, { concept, share }];
    store.set({ moves: next, list: list === "concept" ? "overall" : list }, push ? { push, key: `share-${concept}` } : {});
  }

  function show(share, from) {
    value.textContent = share === null ? "" : percent(share);
    input.setAttribute("aria-valuetext", share === null ? "unknown" : `${percent(share)} of what is recommended`);
    input.style.setProperty("--to", share ?? 0);
    input.style.setProperty("--from", from ?? share ?? 0);
  }

  let start = null;
  input.addEventListener("input", () => {
    isHeld = true;
    show(Number(input.value), start);
    set(Number(input.value), false);
  });
  input.addEventListener("change", () => {
    isHeld = false;
    set(Number(input.value));
  });

  return {
    element: h(
      "div",
      { class: "share-row", style: { "--c": conceptColour(concept) } },
      h("span", { class: "share-name" }, h("span", { class: "dot" }), h("span", { text: label })),
      input,
      value,
      reset,
    ),
    update: ({ from, to, move }) => {
      start = from;
      input.disabled = from === null;
      reset.classList.toggle("is-idle", !move);
      reset.disabled = !move;
      if (isHeld) return;
      input.value = to ?? 0;
      show(to, from);
    },
  };
}
