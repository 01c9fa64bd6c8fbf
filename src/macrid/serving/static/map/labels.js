// @ts-check
// Where names go on the map: each at its concept, none over another.

/** @import { Box, Points } from "./plane.js" */

/** Boxes that are taken; `place` finds one of several that is free. */
export class Room {
  /** @type {Box[]} */
  #taken = [];

  /** @param {number} width @param {number} height */
  constructor(width, height) {
    this.width = width;
    this.height = height;
  }

  /** @param {Box} box */
  take(box) {
    this.#taken.push(box);
  }

  /** @param {Box} box */
  isFree(box) {
    if (box.left < 2 || box.top < 2 || box.left + box.width > this.width - 2 || box.top + box.height > this.height - 2) return false;
    return this.#taken.every((other) =>
      box.left + box.width < other.left || other.left + other.width < box.left ||
      box.top + box.height < other.top || other.top + other.height < box.top);
  }

  /** @param {Box[]} boxes */
  place(boxes) {
    const free = boxes.find((box) => this.isFree(box));
    if (free) this.take(free);
    return free;
  }
}

/**
 * Where to name every concept, the largest first: at the item nearest to its median.
 * @param {number[]} concepts
 * @param {Points} points
 */
export function conceptNames(concepts, points) {
  /** @type {Map<number, number[]>} */
  const members = new Map();
  concepts.forEach((concept, i) => {
    const those = members.get(concept);
    if (those) those.push(i);
    else members.set(concept, [i]);
  });
  const median = (/** @type {number[]} */ of) => of.sort((a, b) => a - b)[of.length >> 1];
  return [...members].sort((a, b) => b[1].length - a[1].length).map(([concept, those]) => {
    const [x, y] = [median(those.map((i) => points.x[i])), median(those.map((i) => points.y[i]))];
    const away = (/** @type {number} */ i) => Math.hypot(points.x[i] - x, points.y[i] - y);
    const near = those.reduce((a, b) => (away(b) < away(a) ? b : a));
    return { concept, x: points.x[near], y: points.y[near] };
  });
}
