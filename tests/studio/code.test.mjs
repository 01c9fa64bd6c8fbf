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
