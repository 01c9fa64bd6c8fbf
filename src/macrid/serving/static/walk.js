// Walk: from an item along one dimension, as a film strip.

import * as api from "./api.js";
import { sparkArea, ticks } from "./charts.js";
import { conceptColour } from "./colours.js";
import { append, clear, h, icon, svg } from "./dom.js";
import { anything, number, signed } from "./format.js";
import { conceptTag, failure, thumb, titleOf } from "./items.js";
import { historyOf, lookUp, styles, walkable } from "./panel.js";
import { itemSearch } from "./search.js";

const FEWEST = 4;
const MOST = 12;
const FRAME_MS = 750;

export function create(app) {
  styles("walk.css");
  let asked = null; // {key, abort} of the walk shown or on its way
  let shown = null; // {item, dimension, walk, items}
  let steps = 8;
  let current = 0;
  let playing = 0;

  const origin = h("div", { class: "walk-item" });
  const search = itemSearch(app, {
    label: "Start from another item", placeholder: "Start from another item…", testid: "walk-search", stays: false,
    choose: ({ id, concept }) => walkFrom(id, concept === shown?.item.concept ? shown.dimension.dimension : null),
  });
  const pills = h("div", { class: "walk-pills", role: "group", "aria-label": "What to change" });
  const steppers = h("div", { class: "walk-steps" });
  const body = h("div", { class: "walk-body" });
  const element = h(
    "section",
    { class: "walk", "aria-labelledby": "walk-title" },
    h(
      "header",
      { class: "walk-head" },
      h("h2", { id: "walk-title", text: "Walk" }),
      h("p", { class: "lede", text: "Start at one item and change one thing: items along the way differ in it, and in as little else as the catalogue allows." }),
    ),
    h("div", { class: "walk-from" }, origin, h("div", { class: "walk-search" }, search.element)),
    h("div", { class: "walk-controls" }, pills, steppers),
    body,
  );

  const range = h("input", {
    type: "range", id: "walk-steps", min: FEWEST, max: MOST, step: 1, value: steps, "aria-valuetext": `${steps} stops`,
    on: {
      input: () => {
        steps = Number(range.value);
        range.setAttribute("aria-valuetext", `${steps} stops`);
        told.textContent = steps;
      },
      change: () => show(app.store.get()),
    },
  });
  const told = h("output", { for: "walk-steps", text: steps });
  append(steppers, h("label", { for: "walk-steps", text: "Stops" }), range, told);

  async function show(state) {
    if (!app.card.has_concepts) {
      element.classList.add("is-bare");
      return void clear(body).append(h("div", { class: "state", text:
        `${app.card.model} has no concepts and dimensions to walk along. A MacridVAE has.` }));
    }
    const isNobody = state.user === null && !state.history.length;
    if (state.walk.item === null && isNobody && app.live.historyItems === null) return void skeleton();
    const key = JSON.stringify([state.walk, state.walk.item ?? (state.user ?? state.history[0]), steps, app.card.digest]);
    if (asked?.key === key) return;
    asked?.abort.abort();
    const mine = { key, abort: new AbortController() };
    asked = mine;
    stop();
    if (shown) body.classList.add("is-waiting");
    else skeleton();
    try {
      const item = await lookUp(state.walk.item ?? await firstItem(state));
      const choices = await dimensionsOf(item, state.walk.dimension);
      const dimension = choices.find((one) => one.dimension === state.walk.dimension) ?? choices[0];
      const walk = await api.post(
        "/traverse",
        { item: item.id, dimension: dimension.dimension, steps, keep_start: true },
        { signal: mine.abort.signal },
      );
      const items = await Promise.all(walk.items.map((stop) => lookUp(stop.id)));
      if (asked !== mine) return;
      shown = { item, dimension, walk, items };
      current = Math.max(0, walk.items.findIndex((stop) => stop.start));
      drawOrigin(item);
      drawPills(item, choices, dimension);
      drawWalk();
      app.announce(`${walk.items.length} stops from ${dimension.low} to ${dimension.high}`);
    } catch (error) {
      if (error.name === "AbortError" || asked !== mine) return;
      asked = null;
      shown = null;
      body.classList.remove("is-waiting");
      clear(body).append(failure(error, () => show(app.store.get())));
    }
  }

  async function firstItem(state) {
    const [own] = await historyOf(state);
    if (own !== undefined) return own;
    const { items } = await api.get("/items", { limit: 1 });
    if (!items.length) throw new api.ApiError(0, "There are no items to walk among.");
    return items[0].id;
  }

  async function dimensionsOf(item, wanted) {
    const concept = app.card.concepts.find((one) => one.concept === item.concept);
    const choices = concept ? walkable(concept) : [];
    if (choices.length && (wanted === null || choices.some((one) => one.dimension === wanted))) return choices;
    const { dimensions } = await api.get(`/concepts/${item.concept}/dimensions`);
    const extra = dimensions.find((one) => one.dimension === wanted);
    if (extra) return [...choices, extra];
    if (choices.length) return choices;
    if (!dimensions.length) throw new api.ApiError(0, "This concept has no dimensions to walk along.");
    return dimensions.slice(0, 5);
  }

  function walkFrom(id, dimension = null) {
    app.store.set({ walk: { item: id, dimension } }, { push: true });
  }

  function drawOrigin(item) {
    clear(origin).append(
      thumb(item, { size: 56, lazy: false }),
      h("div", {}, h("span", { class: "walk-kicker", text: "Walking from" }), h("strong", { text: titleOf(item) }), conceptTag(item)),
    );
  }

  function drawPills(item, choices, chosen) {
    clear(pills);
    for (const one of choices) {
      const isChosen = one === chosen;
      pills.append(h(
        "button",
        {
          type: "button", class: "walk-pill", "aria-pressed": String(isChosen), "data-dimension": one.dimension,
          title: one.strength === null ? null : `goes with ${one.attribute ?? one.label}: ${number(one.strength)} of 1`,
          on: { click: () => walkFrom(item.id, one.dimension) },
        },
        h("span", { class: "walk-pill-name", text: one.label }),
        h("span", { class: "walk-pill-ends", text: `${one.low} – ${one.high}`, title: `${one.low} – ${one.high}` }),
      ));
    }
  }

  function skeleton() {
    clear(body).append(h("div", { class: "walk-strip is-skeleton", "aria-hidden": "true" },
      Array.from({ length: steps }, () => h("div", { class: "skeleton walk-bone" }))));
  }

  function drawWalk() {
    const { dimension, walk, items } = shown;
    body.classList.remove("is-waiting");
    element.style.setProperty("--c", conceptColour(walk.concept));
    const stops = walk.items.map((stop, i) => frame(stop, items[i], i));
    const strip = h(
      "ol",
      { class: "walk-strip", "data-testid": "strip", "aria-label": `${dimension.label}, from ${dimension.low} to ${dimension.high}`, on: { keydown: keys } },
      stops,
    );
    const track = h("div", { class: "walk-track", style: { "--stops": walk.items.length } }, strip, scale(dimension, walk));
    clear(body).append(
      h(
        "div",
        { class: "walk-axis" },
        h("span", { class: "walk-end", text: dimension.low }),
        h("span", { class: "walk-line", "aria-hidden": "true" }, h("span", { class: "walk-name", text: dimension.label })),
        h("span", { class: "walk-end", text: dimension.high }),
      ),
      h("div", { class: "walk-scroll" }, track),
      stage(),
    );
    go(current, { focus: false, scroll: false });
    const start = stops[current];
    const scroll = body.querySelector(".walk-scroll");
    scroll.scrollLeft = start.offsetLeft - (scroll.clientWidth - start.offsetWidth) / 2;
  }

  function frame(stop, item, i) {
    const { attribute } = shown.dimension;
    const value = attribute ? item.attributes[attribute] : undefined;
    return h(
      "li",
      { class: `walk-stop${stop.start ? " is-start" : ""}`, "data-id": stop.id, "data-value": stop.value },
      h(
        "button",
        {
          type: "button", class: "walk-frame", tabindex: "-1",
          "aria-label": `${titleOf(stop)}, ${signed(stop.value)}${stop.start ? ", the start" : ""}`,
          on: { click: () => { go(i, { focus: false }); app.openItem(stop.id); }, focus: () => go(i, { focus: false }) },
        },
        bareFacts(item) ?? thumb(item, { lazy: false }),
        stop.start && h("span", { class: "walk-start", text: "start" }),
        h("span", { class: "walk-title", text: titleOf(stop) }),
        value !== undefined && value !== null && h("span", { class: "walk-value" }, h("span", { text: `${attribute} ` }), h("b", { text: anything(value) })),
      ),
      stop.start
        ? h("span", { class: "walk-here", "aria-hidden": "true" })
        : h("button", { type: "button", class: "walk-here link", tabindex: "-1", text: "Walk from here", "aria-label": `Walk from ${titleOf(stop)}`,
          on: { click: () => walkFrom(stop.id, shown.dimension.dimension) } }),
    );
  }

  function bareFacts(item) {
    const known = Object.entries(item.attributes).filter(([, value]) => value !== null && value !== "").slice(0, 5);
    if (app.card.has_pictures || !known.length) return null;
    return h("span", { class: "walk-bare" },
      h("span", { class: "dot", style: { "--c": conceptColour(item.concept) } }),
      known.map(([name, value]) => h("span", { class: "walk-fact" }, h("span", { text: name }), h("b", { text: anything(value) }))));
  }

  // Where the stops are along the dimension, under the frames, over how many real users are where.
  function scale(dimension, walk) {
    const values = walk.items.map((stop) => stop.value);
    const low = Math.min(walk.range[0], ...values);
    const high = Math.max(walk.range[1], ...values);
    const at = (value) => 3 + (94 * (value - low)) / (high - low || 1);
    const middle = (i) => (100 * (i + 0.5)) / values.length;
    const { histogram } = dimension;
    const [left, right] = [at(histogram.low), at(histogram.high)];
    const spark = sparkArea(histogram.counts, { label: `how many ${histogram.of} are where along ${dimension.label}` });
    for (const [name, value] of Object.entries({ x: `${left}%`, y: 54, width: `${right - left}%`, height: 34 })) spark.setAttribute(name, value);
    return svg(
      "svg",
      { class: "walk-scale", width: "100%", height: 116, role: "img", "aria-label": `Coordinates: ${values.map((value) => signed(value)).join(", ")}` },
      svg("svg", { width: "100%", height: "100%", overflow: "hidden" }, spark),
      svg(
        "svg",
        { viewBox: "0 0 100 88", preserveAspectRatio: "none", width: "100%", height: 88, x: 0, y: 0 },
        values.map((value, i) => svg("path", {
          class: "walk-lead", "data-stop": i, "vector-effect": "non-scaling-stroke",
          d: `M${middle(i)} 0C${middle(i)} 62 ${at(value)} 36 ${at(value)} 88`,
        })),
      ),
      svg("line", { class: "walk-rule", x1: 0, x2: "100%", y1: 88, y2: 88 }),
      ticks(low, high, 8).filter((tick) => tick >= low && tick <= high).map((tick) => [
        svg("line", { class: "walk-tick", x1: `${at(tick)}%`, x2: `${at(tick)}%`, y1: 88, y2: 94 }),
        svg("text", { class: "tick", x: `${at(tick)}%`, y: 110, "text-anchor": "middle" }, signed(tick, 1)),
      ]),
      values.map((value, i) => svg("circle", {
        class: `walk-dot${walk.items[i].start ? " is-start" : ""}`, "data-stop": i, cx: `${at(value)}%`, cy: 88, r: 5,
      })),
    );
  }

  // A flip book of the stops: one large picture at a time, and what is different from the start.
  function stage() {
    const { items } = shown;
    const play = h("button", { type: "button", class: "button walk-play", on: { click: () => (playing ? stop() : start()) } }, "Play");
    return h(
      "div",
      { class: "walk-stage" },
      h(
        "div",
        { class: "walk-book" },
        app.card.has_pictures
          ? items.map((item) => h("div", { class: "walk-page" }, thumb(item, { lazy: false, alt: titleOf(item) })))
          : null,
      ),
      h("div", { class: "walk-about" }, h("div", { class: "walk-tell" }), h(
        "div",
        { class: "walk-buttons" },
        h("button", { type: "button", class: "icon-button", "aria-label": "Previous stop", title: "Previous stop (←)", on: { click: () => go(current - 1, { focus: false }) } }, icon("previous")),
        play,
        h("button", { type: "button", class: "icon-button", "aria-label": "Next stop", title: "Next stop (→)", on: { click: () => go(current + 1, { focus: false }) } }, icon("next")),
        h("button", { type: "button", class: "button", text: "Add to your history", on: { click: () => app.addToHistory(shown.items[current].id) } }),
      )),
    );
  }

  function tell() {
    const { items, walk, dimension } = shown;
    const item = items[current];
    const first = items[Math.max(0, walk.items.findIndex((one) => one.start))];
    const names = Object.keys(item.attributes).filter((name) => item.attributes[name] !== null);
    names.sort((a, b) => (b === dimension.attribute) - (a === dimension.attribute));
    const differs = (name) => first && first !== item && anything(first.attributes[name]) !== anything(item.attributes[name]);
    clear(body.querySelector(".walk-tell")).append(
      h("p", { class: "walk-kicker", text: `Stop ${current + 1} of ${items.length}${first === item ? " · the start" : ""}` }),
      h("h3", { text: titleOf(item) }),
      h("dl", { class: "walk-facts" }, names.slice(0, 8).map((name) => h(
        "div",
        { class: name === dimension.attribute ? "is-it" : differs(name) ? "is-other" : "" },
        h("dt", { text: name }),
        h("dd", {}, h("span", { text: anything(item.attributes[name]) }),
          differs(name) && h("small", { text: `start: ${anything(first.attributes[name])}` })),
      ))),
    );
  }

  function go(to, { focus = true, scroll = true } = {}) {
    if (!shown || to < 0 || to >= shown.walk.items.length) return;
    current = to;
    const frames = [...body.querySelectorAll(".walk-stop")];
    frames.forEach((one, i) => {
      one.classList.toggle("is-current", i === current);
      one.firstElementChild.tabIndex = i === current ? 0 : -1;
      if (one.lastElementChild.tagName === "BUTTON") one.lastElementChild.tabIndex = i === current ? 0 : -1;
    });
    body.querySelectorAll(".walk-page").forEach((page, i) => {
      page.classList.toggle("is-current", i === current);
      page.setAttribute("aria-hidden", String(i !== current));
    });
    body.querySelectorAll("[data-stop]").forEach((one) => one.classList.toggle("is-current", Number(one.dataset.stop) === current));
    tell();
    if (focus) frames[current].firstElementChild.focus({ preventScroll: true });
    const view = body.querySelector(".walk-scroll");
    if (scroll && view.scrollWidth > view.clientWidth) {
      view.scrollTo({ left: frames[current].offsetLeft - (view.clientWidth - frames[current].offsetWidth) / 2, behavior: "smooth" });
    }
  }

  function keys(event) {
    const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: shown.walk.items.length - 1 }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    stop();
    go(to);
  }

  function start() {
    go(0, { focus: false });
    body.querySelector(".walk-play").textContent = "Stop";
    playing = setInterval(() => {
      if (current + 1 >= shown.walk.items.length) stop();
      else go(current + 1, { focus: false });
    }, FRAME_MS);
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    const play = body.querySelector(".walk-play");
    if (play) play.textContent = "Play";
  }

  let isOpen = false;
  app.live.subscribe((what) => isOpen && what.includes("historyItems") && show(app.store.get()));
  addEventListener("macrid:card", () => isOpen && show(app.store.get()));
  return {
    element,
    show: (state) => {
      isOpen = true;
      return show(state);
    },
    hide: () => {
      isOpen = false;
      stop();
    },
  };
}
