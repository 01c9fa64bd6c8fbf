import assert from "node:assert/strict";
import test from "node:test";

import { islands } from "../../src/macrid/serving/static/map/density.js";
import { Room, wrapped } from "../../src/macrid/serving/static/map/labels.js";
import { Points } from "../../src/macrid/serving/static/map/plane.js";

// The same numbers every time: a linear congruential generator.
let seed = 7;
const next = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
const normal = () => Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next());

/**
 * Clouds around places, and which items each has.
 * @param {{ n: number, x: number, y: number, spread: number }[]} clouds
 */
function planted(clouds) {
  const [xs, ys] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
  const members = clouds.map(({ n, x, y, spread }) => Array.from({ length: n }, () => {
    xs.push(x + spread * normal());
    return ys.push(y + spread * normal()) - 1;
  }));
  return { points: new Points(xs, ys), members };
}

const ISLANDS = [
  { n: 400, x: 0, y: 0, spread: 0.1 },
  { n: 300, x: 1, y: 0.2, spread: 0.08 },
  { n: 60, x: 0.4, y: 1, spread: 0.05 },
];

test("a group is named inside its island, near the middle; the largest comes first", () => {
  const { points, members } = planted(ISLANDS);
  const found = islands(points, members);
  assert.deepEqual(found.map(({ group }) => group), [0, 1, 2]);
  for (const { group, x, y, items } of found) {
    const { n, x: atX, y: atY, spread } = ISLANDS[group];
    assert.ok(Math.hypot(x - atX, y - atY) < 1.5 * spread, `group ${group}`);
    assert.ok(items > 0.8 * n && items <= n);
  }
});

test("names go where most items are, not to the middle of a group in two parts", () => {
  const { points, members } = planted([...ISLANDS.slice(0, 2), { n: 120, x: 0, y: 1, spread: 0.05 }, { n: 90, x: 1, y: 1, spread: 0.05 }]);
  const parts = islands(points, [members[0], members[1], [...members[2], ...members[3]]]).filter(({ group }) => group === 2);
  assert.equal(parts.length, 2);
  assert.ok(Math.hypot(parts[0].x, parts[0].y - 1) < 0.1);
  assert.ok(Math.hypot(parts[1].x - 1, parts[1].y - 1) < 0.1);
});

test("a group that is spread over the others has no name, however large it is", () => {
  const { points, members } = planted(ISLANDS);
  const all = members.flat();
  for (const share of [0.05, 0.3, 0.6, 0.9]) {
    const spread = all.filter(() => next() < share);
    const taken = new Set(spread);
    const others = members.map((items) => items.filter((i) => !taken.has(i)));
    assert.deepEqual(islands(points, [...others, spread]).filter(({ group }) => group === 3), [], `${share}`);
  }
});

test("a few stragglers are no island, and nothing has none", () => {
  const { points, members } = planted([...ISLANDS, { n: 4, x: 0.5, y: -0.5, spread: 0.01 }]);
  assert.ok(islands(points, members).every(({ group }) => group < 3));
  const [first, ...rest] = members;
  const stray = [...first, ...rest[2]]; // 4 of 404 lie elsewhere
  assert.equal(islands(points, [stray]).length, 1);
  assert.deepEqual(islands(points, [points.x.map((_, i) => i)]), [], "one group of everything");
  assert.deepEqual(islands(new Points([], []), []), []);
  assert.deepEqual(islands(new Points([1, 1, 1], [2, 2, 2]), [[0, 1], [2]]), [], "all in one place");
});

test("an item may be in several groups", () => {
  const { points, members } = planted(ISLANDS);
  const found = islands(points, [members[0], [...members[0], ...members[1]]]);
  assert.deepEqual(found.map(({ group }) => group).sort(), [0, 1, 1]);
});

test("words are put as near as they fit, with a line where they are not at their place", () => {
  const room = new Room(400, 300);
  const size = { width: 80, height: 20 };
  const here = room.near([200, 150], size);
  assert.deepEqual(here, { box: { left: 160, top: 140, ...size }, from: null });
  /** @type {ReturnType<Room["near"]>[]} */
  const more = Array.from({ length: 6 }, () => room.near([200, 150], size));
  const boxes = [here, ...more].flatMap((spot) => spot?.box ?? []);
  assert.equal(boxes.length, 7);
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => assert.ok(
    a.left + a.width < b.left || b.left + b.width < a.left || a.top + a.height < b.top || b.top + b.height < a.top)));
  const far = more.map((spot) => spot?.from).filter(Boolean);
  assert.ok(far.length > 0);
  for (const spot of more) {
    const { left, top } = /** @type {{ left: number, top: number }} */ (spot?.box);
    const nearest = [Math.max(left, Math.min(left + 80, 200)), Math.max(top, Math.min(top + 20, 150))];
    const away = Math.hypot(nearest[0] - 200, nearest[1] - 150);
    assert.equal(spot?.from !== null, away > 12);
    assert.ok(away < 60);
  }
  assert.equal(room.near([-5, 20], size), null, "out of sight");
  const full = new Room(60, 300);
  assert.equal(full.near([30, 30], size), null, "no room");
});

test("boxes are free where no other one is, inside the stage", () => {
  const room = new Room(100, 100);
  const box = { left: 10, top: 10, width: 40, height: 20 };
  assert.equal(room.place([box]), box);
  assert.equal(room.place([{ ...box, left: 40 }]), undefined);
  assert.deepEqual(room.place([{ ...box, left: 40 }, { ...box, top: 40 }]), { ...box, top: 40 });
  assert.equal(room.isFree({ ...box, left: 70 }), false, "beyond the edge");
});

test("long names have two lines and then an ellipsis", () => {
  const measure = (/** @type {string} */ text) => [...text].length;
  assert.deepEqual(wrapped("Horror", 10, measure), ["Horror"]);
  assert.deepEqual(wrapped("Children's or Musical", 13, measure), ["Children's or", "Musical"]);
  const lines = wrapped("like The Wrong Trousers, A Close Shave", 12, measure);
  assert.equal(lines.length, 2);
  assert.ok(lines.every((line) => measure(line) <= 12));
  assert.ok(lines[1].endsWith("…"));
  assert.ok(measure(wrapped("l".repeat(10_000), 12, measure)[0]) <= 12);
  assert.deepEqual(wrapped("", 12, measure), [""]);
});
