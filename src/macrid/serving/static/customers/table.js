// @ts-check
// The customers as a table: what they like, how much they have; searched, sorted, ticked.

import * as api from "../core/api.js";
import { append, clear, h, iconButton } from "../core/dom.js";
import { count, number, percent } from "../core/format.js";
import { failure } from "../core/items.js";
import { later } from "../core/panel.js";
import { tastes } from "../core/tastes.js";

/** @import { App, User } from "#types" */

const PAUSE = 150; // ms after the last letter
const PAGE = 15;
const AT_ONCE = 100; // customers per request
const MOST = 2000; // that can be ticked

export class CustomerTable {
  element;
  /** @type {Set<string>} The ids that are ticked. */
  chosen = new Set();
  /** @type {App} */
  #app;
  /** @type {{ open: (id: string) => void, change: () => void }} */
  #does;
  #offset = 0;
  #total = 0;
  /** @type {User[]} */
  #users = [];
  #control = new AbortController();
  #search = h("input", {
    class: "field", type: "search", id: "customers-search", autocomplete: "off", spellcheck: "false", "aria-label": "Find customers by id or taste",
    on: { input: () => this.#later.call() },
  });
  #sort = h("select", { class: "field", "aria-label": "Order", on: { change: () => this.#find() } });
  #body = h("tbody", {});
  #found = h("p", { class: "customers-found quiet", role: "status" });
  #pager = h("span", { class: "pager-text" });
  #previous = iconButton("previous", "Previous page", () => this.#turn(-1));
  #next = iconButton("next", "Next page", () => this.#turn(1));
  #every = h("input", { type: "checkbox", "aria-label": "Select all on this page", on: { change: () => this.#tickPage() } });
  #all = h("button", { type: "button", class: "text-button", on: { click: () => this.#tickFound() } });
  #none = h("button", { type: "button", class: "text-button", text: "Clear selection", on: { click: () => this.#untick() } });
  #table;
  #wrong = h("div", { hidden: true });
  #later = later(() => this.#find(), PAUSE);
  #user = /** @type {string | null} */ (null);
  #sought = /** @type {string | null} */ (null);

  /**
   * @param {App} app
   * @param {{ open: (id: string) => void, change: () => void }} does `change`: something was ticked
   */
  constructor(app, does) {
    [this.#app, this.#does] = [app, does];
    const hasTastes = app.card.has_concepts;
    const [example] = app.card.concepts.filter(({ name }) => name !== null).map(({ label }) => label).sort((one, other) => one.length - other.length);
    this.#search.placeholder = example ? `Id or taste, such as ${example}` : "Find by id";
    this.#table = h(
      "table",
      { class: "customers-table" },
      h("caption", { class: "unseen", text: "Customers" }),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col", class: "customer-tick" }, this.#every),
          h("th", { scope: "col", text: "Customer" }),
          hasTastes && h("th", { scope: "col", text: "Likes" }),
          h("th", { scope: "col", class: "figure", text: "Items" }),
        ),
      ),
      this.#body,
    );
    this.element = h(
      "div",
      { class: "customers-panel" },
      h("div", { class: "panel-head" }, h("h2", { id: "customers-title", text: "Customers" }), h("span", { class: "quiet", text: number(app.card.users) })),
      h("div", { class: "customers-find" }, this.#search, this.#sort),
      this.#found,
      this.#wrong,
      this.#table,
      h("div", { class: "pager" }, this.#none, this.#all, h("span", { class: "pager-pages" }, this.#previous, this.#pager, this.#next)),
    );
    this.#fillOrders();
  }

  show() {
    this.#fillOrders();
    this.#load();
  }

  /** @param {string | null} user the one that the other views show */
  mark(user) {
    this.#user = user;
    for (const row of this.#body.rows) row.classList.toggle("is-current", row.dataset.id === user);
    this.#drawTicks();
  }

  #fillOrders() {
    const { value } = this.#sort;
    append(
      clear(this.#sort),
      h("option", { value: "", text: "As listed" }),
      h("option", { value: "items", text: "Most items" }),
      h("option", { value: "id", text: "By id" }),
      this.#app.card.concepts.map(({ concept, label }) => h("option", { value: `taste:${concept}`, text: `Most ${label}` })),
    );
    this.#sort.value = value;
  }

  #find() {
    this.#offset = 0;
    this.#load();
  }

  /** @param {1 | -1} by */
  #turn(by) {
    this.#offset = Math.max(0, this.#offset + by * PAGE);
    this.#load();
  }

  get #query() {
    return { q: this.#search.value.trim(), sort: this.#sort.value };
  }

  async #load() {
    this.#control.abort();
    this.#control = new AbortController();
    const { signal } = this.#control;
    try {
      const { users, total, taste, compared } = await api.users({ ...this.#query, limit: PAGE, offset: this.#offset }, signal);
      if (signal.aborted) return;
      [this.#users, this.#total, this.#sought] = [users, total, taste?.name ?? null];
      this.#wrong.hidden = true;
      this.#draw(compared ?? null);
    } catch (error) {
      if (signal.aborted) return;
      this.#wrong.hidden = false;
      this.#wrong.replaceChildren(failure(error, () => this.#load()));
    }
  }

  /** @param {number | null} compared */
  #draw(compared) {
    const { q } = this.#query;
    this.#found.textContent = [
      q && (this.#sought ? `${count(this.#total, "customer")} who like ${this.#sought}, most first.` : this.#total ? `${count(this.#total, "customer")} found.` : `No customer has the id or taste “${q}”.`),
      compared !== null && `Only the first ${number(compared)} were compared.`,
    ].filter(Boolean).join(" ");
    this.#found.hidden = !this.#found.textContent;
    this.#table.hidden = !this.#users.length;
    this.#body.replaceChildren(...this.#users.map((user) => this.#row(user)));
    const last = Math.min(this.#offset + this.#users.length, this.#total);
    this.#pager.textContent = this.#total ? `${number(this.#offset + 1)}–${number(last)} of ${number(this.#total)}` : "";
    this.#previous.disabled = this.#offset === 0;
    this.#next.disabled = last >= this.#total;
    this.mark(this.#user);
  }

  /** @param {User} user */
  #row({ id, items, shares, taste }) {
    const { card } = this.#app;
    const name = `Customer ${id}`;
    /** @type {HTMLInputElement} */
    const box = h("input", { type: "checkbox", "aria-label": `Select ${name}`, checked: this.chosen.has(id), on: { change: () => this.#tick(id, box.checked) } });
    return h(
      "tr",
      { "data-id": id },
      h("td", { class: "customer-tick" }, box),
      h("th", { scope: "row" }, h("button", {
        type: "button", class: "customer-open", dir: "auto", text: id, "aria-label": name, title: `Open ${name} in Recommendations`, on: { click: () => this.#does.open(id) },
      })),
      card.has_concepts && h("td", { class: "likes" }, tastes({ shares, taste }, (k) => this.#app.label(k), { sought: this.#sought })),
      h("td", { class: "figure", text: number(items), title: taste === null || this.#sought === null ? "" : `${this.#sought}: ${percent(taste)}` }),
    );
  }

  /** @param {string} id @param {boolean} isOn */
  #tick(id, isOn) {
    if (isOn && this.chosen.size >= MOST) this.#app.toast(`At most ${number(MOST)} customers can be selected`);
    else this.chosen[isOn ? "add" : "delete"](id);
    this.#ticked();
  }

  #tickPage() {
    for (const { id } of this.#users) if (!this.#every.checked || this.chosen.size < MOST) this.chosen[this.#every.checked ? "add" : "delete"](id);
    this.#ticked();
  }

  /** Everybody found, page by page. */
  async #tickFound() {
    this.#all.disabled = true;
    try {
      for (let offset = 0; offset < this.#total && this.chosen.size < MOST; offset += AT_ONCE) {
        const { users } = await api.users({ ...this.#query, limit: AT_ONCE, offset });
        for (const { id } of users) if (this.chosen.size < MOST) this.chosen.add(id);
      }
      if (this.chosen.size >= MOST && this.#total > MOST) this.#app.toast(`Selected the first ${number(MOST)}, which is the limit`);
    } catch (error) {
      this.#app.toast(api.detailOf(error));
    }
    this.#all.disabled = false;
    this.#ticked();
  }

  #untick() {
    this.chosen.clear();
    this.#ticked();
  }

  #ticked() {
    this.#drawTicks();
    this.#does.change();
  }

  #drawTicks() {
    for (const row of this.#body.rows) {
      const box = row.querySelector("input");
      if (box) box.checked = this.chosen.has(row.dataset.id ?? "");
    }
    const here = this.#users.filter(({ id }) => this.chosen.has(id)).length;
    this.#every.checked = here > 0 && here === this.#users.length;
    this.#every.indeterminate = here > 0 && here < this.#users.length;
    this.#none.hidden = this.chosen.size === 0;
    const isNarrow = Boolean(this.#query.q);
    this.#all.hidden = !isNarrow || this.#total === 0;
    this.#all.textContent = `Select ${this.#total === 1 ? "this one" : `all ${number(Math.min(this.#total, MOST))}`}`;
  }
}
