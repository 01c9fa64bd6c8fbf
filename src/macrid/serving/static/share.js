// The state of the page to take away: as a link, as curl, as Python.

import { hasToken } from "./api.js";
import { h, iconButton } from "./dom.js";
import { segments } from "./picks.js";

export async function copyLink(app) {
  await copy(app, location.origin + app.store.link(), "The link is copied; it opens everything as it is now");
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

function python(app) {
  const { moves } = app.store.get();
  const history = (app.live.historyItems ?? []).map((item) => item.id);
  const { n } = app.live.request();
  const call = moves.length
    ? `macrid.steer(\n    model,\n    history,\n    moves=[\n${moves.map((move) => `        ${JSON.stringify(move)},\n`).join("")}    ],\n    n=${n},\n)`
    : `model.recommend(history, n=${n})`;
  return `import macrid

model = macrid.load(${JSON.stringify(app.card.run)})
history = ${JSON.stringify(history)}
for item in ${call}:
    print(item.id, item.title, item.score)`;
}

function http(app) {
  const body = JSON.stringify(app.live.request(), null, 4).replaceAll(/\btrue$|\btrue,$/gm, (found) => found.replace("true", "True"));
  const token = hasToken() ? '"Authorization": f"Bearer {os.environ[\'MACRID_TOKEN\']}", ' : "";
  return `import json
${hasToken() ? "import os\n" : ""}from urllib.request import Request, urlopen

body = ${body}
request = Request(
    "${location.origin}/v1/recommend",
    data=json.dumps(body).encode(),
    headers={${token}"Content-Type": "application/json"},
)
for item in json.load(urlopen(request))["items"]:
    print(item["id"], item["title"], item["score"])`;
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
