// @ts-check
// What the map shows: items by their place in the answer, -1 for none.

import { Points } from "./plane.js";

/** @import { Map as ItemMap, Place } from "#types" */
/** @import { XY } from "./marks.js" */

const LEAST_SHARE = 0.005; // of a history, for a disc

export class MapState {
  /** @type {ItemMap | null} */
  map = null;
  points = new Points([], []);
  /** @type {number[]} */
  history = [];
  /** @type {number[]} */
  picks = [];
  /** @type {number[]} */
  selected = [];
  /** @type {{ concept: number, share: number, x: number, y: number }[]} The customer's place in each group. */
  places = [];
  /** @type {XY[]} */
  lasso = [];
  hovered = -1;
  picked = -1;
  isOutlining = false;
  isMoving = false; // whether points are on their way to other places
  isKeyed = false; // whether the keyboard is in use
  /** @type {Map<string, number>} */
  #places = new Map();

  /**
   * @param {ItemMap} map
   * @returns {{ next: Points, isSame: boolean, isMoved: boolean }} where points are to be; whether they are the same items, at other places
   */
  take(map) {
    const next = new Points(map.x, map.y);
    const isSame = this.map !== null && this.points.n === next.n && this.map.id.every((id, i) => id === map.id[i]);
    const isMoved = isSame && next.x.some((x, i) => x !== this.points.x[i]);
    this.map = map;
    this.#places = new Map(map.id.map((id, i) => [id, i]));
    if (!isSame) Object.assign(this, { hovered: -1, picked: -1, selected: [], history: [], picks: [] });
    return { next, isSame, isMoved };
  }

  /** @param {Points} points */
  settle(points) {
    this.points = points;
    this.isMoving = false;
  }

  /** @param {string} id */
  placeOf(id) {
    return this.#places.get(id) ?? -1;
  }

  /** @param {string[]} ids */
  placesOf(ids) {
    return ids.map((id) => this.placeOf(id)).filter((i) => i >= 0);
  }

  /** @param {number} i */
  idOf(i) {
    return this.map?.id[i] ?? "";
  }

  /** @param {Place[]} places */
  locate(places) {
    this.places = places.flatMap(({ concept, share, x, y }) =>
      typeof x === "number" && typeof y === "number" && share >= LEAST_SHARE ? [{ concept, share, x, y }] : []);
  }
}
