import assert from "node:assert/strict";
import test from "node:test";

import { applied, isSame, moveOf, sliderInWords, withMove, without } from "../../src/macrid/serving/static/core/moves.js";

const SIZE = { concept: 1, dimension: 2, to: 0.5, axis: "0f3a" };
const SHARE = { concept: 1, share: 0.6 };

test("a slider has one move, the newest is the last, and its axis stays", () => {
  assert.deepEqual(withMove([SIZE, SHARE], { concept: 1, dimension: 2, to: 0.7 }), [SHARE, { ...SIZE, to: 0.7 }]);
  assert.deepEqual(withMove([SIZE, SHARE], { concept: 1, share: 0.1 }), [SIZE, { concept: 1, share: 0.1 }]);
  assert.deepEqual(withMove([SIZE], { concept: 1, dimension: 3, to: 0 }), [SIZE, { concept: 1, dimension: 3, to: 0 }]);
});

test("the share of a concept and a knob of it are different sliders", () => {
  assert.equal(moveOf([SIZE, SHARE], { concept: 1 }), SHARE);
  assert.deepEqual(without([SIZE, SHARE], { concept: 1, dimension: 2 }), [SHARE]);
  assert.deepEqual(without([SIZE], { concept: 0, dimension: 2 }), [SIZE]);
});

test("an attribute has one move, whatever its concepts do", () => {
  const year = { towards: "year", amount: 1 };
  assert.equal(moveOf([SIZE, SHARE, year], { towards: "year" }), year);
  assert.equal(moveOf([SIZE, SHARE, year], { towards: "price" }), undefined);
  assert.deepEqual(withMove([year, SIZE], { towards: "year", amount: -0.5 }), [SIZE, { towards: "year", amount: -0.5 }]);
  assert.deepEqual(without([year, SHARE], { towards: "year" }), [SHARE]);
  assert.equal(isSame([year], [{ towards: "year", amount: 0.9 }]), false);
});

test("moves are equal whether or not their axes are known", () => {
  const { axis, ...plain } = SIZE;
  assert.equal(isSame([SIZE], [plain]), true);
  assert.equal(isSame([SIZE, SHARE], [SHARE, SIZE]), false);
  assert.equal(isSame([SIZE], [{ ...SIZE, to: 0.51 }]), false);
  assert.equal(axis, "0f3a");
});

test("a response has the applied moves", () => {
  const answer = { unknown: [], items: [], moves: [{ ...SIZE, by: null }, { ...SHARE, axis: null }, { towards: "year", amount: 1 }] };
  assert.deepEqual(applied(answer, []), [SIZE, SHARE, { towards: "year", amount: 1 }]);
  assert.deepEqual(applied({ unknown: [], items: [], moves: [] }, [SIZE]), []);
  assert.deepEqual(applied({ unknown: [], items: [] }, [SIZE]), [SIZE]);
});

test("sliders that are on are said in the words of their ends", () => {
  const card = /** @type {import("#types").Model} */ (/** @type {unknown} */ ({
    towards_effects: [{ name: "year", less: "older", more: "newer" }, { name: "genres: Horror", less: "less", more: "more" }],
    concepts: [{ concept: 2, label: "bags", dimensions: [{ dimension: 4, label: "size", range: [-1, 1], high: "large" }] }],
  }));
  assert.equal(sliderInWords({ towards: "year", amount: -1 }, card), "Older, 50 %");
  assert.equal(sliderInWords({ towards: "genres: Horror", amount: -2 }, card), "Less Horror, 100 %");
  assert.equal(sliderInWords({ towards: "colour: red", amount: 9 }, card), "More red, 100 %");
  assert.equal(sliderInWords({ concept: 2, share: 0.4 }, card), "40 % from bags");
  assert.equal(sliderInWords({ concept: 2, dimension: 4, to: 0.6 }, card), "Size of bags, 80 % towards large");
  assert.equal(sliderInWords({ concept: 9, dimension: 7, to: 0, name: "heel", concept_name: "shoes" }, card), "Heel of shoes");
  assert.equal(sliderInWords({ concept: 2, share: 0.4, concept_name: "shoes" }, card), "40 % from shoes", "of another model");
  assert.equal(sliderInWords({ concept: 2, dimension: 4, to: 0.6, name: "heel", concept_name: "shoes" }, card), "Heel of shoes");
});
