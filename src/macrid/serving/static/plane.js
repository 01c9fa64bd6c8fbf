// Many points on a canvas, and a camera over them. Points are painted straight into pixels, which costs the same with and
// without a graphics card: tens of thousands of points take a few milliseconds.

const SUB = 4; // places within a pixel, each way, at which a dot is cut
const EDGE = 24; // px painted on every side beyond the canvas, so that dots are cut off there and do not vanish
const OPACITY = 0.86;
const FADED = 0.13;

/** The points, as typed arrays, with a grid in which the nearest is found. */
export class Points {
  constructor(x, y) {
    this.n = x.length;
    this.x = Float32Array.from(x);
    this.y = Float32Array.from(y);
    this.index();
  }

  index() {
    const { n, x, y } = this;
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < n; i += 1) {
      if (x[i] < left) left = x[i];
      if (x[i] > right) right = x[i];
      if (y[i] < top) top = y[i];
      if (y[i] > bottom) bottom = y[i];
    }
    if (!n) [left, right, top, bottom] = [0, 1, 0, 1];
    this.box = { left, top, width: right - left || 1, height: bottom - top || 1 };
    const side = Math.max(1, Math.min(256, Math.round(Math.sqrt(n / 2))));
    this.side = side;
    this.starts = new Uint32Array(side * side + 1);
    this.order = new Uint32Array(n);
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

  column(x) {
    return Math.max(0, Math.min(this.side - 1, Math.floor(((x - this.box.left) / this.box.width) * this.side)));
  }

  row(y) {
    return Math.max(0, Math.min(this.side - 1, Math.floor(((y - this.box.top) / this.box.height) * this.side)));
  }

  /** The point nearest to a place and at most `reach` away, or -1. */
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

  /** Those inside a polygon of [x, y]. */
  inside(polygon) {
    const found = [];
    for (let i = 0; i < this.n; i += 1) {
      let isIn = false;
      for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a, a += 1) {
        const [ax, ay] = polygon[a];
        const [bx, by] = polygon[b];
        if (ay > this.y[i] !== by > this.y[i] && this.x[i] < ((bx - ax) * (this.y[i] - ay)) / (by - ay) + ax) isIn = !isIn;
      }
      if (isIn) found.push(i);
    }
    return found;
  }
}

/** From the plane of the points to pixels of the page and back. */
export class Camera {
  constructor() {
    Object.assign(this, { width: 1, height: 1, scale: 1, x: 0, y: 0, fitted: 1 });
  }

  fit(box, margin) {
    this.fitted = Math.min((this.width - 2 * margin) / box.width, (this.height - 2 * margin) / box.height);
    this.fitted = Math.max(this.fitted, 1e-9);
    return { scale: this.fitted, x: box.left + box.width / 2, y: box.top + box.height / 2 };
  }

  screen(x, y) {
    return [(x - this.x) * this.scale + this.width / 2, (y - this.y) * this.scale + this.height / 2];
  }

  world(left, top) {
    return [(left - this.width / 2) / this.scale + this.x, (top - this.height / 2) / this.scale + this.y];
  }

  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
  }

  /** What is under a place of the page stays there. */
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

/** How large a dot is, in pixels of the page: smaller where there are many, larger as one comes closer. */
export function dotRadius(n, { width, height, closeness }) {
  const base = Math.max(1.5, Math.min(5, (0.25 * Math.min(width, height)) / Math.sqrt(Math.max(n, 1))));
  return Math.min(10, base * Math.max(1, closeness) ** 0.4);
}

/** Paints points of groups with colours into the pixels of a canvas. */
export class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.image = null;
  }

  size(width, height, ratio) {
    this.ratio = ratio;
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.image = this.context.createImageData(this.canvas.width + 2 * EDGE, this.canvas.height + 2 * EDGE);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** only: the group to stand out, or -1. */
  paint(points, camera, { groups, colours, background, only = -1 }) {
    this.pixels.fill(packed(background));
    const radius = dotRadius(points.n, camera) * this.ratio;
    const inks = Uint32Array.from(colours, packed);
    if (only >= 0) this.layer(points, camera, groups, inks, cuts(radius, FADED), (group) => group !== only);
    this.layer(points, camera, groups, inks, cuts(radius, OPACITY), only >= 0 ? (group) => group === only : () => true);
    this.context.putImageData(this.image, -EDGE, -EDGE);
  }

  layer(points, camera, groups, inks, { size, masks }, wanted) {
    const { pixels, ratio } = this;
    const { width, height } = this.image;
    const { n, x, y } = points;
    const scale = camera.scale * ratio;
    const left = EDGE + (camera.width / 2) * ratio - camera.x * scale - size / 2;
    const top = EDGE + (camera.height / 2) * ratio - camera.y * scale - size / 2;
    for (let i = 0; i < n; i += 1) {
      const px = x[i] * scale + left;
      const py = y[i] * scale + top;
      if (px < 0 || py < 0 || px >= width - size || py >= height - size || !wanted(groups[i])) continue;
      const column = px | 0;
      const row = py | 0;
      const mask = masks[(((py - row) * SUB) | 0) * SUB + (((px - column) * SUB) | 0)];
      const ink = inks[groups[i]];
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

const packed = ([r, g, b]) => ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;

const kept = new Map();

// A disc with soft edges, cut at SUB x SUB places within a pixel; 0 to 256.
function cuts(radius, opacity) {
  const key = `${radius.toFixed(2)} ${opacity}`;
  if (kept.has(key)) return kept.get(key);
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
  if (kept.size > 60) kept.clear();
  kept.set(key, { size, masks });
  return kept.get(key);
}
