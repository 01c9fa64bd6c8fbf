import assert from "node:assert/strict";
import test from "node:test";

import { Camera, Points } from "../../src/macrid/serving/static/map/plane.js";
import { MapState } from "../../src/macrid/serving/static/map/state.js";

// The same numbers every time: a linear congruential generator.
function* random(seed = 1) {
  for (;;) yield (seed = (seed * 48271) % 2147483647) / 2147483647;
}
const draw = random();
const next = () => /** @type {number} */ (draw.next().value);
const cloud = new Points(Array.from({ length: 500 }, next), Array.from({ length: 500 }, next));

test("the nearest point is found, if any is within reach", () => {
  for (let trial = 0; trial < 200; trial += 1) {
    const [x, y, reach] = [1.4 * next() - 0.2, 1.4 * next() - 0.2, 0.2 * next()];
    const away = [...cloud.x].map((px, i) => Math.hypot(px - x, cloud.y[i] - y));
    const least = Math.min(...away);
    const nearest = cloud.nearest(x, y, reach);
    assert.equal(nearest === -1 ? null : away[nearest], least <= reach ? least : null);
  }
  assert.equal(new Points([], []).nearest(0, 0, 1), -1);
});

test("a lasso selects the points inside, even of a concave shape", () => {
  const points = new Points([1, 5, 9, 5], [1, 1, 1, 8]);
  assert.deepEqual(points.inside([[0, 0], [10, 0], [10, 10], [6, 10], [5, 2], [4, 10], [0, 10]]), [0, 1, 2]);
});

test("a fitted camera shows everything, and zooming keeps the point under the pointer", () => {
  const camera = Object.assign(new Camera(), { width: 800, height: 300 });
  Object.assign(camera, camera.fit(cloud.box));
  for (let i = 0; i < cloud.n; i += 1) {
    const [x, y] = camera.screen(cloud.x[i], cloud.y[i]);
    assert.ok(x > 0 && x < 800 && y > 0 && y < 300);
  }
  const before = camera.world(200, 100);
  camera.zoom(3, 200, 100);
  const after = camera.world(200, 100);
  assert.ok(Math.hypot(after[0] - before[0], after[1] - before[1]) < 1e-9);
  assert.ok(Math.abs(camera.closeness - 3) < 1e-9);
});

test("a computed map moves the same items; another run's map clears the selection", () => {
  const state = new MapState();
  const map = { state: /** @type {const} */ ("computing"), id: ["a", "b"], concept: [0, 1], x: [0, 1], y: [0, 1] };
  const { next: points, isSame } = state.take(map);
  state.settle(points);
  assert.equal(isSame, false);
  state.picked = 1;
  assert.deepEqual([state.take({ ...map, x: [0, 2] }).isMoved, state.picked], [true, 1]);
  state.take({ ...map, id: ["b", "c"] });
  assert.deepEqual([state.picked, state.placesOf(["a", "b", "c"])], [-1, [0, 1]]);
});
