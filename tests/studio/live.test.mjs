import assert from "node:assert/strict";
import test from "node:test";

import { Store } from "../../src/macrid/serving/static/core/store.js";
import { address, service } from "./fakes.mjs";

/** @import { Model } from "#types" */

const CARD = /** @type {Model} */ (/** @type {unknown} */ ({
  run: "winter", items: 500, has_concepts: true, limits: { n: 100 }, concepts: [{ concept: 0 }, { concept: 1 }],
}));
const to = (/** @type {number} */ value) => [{ concept: 1, dimension: 2, to: value }];
const rows = () => ({ concepts: [{ concept: 1, items: [{ id: "b", score: 0 }] }, { concept: 0, items: [{ id: "a", score: 0 }] }] });

/** A page with its first list. */
async function opened(search = "?user=u", first = /** @type {() => object} */ (() => ({}))) {
  const requests = service();
  const { Live } = await import("../../src/macrid/serving/static/core/live.js");
  const store = new Store(address(search));
  const live = new Live(store);
  live.know(CARD);
  live.meet();
  await requests.answer(first);
  requests.sent.length = 0;
  return { store, live, ...requests };
}

test("a drag has one request in flight, for the shown concept, and then sends the newest", async () => {
  const { store, live, sent, answer } = await opened();
  for (const value of [0.1, 0.2, 0.3]) store.drag({ moves: to(value), concept: 1, list: "concept" });
  assert.deepEqual(sent.map(({ moves, concept }) => [moves, concept]), [[to(0.1), 1]]);
  await answer();
  await answer();
  assert.deepEqual(sent.map(({ moves }) => moves), [to(0.1), to(0.3)]);
  assert.equal(live.isBusy, false);
  store.step({ moves: to(0.3) });
  assert.equal(sent.length, 2, "letting go asks for nothing that is there already");
});

test("a drag requests no list of every concept; its end does", async () => {
  const { store, live, sent, answer } = await opened("?user=u&list=concepts", rows);
  assert.deepEqual(live.lists?.map(({ concept }) => concept), [1, 0]);
  store.drag({ moves: to(0.1), concept: 1 });
  await answer(() => ({ items: [{ id: "c", score: 0 }] }));
  assert.deepEqual(live.lists?.map(({ items }) => items[0].id), ["c", "a"]);
  store.drag({ moves: [...to(0.1), { concept: 0, share: 1 }] });
  await answer(() => ({ shares: [1, 0] }));
  assert.deepEqual(live.lists?.map(({ items }) => items[0].id), ["c", "a"]);
  assert.deepEqual(live.shares, [1, 0]);
  assert.deepEqual(sent.map(({ concept = null, by_concept = false }) => [concept, by_concept]), [[1, false], [null, false]]);
  store.step({ moves: to(0.1) });
  await answer(() => ({ concepts: rows().concepts.reverse() }));
  assert.equal(sent[2].by_concept, true);
  assert.deepEqual(live.lists?.map(({ concept }) => concept), [1, 0], "rows stay where they are");
});

test("shelves are a rule of the request, not of the link, and come in the order of their shares", async () => {
  const { store, live, sent, answer } = await opened("?user=u&list=concepts", rows);
  store.step({ list: "shelves", rules: { where: "price < 3" } });
  const shelf = (/** @type {number} */ concept) => ({ concept, name: "", share: 0.5, items: [{ id: String(concept), score: 0 }] });
  await answer(() => ({ shelves: [shelf(0), shelf(1)] }));
  assert.deepEqual(sent[0].rules, { where: "price < 3", shelves: true });
  assert.deepEqual(live.lists?.map(({ concept, share }) => [concept, share]), [[0, 0.5], [1, 0.5]]);
  assert.equal(live.hasShelves, true);
  assert.equal(new URLSearchParams(store.link().slice(2)).get("rules"), '{"where":"price < 3"}');
});

test("badges come from the service", async () => {
  const { store, live, answer } = await opened();
  const moved = { in: [{ id: "b", before: null, after: 1 }], out: [], up: [], down: [] };
  store.step({ moves: to(0.1) });
  await answer(() => ({ items: [{ id: "b", score: 0 }], moved }));
  assert.deepEqual(live.lists, [{ concept: null, items: [{ id: "b", score: 0 }], moved }]);
});

test("lists before the moves are requested once, and only for a comparison", async () => {
  const { store, live, sent, answer } = await opened("?user=u&concept=1&list=concept&move=1.2:0.3");
  assert.equal(live.before, null);
  live.compare(true);
  await answer();
  assert.deepEqual(sent, [{ user: "u", n: 24, concept: 1 }]);
  assert.notEqual(live.before, null);
  store.step({ moves: to(0.9) });
  await answer();
  assert.equal(sent.length, 2);
});

test("a response for another user is dropped", async () => {
  const { store, live, sent, answer } = await opened();
  store.step({ moves: to(0.1) });
  store.step({ user: "v", moves: [] });
  assert.deepEqual(sent.map(({ user }) => user), ["u", "v"]);
  await answer(() => ({ items: [{ id: "of u", score: 0 }] }));
  await answer(() => ({ items: [{ id: "of v", score: 0 }] }));
  assert.equal(live.lists?.[0].items[0].id, "of v");
});

test("moves of a link are sent with their run, and the applied moves are adopted with their warnings", async () => {
  const warnings = ["1 move could not be carried over"];
  const carried = [{ concept: 1, dimension: 5, to: 0.3, axis: "0f3a" }];
  const requests = service();
  const { Live } = await import("../../src/macrid/serving/static/core/live.js");
  const store = new Store(address("?user=u&move=1.2:0.3:beef&share=0:0.5&run=autumn"));
  const live = new Live(store);
  live.meet();
  assert.equal(requests.sent[0].run, "autumn");
  assert.equal(requests.sent[0].moves?.[0].axis, "beef");
  await requests.answer(() => ({ moves: carried, warnings }));
  assert.deepEqual(store.get().moves, carried);
  assert.equal(requests.sent.length, 1, "they were answered already");
  store.step({ list: "concepts" });
  await requests.answer(rows);
  assert.deepEqual(live.warnings, warnings, "shown until the next move");
  assert.equal("run" in requests.sent[1], false);
  store.step({ moves: to(0.9) });
  await requests.answer(rows);
  assert.deepEqual(live.warnings, []);
});

test("rules are part of the request, and those that are wrong leave the list as it was", async () => {
  const { store, live, sent, answer } = await opened("?user=u", () => ({ items: [{ id: "a", score: 0 }] }));
  store.step({ rules: { where: "prise < 3" } });
  assert.deepEqual(sent[0].rules, { where: "prise < 3" });
  const problem = { detail: "rules.where, character 1: wrong", errors: [{ at: "rules.where", message: "wrong" }] };
  await answer(() => problem, 422);
  assert.equal(live.rulesError, "where, character 1: wrong");
  assert.equal(live.error, null);
  assert.deepEqual(live.lists?.map(({ items }) => items[0].id), ["a"]);
  assert.equal(sent.length, 1, "the same rules are not sent again");
  store.step({ rules: { where: "price < 3", diversity: 0.3 } });
  const diversity = { kept: 0.5, score: 1, similarity: 0.1, similarity_without: 0.2 };
  await answer(() => ({ items: [{ id: "b", score: 0 }], diversity }));
  assert.equal(live.rulesError, null);
  assert.deepEqual(live.diversity, diversity);
  assert.deepEqual(live.lists?.map(({ items }) => items[0].id), ["b"]);
});

test("rules of another run are sent with it, and those in force are adopted, without the shelves of the list", async () => {
  const requests = service();
  const { Live } = await import("../../src/macrid/serving/static/core/live.js");
  const store = new Store(address(`?user=u&list=shelves&run=autumn&rules=${encodeURIComponent('{"where":"a = 1 and b = 2"}')}`));
  const live = new Live(store);
  live.meet();
  assert.deepEqual([requests.sent[0].run, requests.sent[0].rules], ["autumn", { where: "a = 1 and b = 2", shelves: true }]);
  const carried = [{ kind: "rule", what: "a = 1", kept: false, warning: "left out a = 1" }];
  await requests.answer(() => ({ shelves: [], carried, rules: { where: "b = 2", shelves: true }, warnings: ["left out a = 1", "few"] }));
  assert.deepEqual(store.get().rules, { where: "b = 2" });
  assert.equal(store.get().run, null);
  assert.equal(requests.sent.length, 1, "they were answered already");
  assert.deepEqual(live.warnings, ["This was made with another model.", "1 rule does not exist here: a = 1.", "few"]);
});
