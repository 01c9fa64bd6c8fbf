// The state of the page to take away: as a link, as curl, as Python.

import { hasToken } from "./api.js";
import { h, iconButton } from "./dom.js";
import { segments } from "./picks.js";

export async function copyLink(app) {
  await copy(app, location.origin + app.store.link(), "The link is copied; it opens this list with these knobs");
}

export function open(app) {
  if (!app.live.who) {
    app.toast("Choose a user or some items first");
    return;
  }
  const texts = { curl: curl(app), python: python(app), http: http(app) };
  const code = h("code", { "data-testid": "snippet" });
  const show = (kind) => {
    code.textContent = texts[kind];
    code.dataset.kind = kind;
    kinds.select(kind);
  };
  const kinds = segments("As", [["curl", "curl"], ["python", "Python"], ["http", "Python over HTTP"]], show);
  const dialog = h(
    "dialog",
    { class: "dialog code", "aria-labelledby": "code-title", on: { close: () => dialog.remove(), click: (event) => event.target === dialog && dialog.close() } },
    h(
      "div",
      { class: "dialog-body" },
      h("div", { class: "panel-head" }, h("h2", { id: "code-title", text: "This list, in code" }), iconButton("close", "Close", () => dialog.close())),
      kinds.element,
      h("pre", { tabindex: "0", "aria-label": "Code" }, code),
      h(
        "p",
        { class: "dialog-foot" },
        h("button", { type: "button", class: "button primary", text: "Copy", on: { click: () => copy(app, code.textContent, "Copied") } }),
      ),
    ),
  );
  document.body.append(dialog);
  show("curl");
  dialog.showModal();
}

function curl(app) {
  const body = JSON.stringify(app.live.request()).replaceAll("'", "'\\''");
  const token = hasToken() ? '\n  -H "Authorization: Bearer $MACRID_TOKEN" \\' : "";
  return `curl -s ${location.origin}/v1/recommend \\${token}\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}

/** Concepts whose lists are shown, none where it is the list of all. */
const rows = (app) => app.live.groups().map((group) => group.concept).filter((concept) => concept !== null);

function python(app) {
  const { moves } = app.store.get();
  const ids = (app.live.historyItems ?? []).map((item) => item.id);
  const concepts = rows(app);
  const { n } = app.live.request();
  const most = concepts.length ? "len(model.items) - len(history)" : n;
  const steps = moves.map((move) => `        ${JSON.stringify(move)},\n`).join("");
  const call = moves.length || concepts.length
    ? `macrid.steer(\n    model,\n    history,\n${steps && `    moves=[\n${steps}    ],\n`}    n=${most},\n)`
    : `model.recommend(history, n=${most})`;
  // Integers are text here: the model knows which of the two its ids are.
  const history = ids.every((id) => /^-?\d+$/.test(id)) ? `[model.items.parse(item) for item in ${JSON.stringify(ids)}]` : JSON.stringify(ids);
  return `import macrid

model = macrid.load(${JSON.stringify(app.card.run)})
history = ${history}
found = ${call}
${loop(concepts, "found", `[item for item in found if item.concept == concept][:${n}]`)}print(item.id, item.title, item.score)`;
}

function loop(concepts, all, own) {
  if (!concepts.length) return `for item in ${all}:\n    `;
  return `for concept in ${JSON.stringify(concepts)}:\n    for item in ${own}:\n        `;
}

function http(app) {
  const body = JSON.stringify(app.live.request(), null, 4).replaceAll(/\btrue$|\btrue,$/gm, (found) => found.replace("true", "True"));
  const token = hasToken() ? '"Authorization": f"Bearer {os.environ[\'MACRID_TOKEN\']}", ' : "";
  const concepts = rows(app);
  return `import json
${hasToken() ? "import os\n" : ""}from urllib.request import Request, urlopen

body = ${body}
request = Request(
    "${location.origin}/v1/recommend",
    data=json.dumps(body).encode(),
    headers={${token}"Content-Type": "application/json"},
)
found = json.load(urlopen(request))
${concepts.length ? 'rows = {row["concept"]: row["items"] for row in found["concepts"]}\n' : ""}${loop(concepts, 'found["items"]', "rows[concept]")}print(item["id"], item["title"], item["score"])`;
}

async function copy(app, text, said) {
  try {
    await navigator.clipboard.writeText(text);
    app.toast(said);
  } catch {
    const area = h("textarea", { value: text, class: "unseen", "aria-hidden": "true" });
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    app.toast(document.execCommand("copy") ? said : "The browser does not let this page copy; the address bar has the link");
    area.remove();
  }
}
