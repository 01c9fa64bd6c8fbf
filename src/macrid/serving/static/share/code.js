// @ts-check
// The list shown, as code that gives the same list: curl, Python, Python over HTTP.

/** @import { RecommendRequest } from "#types" */

/**
 * @typedef {object} Shown what the code is to reproduce
 * @property {string} origin of the service
 * @property {RecommendRequest} request
 * @property {number[]} concepts whose rows are shown; none where it is one list
 * @property {string[]} history
 * @property {string} run
 * @property {boolean} hasToken
 * @property {boolean} [hasShelves] whether shelves are shown
 */

/** @param {Shown} shown */
export function curl({ origin, request, hasToken }) {
  const body = JSON.stringify(request).replaceAll("'", "'\\''");
  const token = hasToken ? '\n  -H "Authorization: Bearer $MACRID_TOKEN" \\' : "";
  return `curl -s ${origin}/v1/recommend \\${token}\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}

/** @param {Shown} shown */
export function python({ request, concepts, history, run, hasShelves }) {
  const { n, concept } = request;
  const moves = request.moves ?? [];
  const wanted = typeof concept === "number" ? [concept] : concepts;
  const rows = hasShelves ? SHELVES.python : loop(wanted, "ranking", `[item for item in ranking if item.concept == concept][:${n}]`);
  const most = wanted.length ? "len(model.items) - len(history)" : n;
  const steps = moves.map((move) => `        ${JSON.stringify(move)},\n`).join("");
  const rules = request.rules ? `rules=${asPython(JSON.stringify(request.rules))}` : "";
  const call = moves.length || wanted.length
    ? `macrid.steer(\n    model,\n    history,\n${steps && `    moves=[\n${steps}    ],\n`}    n=${most},\n${rules && `    ${rules},\n`})`
    : `model.recommend(history, n=${most}${rules && `, ${rules}`})`;
  // Integers are text here: the model knows which of the two its ids are.
  const ids = history.every((id) => /^-?\d+$/.test(id)) ? `[model.items.parse(item) for item in ${JSON.stringify(history)}]` : JSON.stringify(history);
  return `import macrid

model = macrid.load(${JSON.stringify(run)})
history = ${ids}
ranking = ${call}
${rows}print(item.id, item.title, item.score)`;
}

/** @param {Shown} shown */
export function http({ origin, request, concepts, hasToken, hasShelves }) {
  const body = asPython(JSON.stringify(request, null, 4));
  const token = hasToken ? '"Authorization": f"Bearer {os.environ[\'MACRID_TOKEN\']}", ' : "";
  return `import json
${hasToken ? "import os\n" : ""}from urllib.request import Request, urlopen

body = ${body}
request = Request(
    "${origin}/v1/recommend",
    data=json.dumps(body).encode(),
    headers={${token}"Content-Type": "application/json"},
)
answer = json.load(urlopen(request))
${concepts.length ? 'rows = {row["concept"]: row["items"] for row in answer["concepts"]}\n' : ""}${hasShelves ? SHELVES.http : loop(concepts, 'answer["items"]', "rows[concept]")}print(item["id"], item["title"], item["score"])`;
}

const SHELVES = {
  python: "for shelf in ranking.shelves:\n    print(shelf.name)\n    for item in shelf.items:\n        ",
  http: 'for shelf in answer["shelves"]:\n    print(shelf["name"])\n    for item in shelf["items"]:\n        ',
};

/** @type {Record<string, string>} */
const CONSTANTS = { true: "True", false: "False", null: "None" };

/** @param {string} json whose texts are those of Python, too */
const asPython = (json) => json.replaceAll(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (part) => CONSTANTS[part] ?? part);

/** @param {number[]} concepts @param {string} all @param {string} ofConcept */
function loop(concepts, all, ofConcept) {
  if (!concepts.length) return `for item in ${all}:\n    `;
  return `for concept in ${JSON.stringify(concepts)}:\n    for item in ${ofConcept}:\n        `;
}
