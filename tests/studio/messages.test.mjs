import assert from "node:assert/strict";
import test from "node:test";

import { allInWords, inWords } from "../../src/macrid/serving/static/core/messages.js";

test("that a slider stops where customers do is not worth a word", () => {
  assert.deepEqual(allInWords(["0.68 is beyond the range of real users in concept 3, genres: Comedy (-0.33 to 0.51); moved to 0.51"]), []);
});

test("what the service says is put in the words of the page", () => {
  assert.equal(inWords("only 3 of 24 items: no more are left after rules"), "Only 3 of 24: the filters and rules leave no more.");
  assert.equal(inWords("left out the move along size of bags: this run has no such dimension"), "“size of bags” does not exist in this model, so it was left out.");
  assert.equal(inWords("pins: ignored 1 unknown item: 'x9'"), "1 chosen item does not exist here: 'x9'");
  assert.equal(inWords("exclude: ignored 2 unknown items: 'x', 'y'; ids are strings such as 'a'"), "2 chosen items do not exist here: 'x', 'y'");
  assert.equal(inWords("where: no item has genres 'Comdy'; did you mean 'Comedy'?"), "No item has genres 'Comdy'; did you mean 'Comedy'?");
});

test("anything else is shown as it is, as a sentence, and once", () => {
  assert.deepEqual(allInWords(["the sea is rough", "the sea is rough", ""]), ["The sea is rough."]);
});
