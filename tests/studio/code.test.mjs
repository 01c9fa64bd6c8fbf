import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import test from "node:test";

import { curl, http, python } from "../../src/macrid/serving/static/share/code.js";

const SHOWN = {
  origin: "http://127.0.0.1:8000",
  request: { history: ["it's", '"b"', "$c"], n: 24, by_concept: true },
  concepts: [0, 1],
  history: ["it's", '"b"', "$c"],
  run: "run",
  hasToken: true,
};

test("a shell passes on the request unchanged, whatever the ids contain", () => {
  const { stdout } = spawnSync("sh", ["-c", curl(SHOWN).replace("curl", "printf '%s\\n'")], { encoding: "utf8", env: { MACRID_TOKEN: "t" } });
  const words = stdout.trim().split("\n");
  assert.deepEqual(JSON.parse(words[words.length - 1]), SHOWN.request);
  assert.ok(words.includes("Authorization: Bearer t"));
});

test("Python code has Python values and reads the token from the environment", () => {
  assert.match(http(SHOWN), /"by_concept": True\n/);
  assert.match(http(SHOWN), /os\.environ\['MACRID_TOKEN'\]/);
  assert.doesNotMatch(http({ ...SHOWN, hasToken: false }), /import os/);
  assert.match(python({ ...SHOWN, history: ["12", "-3"] }), /model\.items\.parse/);
  assert.doesNotMatch(python(SHOWN), /parse/);
});

test("rules are Python values in Python code, and texts stay as they are", () => {
  const rules = { where: "new = true and title = 'null'", strict: false, at_most: { genres: 2 } };
  const request = { history: ["a"], n: 5, rules };
  const expected = `rules={"where":"new = true and title = 'null'","strict":False,"at_most":{"genres":2}}`;
  assert.ok(python({ ...SHOWN, request, concepts: [], history: ["a"] }).includes(`model.recommend(history, n=5, ${expected})`));
  assert.ok(python({ ...SHOWN, request: { ...request, moves: [{ concept: 0, share: 0.5 }] }, concepts: [], history: ["a"] }).includes(`    ${expected},\n`));
  assert.match(http({ ...SHOWN, request }), /"strict": False,\n/);
});

test("code for shelves prints them under their names", () => {
  const request = { history: ["a"], n: 5, rules: { shelves: true } };
  const shown = { ...SHOWN, request, concepts: [], history: ["a"], hasShelves: true };
  assert.match(python(shown), /rules=\{"shelves":True\}\)\nfor shelf in ranking\.shelves:\n {4}print\(shelf\.name\)\n {4}for item in shelf\.items:\n {8}print\(item\.id/);
  assert.match(http(shown), /for shelf in answer\["shelves"\]:\n/);
});
