// @ts-check
// Points on a plane, and a camera over them.

/** @typedef {{ left: number, top: number, width: number, height: number }} Box */
/** @typedef {{ scale: number, x: number, y: number }} View what a camera looks at */

const MARGIN = 36; // px around everything; less on a small screen

/** The points, as typed arrays, with a grid in which the nearest is found. */
export class Points {
  /** @param {ArrayLike<number>} x @param {ArrayLike<number>} y */
  constructor(x, y) {
    this.n = x.length;
    this.x = Float32Array.from(x);
    this.y = Float32Array.from(y);
    this.box = boxAround(this.x, this.y);
    this.side = Math.max(1, Math.min(256, Math.round(Math.sqrt(this.n / 2))));
    this.starts = new Uint32Array(this.side * this.side + 1);
    this.order = new Uint32Array(this.n);
    this.#index();
  }

  #index() {
    const { n, x, y, side } = this;
    const cells = new Uint32Array(n);
    for (let i = 0; i < n; i += 1) {
      cells[i] = this.row(y[i]) * side + this.column(x[i]);
      this.starts[cells[i] + 1] += 1;
    }
    for (let c = 0; c < side * side; c += 1) this.starts[c + 1] += this.starts[c];
    const next = this.starts.slice(0, -1);
    for (let i = 0; i < n; i += 1) {
      this.order[next[cells[i]]] = i;
      next[cells[i]] += 1;
    }
  }

  /** @param {number} x */
  column(x) {
    return Math.max(0, Math.min(this.side - 1, Math.floor(((x - this.box.left) / this.box.width) * this.side)));
  }

  /** @param {number} y */
  row(y) {
    return Math.max(0, Math.min(this.side - 1, Math.floor(((y - this.box.top) / this.box.height) * this.side)));
  }

  /**
   * The point nearest to a place and at most `reach` away, or -1.
   * @param {number} x
   * @param {number} y
   * @param {number} reach
   */
  nearest(x, y, reach) {
    let best = -1;
    let least = reach * reach;
    for (let r = this.row(y - reach); r <= this.row(y + reach); r += 1) {
      for (let c = this.column(x - reach); c <= this.column(x + reach); c += 1) {
        const cell = r * this.side + c;
        for (let at = this.starts[cell]; at < this.starts[cell + 1]; at += 1) {
          const i = this.order[at];
          const away = (this.x[i] - x) ** 2 + (this.y[i] - y) ** 2;
          if (away <= least) [best, least] = [i, away];
        }
      }
    }
    return best;
  }

  /**
   * Those inside a polygon.
   * @param {[x: number, y: number][]} polygon
   */
  inside(polygon) {
    const those = [];
    for (let i = 0; i < this.n; i += 1) {
      let isIn = false;
      for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a, a += 1) {
        const [ax, ay] = polygon[a];
        const [bx, by] = polygon[b];
        if (ay > this.y[i] !== by > this.y[i] && this.x[i] < ((bx - ax) * (this.y[i] - ay)) / (by - ay) + ax) isIn = !isIn;
      }
      if (isIn) those.push(i);
    }
    return those;
  }
}

/** @param {Float32Array} x @param {Float32Array} y @returns {Box} */
function boxAround(x, y) {
  if (!x.length) return { left: 0, top: 0, width: 1, height: 1 };
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < x.length; i += 1) {
    if (x[i] < left) left = x[i];
    if (x[i] > right) right = x[i];
    if (y[i] < top) top = y[i];
    if (y[i] > bottom) bottom = y[i];
  }
  return { left, top, width: right - left || 1, height: bottom - top || 1 };
}

/** From the plane of the points to pixels of the page and back. */
export class Camera {
  width = 1;
  height = 1;
  scale = 1;
  x = 0;
  y = 0;
  fitted = 1; // the scale at which everything is in view

  /**
   * The view that shows everything; the camera is left where it is.
   * @param {Box} box
   * @returns {View}
   */
  fit(box) {
    const margin = Math.min(MARGIN, this.width * 0.06);
    this.fitted = Math.max(1e-9, Math.min((this.width - 2 * margin) / box.width, (this.height - 2 * margin) / box.height));
    return { scale: this.fitted, x: box.left + box.width / 2, y: box.top + box.height / 2 };
  }

  /** @param {number} x @param {number} y @returns {[number, number]} */
  screen(x, y) {
    return [(x - this.x) * this.scale + this.width / 2, (y - this.y) * this.scale + this.height / 2];
  }

  /** @param {number} left @param {number} top @returns {[number, number]} */
  world(left, top) {
    return [(left - this.width / 2) / this.scale + this.x, (top - this.height / 2) / this.scale + this.y];
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
  }

  /**
   * What is under a place of the page stays there.
   * @param {number} factor
   * @param {number} left
   * @param {number} top
   */
  zoom(factor, left, top) {
    const [x, y] = this.world(left, top);
    this.scale = Math.max(this.fitted * 0.5, Math.min(this.fitted * 80, this.scale * factor));
    this.x = x - (left - this.width / 2) / this.scale;
    this.y = y - (top - this.height / 2) / this.scale;
  }

  get closeness() {
    return this.scale / this.fitted;
  }
}

/**
 * How large a dot is, in pixels of the page: smaller where there are many, larger as one comes closer.
 * @param {number} n
 * @param {{ width: number, height: number, closeness: number }} camera
 */
export function dotRadius(n, { width, height, closeness }) {
  const base = Math.max(1.5, Math.min(5, (0.25 * Math.min(width, height)) / Math.sqrt(Math.max(n, 1))));
  return Math.min(10, base * Math.max(1, closeness) ** 0.4);
}
