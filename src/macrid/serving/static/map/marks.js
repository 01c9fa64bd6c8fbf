// @ts-check
// What is drawn over the points of the map: the history, recommendations, the customer's places, and names.

import { Room, wrapped } from "./labels.js";

/** @import { Box } from "./plane.js" */
/** @import { Theme } from "./colouring.js" */
/** @typedef {[x: number, y: number]} XY in pixels of the page */
/** @typedef {{ at: XY, colour: string }} Mark */
/** @typedef {{ at: XY, share: number, colour: string, text: string }} Disc */
/** @typedef {{ at: XY, text: string, isFaded: boolean }} Name */
/**
 * @typedef {object} Scene
 * @property {Mark[]} history
 * @property {XY[]} picks
 * @property {Mark | null} pointed under the pointer, or the item whose card is open
 * @property {Disc[]} discs where the customer is in each group
 * @property {Name[]} names
 * @property {XY[]} lasso
 * @property {boolean} isBack whether the customer stands back behind a selection
 * @property {boolean} hasCross in the middle, for the keyboard
 */

/** @typedef {CanvasRenderingContext2D} Context */

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const NAME_WIDTH = 190; // px of a line
const NAME_WIDTH_SMALL = 120;
const MOST_KEPT = 200; // names, as they were divided into lines
const LABELLED_SHARE = 0.08; // smaller shares have a disc without words
const FADED = 0.3; // of what stands back

/**
 * @param {Context} context
 * @param {Scene} scene
 * @param {{ width: number, height: number, ratio: number, radius: number, theme: Theme, isSmall: boolean, reserved: Box }} options
 */
export function drawMarks(context, scene, { width, height, ratio, radius, theme, isSmall, reserved }) {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const room = new Room(width, height);
  room.take(reserved);
  const discs = scene.discs.map((one) => ({ ...one, r: 8 + 24 * Math.sqrt(one.share) }));
  context.globalAlpha = scene.isBack ? FADED : 1;
  for (const [x, y] of scene.picks) {
    diamond(context, x, y, radius + 4);
    outlined(context, theme, null);
  }
  drawDiscs(context, discs, theme, room);
  for (const { at: [x, y], colour } of scene.history) {
    context.beginPath();
    context.arc(x, y, radius + 2, 0, 7);
    outlined(context, theme, colour);
  }
  context.globalAlpha = 1;
  drawNames(context, scene.names, theme, room, isSmall);
  if (!scene.isBack) drawShares(context, discs.filter(({ share }) => share >= LABELLED_SHARE), theme, room);
  if (scene.pointed) {
    const { at: [x, y], colour } = scene.pointed;
    context.beginPath();
    context.arc(x, y, radius + 4, 0, 7);
    outlined(context, theme, colour);
  }
  if (scene.lasso.length > 1) drawLasso(context, scene.lasso, theme);
  if (scene.hasCross) drawCross(context, width / 2, height / 2, theme);
}

/** @param {Context} context @param {number} x @param {number} y @param {number} radius @param {string} colour @param {number} width */
function ring(context, x, y, radius, colour, width) {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.stroke();
}

/** @param {Context} context @param {number} x @param {number} y @param {number} r */
function diamond(context, x, y, r) {
  context.beginPath();
  context.moveTo(x, y - r);
  context.lineTo(x + r, y);
  context.lineTo(x, y + r);
  context.lineTo(x - r, y);
  context.closePath();
}

/**
 * The path, filled, with a dark line in a light one: visible on any colour.
 * @param {Context} context
 * @param {Theme} theme
 * @param {string | null} fill
 */
function outlined(context, theme, fill) {
  context.lineWidth = 4.5;
  context.strokeStyle = theme.surface;
  context.stroke();
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  context.lineWidth = 1.8;
  context.strokeStyle = theme.text;
  context.stroke();
}

/** @param {Context} context @param {(Disc & { r: number })[]} discs @param {Theme} theme @param {Room} room */
function drawDiscs(context, discs, theme, room) {
  for (const { at: [x, y], r, colour } of discs) {
    context.beginPath();
    context.arc(x, y, r, 0, 7);
    const alpha = context.globalAlpha;
    context.globalAlpha = 0.28 * alpha;
    context.fillStyle = colour;
    context.fill();
    context.globalAlpha = alpha;
    ring(context, x, y, r, theme.surface, 7);
    ring(context, x, y, r, theme.text, 3);
    room.take({ left: x - r - 4, top: y - r - 4, width: 2 * r + 8, height: 2 * r + 8 });
  }
}

/** @param {Context} context @param {(Disc & { r: number })[]} discs @param {Theme} theme @param {Room} room */
function drawShares(context, discs, theme, room) {
  context.font = `600 12px ${FONT}`;
  context.textBaseline = "middle";
  for (const { at: [x, y], r, text } of discs.sort((a, b) => b.share - a.share)) {
    const width = context.measureText(text).width + 18;
    const box = (/** @type {number} */ left, /** @type {number} */ top) => ({ left, top, width, height: 24 });
    const free = room.place([
      box(x + r + 8, y - 12), box(x - r - 8 - width, y - 12), box(x - width / 2, y - r - 34), box(x - width / 2, y + r + 10),
      box(x + r * 0.6, y - r - 30), box(x + r * 0.6, y + r + 8), box(x - r * 0.6 - width, y - r - 30),
    ]);
    if (!free) continue;
    context.beginPath();
    context.roundRect(free.left, free.top, free.width, free.height, 12);
    context.fillStyle = theme.text;
    context.fill();
    context.fillStyle = theme.surface;
    context.textAlign = "left";
    context.fillText(text, free.left + 9, free.top + 12.5);
  }
}

/** @param {Context} context @param {Name[]} names @param {Theme} theme @param {Room} room @param {boolean} isSmall */
function drawNames(context, names, theme, room, isSmall) {
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.font = `650 ${isSmall ? 13 : 15}px ${FONT}`;
  const [height, most] = isSmall ? [17, NAME_WIDTH_SMALL] : [20, NAME_WIDTH];
  for (const { at, text, isFaded } of names) {
    const { lines, width } = linesOf(context, text, most);
    const spot = room.near(at, { width: width + 10, height: height * lines.length + 4 });
    if (!spot) continue;
    const { left, top, width: across } = spot.box;
    context.globalAlpha = isFaded ? 0.35 : 1;
    if (spot.from) drawLeader(context, spot.from, at, theme);
    lines.forEach((line, i) => {
      const [x, y] = [left + across / 2, top + 2 + height * (i + 0.5)];
      context.lineWidth = 5;
      context.strokeStyle = theme.surface;
      context.strokeText(line, x, y);
      context.fillStyle = theme.text;
      context.fillText(line, x, y);
    });
    context.globalAlpha = 1;
  }
}

/** @type {Map<string, { lines: string[], width: number }>} */
const divided = new Map();

/**
 * A name on lines of at most so many pixels, and the width of the longest.
 * @param {Context} context
 * @param {string} text
 * @param {number} most
 */
function linesOf(context, text, most) {
  const key = `${most} ${text}`;
  const known = divided.get(key);
  if (known) return known;
  if (divided.size >= MOST_KEPT) divided.clear();
  const measure = (/** @type {string} */ part) => context.measureText(part).width;
  const lines = wrapped(text, most, measure);
  const fresh = { lines, width: Math.max(...lines.map(measure)) };
  divided.set(key, fresh);
  return fresh;
}

/**
 * From words to the place they name.
 * @param {Context} context
 * @param {XY} from
 * @param {XY} to
 * @param {Theme} theme
 */
function drawLeader(context, [x, y], [toX, toY], theme) {
  for (const [colour, width] of /** @type {const} */ ([[theme.surface, 4], [theme.text, 1.2]])) {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.stroke();
  }
  context.beginPath();
  context.arc(toX, toY, 2.6, 0, 7);
  context.fillStyle = theme.text;
  context.fill();
}

/** @param {Context} context @param {XY[]} lasso @param {Theme} theme */
function drawLasso(context, lasso, theme) {
  context.beginPath();
  lasso.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.closePath();
  context.globalAlpha = 0.12;
  context.fillStyle = theme.accent;
  context.fill();
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.setLineDash([6, 4]);
  context.strokeStyle = theme.accent;
  context.stroke();
  context.setLineDash([]);
}

/** @param {Context} context @param {number} x @param {number} y @param {Theme} theme */
function drawCross(context, x, y, theme) {
  for (const [colour, width] of /** @type {const} */ ([[theme.surface, 4], [theme.text, 1.5]])) {
    context.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      context.moveTo(x + 6 * dx, y + 6 * dy);
      context.lineTo(x + 14 * dx, y + 14 * dy);
    }
    context.lineWidth = width;
    context.strokeStyle = colour;
    context.stroke();
  }
}
