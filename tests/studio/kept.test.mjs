// What variations keep, in words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { differsText, factOf, keptTexts, tiedText } from "../../src/macrid/serving/static/walk/kept.js";

const stops = (/** @type {string[][]} */ ...differs) => differs.map((some) => ({ id: "x", title: null, value: 0, start: false, differs: some }));
const walk = (/** @type {string[]} */ held, /** @type {string[][]} */ ...differs) => /** @type {any} */ ({ held, items: stops(...differs) });
const of = (/** @type {Record<string, unknown>} */ attributes) => /** @type {any} */ ({ attributes });
const YEAR = { attribute: "year", kind: /** @type {const} */ ("number") };
const COMEDY = { attribute: "genres: Comedy", kind: /** @type {const} */ ("tag") };

test("the line says how often each attribute is kept, most often first", () => {
  const texts = keptTexts(walk(["size", "price", "metal", "shape"], [], ["price", "shape"], ["shape"], ["price", "metal", "shape"]));
  assert.deepEqual(texts, ["Kept at every stop: size.", "Kept at 3 of 4 stops: metal.", "Kept at 2 of 4 stops: price.", "Not kept: shape."]);
});

test("attributes kept equally often share a sentence, and where nothing is held there is none", () => {
  assert.deepEqual(keptTexts(walk(["size", "metal"], [], ["size", "metal"], [])), ["Kept at 2 of 3 stops: size, metal."]);
  assert.deepEqual(keptTexts(walk([], [], [])), []);
});

test("what moves along is said in a sentence", () => {
  assert.equal(tiedText([]), "");
  assert.equal(tiedText(["colour"]), "Colour changes with it.");
  assert.equal(tiedText(["colour", "style", "mood"]), "Colour, style and mood change with it.");
});

test("a number or category that differs is shown", () => {
  const start = of({ size: 4.69, metal: "silver" });
  assert.equal(differsText(["size", "metal"], of({ size: 4.39, metal: "gold" }), start, YEAR), "also differs: size 4.39, metal gold");
  assert.equal(differsText([], of({ size: 4.6 }), start, YEAR), "");
  assert.equal(differsText(["size"], of({ size: null }), start, YEAR), "also differs: no size");
});

test("of several values those that differ are shown, without the one that is varied", () => {
  const start = of({ genres: "Action|Fantasy|Sci-Fi" });
  assert.equal(differsText(["genres"], of({ genres: "Action|Sci-Fi|War" }), start, YEAR), "also differs: War, no Fantasy");
  assert.equal(differsText(["other genres"], of({ genres: "Action|Comedy" }), start, COMEDY), "also differs: no Fantasy, no Sci-Fi");
  assert.equal(differsText(["genres"], of({ genres: ["Action", "War"] }), of({ genres: ["Action"] }), YEAR), "also differs: War");
});

test("where no value is the same, all are shown", () => {
  const start = of({ genres: "Animation|Children's" });
  assert.equal(differsText(["other genres"], of({ genres: "Comedy|Drama" }), start, COMEDY), "also differs: genres Drama");
  assert.equal(differsText(["other genres"], of({ genres: "Comedy" }), start, COMEDY), "also differs: genres Comedy");
});

test("a dimension that a person has named is called by its name", () => {
  assert.equal(differsText(["romance", "other things"], of({ size: 1 }), of({ size: 1 }), YEAR), "also differs: romance, other things");
});

test("what is varied is shown with its value, a tag as yes or no", () => {
  assert.deepEqual(factOf(YEAR, of({ year: 1977 })), ["year", "1977"]);
  assert.deepEqual(factOf(COMEDY, of({ genres: "Drama|Comedy" })), ["Comedy", "yes"]);
  assert.deepEqual(factOf(COMEDY, of({ genres: ["Drama"] })), ["Comedy", "no"]);
  assert.deepEqual(factOf({ attribute: "colour: blue", kind: "category" }, of({ colour: "navy" })), ["colour", "navy"]);
});

test("what is unknown is not shown", () => {
  assert.equal(factOf({ attribute: null, kind: null }, of({ year: 1 })), null);
  assert.equal(factOf(YEAR, of({ year: null })), null);
  assert.equal(factOf({ attribute: "title: part", kind: "word" }, of({ year: 1 })), null);
});
