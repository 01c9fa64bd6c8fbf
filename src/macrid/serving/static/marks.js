// What is drawn over the points of the map: the history, picks, where somebody is, and names that do not overlap.

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const AROUND = [[0, 0], [0, -26], [0, 26], [0, -52], [0, 52], [-0.5, -26], [0.5, -26], [-0.5, 26], [0.5, 26], [0, -78], [0, 78]]; // widths, px
const SHARE_TOLD = 0.04; // smaller shares have a disc without words
const SHARE_TOLD_SMALL = 0.08; // on a small stage

/** Boxes that are taken; `place` finds one of several that is free. */
class Room {
  constructor(width, height) {
    Object.assign(this, { width, height, taken: [] });
  }

  take(box) {
    this.taken.push(box);
  }

  isFree(box) {
    if (box.left < 2 || box.top < 2 || box.left + box.width > this.width - 2 || box.top + box.height > this.height - 2) return false;
    return this.taken.every((other) =>
      box.left + box.width < other.left || other.left + other.width < box.left ||
      box.top + box.height < other.top || other.top + other.height < box.top);
  }

  place(boxes) {
    const free = boxes.find((box) => this.isFree(box));
    if (free) this.take(free);
    return free;
  }
}

/** Where to name every concept, the largest first: at the item nearest to its median. */
export function conceptNames(concepts, points) {
  const members = new Map();
  concepts.forEach((concept, i) => (members.has(concept) ? members.get(concept).push(i) : members.set(concept, [i])));
  const median = (of) => of.sort((a, b) => a - b)[of.length >> 1];
  return [...members].sort((a, b) => b[1].length - a[1].length).map(([concept, those]) => {
    const [x, y] = [median(those.map((i) => points.x[i])), median(those.map((i) => points.y[i]))];
    const away = (i) => Math.hypot(points.x[i] - x, points.y[i] - y);
    const near = those.reduce((a, b) => (away(b) < away(a) ? b : a));
    return { concept, x: points.x[near], y: points.y[near] };
  });
}

/** scene: {history, picks, hovered, selected: lists of [x, y] of the page; you: [{x, y, share, colour, text}], names: [{x, y, text, colour}]} */
export function drawMarks(context, { width, height, ratio, radius, theme, scene, isSmall, reserved }) {
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
  drawYou(context, discs.filter(({ share }) => share >= (isSmall ? SHARE_TOLD_SMALL : SHARE_TOLD)), theme, room);
  drawNames(context, scene.names, theme, room, isSmall ? 13 : 15);
  if (scene.hovered) {
    const { at: [x, y], colour } = scene.hovered;
    context.beginPath();
    context.arc(x, y, radius + 4, 0, 7);
    outlined(context, theme, colour);
  }
  if (scene.lasso.length > 1) drawLasso(context, scene.lasso, theme);
  if (scene.cross) drawCross(context, width / 2, height / 2, theme);
}

function ring(context, x, y, radius, colour, width) {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.stroke();
}

function diamond(context, x, y, r) {
  context.beginPath();
  context.moveTo(x, y - r);
  context.lineTo(x + r, y);
  context.lineTo(x, y + r);
  context.lineTo(x - r, y);
  context.closePath();
}

// The path, filled, with a dark line in a light one: seen on any colour.
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

function drawDiscs(context, discs, theme, room) {
  for (const { x, y, r, colour } of discs) {
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

function drawYou(context, discs, theme, room) {
  context.font = `600 12px ${FONT}`;
  context.textBaseline = "middle";
  for (const { x, y, r, text } of discs.sort((a, b) => b.share - a.share)) {
    const width = context.measureText(text).width + 18;
    const box = (left, top) => ({ left, top, width, height: 24 });
    const found = room.place([
      box(x + r + 8, y - 12), box(x - r - 8 - width, y - 12), box(x - width / 2, y - r - 34), box(x - width / 2, y + r + 10),
      box(x + r * 0.6, y - r - 30), box(x + r * 0.6, y + r + 8), box(x - r * 0.6 - width, y - r - 30),
    ]);
    if (!found) continue;
    context.beginPath();
    context.roundRect(found.left, found.top, found.width, found.height, 12);
    context.fillStyle = theme.text;
    context.fill();
    context.fillStyle = theme.surface;
    context.textAlign = "left";
    context.fillText(text, found.left + 9, found.top + 12.5);
  }
}

function drawNames(context, names, theme, room, size) {
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.font = `650 ${size}px ${FONT}`;
  for (const { x, y, text, isFaded } of names) {
    const width = context.measureText(text).width + 10;
    const found = room.place(AROUND.map(([dx, dy]) => ({ left: x - width / 2 + dx * width, top: y - 12 + dy, width, height: 24 })));
    if (!found) continue;
    context.globalAlpha = isFaded ? 0.35 : 1;
    context.lineWidth = 5;
    context.strokeStyle = theme.surface;
    context.strokeText(text, found.left + width / 2, found.top + 12);
    context.fillStyle = theme.text;
    context.fillText(text, found.left + width / 2, found.top + 12);
    context.globalAlpha = 1;
  }
}

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

function drawCross(context, x, y, theme) {
  for (const [colour, width] of [[theme.surface, 4], [theme.text, 1.5]]) {
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
