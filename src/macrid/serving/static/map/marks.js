// @ts-check
// What is drawn over the points of the map: the history, picks, the user, and names.

import { Room } from "./labels.js";

/** @import { Box } from "./plane.js" */
/** @import { Theme } from "./colouring.js" */
/** @typedef {[x: number, y: number]} XY in pixels of the page */
/** @typedef {{ at: XY, colour: string }} Mark */
/** @typedef {{ at: XY, share: number, colour: string, text: string }} You */
/** @typedef {{ at: XY, text: string, isFaded: boolean }} Name */
/**
 * @typedef {object} Scene
 * @property {Mark[]} history
 * @property {XY[]} picks
 * @property {XY[]} selected
 * @property {Mark | null} pointed under the pointer, or the item whose card is open
 * @property {You[]} you
 * @property {Name[]} names
 * @property {XY[]} lasso
 * @property {boolean} hasCross in the middle, for the keyboard
 */

/** @typedef {CanvasRenderingContext2D} Context */

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const AROUND = [[0, 0], [0, -26], [0, 26], [0, -52], [0, 52], [-0.5, -26], [0.5, -26], [-0.5, 26], [0.5, 26], [0, -78], [0, 78]]; // widths, px
const LABELLED_SHARE = 0.04; // smaller shares have a disc without words
const LABELLED_SHARE_SMALL = 0.08; // on a small stage

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
  for (const [x, y] of scene.selected) ring(context, x, y, radius + 1.5, theme.accent, 1.6);
  for (const [x, y] of scene.picks) {
    diamond(context, x, y, radius + 4);
    outlined(context, theme, null);
  }
  const discs = scene.you.map((one) => ({ ...one, r: 8 + 24 * Math.sqrt(one.share) }));
  drawDiscs(context, discs, theme, room);
  for (const { at: [x, y], colour } of scene.history) {
    context.beginPath();
    context.arc(x, y, radius + 2, 0, 7);
    outlined(context, theme, colour);
  }
  drawYou(context, discs.filter(({ share }) => share >= (isSmall ? LABELLED_SHARE_SMALL : LABELLED_SHARE)), theme, room);
  drawNames(context, scene.names, theme, room, isSmall ? 13 : 15);
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

/** @param {Context} context @param {(You & { r: number })[]} discs @param {Theme} theme @param {Room} room */
function drawDiscs(context, discs, theme, room) {
  for (const { at: [x, y], r, colour } of discs) {
    context.beginPath();
    context.arc(x, y, r, 0, 7);
    context.globalAlpha = 0.28;
    context.fillStyle = colour;
    context.fill();
    context.globalAlpha = 1;
    ring(context, x, y, r, theme.surface, 7);
    ring(context, x, y, r, theme.text, 3);
    room.take({ left: x - r - 4, top: y - r - 4, width: 2 * r + 8, height: 2 * r + 8 });
  }
}

/** @param {Context} context @param {(You & { r: number })[]} discs @param {Theme} theme @param {Room} room */
function drawYou(context, discs, theme, room) {
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

/** @param {Context} context @param {Name[]} names @param {Theme} theme @param {Room} room @param {number} size */
function drawNames(context, names, theme, room, size) {
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.font = `650 ${size}px ${FONT}`;
  for (const { at: [x, y], text, isFaded } of names) {
    const width = context.measureText(text).width + 10;
    const free = room.place(AROUND.map(([dx, dy]) => ({ left: x - width / 2 + dx * width, top: y - 12 + dy, width, height: 24 })));
    if (!free) continue;
    context.globalAlpha = isFaded ? 0.35 : 1;
    context.lineWidth = 5;
    context.strokeStyle = theme.surface;
    context.strokeText(text, free.left + width / 2, free.top + 12);
    context.fillStyle = theme.text;
    context.fillText(text, free.left + width / 2, free.top + 12);
    context.globalAlpha = 1;
  }
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
