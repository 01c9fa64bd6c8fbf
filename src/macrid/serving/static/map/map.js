// @ts-check
// Map: all items on a plane, with the customer among them, and segments of them.

import * as api from "../core/api.js";
import { clear, h } from "../core/dom.js";
import { failure, titleOf } from "../core/items.js";
import { historyOf, later, lookUp } from "../core/panel.js";
import { itemSearch } from "../core/search.js";
import { Colouring } from "./colouring.js";
import { gestures, keyboard } from "./gestures.js";
import { ItemBox, Tip, frame, toolbar } from "./overlay.js";
import { MapSegments } from "./selecting.js";
import { MapSource } from "./source.js";
import { Stage } from "./stage.js";
import { MapState } from "./state.js";

/** @import { App, Item, Map as ItemMap, State } from "#types" */
/** @import { XY } from "./marks.js" */

const REACH = 12; // px from the pointer
const HOVER = 40; // ms before the tooltip asks for an item

/** @param {App} app */
export function create(app) {
  return new MapView(app);
}

class MapView {
  element;
  /** @type {App} */
  #app;
  #state = new MapState();
  /** @type {Stage} */
  #stage;
  /** @type {Colouring} */
  #colouring;
  #source = new MapSource((map) => this.#take(map), (error) => this.#fail(error));
  #tip = new Tip();
  #box = new ItemBox();
  /** @type {MapSegments} */
  #segments;
  #note = h("div", { class: "map-note", role: "status", hidden: true });
  #withPicks = h("input", { type: "checkbox", id: "map-picks", on: { change: () => this.#showPicks() } });
  #isOpen = false;
  #digest = "";
  #located = ""; // whom the user's place and history are of
  #fillTip = later((/** @type {number} */ i) => this.#showTip(i), HOVER);

  /** @param {App} app */
  constructor(app) {
    this.#app = app;
    const tools = toolbar({
      zoom: (factor) => this.#stage.zoom(factor, undefined, undefined, true),
      fit: () => this.#stage.fit(true),
      outline: (isOn) => {
        this.#state.isOutlining = isOn;
        this.#stage.canvas.classList.toggle("is-outlining", isOn);
      },
    });
    this.#segments = new MapSegments(app, this.#state, { changed: () => this.#stage.redraw(), seen: () => this.#stage.fit(true), begun: () => this.#pick(-1) });
    this.#stage = new Stage(app, this.#state, tools, [this.#note, this.#tip.element, this.#box.element, this.#segments.pill]);
    this.#colouring = new Colouring(app, this.#stage.element, { changed: () => this.#stage.redraw(), select: (those) => this.#segments.select(Array.from(those)) });
    this.#stage.begin(this.#colouring, (at) => this.#state.picked >= 0 && this.#box.put(at(this.#state.picked), this.#stage.camera));
    const search = itemSearch(app, {
      label: "Find an item on the map", placeholder: "Find an item on the map…", stays: false, choose: ({ id }) => this.#find(id),
    });
    this.element = frame({
      search: search.element, by: this.#colouring.select, withPicks: this.#withPicks, stage: this.#stage.element,
      segment: this.#segments.panel, key: this.#colouring.key, kept: this.#segments.kept,
    });
    this.#listen();
  }

  /** @param {State} state */
  async show(state) {
    this.#isOpen = true;
    const { digest } = this.#app.card;
    if (this.#digest && this.#digest !== digest) {
      this.#source.forget();
      this.#colouring.forget();
    }
    this.#digest = digest;
    await this.#source.load();
    const { map } = this.#state;
    if (map && this.#isOpen) await Promise.all([this.#colouring.show(state.by, map), this.#locate(state)]);
  }

  hide() {
    this.#isOpen = false;
    this.#hover(-1);
    this.#source.stop();
  }

  #listen() {
    const app = this.#app;
    const { canvas, camera } = this.#stage;
    gestures(canvas, {
      isOutlining: () => this.#state.isOutlining,
      pan: (dx, dy) => this.#stage.pan(dx, dy),
      zoom: (factor, x, y, isSmooth) => this.#stage.zoom(factor, x, y, isSmooth),
      hover: (at) => this.#hover(at ? this.#nearest(at) : -1),
      click: (at) => this.#pick(this.#nearest(at)),
      outline: (outline, isDone) => {
        this.#state.lasso = isDone ? [] : outline;
        if (isDone && outline.length > 2) this.#segments.select(this.#state.points.inside(outline.map(([x, y]) => camera.world(x, y))));
        this.#stage.redraw();
      },
    });
    keyboard(canvas, {
      pan: (dx, dy) => this.#stage.pan(dx, dy),
      zoom: (factor) => this.#stage.zoom(factor, undefined, undefined, true),
      fit: () => this.#stage.fit(true),
      take: () => {
        const { points } = this.#state;
        this.#pick(points.nearest(camera.x, camera.y, Math.hypot(points.box.width, points.box.height)), true);
      },
      after: () => this.#key(true),
    });
    canvas.addEventListener("focus", () => this.#key(canvas.matches(":focus-visible")));
    canvas.addEventListener("blur", () => this.#key(false));
    addEventListener("macrid:theme", () => {
      this.#colouring.readTheme();
      this.#stage.redraw();
    });
    addEventListener("macrid:card", () => this.#isOpen && this.show(app.store.get()));
    addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.#isOpen || !(this.#box.isOpen || this.#segments.isOpen) || document.querySelector("dialog[open]")) return;
      this.#pick(-1);
      this.#segments.select([]);
      canvas.focus({ preventScroll: true });
    });
    app.live.subscribe((parts) => {
      if (this.#isOpen && parts.includes("historyItems")) this.#locate(app.store.get());
      if (this.#isOpen && parts.includes("lists")) this.#showPicks();
    });
  }

  /** @param {boolean} isKeyed */
  #key(isKeyed) {
    this.#state.isKeyed = isKeyed;
    this.#stage.redraw();
  }

  /** @param {ItemMap} map */
  #take(map) {
    this.#note.hidden = map.state === "ready";
    this.#note.textContent = map.state === "computing" ? "Rough positions for now; the final map is being computed…" : map.message ?? "";
    const { next, isSame, isMoved } = this.#state.take(map);
    if (isMoved && this.#isOpen) {
      this.#state.isMoving = true;
      this.#stage.settle(next, () => this.#state.settle(next));
    } else {
      this.#state.settle(next);
      if (!isSame) this.#colouring.begin(map);
      if (!isSame) this.#segments.begin();
      if (!isSame || isMoved) this.#stage.forgetView();
      this.#stage.resize();
    }
    this.#locate(this.#app.store.get());
  }

  /** @param {unknown} error */
  #fail(error) {
    this.#stage.element.classList.remove("is-loading");
    this.#note.hidden = false;
    clear(this.#note).append(failure(error, () => this.show(this.#app.store.get())));
  }

  /** @param {State} state */
  async #locate({ user, history, moves }) {
    const { map } = this.#state;
    const wanted = JSON.stringify([user, history, moves, map?.state, this.#app.card.digest]);
    if (wanted === this.#located || !map) return;
    this.#located = wanted;
    try {
      const { who } = this.#app.live;
      const ids = who ? await historyOf(this.#app.store.get()) : [];
      const places = who && this.#app.card.has_concepts ? (await api.encode({ ...who, moves })).concepts : [];
      if (this.#located !== wanted) return;
      this.#state.history = this.#state.placesOf(ids);
      this.#state.locate(places);
      this.#showPicks();
    } catch (error) {
      this.#located = "";
      if (!(error instanceof api.ApiError && error.status === 409)) this.#app.toast(api.detailOf(error));
    }
  }

  #showPicks() {
    const lists = this.#withPicks.checked ? (this.#app.live.lists ?? []) : [];
    this.#state.picks = this.#state.placesOf(lists.flatMap(({ items }) => items.map(({ id }) => id)));
    this.#stage.redraw();
  }

  /** @param {XY} at */
  #nearest([x, y]) {
    const { camera } = this.#stage;
    return this.#state.points.nearest(...camera.world(x, y), REACH / camera.scale);
  }

  /** @param {number} i */
  #hover(i) {
    if (i === this.#state.hovered) return;
    this.#state.hovered = i;
    this.#stage.canvas.classList.toggle("is-over", i >= 0);
    this.#tip.hide();
    this.#fillTip.cancel();
    if (i >= 0 && i !== this.#state.picked) this.#fillTip.call(i);
    this.#stage.redraw();
  }

  /** @param {number} i */
  async #showTip(i) {
    const item = await lookUp(this.#state.idOf(i)).catch(() => null);
    if (this.#state.hovered === i && item) this.#tip.show(item, this.#stage.at(i), this.#stage.camera);
  }

  /** @param {number} i */
  async #pick(i, isKeyboard = false) {
    this.#state.picked = i;
    this.#box.hide();
    this.#stage.redraw();
    if (i < 0) return;
    this.#hover(-1);
    try {
      const item = await lookUp(this.#state.idOf(i));
      if (this.#state.picked !== i) return;
      this.#showBox(item);
      this.#box.put(this.#stage.at(i), this.#stage.camera);
      this.#app.announce([titleOf(item), this.#app.label(item.concept)].filter(Boolean).join(", "));
      if (isKeyboard) this.#box.focus();
    } catch (error) {
      this.#app.toast(api.detailOf(error));
    }
  }

  /** @param {Item} item */
  #showBox({ id, ...rest }) {
    const app = this.#app;
    const isInHistory = app.isInHistory(id);
    this.#box.show({ id, ...rest }, {
      isInHistory,
      change: () => {
        if (isInHistory) app.removeFromHistory(id);
        else app.addToHistory(id);
        this.#pick(-1);
        this.#stage.canvas.focus({ preventScroll: true });
      },
      more: () => app.openItem(id),
      close: () => this.#pick(-1),
    });
  }

  /** @param {string} id */
  #find(id) {
    const i = this.#state.placeOf(id);
    if (i < 0) return this.#app.toast("This item is not on the map.");
    this.#stage.lookAt(i);
    return this.#pick(i, true);
  }
}
