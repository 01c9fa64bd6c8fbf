import assert from "node:assert/strict";
import test from "node:test";

import { forPeople } from "../../src/macrid/serving/static/core/messages.js";
import { scoreFacts, tasteFacts, trainingText } from "../../src/macrid/serving/static/report/words.js";
import { curlOf, fieldsOf, operationsOf, shapeOf } from "../../src/macrid/serving/static/docs/reading.js";

/** @import { Model } from "#types" */

const score = (/** @type {number} */ mean) => ({ mean, se: 0.01 });
const test500 = { users: 500, metrics: { "ndcg@100": score(0.44), "recall@20": score(0.37), "recall@50": score(0.504) } };
const baselines = {
  EASE: { test: { metrics: { "ndcg@100": score(0.4), "recall@50": score(0.48) } } },
  Popularity: { test: { metrics: { "ndcg@100": score(0.2), "recall@50": score(0.23) } } },
};

test("a report begins with what is found, beside bestsellers and the best other model", () => {
  const leads = { EASE: { mean: -0.04, se: 0.003 } };
  const [found, times, ahead] = scoreFacts({ test: test500, baselines, leads });
  assert.deepEqual(found, {
    figure: "50 %", text: "of the hidden items are among the first 50 recommendations", share: 0.504, other: { share: 0.23, text: "Bestsellers for everybody: 23 %" },
  });
  assert.equal(times.figure, "2.2 ×");
  assert.deepEqual([ahead.figure, ahead.text], ["+10 %", "accuracy against EASE, the best simple model tried"]);
  assert.equal(scoreFacts({ test: test500, baselines, leads: { EASE: { mean: -0.04, se: 0.03 } } })[2].figure, "Level");
  const behind = { ...baselines, EASE: { test: { metrics: { "ndcg@100": score(0.5) } } } };
  assert.equal(scoreFacts({ test: test500, baselines: behind })[2].figure, "−12 %");
});

test("a report says no more than was measured", () => {
  assert.deepEqual(scoreFacts(null), []);
  assert.deepEqual(scoreFacts({ validation: { users: 5, metrics: { "ndcg@100": score(0.44) } } }), [{ figure: "0.44", text: "accuracy, where 1 is perfect" }]);
  assert.equal(scoreFacts({ test: test500 }).length, 2);
  const card = /** @type {Model} */ (/** @type {unknown} */ ({ concepts: [{ name: "a", dimensions: [{ name: "b" }, { name: null }] }, { name: null, dimensions: [] }], towards_effects: [{}] }));
  assert.deepEqual(tasteFacts(card, {}).map(({ figure }) => figure), ["2", "2"]);
  assert.match(tasteFacts(card, {})[0].text, /; 1 have/);
  assert.equal(tasteFacts(card, { independence: 0.924, dci_within: { in_use: 0.76 } }).at(-1)?.figure, "76 %");
});

test("training is told in a sentence", () => {
  const log = [{ epoch: 1 }, { epoch: 2 }];
  assert.equal(trainingText(log, { training: { seconds: 300 } }, 2), "2 rounds over all customers, 5 min; the model after round 2, the most accurate, was kept.");
  assert.equal(trainingText(log, { final: { users: 3 } }, null), "2 rounds over all customers of the first training, without the customers held back for testing.");
});

test("the page about the API reads the service's description", () => {
  const schemas = {
    Ask: { properties: { ids: { type: "array", items: { anyOf: [{ type: "string" }, { type: "integer" }] }, description: "Items." }, move: { anyOf: [{ $ref: "#/components/schemas/Move" }, { type: "null" }] } }, required: ["ids"], examples: [{ ids: ["it's"] }] },
  };
  const body = { content: { "application/json": { schema: { $ref: "#/components/schemas/Ask" } } } };
  const document = { info: { description: "" }, components: { schemas }, paths: { "/v1/a": { post: { tags: ["items"], description: "Ask.", requestBody: body } }, "/v1/b": { delete: { tags: ["items"], description: "Forget." } } } };
  const [[tag, [ask, forget]]] = operationsOf(document);
  assert.equal(tag, "items");
  assert.deepEqual(fieldsOf(document, ask.body ?? {}).map(({ name, schema, isRequired }) => [name, shapeOf(schema), isRequired]), [["ids", "list of string or integer", true], ["move", "Move", false]]);
  assert.equal(curlOf(document, ask, "http://x"), "curl -s http://x/v1/a \\\n  -H 'Content-Type: application/json' \\\n  -d '{\"ids\":[\"it'\\''s\"]}'");
  assert.equal(curlOf(document, forget, "http://x"), "curl -s -X DELETE http://x/v1/b");
});

test("messages for programs are told to people without addresses and options", () => {
  assert.equal(forPeople("no user 'x'; known users: test-0, test-1 … (GET /v1/users)"), "no customer 'x'; some that are known: test-0, test-1 …");
  assert.equal(forPeople("renaming and reloading are switched off (--edits no)"), "renaming and reloading are switched off");
  assert.equal(forPeople("no such endpoint; see /docs or /v1/openapi.json"), "no such endpoint");
  assert.equal(forPeople("'Alien (1979)' has no picture (yet)"), "'Alien (1979)' has no picture (yet)");
});
