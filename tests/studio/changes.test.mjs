import assert from "node:assert/strict";
import test from "node:test";

import { changes, summary } from "../../src/macrid/serving/static/picks/changes.js";

const MOVED = {
  in: [{ id: "new", before: null, after: 2 }],
  out: [{ id: "old", before: 1, after: null }],
  up: [{ id: "riser", before: 9, after: 3 }],
  down: [{ id: "faller", before: 4, after: 5 }],
};

test("moved items have a badge and the others none", () => {
  assert.deepEqual([...changes(MOVED)], [
    ["new", { kind: "in", by: 0 }],
    ["riser", { kind: "up", by: 6 }],
    ["faller", { kind: "down", by: 1 }],
  ]);
  assert.equal(changes(null).size, 0);
});

test("changes are counted over all lists", () => {
  const lists = [{ concept: 0, items: [], moved: MOVED }, { concept: 1, items: [], moved: { ...MOVED, up: [] } }, { concept: 2, items: [], moved: null }];
  assert.deepEqual(summary(lists), { in: 2, up: 1, down: 2, gone: [...MOVED.out, ...MOVED.out] });
  assert.equal(summary([{ concept: null, items: [], moved: null }]), null);
});
