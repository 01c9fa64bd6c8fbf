// @ts-check
// The surface of the map: two canvases under one camera, drawn once a frame and only when something changed.

import { h } from "../core/dom.js";
import { percent } from "../core/format.js";
import { Flight } from "./flight.js";
import { drawMarks } from "./marks.js";
import { Painter } from "./painter.js";
import { Camera, dotRadius } from "./plane.js";

/** @import { App } from "#types" */
/** @import { Colouring, Theme } from "./colouring.js" */
/** @import { Scene, XY } from "./marks.js" */
/** @import { MapState } from "./state.js" */
/** @import { Points } from "./plane.js" */

const MANY = 20_000; // points that are drawn a little coarser on fine screens
const SMALL = 520; // px of width below which words are shorter
const LONGEST = 26; // letters of a group's name beside a disc
const CLOSE = 4; // how much closer than everything one item is looked at

export class Stage {
  element;
  canvas = h("canvas", {
    class: "map-points", tabindex: "0", role: "application", "aria-label": "Map of all items", "aria-describedby": "map-help",
  });
  camera = new Camera();
  flight = new Flight(this.camera, () => this.redraw());
  #marks = h("canvas", { class: "map-marks", "aria-hidden": "true" });
  #painter = new Painter(this.canvas);
  #context = /** @type {CanvasRenderingContext2D} */ (this.#marks.getContext("2d"));
  #isDirty = false;
  #hasFitted = false;
  /** @type {{ those: ArrayLike<number> | null, mask: Uint8Array }} */
  #clear = { those: null, mask: new Uint8Array(0) };
  /** @type {App} */
  #app;
  /** @type {MapState} */
  #state;
  /** @type {HTMLElement} */
  #tools;
  /** @type {Colouring | null} */
  #colouring = null;
  #drawn = /** @type {(at: (i: number) => XY) => void} */ (() => {});

  /**
   * @param {App} app
   * @param {MapState} state
   * @param {HTMLElement} tools names keep clear of it
   * @param {HTMLElement[]} boxes that stand over the map
   */
  constructor(app, state, tools, boxes) {
    [this.#app, this.#state, this.#tools] = [app, state, tools];
    this.element = h("div", { class: "map-stage is-loading" }, this.canvas, this.#marks, tools, boxes);
    new ResizeObserver(() => this.resize()).observe(this.element);
  }

  /**
   * @param {Colouring} colouring
   * @param {(at: (i: number) => XY) => void} drawn called after every drawing
   */
  begin(colouring, drawn) {
    [this.#colouring, this.#drawn] = [colouring, drawn];
  }

  get isSmall() {
    return this.camera.width < SMALL;
  }

  /**
   * Where an item is, in pixels from the corner of the stage.
   * @param {number} i
   */
  at = (i) => this.camera.screen(this.#state.points.x[i], this.#state.points.y[i]);

  redraw() {
    if (this.#isDirty) return;
    this.#isDirty = true;
    requestAnimationFrame(() => this.#draw());
  }

  resize() {
    const { camera } = this;
    const { points } = this.#state;
    const { clientWidth: width, clientHeight: height } = this.element;
    if (width < 2 || height < 2 || !points.n) return;
    const ratio = Math.min(devicePixelRatio || 1, points.n > MANY ? 1.5 : 2);
    if (camera.width !== width || camera.height !== height || this.#painter.ratio !== ratio) {
      const { closeness } = camera;
      Object.assign(camera, { width, height });
      this.#painter.size(width, height, ratio);
      [this.#marks.width, this.#marks.height] = [this.canvas.width, this.canvas.height];
      const { scale } = camera.fit(points.box);
      if (this.#hasFitted) camera.scale = scale * closeness;
    }
    if (!this.#hasFitted) this.fit(false);
    this.#hasFitted = true;
    this.#draw();
  }

  /** Look at everything again when there is a size. */
  forgetView() {
    this.#hasFitted = false;
  }

  /** @param {boolean} isSmooth */
  fit(isSmooth) {
    if (this.#state.points.n) this.flight.to(this.camera.fit(this.#state.points.box), isSmooth);
  }

  /**
   * @param {Points} points the same ones, at other places
   * @param {() => void} done
   */
  settle(points, done) {
    this.flight.settle(this.#state.points, points, this.camera.fit(points.box), done);
  }

  /** @param {number} i */
  lookAt(i) {
    const { x, y } = this.#state.points;
    this.flight.to({ scale: Math.max(this.camera.scale, this.camera.fitted * CLOSE), x: x[i], y: y[i] }, true);
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.flight.stop();
    this.camera.pan(dx, dy);
    this.redraw();
  }

  /**
   * @param {number} factor
   * @param {number} x what is there stays there
   * @param {number} y
   */
  zoom(factor, x = this.camera.width / 2, y = this.camera.height / 2, isSmooth = false) {
    const { camera } = this;
    this.flight.stop();
    const before = { scale: camera.scale, x: camera.x, y: camera.y };
    camera.zoom(factor, x, y);
    if (!isSmooth) return this.redraw();
    const goal = { scale: camera.scale, x: camera.x, y: camera.y };
    Object.assign(camera, before);
    return this.flight.to(goal, true);
  }

  #draw() {
    this.#isDirty = false;
    const { camera } = this;
    const { points } = this.#state;
    const { groups, colours, theme } = this.#colouring ?? {};
    if (!points.n || !this.#painter.ratio || !groups || !colours || !theme || this.element.clientWidth < 2) return;
    this.#painter.paint(points, camera, { groups, colours, background: theme.background, ...this.#standingOut(theme) });
    const marked = (/** @type {number} */ i) => ({ at: this.at(i), colour: `rgb(${colours[groups[i]].join(" ")})` });
    const { offsetLeft: left, offsetTop: top, offsetWidth, offsetHeight } = this.#tools;
    drawMarks(this.#context, this.#scene(marked), {
      width: camera.width, height: camera.height, ratio: this.#painter.ratio, radius: dotRadius(points.n, camera), theme, isSmall: this.isSmall,
      reserved: { left, top, width: offsetWidth, height: offsetHeight },
    });
    this.element.classList.remove("is-loading");
    this.#drawn(this.at);
  }

  /**
   * Which items stand out: those selected, or those of one group of the legend.
   * @param {Theme} theme
   */
  #standingOut(theme) {
    const { selected, points } = this.#state;
    const { chosen, only, hasSeveral } = /** @type {Colouring} */ (this.#colouring);
    const those = selected.length ? selected : chosen;
    if (!those) return {};
    if (this.#clear.those !== those || this.#clear.mask.length !== points.n) {
      this.#clear = { those, mask: new Uint8Array(points.n) };
      for (let at = 0; at < those.length; at += 1) this.#clear.mask[those[at]] = 1;
    }
    return { clear: this.#clear.mask, ...(selected.length ? { edge: theme.edge } : { as: hasSeveral ? only : -1 }) };
  }

  /** @param {(i: number) => { at: XY, colour: string }} marked @returns {Scene} */
  #scene(marked) {
    const { history, picks, selected, picked, hovered, lasso, isKeyed, isMoving, places, points } = this.#state;
    const colouring = /** @type {Colouring} */ (this.#colouring);
    const pointed = picked >= 0 ? picked : hovered;
    return {
      lasso,
      hasCross: isKeyed,
      isBack: selected.length > 0,
      picks: picks.map(this.at),
      history: history.map(marked),
      pointed: pointed >= 0 ? marked(pointed) : null,
      names: isMoving ? [] : colouring.names(points).map(({ x, y, text, isFaded }) => ({ at: this.camera.screen(x, y), text, isFaded })),
      discs: places.map(({ concept, share, x, y }) => ({
        at: this.camera.screen(x, y), share, colour: colouring.theme?.concepts.get(concept) ?? "",
        text: this.isSmall ? percent(share) : `${percent(share)} · ${shortened(this.#app.label(concept) ?? "")}`,
      })),
    };
  }
}

/** @param {string} text */
const shortened = (text) => ([...text].length > LONGEST ? `${[...text].slice(0, LONGEST - 1).join("").trimEnd()}…` : text);
