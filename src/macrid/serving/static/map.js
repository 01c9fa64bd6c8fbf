// Map: all items on a plane, with where somebody is.

import * as api from "./api.js";
import { append, clear, h } from "./dom.js";
import { Flight } from "./flight.js";
import { count, percent } from "./format.js";
import { gestures, keyboard } from "./gestures.js";
import { failure, titleOf } from "./items.js";
import { Colouring } from "./mapcolours.js";
import { cardParts, frame, putBeside, selectionParts, tipParts, toolbar } from "./mapparts.js";
import { conceptNames, drawMarks } from "./marks.js";
import { historyOf, later, lookUp, styles, who } from "./panel.js";
import { Camera, Painter, Points, dotRadius } from "./plane.js";
import { itemSearch } from "./search.js";

const ASK_AGAIN = 2_000; // ms, while the map is being computed
const REACH = 12; // px from the pointer
const MANY = 20_000; // points that are drawn a little coarser on fine screens
const FRAMES_KEPT = 600;

export function create(app) {
  styles("map.css");
  const measured = { frames: [] }; // ms of every drawing, for tests
  window.macridMap = measured;
  const camera = new Camera();
  const flight = new Flight(camera, () => redraw());
  let [map, points, places] = [null, null, null];
  let [names, history, picks, you, selected, lasso] = [[], [], [], [], [], []];
  let [hovered, picked] = [-1, -1];
  let [isOpen, isOutlining, isKeyed, isDirty, hasFitted] = [false, false, false, false, false];
  let [mapAsked, digest, youKey, polling] = [null, null, null, 0];

  const canvas = h("canvas", {
    class: "map-points", "data-testid": "map", tabindex: "0", role: "application", "aria-label": "Map of all items", "aria-describedby": "map-help",
    on: { focus: () => { isKeyed = canvas.matches(":focus-visible"); redraw(); }, blur: () => { isKeyed = false; redraw(); } },
  });
  const over = h("canvas", { class: "map-marks", "aria-hidden": "true" });
  const painter = new Painter(canvas);
  const context = over.getContext("2d");
  const tip = h("div", { class: "map-tip", hidden: true, "aria-hidden": "true", "data-testid": "map-tip" });
  const card = h("div", { class: "map-card", hidden: true, role: "dialog", "aria-label": "Item", "data-testid": "map-card" });
  const chosen = h("div", { class: "map-chosen", hidden: true, role: "group", "aria-label": "Selected items", "data-testid": "map-selection" });
  const note = h("div", { class: "map-note", role: "status", hidden: true });
  const middle = () => [camera.width / 2, camera.height / 2];
  const tools = toolbar({
    zoom: (factor) => zoom(factor, ...middle(), true),
    fit: () => fit(true),
    outline: (isOn) => {
      isOutlining = isOn;
      canvas.classList.toggle("is-outlining", isOn);
    },
  });
  const withPicks = h("input", { type: "checkbox", id: "map-picks", on: { change: () => { readPicks(); redraw(); } } });
  const search = itemSearch(app, { label: "Find an item on the map", placeholder: "Find an item on the map…", testid: "map-search", stays: false,
    choose: ({ id }) => centreOn(id) });
  const stage = h("div", { class: "map-stage is-loading" }, canvas, over, tools, note, tip, card, chosen);
  const colouring = new Colouring(app, stage, () => { readNames(); redraw(); });
  const element = frame({ search: search.element, by: colouring.select, withPicks, stage, key: colouring.key });
  element.macrid = {
    positionOf(id) {
      const i = places?.get(id);
      if (i === undefined) return null;
      const box = canvas.getBoundingClientRect();
      const [x, y] = camera.screen(points.x[i], points.y[i]);
      return { x: x + box.left, y: y + box.top };
    },
  };
  canvas.macrid = element.macrid;

  gestures(canvas, {
    isOutlining: () => isOutlining,
    pan: (dx, dy) => { flight.stop(); camera.pan(dx, dy); redraw(); },
    zoom,
    hover: (x, y) => hover(x === null ? -1 : nearest(x, y)),
    click: (x, y) => pick(nearest(x, y)),
    outline: (outline, isDone) => {
      lasso = isDone ? [] : outline;
      if (isDone && outline.length > 2) select(points.inside(outline.map(([x, y]) => camera.world(x, y))));
      redraw();
    },
  });
  keyboard(canvas, {
    pan: (dx, dy) => camera.pan(dx, dy),
    zoom: (factor) => zoom(factor, ...middle(), true),
    fit: () => fit(true),
    take: () => points && pick(points.nearest(camera.x, camera.y, Math.hypot(points.box.width, points.box.height)), true),
    after: () => { isKeyed = true; redraw(); },
  });
  new ResizeObserver(resize).observe(stage);
  addEventListener("macrid:theme", () => { if (map) colouring.readTheme(); redraw(); });
  addEventListener("macrid:card", () => isOpen && show(app.store.get()));
  app.live.subscribe((what) => {
    if (!isOpen) return;
    if (what.includes("historyItems")) showYou(app.store.get());
    if (what.includes("now") && withPicks.checked) { readPicks(); redraw(); }
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOpen || (card.hidden && chosen.hidden) || document.querySelector("dialog[open]")) return;
    pick(-1);
    select([]);
    canvas.focus({ preventScroll: true });
  });

  // What is shown

  async function show(state) {
    isOpen = true;
    if (digest !== null && digest !== app.card.digest) {
      mapAsked = null;
      colouring.forget();
    }
    digest = app.card.digest;
    mapAsked ??= load();
    await mapAsked;
    if (!map || !isOpen) return;
    await Promise.all([colouring.show(state.by, map), showYou(state)]);
  }

  async function load() {
    clearTimeout(polling);
    try {
      const answer = await api.get("/map");
      note.hidden = answer.state === "ready";
      note.textContent = answer.state === "computing" ? "Rough places; the map is being drawn…" : answer.message ?? "";
      take(answer);
      if (answer.state !== "computing") return;
      polling = setTimeout(async () => {
        if (!isOpen) return void (mapAsked = null);
        mapAsked = load();
        await mapAsked;
        youKey = null;
        showYou(app.store.get());
      }, ASK_AGAIN);
    } catch (error) {
      mapAsked = null;
      stage.classList.remove("is-loading");
      note.hidden = false;
      clear(note).append(failure(error, () => show(app.store.get())));
    }
  }

  function take(answer) {
    const next = new Points(answer.x, answer.y);
    const isSame = points && points.n === next.n && map.id.every((id, i) => id === answer.id[i]);
    const isMoved = isSame && next.x.some((x, i) => x !== points.x[i]);
    map = answer;
    places = new Map(map.id.map((id, i) => [id, i]));
    if (!isSame) [hovered, picked, selected] = [-1, -1, []];
    const settled = () => {
      points = next;
      readNames();
    };
    if (isMoved && isOpen) {
      names = [];
      flight.settle(points, next, camera.fit(next.box, margin()), settled);
      return;
    }
    settled();
    if (!isSame) colouring.begin(map);
    hasFitted = hasFitted && isSame && !isMoved;
    resize();
  }

  async function showYou(state) {
    const wanted = JSON.stringify([state.user, state.history, state.moves, map?.state, app.card.digest]);
    if (wanted === youKey || !points) return;
    youKey = wanted;
    try {
      const someone = who(state);
      const ids = someone ? await historyOf(state) : [];
      const encoded = someone && app.card.has_concepts ? await api.post("/encode", { ...someone, moves: state.moves }) : { concepts: [] };
      if (youKey !== wanted) return;
      history = indices(ids);
      you = encoded.concepts.filter((place) => typeof place.x === "number" && typeof place.y === "number" && place.share >= 0.005);
      readPicks();
      redraw();
    } catch (error) {
      youKey = null;
      if (error.status !== 409) app.toast(error.detail ?? "Where you are could not be found out.");
    }
  }

  const indices = (ids) => ids.map((id) => places.get(id)).filter((i) => i !== undefined);

  function readPicks() {
    picks = withPicks.checked && app.live.now ? indices(app.live.now.items.map(({ id }) => id)) : [];
  }

  function readNames() {
    names = conceptNames(map.concept, points)
      .map((name) => ({ ...name, text: app.label(name.concept), isFaded: colouring.isFaded(name.concept) }))
      .filter(({ text }) => text !== null);
  }

  // Drawing, once a frame and only when something changed

  function redraw() {
    if (isDirty) return;
    isDirty = true;
    requestAnimationFrame(draw);
  }

  function draw() {
    isDirty = false;
    if (!points || !painter.image || !colouring.groups || stage.clientWidth < 2) return;
    const began = performance.now();
    const { groups, colours, only, theme } = colouring;
    painter.paint(points, camera, { groups, colours, background: theme.background, only });
    const at = (i) => camera.screen(points.x[i], points.y[i]);
    const marked = (i) => ({ at: at(i), colour: `rgb(${colours[groups[i]].join(" ")})` });
    const standing = picked >= 0 ? picked : hovered;
    drawMarks(context, {
      width: camera.width, height: camera.height, ratio: painter.ratio, radius: dotRadius(points.n, camera), theme, isSmall: isSmall(),
      reserved: { left: tools.offsetLeft, top: tools.offsetTop, width: tools.offsetWidth, height: tools.offsetHeight },
      scene: {
        lasso, cross: isKeyed, selected: selected.map(at), picks: picks.map(at), history: history.map(marked),
        hovered: standing >= 0 ? marked(standing) : null,
        names: names.map((name) => { const [x, y] = camera.screen(name.x, name.y); return { ...name, x, y }; }),
        you: you.map((place) => {
          const [x, y] = camera.screen(place.x, place.y);
          return { x, y, share: place.share, colour: theme.concepts.get(place.concept), text: `you · ${isSmall() ? "" : `${app.label(place.concept)} `}${percent(place.share)}` };
        }),
      },
    });
    if (picked >= 0) putBeside(card, ...at(picked), camera);
    measured.frames.push(performance.now() - began);
    if (measured.frames.length > FRAMES_KEPT) measured.frames.shift();
    stage.classList.remove("is-loading");
    canvas.dataset.ready = "true";
    canvas.dataset.state = map.state;
  }

  const isSmall = () => camera.width < 520;
  const margin = () => Math.min(36, camera.width * 0.06);

  function resize() {
    const { clientWidth: width, clientHeight: height } = stage;
    if (width < 2 || height < 2 || !points) return;
    const ratio = Math.min(devicePixelRatio || 1, points.n > MANY ? 1.5 : 2);
    if (!painter.image || camera.width !== width || camera.height !== height || painter.ratio !== ratio) {
      const closeness = camera.closeness;
      Object.assign(camera, { width, height });
      painter.size(width, height, ratio);
      [over.width, over.height] = [canvas.width, canvas.height];
      const goal = camera.fit(points.box, margin());
      camera.scale = hasFitted ? goal.scale * closeness : camera.scale;
    }
    if (!hasFitted) fit(false);
    hasFitted = true;
    draw();
  }

  function fit(isSmooth) {
    if (points) flight.to(camera.fit(points.box, margin()), isSmooth);
  }

  function zoom(factor, x, y, isSmooth = false) {
    if (!points) return;
    flight.stop();
    const before = { scale: camera.scale, x: camera.x, y: camera.y };
    camera.zoom(factor, x, y);
    if (!isSmooth) return redraw();
    const goal = { scale: camera.scale, x: camera.x, y: camera.y };
    Object.assign(camera, before);
    flight.to(goal, true);
  }

  // Items under the pointer, taken, and selected

  const nearest = (x, y) => points ? points.nearest(...camera.world(x, y), REACH / camera.scale) : -1;

  const fillTip = later(async (i) => {
    const item = await lookUp(map.id[i]).catch(() => null);
    if (hovered !== i || !item) return;
    append(clear(tip), tipParts(item));
    tip.hidden = false;
    putBeside(tip, ...camera.screen(points.x[i], points.y[i]), camera);
  }, 40);

  function hover(i) {
    if (i === hovered) return;
    hovered = i;
    canvas.classList.toggle("is-over", i >= 0);
    canvas.dataset.hovered = i >= 0 ? map.id[i] : "";
    tip.hidden = true;
    fillTip.cancel();
    if (i >= 0 && i !== picked) fillTip(i);
    redraw();
  }

  async function pick(i, isKeyboard = false) {
    picked = i;
    card.hidden = true;
    redraw();
    if (i < 0) return;
    hover(-1);
    try {
      const item = await lookUp(map.id[i]);
      if (picked !== i) return;
      fillCard(item);
      putBeside(card, ...camera.screen(points.x[i], points.y[i]), camera);
      app.announce(`${titleOf(item)}${item.concept === null ? "" : `, ${app.label(item.concept)}`}`);
      if (isKeyboard) card.querySelector("button").focus({ preventScroll: true });
    } catch (error) {
      app.toast(error.detail ?? "This item could not be shown.");
    }
  }

  function fillCard(item) {
    const isIn = app.isInHistory(item.id);
    const change = () => {
      if (isIn) app.removeFromHistory(item.id);
      else app.addToHistory(item.id);
      pick(-1);
      canvas.focus({ preventScroll: true });
    };
    card.dataset.id = item.id;
    append(clear(card), cardParts(item, { isIn, change, more: () => app.openItem(item.id), close: () => pick(-1) }));
    card.hidden = false;
  }

  function select(those) {
    selected = those;
    chosen.hidden = !those.length;
    if (!those.length) return redraw();
    pick(-1);
    const inHistory = new Set(history);
    const fresh = those.filter((i) => !inHistory.has(i));
    append(clear(chosen), selectionParts(those.map((i) => ({ id: map.id[i], concept: map.concept[i] })), {
      fresh: fresh.length,
      room: Math.max(0, app.card.limits.history - history.length),
      add: (n) => addAll(fresh.slice(0, n).map((i) => map.id[i])),
      drop: () => select([]),
    }));
    app.announce(`${count(those.length, "item")} selected`);
    redraw();
  }

  async function addAll(ids) {
    const before = await historyOf(app.store.get());
    app.store.set({ user: null, history: [...new Set([...before, ...ids])] }, { push: true });
    app.toast(`${count(ids.length, "item")} added to your history`, { undo: app.store.undo });
    select([]);
  }

  function centreOn(id) {
    const i = places?.get(id);
    if (i === undefined) return app.toast("This item is not on the map.");
    flight.to({ scale: Math.max(camera.scale, camera.fitted * 4), x: points.x[i], y: points.y[i] }, true);
    return pick(i, true);
  }

  return {
    element,
    show,
    hide: () => {
      isOpen = false;
      hover(-1);
      clearTimeout(polling);
      if (map?.state === "computing") mapAsked = null;
    },
  };
}
