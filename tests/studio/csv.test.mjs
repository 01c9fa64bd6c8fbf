import assert from "node:assert/strict";
import test from "node:test";

import { fileName, today } from "../../src/macrid/serving/static/core/files.js";
import { csv, field, json, table } from "../../src/macrid/serving/static/share/csv.js";

/** @import { List } from "#types" */

/**
 * Strictly after RFC 4180: throws on anything that it does not allow.
 * @param {string} text
 */
function parse(text) {
  /** @type {string[][]} */
  const rows = [];
  for (let at = 0; at < text.length; ) {
    /** @type {string[]} */
    const row = [];
    for (;;) {
      let value = "";
      if (text[at] === '"') {
        const end = /^"((?:[^"]|"")*)"/.exec(text.slice(at));
        assert.ok(end, "a quote is never closed");
        value = end[1].replaceAll('""', '"');
        at += end[0].length;
      } else {
        value = /^[^",\r\n]*/.exec(text.slice(at))?.[0] ?? "";
        at += value.length;
      }
      row.push(value);
      if (text[at] !== ",") break;
      at += 1;
    }
    assert.equal(text.slice(at, at + 2), "\r\n", `a row ends in ${JSON.stringify(text.slice(at, at + 5))}`);
    at += 2;
    rows.push(row);
  }
  assert.equal(new Set(rows.map(({ length }) => length)).size, 1, "rows differ in length");
  return rows;
}

const HARD = ["plain", "", "a, b", 'say "hi"', '"', "line\nbreak", "line\r\nbreak", " padded ", "tab\tbed", "semi;colon", "שלום, עולם", "日本語", "e\u0301", "x".repeat(10_000), "<b>bold</b>", "'quoted'"];
const FORMULAS = ["=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1+1", "＋1", "－1", "＠x", '=HYPERLINK("http://x","y")', "--1", "-", "+a"];

test("any text comes back from a strict parser", () => {
  assert.deepEqual(parse(csv([HARD, [...HARD].reverse()])), [HARD, [...HARD].reverse()]);
});

test("nothing that a spreadsheet takes for a formula starts a cell", () => {
  for (const text of FORMULAS) assert.deepEqual(parse(csv([[text]])), [[`'${text}`]], text);
  for (const number of ["-12", "+3", "-0.5", "12"]) assert.equal(field(number), number, "a number is none");
  assert.deepEqual([field(-6.125), field(0), field(true), field(null), field(undefined)], ["-6.125", "0", "true", "", ""]);
  assert.deepEqual([field(["a", "b"]), field(["=a"]), field({ a: 1 })], ["a|b", "'=a", '"{""a"":1}"']);
});

/** @param {string} id @param {string | null} title @param {number} concept */
const item = (id, title, concept) => ({ id, title, concept, score: -1.5 });
const MOVED = { in: [{ id: "b", before: null, after: 2 }], out: [], up: [{ id: "a", before: 4, after: 1 }], down: [] };
/** @type {List[]} */
const ONE = [{ concept: null, items: [item("a", "=Alien", 0), item("b", null, 1), item("c", "Casablanca", 1)], moved: MOVED }];
const ATTRIBUTES = new Map([["a", { genres: "Horror|Sci-Fi", year: 1979, score: 9 }], ["c", { genres: null, year: 1942, score: 8 }]]);
const label = (/** @type {number | null | undefined} */ concept) => (typeof concept === "number" ? ["Scary, dark", "Classics"][concept] : null);

test("a list is a table with ranks, attributes, groups, scores and changes", () => {
  assert.deepEqual(parse(table(ONE, ATTRIBUTES, label)), [
    ["rank", "id", "title", "genres", "year", "score (attribute)", "group", "score", "change"],
    ["1", "a", "'=Alien", "Horror|Sci-Fi", "1979", "9", "Scary, dark", "-1.5", "up 3"],
    ["2", "b", "", "", "", "", "Classics", "-1.5", "new"],
    ["3", "c", "Casablanca", "", "1942", "8", "Classics", "-1.5", ""],
  ]);
});

test("rows of shelves have the name of the shelf, and ranks of their own", () => {
  /** @type {List[]} */
  const shelves = [{ concept: 1, items: [item("c", "C", 1), item("a", "A", 0)], moved: null, share: 0.7 }, { concept: 0, items: [item("b", "B", 0)], moved: null, share: 0.3 }];
  const rows = parse(table(shelves, new Map(), label)).slice(1);
  assert.deepEqual(rows.map(([rank, id, , group]) => [rank, id, group]), [["1", "c", "Classics"], ["2", "a", "Classics"], ["1", "b", "Scary, dark"]]);
  const nameless = parse(table(ONE, new Map(), () => null));
  assert.deepEqual(nameless[0], ["rank", "id", "title", "score", "change"], "a model without groups");
  assert.deepEqual(parse(table([], new Map(), label)), [["rank", "id", "title", "score", "change"]], "an empty list");
});

test("the same list as JSON says whose it is and how it was made", () => {
  const about = { run: "ml", run_id: "0f", user: "12", history: ["x"], moves: [{ towards: "year", amount: 1 }], rules: { diversity: 0.2 } };
  const { items, ...rest } = JSON.parse(json(ONE, ATTRIBUTES, label, about));
  assert.deepEqual(rest, { run: "ml", run_id: "0f", customer: "12", moves: about.moves, rules: about.rules });
  assert.deepEqual(items[0], { rank: 1, id: "a", title: "=Alien", group: "Scary, dark", score: -1.5, change: "up 3", attributes: { genres: "Horror|Sci-Fi", year: 1979, score: 9 } });
  assert.deepEqual(JSON.parse(json(ONE, ATTRIBUTES, label, { ...about, user: null })).history, ["x"]);
});

test("names of files suit every system", () => {
  assert.equal(fileName("customer 12/../x", "2026-01-31"), "customer-12-x-2026-01-31");
  assert.equal(fileName("a:b*c?\"<>|", null), "a-b-c");
  assert.equal(fileName("Älteres für Łódź, שלום"), "Älteres-für-Łódź-שלום");
  assert.equal(fileName("", "///"), "list");
  assert.ok(fileName("x".repeat(500)).length <= 60);
  assert.equal(today(new Date(2026, 0, 3)), "2026-01-03");
});
