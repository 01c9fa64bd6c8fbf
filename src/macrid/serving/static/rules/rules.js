// @ts-check
// Filters and rules: what may be listed, what comes first, what is pushed, how varied it is and how much there is of it.

import * as api from "../core/api.js";
import { h } from "../core/dom.js";
import { capital, count, number, percent } from "../core/format.js";
import { N } from "../core/live.js";
import { slider } from "../knobs/knob.js";
import { Chips } from "./chips.js";
import { excluded, pinned, toggleExcluded, togglePin } from "./chosen.js";
import { editor } from "./editor.js";
import { inWords as filterInWords, isFilterable, read, write } from "./filters.js";

/** @import { App, ItemAttribute, Rules } from "#types" */
/** @import { Filter } from "./filters.js" */

const STEP = 0.05;
const MOST_PER_VALUE = 20;
const LARGEST_BOOST = 3; // of the slider; 0.7 makes an item twice as likely
const USUAL_BOOST = 0.7;
const LENGTHS = [6, 12, 24, 48, 96];

/** @param {App} app */
export function create(app) {
  const { store, live } = app;
  /** @type {HTMLInputElement} */
  const where = h("input", {
    class: "field", id: "rule-where", autocomplete: "off", spellcheck: "false", "aria-describedby": "rule-where-error",
    on: { change: () => step({ where: where.value.trim() || undefined }) },
  });
  const wrong = h("p", { class: "rule-error", id: "rule-where-error", role: "alert", hidden: true });
  const filters = h("div", { class: "filters" });
  /** @type {HTMLSelectElement} */
  const add = h("select", { class: "field", "aria-label": "Add a filter", on: { change: () => open(add) } });
  const boosts = h("div", { class: "filters" });
  /** @type {HTMLSelectElement} */
  const push = h("select", { class: "field", "aria-label": "Add a boost", on: { change: () => openBoost() } });
  const diversity = slider({ min: 0, max: 1, step: STEP, id: "rule-diversity" }, {
    drag: (value) => store.drag({ rules: changed(varied(value)) }),
    drop: (value) => step(varied(value), "diversity"),
  });
  const cost = h("span", { class: "quiet", role: "status" });
  /** @type {HTMLSelectElement} */
  const by = h("select", { class: "field", id: "rule-by", on: { change: () => step({ diversity_by: by.value ? [by.value] : undefined }) } });
  const most = h("input", {
    class: "field", id: "rule-most", type: "number", min: 1, max: MOST_PER_VALUE, step: 1, placeholder: "any",
    on: { change: () => step({ at_most: limit() }) },
  });
  /** @type {HTMLSelectElement} */
  const per = h("select", { class: "field", "aria-label": "Attribute of the limit", on: { change: () => step({ at_most: limit() }) } });
  /** @type {HTMLSelectElement} */
  const length = h("select", { class: "field", id: "rule-n", on: { change: () => store.step({ n: Number(length.value) === N ? null : Number(length.value) }) } });
  const reset = h("button", { type: "button", class: "text-button", text: "Clear rules", on: { click: () => store.step({ rules: {}, n: null }) } });
  const pins = new Chips(app, "Pinned", "Unpin", (id) => togglePin(app, id));
  const out = new Chips(app, "Not these", "Allow", (id) => toggleExcluded(app, id));
  const only = h("p", { class: "rule", hidden: true });
  const amountShown = h("span", { class: "rule-amount" });
  const summary = h("span", { class: "rules-told" });
  /** @type {HTMLDetailsElement} */
  const element = h(
    "details",
    { class: "rules", on: { toggle: () => element.open && fill() } },
    h("summary", {}, h("span", { class: "rules-title", text: "Filters and rules" }), summary),
    filters,
    h("div", { class: "rule-row" },
      h("div", { class: "rule" }, h("span", { class: "rule-label", text: "Only items with" }), add),
      h("div", { class: "rule" }, h("span", { class: "rule-label", text: "Push, or hold back" }), push),
      h("div", { class: "rule" }, h("label", { for: "rule-n", text: "How many" }), length)),
    boosts,
    h(
      "div",
      { class: "rule-row" },
      h("div", { class: "rule" }, h("div", { class: "rule-head" }, h("label", { for: "rule-diversity", text: "Variety" }), amountShown), diversity.input, cost),
      h("div", { class: "rule" }, h("label", { for: "rule-by", text: "Variety of" }), by),
      h("div", { class: "rule" }, h("label", { for: "rule-most", text: "At most" }), h("div", { class: "rule-most" }, most, h("span", { text: "per" }), per)),
    ),
    pins.element,
    out.element,
    only,
    h("details", { class: "evidence" }, h("summary", { text: "Details" }), h("div", { class: "rule" }, h("label", { for: "rule-where", text: "Only items where" }), where)),
    wrong,
    reset,
  );
  /** @type {ItemAttribute[] | null} */
  let attributes = null;
  /** @type {Filter | null} One that was added and says nothing yet. */
  let fresh = null;
  let drawn = "";

  /** @param {number} value */
  const varied = (value) => ({ diversity: value > 0 ? Number(value.toFixed(2)) : undefined });

  /** @param {Rules} patch @returns {Rules} without what is undefined */
  const changed = (patch) => JSON.parse(JSON.stringify({ ...store.get().rules, ...patch }));

  /** @param {Rules} patch @param {string} [key] */
  function step(patch, key) {
    store.step({ rules: changed(patch) }, key);
  }

  function limit() {
    const items = Math.min(Math.floor(Number(most.value)), MOST_PER_VALUE);
    return items >= 1 && per.value ? { [per.value]: items } : undefined;
  }

  /** @param {HTMLSelectElement} select */
  function open(select) {
    if (select.value) fresh = { name: select.value };
    select.value = "";
    drawFilters();
    filters.querySelector(`[data-name="${CSS.escape(fresh?.name ?? "")}"]`)?.querySelector(/** @type {"button"} */ ("button.tick, input, .segments button"))?.focus();
  }

  /** @param {Filter} filter */
  function setFilter(filter) {
    const { filters: known, rest } = read(store.get().rules.where);
    const isEmpty = write({ filters: [filter], rest: null }) === undefined;
    fresh = isEmpty ? filter : null;
    const others = known.filter(({ name }) => name !== filter.name);
    const at = known.findIndex(({ name }) => name === filter.name);
    step({ where: write({ filters: isEmpty ? others : others.toSpliced(at < 0 ? others.length : at, 0, filter), rest }) });
    if (isEmpty) drawFilters();
  }

  /** @param {string} name */
  function removeFilter(name) {
    const { filters: known, rest } = read(store.get().rules.where);
    if (fresh?.name === name) fresh = null;
    if (known.some((one) => one.name === name)) step({ where: write({ filters: known.filter((one) => one.name !== name), rest }) });
    else drawFilters();
  }

  function drawFilters() {
    const { filters: known } = read(store.get().rules.where);
    const shown = fresh && !known.some(({ name }) => name === fresh?.name) ? [...known, fresh] : known;
    const list = store.get().rules.boosts ?? [];
    const key = JSON.stringify([shown, list, attributes?.length]);
    if (key === drawn) return;
    drawn = key;
    const focused = document.activeElement instanceof HTMLElement ? { name: document.activeElement.closest("[data-name]")?.getAttribute("data-name"), value: document.activeElement.dataset.value } : null;
    filters.replaceChildren(...shown.flatMap((filter) => {
      const attribute = attributes?.find(({ name }) => name === filter.name);
      return attribute && isFilterable(attribute) ? editor(attribute, filter, { change: setFilter, remove: () => removeFilter(filter.name) }) : [];
    }));
    boosts.replaceChildren(...list.flatMap(({ where: condition, amount }, at) => boost(condition, amount, at)));
    if (focused?.name && focused.value) {
      /** @type {HTMLElement | null} */ (filters.querySelector(`[data-name="${CSS.escape(focused.name)}"] [data-value="${CSS.escape(focused.value)}"]`))?.focus();
    }
  }

  /** @param {string} condition @param {number} amount @param {number} at */
  function boost(condition, amount, at) {
    const list = store.get().rules.boosts ?? [];
    const { filters: [filter], rest } = read(condition);
    const attribute = attributes?.find(({ name }) => name === filter?.name);
    const set = (/** @type {{ where: string, amount: number } | null} */ one, /** @type {string} */ key = "") =>
      step({ boosts: some(one ? list.with(at, one) : list.toSpliced(at, 1)) }, key || undefined);
    const shown = h("span", { class: "rule-amount", text: inAmount(amount) });
    const strength = slider({ min: -LARGEST_BOOST, max: LARGEST_BOOST, step: 0.1, value: amount, "aria-label": `How strongly: ${condition}` }, {
      drag: (value) => {
        shown.textContent = inAmount(value);
        strength.fill(0.5, (value + LARGEST_BOOST) / (2 * LARGEST_BOOST));
        store.drag({ rules: changed({ boosts: list.with(at, { where: condition, amount: value }) }) });
      },
      drop: (value) => set({ where: condition, amount: value }, `boost-${at}`),
    });
    strength.fill(0.5, (amount + LARGEST_BOOST) / (2 * LARGEST_BOOST));
    const control = h("div", { class: "boost-amount" }, strength.input, shown);
    if (!filter || rest || !attribute || !isFilterable(attribute)) {
      return h("div", { class: "filter" }, h("div", { class: "filter-head" }, h("span", { class: "filter-name", text: condition }),
        h("button", { type: "button", class: "text-button", text: "Remove", on: { click: () => set(null) } })), control);
    }
    return h("div", { class: "boost" }, editor(attribute, filter, {
      change: (next) => set({ where: write({ filters: [next], rest: null }) ?? condition, amount }),
      remove: () => set(null),
    }, h("span", { class: "quiet", text: "pushed" })), control);
  }

  function openBoost() {
    const attribute = attributes?.find(({ name }) => name === push.value);
    push.value = "";
    if (!attribute) return;
    const condition = write({ filters: [start(attribute)], rest: null });
    if (condition) step({ boosts: [...(store.get().rules.boosts ?? []), { where: condition, amount: USUAL_BOOST }] });
  }

  /** Ask once what rules can be about. */
  async function fill() {
    if (attributes) return;
    try {
      ({ attributes } = await api.attributes());
    } catch (error) {
      app.toast(api.detailOf(error));
      return;
    }
    const known = attributes.filter(({ kind, name }) => kind !== "id" && name !== "title");
    const filterable = known.filter(isFilterable).map(({ name }) => name);
    const groups = known.filter(({ values }) => values.length > 1).map(({ name }) => name);
    const concept = app.card.has_concepts && !groups.includes("concept") ? ["concept"] : [];
    add.replaceChildren(h("option", { value: "", text: "Add a filter…" }), ...options(filterable));
    push.replaceChildren(h("option", { value: "", text: "Add a boost…" }), ...options(filterable));
    by.replaceChildren(h("option", { value: "", text: "everything" }), ...options(known.map(({ name }) => name)));
    per.replaceChildren(...options([...groups, ...concept]));
    drawChoices();
    drawFilters();
  }

  function drawChoices() {
    if (!attributes) return;
    const { diversity_by, at_most } = store.get().rules;
    const [attribute] = Object.keys(at_most ?? {});
    by.value = diversity_by?.[0] ?? "";
    if (attribute) per.value = attribute;
    const n = store.get().n ?? N;
    length.replaceChildren(...[...new Set([...LENGTHS, n])].sort((a, b) => a - b).map((value) => h("option", { value, text: String(value), selected: value === n })));
  }

  function draw() {
    const { rules, n } = store.get();
    where.value = rules.where ?? "";
    const amount = rules.diversity ?? 0;
    diversity.input.value = String(amount);
    diversity.input.setAttribute("aria-valuetext", amount ? number(amount) : "off");
    diversity.fill(0, amount);
    amountShown.textContent = amount ? number(amount) : "off";
    by.disabled = !amount;
    most.value = String(Object.values(rules.at_most ?? {})[0] ?? "");
    drawChoices();
    drawFilters();
    pins.draw(pinned(rules));
    out.draw(excluded(rules));
    drawOnly(rules);
    summary.textContent = inWords(rules, n);
    reset.disabled = !Object.keys(rules).length && n === null;
    drawAnswer();
  }

  /** A segment, or any list of items to choose from. @param {Rules} rules */
  function drawOnly({ include }) {
    only.hidden = !include;
    only.replaceChildren(
      h("span", { class: "rule-label", text: `Only ${count(include?.length ?? 0, "chosen item")} ` }),
      h("button", { type: "button", class: "text-button", text: "Allow all", on: { click: () => step({ include: undefined }) } }),
    );
  }

  /** What the service says about the rules; leaves alone what somebody may be typing. */
  function drawAnswer() {
    const { rulesError, diversity: paid } = live;
    const amount = store.get().rules.diversity ?? 0;
    wrong.textContent = rulesError ?? "";
    wrong.hidden = !rulesError;
    where.setAttribute("aria-invalid", String(Boolean(rulesError)));
    cost.textContent = amount && paid ? `keeps ${percent(paid.kept)} of the items; similarity ${paid.similarity_without.toFixed(2)} → ${paid.similarity.toFixed(2)}` : "";
    if (rulesError) element.open = true;
  }

  store.subscribe((_, names) => (names.includes("rules") || names.includes("n")) && draw());
  live.subscribe((parts) => parts.includes("lists") && drawAnswer());
  draw();
  return element;
}

/** @param {string[]} names */
const options = (names) => names.map((name) => h("option", { value: name, text: capital(name) }));

/** @template T @param {T[]} list @returns {T[] | undefined} */
const some = (list) => (list.length ? list : undefined);

/** @param {number} amount */
const inAmount = (amount) => (amount === 0 ? "no push" : `× ${number(Number(Math.exp(amount).toPrecision(2)))}`);

/** A boost to begin with: yes; the most frequent value; the upper half. @param {ItemAttribute} attribute @returns {Filter} */
function start({ name, kind, values, middle, high }) {
  if (kind === "boolean") return { name, truth: true };
  if (kind === "text") return { name, values: [values[0].value] };
  return { name, low: String(middle ?? high ?? 0) };
}

/** @param {Rules} rules @param {number | null} n */
export function inWords({ where, diversity, diversity_by, at_most, pins, exclude, include, boosts, ...others }, n) {
  const { filters, rest } = read(where);
  const limits = Object.entries(at_most ?? {}).map(([attribute, most]) => `at most ${most} per ${attribute}`);
  const variety = diversity ? [`variety ${diversity}${diversity_by?.length ? ` of ${[diversity_by].flat().join(", ")}` : ""}`] : [];
  const chosen = [[pinned({ pins }).length, "pinned"], [excluded({ exclude }).length, "excluded"], [boosts?.length ?? 0, "pushed"]].flatMap(([items, what]) => (items ? `${items} ${what}` : []));
  return [
    ...filters.map(filterInWords), ...(rest ? [rest] : []), ...(include ? [`only ${count(include.length, "chosen item")}`] : []),
    ...variety, ...limits, ...chosen, ...(n === null ? [] : [`${n} items`]), ...Object.keys(others),
  ].join(" · ");
}
