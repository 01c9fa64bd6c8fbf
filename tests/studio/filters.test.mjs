import assert from "node:assert/strict";
import test from "node:test";

import { inWords, read, write } from "../../src/macrid/serving/static/rules/filters.js";

/** @import { Conditions } from "../../src/macrid/serving/static/rules/filters.js" */

/** @type {[string, Conditions][]} */
const BOTH_WAYS = [
  ["genres = 'Comedy'", { filters: [{ name: "genres", values: ["Comedy"] }], rest: null }],
  ["genres in ('Comedy', 'Children''s')", { filters: [{ name: "genres", values: ["Comedy", "Children's"] }], rest: null }],
  ["year >= 1990 and year <= 1999", { filters: [{ name: "year", low: "1990", high: "1999" }], rest: null }],
  ["price <= 30.5 and in_stock = true", { filters: [{ name: "price", high: "30.5" }, { name: "in_stock", truth: true }], rest: null }],
  ["`shoe size` >= 41 and `in` = 'a, b (c) and d'", { filters: [{ name: "shoe size", low: "41" }, { name: "in", values: ["a, b (c) and d"] }], rest: null }],
  ["added >= '2026-01-31'", { filters: [{ name: "added", low: "2026-01-31" }], rest: null }],
  ["colour = 'red' and (genres != 'Horror' or genres is missing)", { filters: [{ name: "colour", values: ["red"] }], rest: "(genres != 'Horror' or genres is missing)" }],
  ["price < 30 or colour = 'red'", { filters: [], rest: "price < 30 or colour = 'red'" }],
  ["title contains 'or and' and not colour = 'red'", { filters: [], rest: "title contains 'or and' and not colour = 'red'" }],
];

for (const [where, conditions] of BOTH_WAYS) {
  test(`read and written again: ${where}`, () => {
    assert.deepEqual(read(where), conditions);
    assert.equal(write(conditions), where);
  });
}

test("nothing is no condition", () => {
  assert.deepEqual(read(undefined), { filters: [], rest: null });
  assert.equal(write({ filters: [{ name: "year" }, { name: "genres", values: [] }], rest: null }), undefined);
});

test("a second demand on the same attribute is kept as it is", () => {
  const { filters, rest } = read("genres = 'Comedy' and genres = 'Drama'");
  assert.deepEqual([filters, rest], [[{ name: "genres", values: ["Comedy"] }], "genres = 'Drama'"]);
});

test("alternatives beside a filter are put in parentheses", () => {
  assert.equal(write({ filters: [{ name: "year", low: "1990" }], rest: "a = 1 or b = 2" }), "year >= 1990 and (a = 1 or b = 2)");
});

test("an unclosed quote or parenthesis is left to the service to explain", () => {
  for (const where of ["colour = 'red", "(a = 1", "a in ('x'", "and", "= 3", "`x"]) {
    const { filters, rest } = read(where);
    assert.deepEqual([filters, rest], [[], where]);
  }
});

test("filters in words", () => {
  assert.equal(inWords({ name: "genres", values: ["Comedy", "Drama"] }), "genres: Comedy or Drama");
  assert.equal(inWords({ name: "genres", values: ["a", "b", "c", "d", "e"] }), "genres: a, b, c and 2 more");
  assert.equal(inWords({ name: "year", low: "1990", high: "1999" }), "year from 1990 to 1999");
  assert.equal(inWords({ name: "price", high: "30" }), "price up to 30");
  assert.equal(inWords({ name: "in stock", truth: false }), "not in stock");
});
