import assert from "node:assert/strict";
import test from "node:test";

import { Store } from "../../src/macrid/serving/static/core/store.js";
import { address } from "./fakes.mjs";

const MOVE = { concept: 1, dimension: 2, to: 0.5 };
const to = (/** @type {number} */ value) => [{ ...MOVE, to: value }];

test("the back button and undo each revert one step", () => {
  const page = address("?user=u");
  const store = new Store(page);
  store.step({ moves: to(0.1) });
  store.step({ moves: to(0.2) });
  page.back();
  assert.deepEqual(store.get().moves, to(0.1));
  page.back();
  assert.deepEqual(store.get().moves, []);
  assert.equal(store.get().user, "u");
  store.step({ moves: to(0.3) });
  store.undo();
  assert.deepEqual(store.get().moves, []);
});

test("a drag is one step, from its start to its end", () => {
  const page = address();
  const store = new Store(page);
  for (const value of [0.1, 0.2, 0.3]) store.drag({ moves: to(value) });
  assert.equal(store.isDragging, true);
  assert.equal(page.entries.length, 1);
  store.step({ moves: to(0.3) });
  assert.equal(store.isDragging, false);
  assert.equal(page.entries.length, 2);
  store.undo();
  assert.deepEqual(store.get().moves, []);
  assert.equal(store.canUndo, false);
});

test("quick key presses on one knob are one step", () => {
  const page = address();
  const store = new Store(page);
  for (const value of [0.1, 0.2, 0.3]) store.step({ moves: to(value) }, "knob-1-2");
  store.step({ moves: [...to(0.3), { concept: 0, share: 1 }] }, "share-0");
  assert.equal(page.entries.length, 3);
  store.undo();
  assert.deepEqual(store.get().moves, to(0.3));
  store.undo();
  assert.deepEqual(store.get().moves, []);
});

test("changing the view is not an undo step", () => {
  const store = new Store(address());
  store.step({ view: "map", by: "price", concept: 3 });
  assert.equal(store.canUndo, false);
});

test("listeners get every step and what it changed", () => {
  const store = new Store(address());
  /** @type {string[][]} */
  const heard = [];
  store.subscribe((_, changed) => heard.push(changed));
  store.drag({ moves: to(0.1), concept: 1 });
  store.drag({ moves: to(0.1) });
  store.step({ moves: to(0.1) });
  assert.deepEqual(heard, [["moves", "concept"], []]);
});

test("carried-over moves are not a step, belong to this run, and reach the address", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const page = address("?user=u&move=1.2:0.5&run=autumn");
  const store = new Store(page);
  store.run = "winter";
  assert.equal(store.get().run, "autumn");
  store.carryOver([{ ...MOVE, dimension: 7, axis: "0f3a" }]);
  assert.equal(store.get().run, null);
  assert.equal(store.canUndo, false);
  t.mock.timers.tick(1_000);
  assert.equal(page.search, "?user=u&move=1.7%3A0.5%3A0f3a&run=winter");
  store.step({ moves: [] });
  store.undo();
  assert.equal(store.get().moves[0].dimension, 7);
});

test("redo repeats what was undone, until something else is done", () => {
  const store = new Store(address("?user=u"));
  store.step({ moves: to(0.1) });
  store.step({ rules: { where: "price < 30" }, n: 48 });
  store.undo();
  assert.deepEqual([store.get().rules, store.get().n], [{}, null]);
  store.undo();
  assert.equal(store.canUndo, false);
  store.redo();
  store.redo();
  assert.deepEqual([store.get().moves, store.get().rules, store.get().n], [to(0.1), { where: "price < 30" }, 48]);
  assert.equal(store.canRedo, false);
  store.undo();
  store.step({ moves: [] });
  assert.equal(store.canRedo, false);
});

test("undo brings back which list was shown, and whose sliders", () => {
  const store = new Store(address("?user=u&concept=2"));
  store.step({ moves: to(0.1), list: "concept", concept: 1 });
  store.undo();
  assert.deepEqual([store.get().list, store.get().concept], ["overall", 2]);
  store.redo();
  assert.deepEqual([store.get().list, store.get().concept], ["concept", 1]);
  store.step({ concept: 3 }); // another list
  store.undo();
  assert.equal(store.get().concept, 1);
});

test("an empty history that somebody chose stays empty after a reload", () => {
  const page = address("?user=u");
  const store = new Store(page);
  store.step({ user: null, history: [] });
  assert.equal(store.isBlank, false);
  assert.equal(page.search, "?empty=1");
  assert.equal(new Store(address(page.search)).isBlank, false);
  assert.equal(new Store(address("")).isBlank, true);
  store.step({ history: ["a"] });
  assert.equal(page.search, "?item=a");
});
