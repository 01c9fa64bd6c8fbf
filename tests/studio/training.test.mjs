// How a training goes, in words and as a curve.

import assert from "node:assert/strict";
import { test } from "node:test";

import { layout } from "../../src/macrid/serving/static/training/curve.js";
import { duration, leftOut, phase, size, times } from "../../src/macrid/serving/static/training/words.js";

const point = (/** @type {number} */ epoch) => ({ epoch, accuracy: 0.1, loss: 1, is_best: true });
const progress = {
  phase: "training", text: "epoch 3/30", done: 5, total: 60, epochs: 30, curve: [point(1), point(2)], notes: [],
  is_stopping: false, seconds: 61, seconds_left: 3700,
};

test("durations and sizes are short", () => {
  assert.deepEqual([0.2, 35, 59.6, 240, 3600, 4800].map(duration), ["1 s", "35 s", "1 min", "4 min", "1 h", "1 h 20 min"]);
  assert.deepEqual([0, 999, 1_200, 300e6, 2 ** 31].map(size), ["0 bytes", "999 bytes", "1.2 KB", "300 MB", "2.1 GB"]);
});

test("every phase is said in words", () => {
  assert.equal(phase(progress), "Learning: pass 3");
  assert.equal(phase({ ...progress, curve: [] }), "Learning: first pass over the data");
  assert.equal(phase({ ...progress, is_stopping: true }), "Stopping after this pass");
  const names = ["starting", "reading", "scoring", "understanding", "comparing"].map((name) => phase({ ...progress, phase: name, text: "" }));
  assert.equal(new Set([...names, phase({ ...progress, phase: "understanding", text: "measuring what knobs do" })]).size, 5);
});

test("the time left is at most what the remaining passes take, and unknown in other phases", () => {
  assert.match(times(progress), /^1 min so far, at most 1 h 2 min more/);
  assert.equal(times({ ...progress, phase: "scoring" }), "1 min so far");
  assert.equal(times({ ...progress, is_stopping: true }), "1 min so far");
  assert.match(times({ ...progress, seconds_left: null }), /at most 30 passes/);
});

test("what is left out is counted by reason", () => {
  const none = { rows: 9, users: 1, items: 1, below_min_rating: 0, duplicates: 0, short_users: 0, short_rows: 0, kept_users: 1, kept_items: 1, kept_rows: 9 };
  assert.deepEqual(leftOut(none, null), []);
  assert.deepEqual(leftOut({ ...none, below_min_rating: 1200, short_users: 1, short_rows: 3 }, 4), [
    "1,200 rows rated below 4", "1 customer with fewer than 5 different items (3 rows)",
  ]);
});

test("points lie within the axes, in order, whatever they are", () => {
  for (const values of [[0.5], [0.1, 0.2, 0.15], Array.from({ length: 200 }, (_, i) => 1 - 1 / (i + 2)), [0, 0, 0]]) {
    const points = values.map((accuracy, i) => ({ epoch: i + 1, accuracy }));
    const { x, y, marks, passes } = layout(points);
    for (const { epoch, accuracy } of points) {
      assert.ok(x(epoch) >= 0 && x(epoch) <= 100, `x ${x(epoch)}`);
      assert.ok(y(accuracy) >= 0 && y(accuracy) <= 190, `y ${y(accuracy)}`);
    }
    assert.ok(points.length < 2 || y(Math.max(...values)) <= y(Math.min(...values)));
    assert.ok(marks.length >= 2 && passes.length >= 2 && passes.length <= 8, String(passes));
    assert.ok(passes.every((pass) => Number.isInteger(pass)));
  }
});
