// @ts-check
// The side sheet: everything about an item, and why it is recommended.

import * as api from "../core/api.js";
import { conceptColour } from "../core/colours.js";
import { append, clear, h, iconButton } from "../core/dom.js";
import { anything, count } from "../core/format.js";
import { ItemCard, conceptTags, failure, thumb, titleOf } from "../core/items.js";
import { styles } from "../core/panel.js";
import { isExcluded, isPinned, toggleExcluded, togglePin } from "../rules/chosen.js";
import { largeShares } from "./sums.js";
import { Why } from "./why.js";

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
  const similar = h("section", { class: "similar" });
  const [row, why] = [actions(app, item), new Why(app, item)];
  follow(app, () => (row.update(), why.update()));
  append(
    clear(body),
    h(
      "div",
      { class: "sheet-top" },
      thumb(item, { lazy: false }),
      h(
        "p",
        { class: "sheet-line" },
        conceptTags(item),
        h("span", { class: "quiet", text: item.new ? `New since training, ${item.placed}.` : `chosen by ${count(item.popularity, "customer")}` }),
      ),
    ),
    row.element,
    why.element,
    item.concepts && memberships(app, item.concepts),
    attributes(item),
    similar,
  );
  alike(app, item, similar);
}

/** @type {(() => void) | null} */
let redraw = null;

/**
 * Calls a function now and whenever something changes while the sheet is open.
 * @param {App} app
 * @param {() => void} update
 */
function follow(app, update) {
  if (!redraw) {
    app.store.subscribe(() => dialog.open && redraw?.());
    app.live.subscribe((parts) => dialog.open && parts.includes("historyItems") && redraw?.());
  }
  redraw = update;
  update();
}

/** @param {App} app @param {Item} item */
function actions(app, item) {
  const { id } = item;
  const button = (/** @type {string} */ text, /** @type {() => unknown} */ click, kind = "") =>
    h("button", { type: "button", class: `button ${kind}`, text, on: { click } });
  const leave = (/** @type {(id: string) => unknown} */ go) => () => (dialog.close(), go(id));
  const add = button("", () => (app.isInHistory(id) ? app.removeFromHistory(id) : app.addToHistory(id)), "primary");
  const [exclude, pin] = [button("", () => toggleExcluded(app, id)), button("", () => togglePin(app, id))];
  return {
    element: h(
      "p",
      { class: "actions" },
      add,
      exclude,
      pin,
      app.card.has_concepts && button("Variations of this", leave(app.walkFrom)),
    ),
    update: () => {
      const isIn = app.isInHistory(id);
      add.textContent = isIn ? "Remove from history" : "Add to history";
      pin.textContent = isPinned(app, id) ? "Unpin" : "Pin";
      exclude.textContent = isExcluded(app, id) ? "Allow again" : "Not this";
      pin.hidden = exclude.hidden = isIn || !app.live.who;
    },
  };
}

/** @param {Item} item */
function attributes(item) {
  const rows = Object.entries(item.attributes).filter(([, value]) => value !== null && value !== "");
  return h(
    "section",
    {},
    h("h3", { text: "About this item" }),
    h(
      "dl",
      { class: "facts" },
      [["id", item.id], ...rows].map(([name, value]) => h("div", {}, h("dt", { text: name }), h("dd", { text: anything(value) }))),
    ),
  );
}

/** @param {App} app @param {number[]} concepts */
function memberships(app, concepts) {
  const { large, others, percent: rest } = largeShares(concepts);
  const row = (/** @type {string} */ name, /** @type {number} */ percent, /** @type {number | null} */ concept) =>
    h(
      "li",
      {},
      h("span", { class: "bar-name", dir: "auto", title: name, text: name }),
      h("span", { class: "meter" }, h("span", { style: { "--part": percent / 100, "--c": conceptColour(concept) } })),
      h("span", { class: "bar-value", text: `${percent} %` }),
    );
  return h(
    "section",
    {},
    h("h3", { text: "Groups" }),
    h(
      "ul",
      { class: "bars" },
      large.map(({ concept, percent }) => row(app.label(concept) ?? String(concept), percent, concept)),
      rest > 0 && row(count(others, "other"), rest, null),
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
