// The side sheet: everything about an item, and why it is recommended.

import { get, post } from "./api.js";
import { conceptColour } from "./colours.js";
import { append, clear, h, iconButton } from "./dom.js";
import { anything, count, percent } from "./format.js";
import { conceptTag, failure, itemCard, thumb, thumbButton, titleOf } from "./items.js";

let dialog = null;

export async function open(app, id) {
  if (!dialog) {
    dialog = h("dialog", { class: "sheet", "aria-label": "Item", "data-testid": "sheet" });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    document.body.append(dialog);
  }
  const known = app.live.items.get(id) ?? { id, title: null, concept: null };
  const body = h("div", { class: "sheet-body" });
  dialog.replaceChildren(
    h("div", { class: "sheet-head" }, h("h2", { dir: "auto", text: titleOf(known) }), iconButton("close", "Close", () => dialog.close(), { autofocus: true })),
    body,
  );
  body.append(h("div", { class: "skeleton tile" }), h("div", { class: "skeleton block" }));
  dialog.dataset.id = id;
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  try {
    const item = await get(`/items/${encodeURIComponent(id)}`);
    if (dialog.dataset.id !== id) return;
    app.live.remember([item]);
    draw(app, item, body);
  } catch (error) {
    body.replaceChildren(failure(error, () => open(app, id)));
  }
}

function draw(app, item, body) {
  dialog.querySelector("h2").textContent = titleOf(item);
  const why = h("section", { class: "why", "data-testid": "why", hidden: true });
  const similar = h("section", { class: "similar" });
  append(
    clear(body),
    thumb(item, { alt: "", lazy: false }),
    h("p", { class: "sheet-line" }, conceptTag(item), h("span", { class: "quiet", text: `${count(item.popularity, "user")} had it` })),
    actions(app, item),
    why,
    attributes(app, item),
    item.concepts && chances(app, item.concepts),
    similar,
  );
  explain(app, item, why);
  alike(app, item, similar);
}

function actions(app, item) {
  const button = h("button", { type: "button", class: "button primary" });
  const update = () => (button.textContent = app.isInHistory(item.id) ? "Remove from your history" : "Add to your history");
  button.addEventListener("click", () => {
    if (app.isInHistory(item.id)) app.removeFromHistory(item.id);
    else app.addToHistory(item.id);
    update();
  });
  update();
  return h(
    "p",
    { class: "actions" },
    button,
    app.card.has_concepts &&
      h("button", { type: "button", class: "button", text: "Walk from here", on: { click: () => (dialog.close(), app.walkFrom(item.id)) } }),
  );
}

async function explain(app, item, section) {
  const { who } = app.live;
  if (!who || app.isInHistory(item.id)) return;
  try {
    const { items } = await post("/recommend", { ...who, n: 1, include: [item.id], explain: true });
    const reason = items[0]?.reason;
    if (!reason || dialog.dataset.id !== item.id) return;
    const pulls = reason.pulls.filter((pull) => pull.amount > 0).slice(0, 5);
    const most = Math.max(...pulls.map((pull) => pull.amount));
    section.hidden = false;
    append(
      section,
      h("h3", { text: "Why this one" }),
      reason.share !== null &&
        h("p", {}, `${percent(reason.share)} of your history is in `, h("strong", { text: app.label(item.concept) ?? "this concept" }), "."),
      pulls.length > 0 && h("p", { class: "quiet", text: `What counts most for it${app.card.has_concepts ? ", before any knob is turned" : ""}:` }),
      h(
        "ul",
        { class: "pulls" },
        pulls.map((pull) =>
          h(
            "li",
            {},
            thumbButton({ ...pull, concept: app.live.items.get(pull.id)?.concept }, app.openItem, { size: 40 }),
            h("span", { class: "pull-title", dir: "auto", text: titleOf(pull) }),
            h("span", { class: "meter" }, h("span", { style: { "--part": pull.amount / most, "--c": conceptColour(item.concept) } })),
          ),
        ),
      ),
    );
  } catch {
    // The item stands for itself then.
  }
}

function attributes(app, item) {
  const rows = Object.entries(item.attributes).filter(([, value]) => value !== null && value !== "");
  return h(
    "section",
    {},
    h("h3", { text: "About it" }),
    h(
      "dl",
      { class: "facts" },
      [["id", item.id], ...rows].map(([name, value]) => h("div", {}, h("dt", { text: name }), h("dd", { text: anything(value) }))),
    ),
  );
}

function chances(app, concepts) {
  const rows = concepts.map((share, concept) => ({ share, concept })).sort((one, other) => other.share - one.share).slice(0, 4);
  return h(
    "section",
    {},
    h("h3", { text: "Which concept" }),
    h(
      "ul",
      { class: "bars" },
      rows.map(({ share, concept }) =>
        h(
          "li",
          {},
          h("span", { class: "bar-name", text: app.label(concept) ?? String(concept) }),
          h("span", { class: "meter" }, h("span", { style: { "--part": share, "--c": conceptColour(concept) } })),
          h("span", { class: "bar-value", text: percent(share) }),
        ),
      ),
    ),
  );
}

async function alike(app, item, section) {
  if (app.card.model === "Popularity" || app.card.items < 2) return; // nothing is similar to anything there
  try {
    const { items } = await get("/similar", { item: item.id, n: Math.min(9, app.card.items - 1) });
    if (dialog.dataset.id !== item.id || !items.length) return;
    app.live.remember(items);
    section.append(
      h("h3", { text: "Similar" }),
      h("div", { class: "grid small" }, items.map((one) => itemCard(one, { onOpen: () => app.openItem(one.id) }))),
    );
  } catch {
    // The item stands for itself then.
  }
}
