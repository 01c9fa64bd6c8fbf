import assert from "node:assert/strict";
import test from "node:test";

import { read, write } from "../../src/macrid/serving/static/core/link.js";

/** @import { State } from "#types" */

/** @type {State} */
const FULL = {
  view: "map",
  user: null,
  history: ["a/b?c=d#e", "ü & ü", "12"],
  moves: [{ concept: 2, dimension: 3, to: -0.25, axis: "0f3a", name: "size: small & large", concept_name: "bags" }, { concept: 1, share: 0.6, concept_name: "belts: all" }, { towards: "genres: Sci-Fi & more", amount: -1.5 }, { concept: 0, dimension: 11, to: 1e-5 }],
  rules: { where: "price < 30 and colour = 'red & blue'", diversity: 0.3, at_most: { genres: 2 } },
  run: "autumn",
  concept: 2,
  list: "concept",
  n: 48,
  walk: { item: "x+y", dimension: 4 },
  by: "price",
  compare: { left: "customer:a&b", right: "state:My%20list?user=u&move=1.2:0.3:beef" },
};

test("a link restores the whole state", () => {
  assert.deepEqual(read(write(FULL)), FULL);
  const known = { ...FULL, user: "test-5", history: [] };
  assert.deepEqual(read(write(known)), known);
});

test("an empty query is the initial state, whose query is empty", () => {
  assert.equal(write(read("")), "");
  assert.equal(read("").view, "picks");
});

test("rules that cannot be read are none", () => {
  for (const text of ["{", "[]", "null", "3", ""]) assert.deepEqual(read(`?rules=${encodeURIComponent(text)}`).rules, {});
  assert.equal(write({ ...read(""), rules: {} }), "");
});

test("a link names the served run, or the run of its moves and rules", () => {
  const here = { ...FULL, run: null };
  assert.equal(read(write(here, "winter")).run, "winter");
  assert.equal(read(write(FULL, "winter")).run, "autumn");
  assert.equal(read(write({ ...here, moves: [] }, "winter")).run, "winter", "rules may not exist in another run");
  assert.equal(write({ ...here, moves: [], rules: {} }, "winter").includes("run="), false);
});

test("links without axes and runs still open", () => {
  const { moves, run } = read("?user=u&move=2.3:0.4&share=1:0.6");
  assert.deepEqual(moves, [{ concept: 2, dimension: 3, to: 0.4 }, { concept: 1, share: 0.6 }]);
  assert.equal(run, null);
});

for (const query of ["?move=2.3:x", "?move=2:0.4", "?move=2.3:1..2", "?move=2.3:0.4:a b", "?share=1.5", "?share=1:-", "?move=", "?share=", "?towards=year", "?towards=:1", "?towards=year:x"]) {
  test(`an unreadable move is ignored: ${query}`, () => assert.deepEqual(read(query).moves, []));
}

test("invalid values become the defaults", () => {
  const { view, list, concept, walk } = read("?view=cellar&list=mine&concept=-1&along=x");
  assert.deepEqual([view, list, concept, walk.dimension], ["picks", "overall", null, null]);
  assert.equal(read("?list=concept").list, "overall", "there is no list of a concept without the concept");
  assert.equal(read("?share=0:7").moves[0].share, 1);
});
