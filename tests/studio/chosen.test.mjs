import assert from "node:assert/strict";
import test from "node:test";

import { allowed, excluded, pinned, withExcluded, withPin, withoutPin } from "../../src/macrid/serving/static/rules/chosen.js";

test("pins keep their order, and those with ranks their ranks", () => {
  assert.deepEqual(withPin({ pins: ["a"] }, "b"), { pins: ["a", "b"] });
  assert.deepEqual(withPin({ pins: { a: 1, c: 3 } }, "b"), { pins: { a: 1, b: 2, c: 3 } });
  assert.deepEqual(pinned({ pins: { c: 3, a: 1 } }), ["a", "c"]);
  assert.deepEqual(withoutPin({ pins: { a: 1, c: 3 } }, "a"), { pins: { c: 3 } });
  assert.deepEqual(withPin({ pins: [7] }, "7"), { pins: [7] }, "ids of a link may be integers");
});

test("nothing is left of a rule without items", () => {
  assert.deepEqual(withoutPin({ where: "x > 1", pins: ["a"] }, "a"), { where: "x > 1" });
  assert.deepEqual(allowed({ exclude: ["a"] }, "a"), {});
});

test("an item is pinned or excluded, not both", () => {
  assert.deepEqual(withExcluded({ pins: ["a", "b"] }, "a"), { pins: ["b"], exclude: ["a"] });
  assert.deepEqual(withPin({ exclude: ["a"] }, "a"), { pins: ["a"] });
});

test("a link with rules of another kind does no harm", () => {
  const rules = /** @type {any} */ ({ pins: 3, exclude: "a" });
  assert.deepEqual([pinned(rules), excluded(rules)], [[], []]);
});
