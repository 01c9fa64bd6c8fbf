// @ts-check
// Where groups of items are at home on the map: islands that are clearly theirs, each with its densest place.

/** @import { Points } from "./plane.js" */
/** @typedef {{ group: number, x: number, y: number, items: number }} Island its place: that of an item of the group, where they are densest */
/** @typedef {{ cell: number, columns: number, rows: number, spread: number }} Grid spread: of the kernel, in cells */

const SIDE = 96; // cells of the longer side
const REACH = 14; // items within the kernel, on average
const SPREADS = [1.3, 7]; // least and most, in cells
const MAJORITY = 0.5; // of the items at a place, that a group must have there
const LEAST_ODDS = 2; // of a group there, against its odds overall
const FEWEST_THERE = 2; // items within the kernel
const FEWEST = 5; // items of an island
const LEAST_SHARE = 0.1; // of a group's items, that an island must have
const LEAST_SHARE_MORE = 0.18; // a second island
const FAR = 0.14; // of the longer side, between islands of one group
const MOST_ISLANDS = 3; // of one group

/**
 * The islands of each group, the largest first. A group that is spread over the others has none.
 * @param {Points} points
 * @param {ArrayLike<number>[]} groups the items of every group; an item may be in several
 * @returns {Island[]}
 */
export function islands(points, groups) {
  if (!points.n) return [];
  const grid = gridOver(points);
  const cells = cellsOf(points, grid);
  const all = smooth(counted(cells, grid), grid);
  return groups.flatMap((items, group) => {
    const own = smooth(counted(Array.from(items, (i) => cells[i]), grid), grid);
    return islandsOf(points, grid, cells, { all, own }, items).map((island) => ({ group, ...island }));
  }).sort((a, b) => b.items - a.items);
}

/**
 * @param {Points} points
 * @param {Grid} grid
 * @param {Uint32Array} cells of all items
 * @param {{ all: Float32Array, own: Float32Array }} density
 * @param {ArrayLike<number>} items of the group
 */
function islandsOf(points, grid, cells, { all, own }, items) {
  if (items.length === points.n) return []; // nothing to tell it from
  const share = items.length / points.n;
  const odds = (LEAST_ODDS * share) / (1 - share);
  const least = Math.max(MAJORITY, odds / (1 + odds)); // of what is at a place
  const fewest = FEWEST_THERE / (4 * Math.PI * grid.spread ** 2);
  const isOwn = Uint8Array.from(own, (density, cell) => Number(all[cell] >= fewest && density >= least * all[cell]));
  const { island, count } = connected(isOwn, grid);
  /** @type {number[][]} */
  const members = Array.from({ length: count }, () => []);
  for (let i = 0; i < items.length; i += 1) members[island[cells[items[i]]]]?.push(items[i]);
  /** @type {{ x: number, y: number, items: number }[]} */
  const found = [];
  const far = FAR * SIDE * grid.cell;
  for (const those of members.sort((a, b) => b.length - a.length)) {
    if (those.length < Math.max(FEWEST, (found.length ? LEAST_SHARE_MORE : LEAST_SHARE) * items.length)) break;
    const place = densest(those, points, grid, cells);
    if (found.every(({ x, y }) => Math.hypot(x - place.x, y - place.y) >= far)) found.push({ ...place, items: those.length });
    if (found.length === MOST_ISLANDS) break;
  }
  return found;
}

/** @param {Points} points @returns {Grid} */
function gridOver({ n, box: { width, height } }) {
  const cell = Math.max(width, height) / SIDE;
  const [columns, rows] = [Math.ceil(width / cell) + 1, Math.ceil(height / cell) + 1];
  const spread = Math.sqrt((REACH * columns * rows) / (4 * Math.PI * n));
  return { cell, columns, rows, spread: Math.max(SPREADS[0], Math.min(SPREADS[1], spread)) };
}

/** @param {Points} points @param {Grid} grid */
function cellsOf({ n, x, y, box: { left, top } }, { cell, columns }) {
  const cells = new Uint32Array(n);
  for (let i = 0; i < n; i += 1) cells[i] = Math.floor((y[i] - top) / cell) * columns + Math.floor((x[i] - left) / cell);
  return cells;
}

/** @param {ArrayLike<number>} cells @param {Grid} grid */
function counted(cells, { columns, rows }) {
  const counts = new Float32Array(columns * rows);
  for (let i = 0; i < cells.length; i += 1) counts[cells[i]] += 1;
  return counts;
}

/**
 * By a Gaussian, first along rows, then along columns.
 * @param {Float32Array} counts
 * @param {Grid} grid
 */
function smooth(counts, { columns, rows, spread }) {
  const reach = Math.ceil(3 * spread);
  const kernel = Float32Array.from({ length: 2 * reach + 1 }, (_, i) => Math.exp(-0.5 * ((i - reach) / spread) ** 2) / (spread * Math.sqrt(2 * Math.PI)));
  const pass = (/** @type {Float32Array} */ from, /** @type {number} */ step, /** @type {(cell: number) => number} */ at, /** @type {number} */ length) => {
    const to = new Float32Array(from.length);
    from.forEach((value, cell) => {
      if (value === 0) return;
      const place = at(cell);
      const [first, last] = [Math.max(-reach, -place), Math.min(reach, length - 1 - place)];
      for (let d = first; d <= last; d += 1) to[cell + d * step] += value * kernel[d + reach];
    });
    return to;
  };
  return pass(pass(counts, 1, (cell) => cell % columns, columns), columns, (cell) => Math.floor(cell / columns), rows);
}

/**
 * Cells that hang together: the number of the island of each, -1 for none.
 * @param {Uint8Array} isOwn
 * @param {Grid} grid
 */
function connected(isOwn, { columns }) {
  const island = new Int32Array(isOwn.length).fill(-1);
  let count = 0;
  for (let start = 0; start < isOwn.length; start += 1) {
    if (!isOwn[start] || island[start] >= 0) continue;
    const open = [start];
    island[start] = count;
    for (let cell = open.pop(); cell !== undefined; cell = open.pop()) {
      const column = cell % columns;
      for (const next of [cell - columns, cell + columns, column > 0 ? cell - 1 : -1, column < columns - 1 ? cell + 1 : -1]) {
        if (!isOwn[next] || island[next] >= 0) continue;
        island[next] = count;
        open.push(next);
      }
    }
    count += 1;
  }
  return { island, count };
}

/**
 * The item of an island that is nearest to its densest place; the kernel is as wide as the island asks for.
 * @param {number[]} items
 * @param {Points} points
 * @param {Grid} grid
 * @param {Uint32Array} cells of all items
 */
function densest(items, { x, y, box: { left, top } }, grid, cells) {
  const { cell, columns } = grid;
  const mean = (/** @type {(i: number) => number} */ of) => items.reduce((sum, i) => sum + of(i), 0) / items.length;
  const [mx, my] = [mean((i) => x[i]), mean((i) => y[i])];
  const deviation = Math.sqrt(mean((i) => (x[i] - mx) ** 2 + (y[i] - my) ** 2) / 2);
  const spread = Math.max(grid.spread, (deviation / cell) * items.length ** (-1 / 6)); // Silverman's rule
  const density = smooth(counted(items.map((i) => cells[i]), grid), { ...grid, spread });
  const peak = density.reduce((best, value, at) => (value > density[best] ? at : best), 0);
  const [px, py] = [left + ((peak % columns) + 0.5) * cell, top + (Math.floor(peak / columns) + 0.5) * cell];
  const away = (/** @type {number} */ i) => (x[i] - px) ** 2 + (y[i] - py) ** 2;
  const nearest = items.reduce((a, b) => (away(b) < away(a) ? b : a));
  return { x: x[nearest], y: y[nearest] };
}
