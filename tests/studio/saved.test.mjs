import assert from "node:assert/strict";
import test from "node:test";

import { read } from "../../src/macrid/serving/static/core/link.js";
import { FileError, added, checked, fromFile, queryOf, removed, renamed, savedOf, stateOf, toFile } from "../../src/macrid/serving/static/states/saved.js";
import { settings, suggestion } from "../../src/macrid/serving/static/states/words.js";

/** @import { Model, Saved, State } from "#types" */

/** @type {State} */
const STATE = {
  ...read(""),
  view: "map",
  user: "12",
  moves: [{ concept: 2, dimension: 3, to: -0.25, axis: "0f3a", name: "size" }, { concept: 1, share: 0.6, concept_name: "belts" }, { towards: "genres: Comedy", amount: 1.5 }],
  rules: { where: "price < 30", diversity: 0.3, pins: ["a"] },
  concept: 2,
  list: "concept",
  walk: { item: "x", dimension: 1 },
};
const CARD = { run: "winter", run_id: "0123456789ab" };
const label = (/** @type {number | null} */ k) => ["hats", "belts", "bags"][k ?? -1] ?? null;
const save = (/** @type {string} */ name, state = STATE) => savedOf(state, { name, card: CARD, label, items: ["a", "b"], now: new Date("2026-01-31T12:00:00Z") });

test("a file brings a list back, with the names by which another model knows its parts", () => {
  const saved = save("Older & funnier");
  assert.deepEqual(fromFile(toFile(saved)), saved);
  assert.deepEqual(fromFile(`\uFEFF${toFile(saved)}`), saved, "with a mark that some editors add");
  const { moves } = saved.state;
  assert.deepEqual(moves.map(({ concept_name }) => concept_name), ["bags", "belts", undefined]);
  assert.equal(saved.concept_name, "bags");
  assert.deepEqual(saved.run, { id: "0123456789ab", name: "winter" });
  assert.deepEqual(saved.items, ["a", "b"], "of the customer");
  for (const name of ["view", "walk", "by", "compare", "run"]) assert.ok(!(name in saved.state), `${name} is about the page`);
  assert.equal(JSON.parse(toFile(saved)).version, 1);
});

test("a list without a customer has its own items only", () => {
  const saved = save("x", { ...STATE, user: null, history: ["q"] });
  assert.equal(saved.items, undefined);
  assert.deepEqual(fromFile(toFile(saved)).state.history, ["q"]);
});

test("a link of a saved list opens it anywhere, and names its model", () => {
  const { user, moves, rules, run, list } = read(queryOf(save("x")));
  assert.deepEqual({ user, rules, list }, { user: "12", rules: STATE.rules, list: "concept" });
  assert.equal(moves.length, 3);
  assert.equal(run, "0123456789ab");
  assert.equal(stateOf(save("x"), "0123456789ab").run, null, "the same model");
  assert.equal(stateOf(save("x"), "another").run, "0123456789ab");
});

const WRONG = {
  "a table": "a,b\r\n1,2\r\n",
  "nothing": "",
  "a picture": "\x89PNG\r\n\x1a\n\0\0",
  "other JSON": '{"type": "FeatureCollection"}',
  "a list of numbers": "[1, 2, 3]",
  "null": "null",
  "a long text": "x".repeat(2_000_000),
  "half a file": toFile(save("x")).slice(0, 200),
  "a newer version": toFile(save("x")).replace('"version": 1', '"version": 2'),
  "no version": toFile(save("x")).replace('"version": 1', '"version": "1"'),
  "no state": '{"format": "macrid-list", "version": 1, "run": {"id": "x"}}',
  "no run": '{"format": "macrid-list", "version": 1, "state": {}}',
};
for (const [what, text] of Object.entries(WRONG)) {
  test(`a file with ${what} is refused, with words that help`, () => {
    assert.throws(() => fromFile(text), (error) => error instanceof FileError && /^This (file|is)/.test(error.message) && error.message.length < 200);
  });
}

const DAMAGED = [
  { user: 12 }, { user: ["x"] }, { user: null, history: "abc" }, { user: null, history: [null] }, { user: null, history: [{}] }, { user: null, history: Array(6000).fill("x") },
  { moves: {} }, { moves: [null] }, { moves: [3] }, { moves: [{ concept: "bags", share: 0.5 }] }, { moves: [{ concept: 1, dimension: 2, to: "0.3" }] },
  { moves: [{ towards: 3, amount: 1 }] }, { moves: [{ concept: 1 }] }, { moves: [{ concept: -1, dimension: 2, to: 3 }] }, { moves: Array(200).fill({ towards: "x", amount: 1 }) },
  { rules: [] }, { rules: "none" },
];
for (const part of DAMAGED) {
  test(`a damaged file is refused: ${JSON.stringify(part).slice(0, 60)}`, () => {
    const content = JSON.parse(toFile(save("x")));
    assert.throws(() => fromFile(JSON.stringify({ ...content, state: { ...content.state, ...part } })), FileError);
  });
}

test("what a file may not say is left out, and the rest has its place", () => {
  const content = JSON.parse(toFile(save("x")));
  const saved = fromFile(JSON.stringify({ ...content, name: "  <b>\u0000\nname\u2028 ", saved: "yesterday", evil: 1, state: { ...content.state, list: "cellar", concept: "x", view: "report", walk: { item: "x" }, __proto__: 1, surprise: { a: 1 } } }));
  assert.equal(saved.name, "<b> name");
  assert.equal(saved.saved, "1970-01-01T00:00:00.000Z");
  assert.deepEqual([saved.state.list, saved.state.concept], ["overall", null]);
  assert.deepEqual(Object.keys(saved).sort(), ["concept_name", "items", "name", "run", "saved", "state"]);
  assert.ok(!("surprise" in saved.state) && !("view" in saved.state));
  assert.deepEqual(checked(saved), saved);
  assert.deepEqual(fromFile(JSON.stringify({ ...content, state: { user: null, history: [12, "x"] } })).state.history, ["12", "x"], "ids may be numbers");
});

test("the newest is first, and a name that is taken gets a number", () => {
  /** @type {Saved[]} */
  let all = [];
  for (const name of ["a", "b", "a", "a", "a (2)", " a ", "", "x".repeat(300)]) all = added(all, save(name));
  assert.deepEqual(all.map(({ name }) => name).reverse(), ["a", "b", "a (2)", "a (3)", "a (4)", "a (5)", "Untitled", "x".repeat(80)]);
  assert.deepEqual(renamed(all, all[0], "b")[0].name, "b (2)");
  assert.deepEqual(renamed(all, all[1], "Untitled")[1].name, "Untitled", "its own name is free");
  assert.deepEqual(removed(all, all[0]), all.slice(1));
  for (let at = 0; at < 250; at += 1) all = added(all, save(`n${at}`));
  assert.equal(all.length, 200);
  assert.equal(all[0].name, "n249");
});

const MODEL = /** @type {Model} */ (/** @type {unknown} */ ({
  towards_effects: [{ name: "year", less: "older", more: "newer" }],
  concepts: [{ concept: 2, label: "bags", dimensions: [{ dimension: 3, label: "size", range: [-1, 1], high: "large" }] }],
}));

test("a list says in words whom it is for, its sliders and its rules", () => {
  const state = { ...STATE, moves: [...STATE.moves, { concept: 9, dimension: 1, to: 0.5 }, { towards: "year", amount: -0.5 }], rules: { ...STATE.rules, at_most: { genre: 2 }, exclude: ["b", "c"], boosts: [{ where: "new = true", amount: 0.5 }] } };
  const words = settings(state, MODEL);
  assert.deepEqual(words.map(({ text }) => text), [
    "Customer 12", "Size of bags, 38 % towards large", "60 % from belts", "More Comedy, 75 %", "Slider 1 of group 9", "Older, 25 %",
    "only where price < 30", "more where new = true (+0.5)", "at most 2 per genre", "diversity 30 %", "1 pinned item", "2 items left out", "only bags",
  ]);
  assert.equal(new Set(words.map(({ key }) => key)).size, words.length);
  assert.equal(suggestion(settings({ ...STATE, moves: [STATE.moves[2]], rules: {}, list: "overall" }, MODEL)), "Customer 12, More Comedy");
  assert.deepEqual(settings(read(""), MODEL).map(({ text }) => text), ["Nobody yet"]);
  assert.deepEqual(settings({ ...read(""), history: ["a"] }, MODEL).map(({ text }) => text), ["A history of 1 item"]);
});
