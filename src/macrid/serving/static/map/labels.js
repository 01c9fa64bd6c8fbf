// @ts-check
// Where words go on the map: as near as possible to what they name, none over another.

/** @import { Box } from "./plane.js" */
/** @typedef {[x: number, y: number]} XY */
/** @typedef {{ box: Box, from: XY | null }} Spot from: where a line to the named place begins, if the words are beside it */

const GAPS = [5, 14, 26, 40, 58, 80, 106]; // px between a place and its words
const ANGLES = Array.from({ length: 16 }, (_, i) => (i * Math.PI) / 8);
const LINED = 12; // px beyond which a line leads from the words to their place

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

  /**
   * The free box nearest to a place, which it may cover; null where there is none near, or the place is out of sight.
   * @param {XY} at
   * @param {{ width: number, height: number }} size
   * @returns {Spot | null}
   */
  near([x, y], { width, height }) {
    if (x < 0 || y < 0 || x > this.width || y > this.height) return null;
    const around = (/** @type {number} */ dx, /** @type {number} */ dy) => ({ left: x - width / 2 + dx, top: y - height / 2 + dy, width, height });
    const box = this.place([around(0, 0), ...GAPS.flatMap((gap) => ANGLES.map((angle) => around(Math.cos(angle) * (width / 2 + gap), Math.sin(angle) * (height / 2 + gap))))]);
    if (!box) return null;
    const from = /** @type {XY} */ ([within(x, box.left, box.left + width), within(y, box.top, box.top + height)]);
    return { box, from: Math.hypot(from[0] - x, from[1] - y) > LINED ? from : null };
  }
}

/** @param {number} value @param {number} low @param {number} high */
const within = (value, low, high) => Math.max(low, Math.min(high, value));

/**
 * A text on one line, or on two; what does not fit ends in an ellipsis.
 * @param {string} text
 * @param {number} width
 * @param {(text: string) => number} measure
 */
export function wrapped(text, width, measure) {
  const words = text.split(/\s+/).filter(Boolean);
  let first = words.shift() ?? "";
  while (words.length && measure(`${first} ${words[0]}`) <= width) first += ` ${words.shift()}`;
  const lines = words.length ? [first, words.join(" ")] : [first];
  return lines.map((line) => clipped(line, width, measure));
}

/** @param {string} line @param {number} width @param {(text: string) => number} measure */
function clipped(line, width, measure) {
  if (measure(line) <= width) return line;
  const letters = [...line];
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (measure(`${letters.slice(0, middle).join("")}…`) <= width) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("").trimEnd()}…`;
}
