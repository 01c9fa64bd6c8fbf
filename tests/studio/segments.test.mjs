import assert from "node:assert/strict";
import test from "node:test";

/** @type {Map<string, string>} */
const stored = new Map();
let isFull = false;
const storage = {
  getItem: (/** @type {string} */ name) => stored.get(name) ?? null,
  setItem: (/** @type {string} */ name, /** @type {string} */ text) => {
    if (isFull) throw new Error("QuotaExceededError");
    stored.set(name, text);
  },
};
/** @type {(() => void)[]} */
const listeners = [];
Object.assign(globalThis, {
  localStorage: storage, sessionStorage: storage, location: new URL("http://studio/"),
  addEventListener: (/** @type {string} */ _, /** @type {() => void} */ listener) => listeners.push(listener),
});
const otherTab = () => listeners.forEach((listener) => listener());

const { keepSegments, renamed, segmentNamed, segments, withSegment, without } = await import("../../src/macrid/serving/static/map/segments.js");
const { json, table } = await import("../../src/macrid/serving/static/map/export.js");
const { fondText, isPlain, rarer, shift, trait, whoText } = await import("../../src/macrid/serving/static/map/profile.js");
const { severalMembers } = await import("../../src/macrid/serving/static/map/legend.js");

test("segments are kept by name, each with its own, and found by their items in any order", () => {
  assert.deepEqual(segments(), []);
  assert.ok(keepSegments(withSegment(segments(), "  Scary\n films ", ["1", "2", "2"])));
  assert.ok(keepSegments(withSegment(segments(), "Scary films", ["3"])));
  assert.deepEqual(segments(), [{ name: "Scary films", items: ["1", "2"] }, { name: "Scary films 2", items: ["3"] }]);
  assert.equal(segmentNamed(["2", "1"]), "Scary films");
  assert.equal(segmentNamed(["1"]), null);
  assert.equal(segmentNamed(["1", "2", "3"]), null);
  keepSegments(renamed(segments(), "Scary films 2", "Scary films"));
  assert.deepEqual(segments().map(({ name }) => name), ["Scary films", "Scary films 2"]);
  keepSegments(renamed(segments(), "Scary films", "Horror"));
  assert.equal(segmentNamed(["1", "2"]), "Horror");
  keepSegments(without(segments(), "Horror"));
  assert.deepEqual(segments().map(({ name }) => name), ["Scary films 2"]);
  assert.equal([...withSegment([], "l".repeat(10_000), [])[0].name].length, 80);
});

test("other tabs' segments arrive, broken ones are left out, and a full storage changes nothing", () => {
  stored.set("macrid-segments", JSON.stringify([{ name: "a", items: ["1"] }, { name: 3 }, null, { name: "b", items: [7] }]));
  otherTab();
  assert.deepEqual(segments(), [{ name: "a", items: ["1"] }]);
  isFull = true;
  assert.equal(keepSegments([]), false);
  assert.equal(segments().length, 1);
  isFull = false;
  stored.set("macrid-segments", "{");
  otherTab();
  assert.deepEqual(segments(), []);
});

test("a table has all attributes, quoted where it must be, and no formulas", () => {
  const rows = [
    { id: "1", title: 'Say "hi", you', attributes: { genres: ["a", "b"], year: 1999, sale: true } },
    { id: "-2", title: "=HYPERLINK(1)", attributes: { year: null, note: "one\ntwo" } },
  ];
  assert.equal(table(rows), 'id,title,genres,year,sale,note\r\n1,"Say ""hi"", you",a|b,1999,true,\r\n-2,\'=HYPERLINK(1),,,,"one\ntwo"\r\n');
  assert.deepEqual(JSON.parse(json(rows))[0], { id: "1", title: 'Say "hi", you', genres: ["a", "b"], year: 1999, sale: true });
});

test("a profile is told in words", () => {
  const value = { attribute: "genres", value: "Horror", concept: null, label: "Horror", items: 78, inside: 0.78, outside: 0.06, lift: 13, z: 9 };
  assert.deepEqual(trait(value), { name: "Horror", of: "genres", text: "78 % here, 6 % elsewhere", inside: 0.78, outside: 0.06 });
  assert.equal(trait({ ...value, concept: 3, outside: 0.001 }).of, "group");
  assert.equal(trait({ ...value, outside: 0.001 }).text, "78 % here, < 1 % elsewhere");
  const less = [{ ...value, value: "Drama" }, { ...value, attribute: "category", value: "bags" }];
  const watches = { ...value, attribute: "category", value: "watches", inside: 0.97 };
  const none = { items: 3, unknown: [], examples: [], more: [], less: [], numbers: [], customers: { total: 0, at_least: [], a_tenth: 0 } };
  assert.deepEqual(rarer({ ...none, more: [value, watches], less }).map((one) => one.value), ["Drama"]);
  const year = { attribute: "year", inside: 1962, outside: 1995, inside_mean: 1, outside_mean: 2, inside_text: "1962", outside_text: "1995", higher: 0.2, z: -8 };
  assert.deepEqual(shift(year), { name: "year", text: "1962 here, 1995 elsewhere" });
  assert.equal(shift({ ...year, attribute: "popularity" }).name, "customers per item");
  const customers = { total: 1000, at_least: [600, 412, 1], a_tenth: 1 };
  assert.equal(whoText(customers, 2), "412 of 1,000 customers");
  assert.equal(whoText(customers, 9), "0 of 1,000 customers");
  assert.equal(fondText(customers), "For 1 customer, these items are at least a tenth of the history.");
  assert.equal(isPlain(none), true);
});

test("an item with several values is in the group of each, once in that of the rest", () => {
  // a: 0; b: 0 and 1; c: none; d: 2 and 3, which share a group
  assert.deepEqual(severalMembers([1, 2, 0, 2], [0, 0, 1, 2, 3], 2), [[0, 1], [1], [3], [2]]);
});
