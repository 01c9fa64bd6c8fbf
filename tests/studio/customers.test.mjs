import assert from "node:assert/strict";
import test from "node:test";

import { table } from "../../src/macrid/serving/static/customers/csv.js";

const page = /** @type {any} */ (globalThis);
page.location = { hash: "", pathname: "/", search: "" };
page.sessionStorage = { getItem: () => null };
page.addEventListener = () => {};
const { headline } = await import("../../src/macrid/serving/static/customers/result.js");
const { inWords, ranked } = await import("../../src/macrid/serving/static/core/tastes.js");

/** @param {Partial<import("#types").CohortResult>} result */
const said = (result) => headline(/** @type {import("#types").CohortResult} */ ({ users: 500, n: 10, new: 0.62, accuracy: null, ...result }));

/** @param {number} before @param {number} after */
const accuracy = (before, after) => ({
  users: 1, gained: 0, lost: 0, same: 1,
  metrics: { "ndcg@100": { before: { mean: before, se: 0 }, after: { mean: after, se: 0 }, difference: { mean: after - before, se: 0 } } },
});

test("the headline says how many recommendations change and what it costs", () => {
  assert.equal(said({ accuracy: accuracy(0.423, 0.401) }), "For 500 customers, 6.2 of 10 recommendations change. Accuracy 0.423 → 0.401 (−5 %).");
  assert.equal(said({ users: 1, new: 1 }), "For this customer, 10 of 10 recommendations change.");
  assert.equal(said({ new: 0, accuracy: accuracy(0.4, 0.4) }), "For 500 customers, no recommendation changes. Accuracy stays at 0.400.");
  assert.equal(said({ users: 2000, new: 0.001, accuracy: accuracy(0.5, 0.502) }), "For 2,000 customers, less than 0.1 of 10 recommendations change. Accuracy 0.500 → 0.502 (+0.4 %).");
  assert.equal(said({ accuracy: accuracy(0, 0.1) }), "For 500 customers, 6.2 of 10 recommendations change. Accuracy 0.000 → 0.100.");
});

test("a table for spreadsheets has a line per customer, and no formula", () => {
  const rows = [
    { id: "=1+1", items: 3, new: 2, length: 10, before: 0.25, after: 0.5 },
    { id: 'a "quoted", id', items: 1, new: 0, length: 9, before: null, after: null },
    { id: "-7", items: 1, new: 0, length: 9, before: 0, after: 0 },
  ];
  assert.deepEqual(table(rows).split("\r\n"), [
    "customer,items in the history,recommendations,new recommendations,accuracy before,accuracy after,change of accuracy",
    "'=1+1,3,10,2,0.25,0.5,0.25",
    '"a ""quoted"", id",1,9,0,,,',
    "-7,1,9,0,0,0,0",
    "",
  ]);
});

test("tastes are said strongest first, and small ones not at all", () => {
  const label = (/** @type {number} */ k) => ["Drama", null, "Horror"][k] ?? null;
  assert.deepEqual(ranked([0.3, 0.01, 0.69]).map(({ concept }) => concept), [2, 0]);
  assert.equal(inWords([0.3, 0.05, 0.65], label), "Horror 65 %, Drama 30 %");
  assert.equal(inWords([0.1, 0.9, 0], label), "group 1 90 %, Drama 10 %");
  assert.equal(inWords([], label), "");
});
