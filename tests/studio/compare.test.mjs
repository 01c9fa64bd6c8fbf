import assert from "node:assert/strict";
import test from "node:test";

import { contrastsInWords, marks, overlapInWords, sidesOf } from "../../src/macrid/serving/static/compare/differences.js";
import { nameOf, readSide, sideOf, stateOn, writeSide } from "../../src/macrid/serving/static/compare/sides.js";
import { read, write } from "../../src/macrid/serving/static/core/link.js";
import { savedOf } from "../../src/macrid/serving/static/states/saved.js";
import { service } from "./fakes.mjs";

/** @import { Contrast } from "../../src/macrid/serving/static/compare/differences.js" */
/** @import { Side } from "../../src/macrid/serving/static/compare/sides.js" */
/** @import { List, Model } from "#types" */

const NOW = { ...read("?user=u&towards=year:1&list=shelves"), rules: { diversity: 0.2 }, run: "autumn" };
const SAVED = savedOf(read("?user=12&towards=genres%253A%20Comedy:1.5"), { name: "A: 50 % off? ü", card: { run: "w", run_id: "winter" }, label: () => null });

/** @type {Side[]} */
const SIDES = [{ kind: "now" }, { kind: "plain" }, { kind: "customer", user: "a:b&c?d" }, { kind: "run", run: "my run:2" }];

for (const side of SIDES) {
  test(`a side comes back from a link: ${side.kind}`, () => {
    assert.deepEqual(readSide(writeSide(side), "left"), side);
    const state = { ...NOW, compare: { left: writeSide(side), right: "" } };
    assert.deepEqual(readSide(read(write(state)).compare.left, "left"), side);
  });
}

test("a saved list in a link needs nothing from the browser that saved it", () => {
  const link = write({ ...NOW, compare: { left: sideOf(SAVED), right: "now" } });
  const side = readSide(read(link).compare.left, "left");
  assert.equal(nameOf(side), "A: 50 % off? ü");
  const state = stateOn(side, NOW, "winter");
  assert.deepEqual([state.user, state.moves, state.run], ["12", [{ towards: "genres: Comedy", amount: 1.5 }], null]);
  assert.equal(stateOn(side, NOW, "another").run, "winter", "its sliders are carried over");
});

test("what cannot be read is the usual side", () => {
  for (const text of ["", "x", "customer:", "customer", "run:", "state:", "state"]) {
    assert.deepEqual([readSide(text, "left").kind, readSide(text, "right").kind], ["plain", "now"], text);
  }
});

test("sides differ from what is shown in one thing", () => {
  assert.equal(stateOn({ kind: "now" }, NOW, "x"), NOW);
  assert.equal(stateOn({ kind: "run", run: "r" }, NOW, "x"), NOW);
  assert.deepEqual(stateOn({ kind: "plain" }, NOW, "x"), { ...NOW, moves: [], rules: {}, run: null });
  assert.deepEqual(stateOn({ kind: "customer", user: "v" }, NOW, "x"), { ...NOW, user: "v", history: [] });
});

/** @param {string[]} rows each a list of ids @returns {List[]} */
const lists = (...rows) => rows.map((ids, concept) => ({ concept, items: [...ids].map((id) => ({ id, score: 0 })), moved: null }));

test("every item says where it is, against the other list", () => {
  const found = marks(lists("abcd"), lists("bxca"));
  assert.deepEqual(Object.fromEntries(found), { a: { kind: "up", by: 3 }, b: { kind: "down", by: 1 }, c: { kind: "same", by: 0 }, d: { kind: "only", by: 0 } });
  assert.deepEqual(marks(lists("ab", "cd"), lists("ba", "cd")).get("c"), { kind: "same", by: 0 }, "ranks are those of rows");
});

test("the overlap is said in words", () => {
  assert.equal(overlapInWords(lists("abc"), lists("abc")), "Both lists are the same");
  assert.equal(overlapInWords(lists("abc"), lists("cab")), "The same 3 items, in another order");
  assert.equal(overlapInWords(lists("abc"), lists("xbc")), "2 of 3 items are in both lists");
  assert.equal(overlapInWords(lists("abc"), lists("b")), "1 of 3 and 1 items are in both lists");
  assert.equal(overlapInWords(lists("abc"), lists("xyz")), "No item is in both lists");
  assert.equal(overlapInWords(lists(""), lists("")), "Both lists are empty");
});

/** @param {Partial<Contrast>} one @returns {Contrast} */
const contrast = (one) => ({ name: "", attribute: "", value: null, kind: "number", left: 0, right: 0, left_known: 24, right_known: 24, strength: 2, left_is: null, ...one });
const YEAR = contrast({ name: "year", left: 1987.6, right: 1996.1, left_is: "older" });
const COMEDY = contrast({ name: "genres: Comedy", value: "Comedy", kind: "share", left: 0.5, right: 5 / 24 });
const DRAMA = contrast({ name: "genres: Drama", value: "Drama", kind: "share", left: 0.25, right: 0.5, right_known: 20 });
const HEEL = contrast({ name: "heel", left: 8.24, right: 4.1 });
const OUT = contrast({ name: "added", kind: "date", left: Date.UTC(2024, 4, 3) / 1000, right: Date.UTC(2025, 0, 1) / 1000 });

test("attributes are said in their own terms", () => {
  assert.equal(contrastsInWords([YEAR, COMEDY, DRAMA, HEEL]), "The left list is older (year 1988 against 1996), and has more Comedy (12 against 5 of 24), less Drama (6 of 24 against 10 of 20) and a higher heel (8.24 against 4.1).");
  assert.equal(contrastsInWords([OUT]), "The left list has an earlier added (3 May 2024 against 1 Jan 2025).");
  assert.equal(contrastsInWords([YEAR]), "The left list is older (year 1988 against 1996).");
  assert.equal(contrastsInWords([]), "");
  assert.equal(contrastsInWords([COMEDY, DRAMA, HEEL, YEAR, OUT]).includes("added"), false, "the four clearest");
});

test("numbers have as many digits as it takes to tell them apart", () => {
  assert.deepEqual(sidesOf(contrast({ left: 1987.6, right: 1988.1 })), ["1987.6", "1988.1"]);
  assert.deepEqual(sidesOf(contrast({ left: 5, right: 5 })), ["5", "5"]);
  assert.deepEqual(sidesOf(contrast({ left: 20.41, right: 20.44 })), ["20.41", "20.44"]);
  assert.deepEqual(sidesOf(contrast({ left: -0.2664, right: 0.2021 })), ["−0.266", "0.202"]);
  assert.deepEqual(sidesOf(contrast({ left: 123456.7, right: 99.95 })), ["123,457", "100"]);
});

test("each side is asked for as its state says, by the model that it names", async () => {
  const requests = service();
  const { listOf } = await import("../../src/macrid/serving/static/compare/ask.js");
  const card = /** @type {Model} */ (/** @type {unknown} */ ({ items: 500, has_concepts: true, limits: { n: 100 }, concepts: [{ concept: 4, label: "bags" }] }));
  const asking = listOf(NOW, card, { beside: "next" });
  await new Promise((done) => setTimeout(done, 5));
  assert.deepEqual(requests.sent, [{ user: "u", n: 24, moves: NOW.moves, run: "autumn", rules: { diversity: 0.2, shelves: true }, beside: "next" }]);
  const carried = [{ kind: "move", what: "year", kept: false, warning: "w" }];
  const by = { run: "next", run_id: "1", concepts: ["x", "totes"] };
  await requests.answer(() => ({ shelves: [{ concept: 1, name: "", share: 1, items: [{ id: "a", score: 0 }] }], unknown: [], carried, rules: {}, warnings: ["w", "other"], answered_by: by }));
  const answer = await asking;
  assert.deepEqual(answer?.lists.map(({ concept, items }) => [concept, items[0].id]), [[1, "a"]]);
  assert.deepEqual(answer?.notes, ["In “next”.", "1 slider does not exist here: year."]);
  assert.equal(answer?.label(1), "totes");
  assert.equal(await listOf(read(""), card), null, "about nobody");
});
