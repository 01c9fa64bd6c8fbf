// @ts-check
// Points painted straight into pixels, which costs the same with and without a graphics card: tens of thousands of them
// take a few milliseconds.

import { dotRadius } from "./plane.js";

/** @import { Camera, Points } from "./plane.js" */
/** @typedef {[r: number, g: number, b: number]} RGB of 0 to 255 */
/** @typedef {{ size: number, masks: Uint16Array[] }} Disc */

const SUB = 4; // places within a pixel, each way, at which a dot is cut
const EDGE = 24; // px painted on every side beyond the canvas: dots are cut off there and do not vanish
const OPACITY = 0.86;
const FADED = 0.13;
const EDGE_WIDTH = 1.5; // px
const MOST_KEPT = 60;

/** Paints points of groups with colours into the pixels of a canvas. */
export class Painter {
  ratio = 0; // pixels of the screen to one of the page; 0 before the first `size`
  #canvas;
  #context;
  #image = new ImageData(1, 1);
  #pixels = new Uint32Array(1);

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
  }

  /** @param {number} width @param {number} height @param {number} ratio */
  size(width, height, ratio) {
    this.ratio = ratio;
    this.#canvas.width = Math.max(1, Math.round(width * ratio));
    this.#canvas.height = Math.max(1, Math.round(height * ratio));
    this.#image = this.#context.createImageData(this.#canvas.width + 2 * EDGE, this.#canvas.height + 2 * EDGE);
    this.#pixels = new Uint32Array(this.#image.data.buffer);
  }

  /**
   * @param {Points} points
   * @param {Camera} camera
   * @param {object} colouring
   * @param {ArrayLike<number>} colouring.groups
   * @param {RGB[]} colouring.colours of the groups
   * @param {RGB} colouring.background
   * @param {Uint8Array | null} [colouring.clear] 1 for items that stand out, 0 for those that fade; null where all are alike
   * @param {number} [colouring.as] the group whose colour those that stand out have, or -1 for their own
   * @param {RGB | null} [colouring.edge] around those that stand out
   */
  paint(points, camera, { groups, colours, background, clear = null, as = -1, edge = null }) {
    this.#pixels.fill(packed(background));
    const radius = dotRadius(points.n, camera) * this.ratio;
    const inks = Uint32Array.from(colours, packed);
    const own = (/** @type {number} */ i) => inks[groups[i]];
    if (!clear) this.#layer(points, camera, cuts(radius, OPACITY), own, () => true);
    else {
      const standsOut = (/** @type {number} */ i) => clear[i] === 1;
      this.#layer(points, camera, cuts(radius, FADED), own, (i) => clear[i] === 0);
      if (edge) {
        const line = packed(edge);
        this.#layer(points, camera, cuts(radius + EDGE_WIDTH * this.ratio, 1), () => line, standsOut);
      }
      this.#layer(points, camera, cuts(radius, edge ? 1 : OPACITY), as < 0 ? own : () => inks[as], standsOut);
    }
    this.#context.putImageData(this.#image, -EDGE, -EDGE);
  }

  /**
   * @param {Points} points
   * @param {Camera} camera
   * @param {Disc} disc
   * @param {(i: number) => number} inkOf
   * @param {(i: number) => boolean} wanted
   */
  #layer(points, camera, { size, masks }, inkOf, wanted) {
    const { ratio } = this;
    const pixels = this.#pixels;
    const { width, height } = this.#image;
    const { n, x, y } = points;
    const scale = camera.scale * ratio;
    const left = EDGE + (camera.width / 2) * ratio - camera.x * scale - size / 2;
    const top = EDGE + (camera.height / 2) * ratio - camera.y * scale - size / 2;
    for (let i = 0; i < n; i += 1) {
      const px = x[i] * scale + left;
      const py = y[i] * scale + top;
      if (px < 0 || py < 0 || px >= width - size || py >= height - size || !wanted(i)) continue;
      const column = px | 0;
      const row = py | 0;
      const mask = masks[(((py - row) * SUB) | 0) * SUB + (((px - column) * SUB) | 0)];
      const ink = inkOf(i);
      const red = ink & 0xff00ff;
      const green = ink & 0xff00;
      for (let r = 0, m = 0; r < size; r += 1) {
        let at = (row + r) * width + column;
        for (let c = 0; c < size; c += 1, m += 1, at += 1) {
          const a = mask[m];
          if (a === 0) continue;
          const under = pixels[at];
          const b = 256 - a;
          pixels[at] = 0xff000000
            | (((Math.imul(red, a) + Math.imul(under & 0xff00ff, b)) >>> 8) & 0xff00ff)
            | (((Math.imul(green, a) + Math.imul(under & 0xff00, b)) >>> 8) & 0xff00);
        }
      }
    }
  }
}

/** @param {RGB} colour */
const packed = ([r, g, b]) => ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;

/** @type {Map<string, Disc>} */
const kept = new Map();

/**
 * A disc with soft edges, cut at SUB x SUB places within a pixel; 0 to 256.
 * @param {number} radius
 * @param {number} opacity
 * @returns {Disc}
 */
function cuts(radius, opacity) {
  const key = `${radius.toFixed(2)} ${opacity}`;
  const known = kept.get(key);
  if (known) return known;
  const size = Math.ceil(2 * radius) + 2;
  const masks = [];
  for (let sy = 0; sy < SUB; sy += 1) {
    for (let sx = 0; sx < SUB; sx += 1) {
      const mask = new Uint16Array(size * size);
      const [cx, cy] = [size / 2 + (sx + 0.5) / SUB, size / 2 + (sy + 0.5) / SUB];
      for (let r = 0; r < size; r += 1) {
        for (let c = 0; c < size; c += 1) {
          const inside = radius + 0.5 - Math.hypot(c + 0.5 - cx, r + 0.5 - cy);
          mask[r * size + c] = Math.round(256 * opacity * Math.max(0, Math.min(1, inside)));
        }
      }
      masks.push(mask);
    }
  }
  if (kept.size > MOST_KEPT) kept.clear();
  kept.set(key, { size, masks });
  return { size, masks };
}
