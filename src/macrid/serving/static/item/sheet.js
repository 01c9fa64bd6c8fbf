// @ts-check
// The side sheet: everything about an item, and why it is recommended.

import * as api from "../core/api.js";
import { conceptColour } from "../core/colours.js";
import { append, clear, h, iconButton } from "../core/dom.js";
import { anything, count, percent } from "../core/format.js";
import { ItemCard, conceptTags, failure, thumb, thumbButton, titleOf } from "../core/items.js";
import { styles } from "../core/panel.js";
import { isExcluded, isPinned, toggleExcluded, togglePin } from "../rules/chosen.js";

/** @import { App, Item } from "#types" */

const styled = styles("item/sheet.css");
const dialog = h("dialog", { class: "sheet", "aria-labelledby": "sheet-title" });
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
let shown = ""; // the item's id

/** @param {App} app @param {string} id */
export async function open(app, id) {
  shown = id;
  const title = h("h2", { id: "sheet-title", dir: "auto", text: titleOf(app.live.items.get(id) ?? { id }) });
  const body = h("div", { class: "sheet-body" }, h("div", { class: "skeleton tile" }), h("div", { class: "skeleton block" }));
  dialog.replaceChildren(h("div", { class: "sheet-head" }, title, iconButton("close", "Close", () => dialog.close(), { autofocus: true })), body);
  if (!dialog.isConnected) document.body.append(dialog);
  await styled;
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  try {
    const item = await api.item(id);
    if (shown !== id) return;
    app.live.remember([item]);
    title.textContent = titleOf(item);
    draw(app, item, body);
  } catch (error) {
    body.replaceChildren(failure(error, () => open(app, id)));
  }
}

/** @param {App} app @param {Item} item @param {HTMLElement} body */
function draw(app, item, body) {
  const why = h("section", { class: "why", hidden: true });
  const similar = h("section", { class: "similar" });
  append(
    clear(body),
    thumb(item, { lazy: false }),
    h("p", { class: "sheet-line" }, conceptTags(item), !item.new && h("span", { class: "quiet", text: `chosen by ${count(item.popularity, "user")}` })),
    item.new && h("p", { class: "quiet", text: `New since training, ${item.placed}.` }),
    actions(app, item),
    why,
    attributes(item),
    item.concepts && memberships(app, item.concepts),
    similar,
  );
  explain(app, item, why);
  alike(app, item, similar);
}

/** @param {App} app @param {Item} item */
function actions(app, item) {
  const button = h("button", { type: "button", class: "button primary" });
  const update = () => {
    const isIn = app.isInHistory(item.id);
    button.textContent = isIn ? "Remove from your history" : "Add to your history";
    pin.textContent = isPinned(app, item.id) ? "Unpin" : "Pin";
    exclude.textContent = isExcluded(app, item.id) ? "Allow again" : "Not this";
    pin.hidden = exclude.hidden = isIn || !app.live.who;
  };
  button.addEventListener("click", () => {
    if (app.isInHistory(item.id)) app.removeFromHistory(item.id);
    else app.addToHistory(item.id);
    update();
  });
  const pin = h("button", { type: "button", class: "button", on: { click: () => (togglePin(app, item.id), update()) } });
  const exclude = h("button", { type: "button", class: "button", on: { click: () => (toggleExcluded(app, item.id), update()) } });
  update();
  return h(
    "p",
    { class: "actions" },
    button,
    pin,
    exclude,
    app.card.has_concepts &&
      h("button", { type: "button", class: "button", text: "Vary this", on: { click: () => (dialog.close(), app.walkFrom(item.id)) } }),
  );
}

/** @param {App} app @param {Item} item @param {HTMLElement} section */
async function explain(app, item, section) {
  const { who } = app.live;
  if (!who || app.isInHistory(item.id)) return;
  try {
    const { items } = await api.recommend({ ...who, n: 1, include: [item.id], explain: true });
    const reason = items[0]?.reason;
    if (!reason || shown !== item.id) return;
    const pulls = reason.pulls.filter((pull) => pull.amount > 0).slice(0, 5);
    const most = Math.max(...pulls.map((pull) => pull.amount));
    section.hidden = false;
    append(
      section,
      h("h3", { text: "Why this one" }),
      reason.share !== null &&
        h("p", {}, `${percent(reason.share)} of your history is in `, h("strong", { text: app.label(item.concept) ?? "this concept" }), "."),
      pulls.length > 0 && h("p", { class: "quiet", text: `What counts most${app.card.has_concepts ? ", before any knob is turned" : ""}:` }),
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
    // The rest of the sheet stands without it.
  }
}

/** @param {Item} item */
function attributes(item) {
  const rows = Object.entries(item.attributes).filter(([, value]) => value !== null && value !== "");
  return h(
    "section",
    {},
    h("h3", { text: "Details" }),
    h(
      "dl",
      { class: "facts" },
      [["id", item.id], ...rows].map(([name, value]) => h("div", {}, h("dt", { text: name }), h("dd", { text: anything(value) }))),
    ),
  );
}

/** @param {App} app @param {number[]} concepts */
function memberships(app, concepts) {
  const rows = concepts.map((share, concept) => ({ share, concept })).sort((one, other) => other.share - one.share).slice(0, 4);
  return h(
    "section",
    {},
    h("h3", { text: "Concepts" }),
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

/** @param {App} app @param {Item} item @param {HTMLElement} section */
async function alike(app, item, section) {
  if (app.card.model === "Popularity" || app.card.items < 2) return; // it knows no similar items
  try {
    const { items } = await api.similar(item.id, Math.min(9, app.card.items - 1));
    if (shown !== item.id || !items.length) return;
    app.live.remember(items);
    section.append(
      h("h3", { text: "Similar" }),
      h("div", { class: "grid small" }, items.map((one) => new ItemCard(one, { open: () => app.openItem(one.id) }).element)),
    );
  } catch {
    // The rest of the sheet stands without it.
  }
}
