// Sums that a person can check: rows, sentences and per cents add up.

import assert from "node:assert/strict";
import { test } from "node:test";

import { largeShares, placeBefore, raisedBy, rowsOf, strongest, total, wholePercents } from "../../src/macrid/serving/static/item/sums.js";

/** @import { Account, AccountPart } from "#types" */

/** @param {AccountPart["kind"]} kind @param {number} places @param {Partial<AccountPart>} [more] @returns {AccountPart} */
const part = (kind, places, more = {}) => ({ kind, label: "x", places, amount: 0.1, ...more });
/** @param {AccountPart["kind"]} kind @param {number} rank */
const stage = (kind, rank) => ({ kind, rank, label: "", score: 0 });
/** @type {Account} */
const account = {
  rank: 3, of: 100, listed: true, score: 0, left_out: [],
  stages: [stage("everybody", 40), stage("history", 12), stage("neighbours", 9), stage("rule", 10), stage("move", 3)],
  parts: [
    part("history", 5, { item: "others" }), part("history", 20, { item: "b" }), part("history", 0, { item: "c" }), part("history", 3, { count: 7 }),
    part("neighbours", 4, { item: "others" }), part("neighbours", -2, { item: "c" }), part("neighbours", 1, { count: 7 }), part("neighbours", 0),
    part("rule", -1, { rule: "pins" }), part("move", 7, { move: { towards: "year", amount: 1 } }),
  ],
};

test("rows merge what an item does by the model and by neighbours, strongest first, and add up", () => {
  const rows = rowsOf(account);
  assert.deepEqual(rows.map(({ kind, places, part }) => [kind, part.item ?? null, places]), [
    ["item", "b", 20], ["item", "others", 9], ["item", "c", -2], ["others", null, 4], ["rule", null, -1], ["move", null, 7],
  ]);
  assert.equal(total(rows), account.stages[0].rank - account.rank);
  assert.equal(placeBefore(account), 10);
  assert.equal(account.parts[0].places, 5); // rows do not change the account
});

test("what is not named is counted, with what it comes to", () => {
  const rows = rowsOf(account);
  const { named, others, places } = strongest(rows, 3);
  assert.deepEqual(named.map((row) => row.places), [20, 9, 7]);
  assert.deepEqual([others, places], [9, 1]); // 7 items, one item and a rule
  assert.equal(total(named) + places, total(rows));
  const few = rows.filter(({ kind }) => kind !== "others").slice(0, 4);
  assert.deepEqual(strongest(few, 3).others, 0); // no "1 other"
});

test("per cents are whole and add up", () => {
  assert.deepEqual(wholePercents([1 / 3, 1 / 3, 1 / 3]), [34, 33, 33]);
  assert.deepEqual(wholePercents([0.996, 0.004]), [100, 0]);
  for (let trial = 0; trial < 200; trial += 1) {
    const raw = Array.from({ length: 1 + Math.floor(20 * Math.random()) }, () => Math.random() ** 4);
    const sum = raw.reduce((one, other) => one + other, 0);
    const shares = raw.map((x) => x / sum);
    assert.equal(wholePercents(shares).reduce((one, other) => one + other, 0), 100);
    const { large, others, percent } = largeShares(shares);
    assert.equal(large.reduce((one, row) => one + row.percent, percent), 100);
    assert.equal(large.length + others, shares.length);
    assert.ok(large.every((row) => row.percent >= 1));
    assert.deepEqual(large.map((row) => row.percent), large.map((row) => row.percent).toSorted((one, other) => other - one));
  }
});

test("items that raise the score are named whatever they do to the place", () => {
  const added = [{ item: "a", amount: 0.2 }, { item: "b", amount: -0.5 }, { item: "c", amount: 0.1 }, { item: "a", amount: -0.15 }, { item: "d", amount: 0.3 }];
  const parts = added.map(({ item, amount }) => part("history", 0, { item, amount, label: item }));
  assert.deepEqual(raisedBy({ ...account, parts }, 2), ["d", "c"]);
  assert.deepEqual(raisedBy({ ...account, parts: [] }, 2), []);
});
