import assert from "node:assert/strict";
import test from "node:test";

import { warningsOf } from "../../src/macrid/serving/static/core/carried.js";

/** @import { Recommended } from "#types" */

const entry = (/** @type {"move" | "rule"} */ kind, /** @type {string} */ what, kept = false) => ({ kind, what, kept, warning: `warning: ${what}` });

/** @param {Partial<Recommended>} answer @returns {Recommended} */
const answer = (answer) => ({ items: [], unknown: [], warnings: [], ...answer });

test("sliders and rules that do not exist are named, each once", () => {
  const carried = [entry("move", "Horror (Thrillers)"), entry("move", "size (bags)", true), entry("move", "weight"), entry("rule", "price < 30")];
  const warnings = [...carried.map(({ warning }) => warning), "fewer items than requested"];
  assert.deepEqual(warningsOf(answer({ carried, warnings, rules: {}, unknown: ["a", "b"] }), 5), [
    "This was made with another model: 3 of 5 sliders were carried over by name.",
    "2 sliders and 1 rule do not exist here: Horror (Thrillers), weight, price < 30.",
    "2 items of the history are not in this catalogue.",
    "fewer items than requested",
  ]);
});

test("what was carried over completely is said in one sentence", () => {
  const carried = [entry("move", "size (bags)", true)];
  assert.deepEqual(warningsOf(answer({ carried, rules: {} }), 3), ["This was made with another model: all 3 sliders were carried over by name."]);
  assert.deepEqual(warningsOf(answer({ carried, rules: {} }), 2), ["This was made with another model: both sliders were carried over by name."]);
  assert.deepEqual(warningsOf(answer({ carried, rules: {} }), 1), ["This was made with another model: its slider was carried over by name."]);
  assert.deepEqual(warningsOf(answer({ carried }), 1), ["The sliders have changed since this was made: its slider was carried over by name."]);
});

test("nothing is said about sliders that mean the same in another model", () => {
  assert.deepEqual(warningsOf(answer({ carried: [], rules: {} }), 3), []);
});

test("long lists of what does not exist are cut, and one alone is in the singular", () => {
  const carried = Array.from({ length: 9 }, (_, at) => entry("rule", `r${at}`));
  assert.match(warningsOf(answer({ carried, rules: {} }), 0)[1], /^9 rules do not exist here: r0, .*r5 and 3 more\.$/);
  assert.deepEqual(warningsOf(answer({ carried: [entry("move", "x")], rules: {}, unknown: ["a"] }), 1), [
    "This was made with another model.",
    "1 slider does not exist here: x.",
    "1 item of the history is not in this catalogue.",
  ]);
});

test("an answer about the same model keeps its warnings", () => {
  assert.deepEqual(warningsOf(answer({ warnings: ["x"], unknown: ["a"] }), 2), ["x"]);
  assert.deepEqual(warningsOf(answer({ warnings: ["x"], carried: [], rules: {} }), 0), ["x"], "nothing to carry over");
});
