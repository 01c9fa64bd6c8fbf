// @ts-check
// Rules: what may be listed, how varied it is, how many of a kind there are, and what comes first.

import * as api from "../core/api.js";
import { h } from "../core/dom.js";
import { number, percent } from "../core/format.js";
import { slider } from "../knobs/knob.js";
import { Chips } from "./chips.js";
import { excluded, pinned, toggleExcluded, togglePin } from "./chosen.js";

/** @import { App, ItemAttribute, Rules } from "#types" */

const STEP = 0.05;
const MOST_EXAMPLES = 6;
const MOST_PER_VALUE = 20;

/** @param {App} app */
export function create(app) {
  const { store, live } = app;
  /** @type {HTMLInputElement} */
  const where = h("input", {
    class: "field", id: "rule-where", autocomplete: "off", spellcheck: "false", "aria-describedby": "rule-where-error",
    on: { change: () => step({ where: where.value.trim() || undefined }) },
  });
  const wrong = h("p", { class: "rule-error", id: "rule-where-error", role: "alert", hidden: true });
  const examples = h("p", { class: "rule-examples quiet" });
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
  const reset = h("button", { type: "button", class: "text-button", text: "Clear rules", on: { click: () => store.step({ rules: {} }) } });
  const pins = new Chips(app, "Pinned", "Unpin", (id) => togglePin(app, id));
  const out = new Chips(app, "Not these", "Allow", (id) => toggleExcluded(app, id));
  const amountShown = h("span", { class: "rule-amount" });
  const told = h("span", { class: "rules-told" });
  /** @type {HTMLDetailsElement} */
  const element = h(
    "details",
    { class: "rules", on: { toggle: () => element.open && fill() } },
    h("summary", {}, h("span", { class: "rules-title", text: "Rules" }), told),
    h("div", { class: "rule" }, h("label", { for: "rule-where", text: "Only items where" }), where, wrong, examples),
    h(
      "div",
      { class: "rule-row" },
      h("div", { class: "rule" }, h("div", { class: "rule-head" }, h("label", { for: "rule-diversity", text: "Diversity" }), amountShown), diversity.input, cost),
      h("div", { class: "rule" }, h("label", { for: "rule-by", text: "Diversity by" }), by),
      h("div", { class: "rule" }, h("label", { for: "rule-most", text: "At most" }), h("div", { class: "rule-most" }, most, h("span", { text: "per" }), per)),
    ),
    pins.element,
    out.element,
    reset,
  );
  /** @type {ItemAttribute[] | null} */
  let attributes = null;

  /** @param {number} value */
  const varied = (value) => ({ diversity: value > 0 ? Number(value.toFixed(2)) : undefined });

  /** @param {Rules} patch @returns {Rules} without what is undefined */
  const changed = (patch) => JSON.parse(JSON.stringify({ ...store.get().rules, ...patch }));

  /** @param {Rules} patch @param {string} [key] */
  function step(patch, key) {
    store.step({ rules: changed(patch) }, key);
  }

  function limit() {
    const count = Math.min(Math.floor(Number(most.value)), MOST_PER_VALUE);
    return count >= 1 && per.value ? { [per.value]: count } : undefined;
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
    const groups = known.filter(({ values }) => values.length > 1).map(({ name }) => name);
    const kinds = known.map(({ name }) => name);
    const concept = app.card.has_concepts && !groups.includes("concept") ? ["concept"] : [];
    by.replaceChildren(h("option", { value: "", text: "item vectors" }), ...options(kinds));
    per.replaceChildren(...options([...groups, ...concept]));
    examples.replaceChildren(
      ...known.flatMap((attribute) => example(attribute) ?? []).slice(0, MOST_EXAMPLES).map((text) =>
        h("button", { type: "button", class: "rule-example", text, title: "Add this condition", on: { click: () => step({ where: together(where.value.trim(), text) }) } }),
      ),
    );
    drawChoices();
  }

  function drawChoices() {
    const { diversity_by, at_most } = store.get().rules;
    const [attribute] = Object.keys(at_most ?? {});
    by.value = diversity_by?.[0] ?? "";
    if (attribute) per.value = attribute;
  }

  function draw() {
    const { rules } = store.get();
    where.value = rules.where ?? "";
    const amount = rules.diversity ?? 0;
    diversity.input.value = String(amount);
    diversity.input.setAttribute("aria-valuetext", amount ? number(amount) : "off");
    diversity.fill(0, amount);
    amountShown.textContent = amount ? number(amount) : "off";
    by.disabled = !amount;
    most.value = String(Object.values(rules.at_most ?? {})[0] ?? "");
    drawChoices();
    pins.draw(pinned(rules));
    out.draw(excluded(rules));
    told.textContent = inWords(rules);
    reset.disabled = !Object.keys(rules).length;
    drawAnswer();
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

  store.subscribe((_, names) => names.includes("rules") && draw());
  live.subscribe((parts) => parts.includes("lists") && drawAnswer());
  draw();
  return element;
}

/** @param {string[]} names */
const options = (names) => names.map((name) => h("option", { value: name, text: name }));

/** @param {string} condition @param {string} other */
const together = (condition, other) => (!condition ? other : / or /i.test(condition) ? `(${condition}) and ${other}` : `${condition} and ${other}`);

/** @param {ItemAttribute} attribute @returns {string | null} a condition about it */
function example({ name, kind, low, middle, values }) {
  const quoted = /^[^\W\d][\w.-]*$/.test(name) ? name : `\`${name}\``;
  if (kind === "number" && typeof middle === "number") return `${quoted} < ${Math.abs(middle) > 10 ? Math.round(middle) : Number(middle.toPrecision(2))}`;
  if (kind === "date") return `${quoted} >= '${low}'`;
  if (kind === "boolean") return `${quoted} = true`;
  return kind === "text" && values.length ? `${quoted} = '${values[0].value.replaceAll("'", "''")}'` : null;
}

/** @param {Rules} rules */
function inWords({ where, diversity, diversity_by, at_most, pins, exclude, ...others }) {
  const limits = Object.entries(at_most ?? {}).map(([attribute, count]) => `at most ${count} per ${attribute}`);
  const variety = diversity ? [`diversity ${diversity}${diversity_by?.length ? ` by ${[diversity_by].flat().join(", ")}` : ""}`] : [];
  const chosen = [[pinned({ pins }).length, "pinned"], [excluded({ exclude }).length, "excluded"]].flatMap(([count, what]) => (count ? `${count} ${what}` : []));
  return [...(where ? [where] : []), ...variety, ...limits, ...chosen, ...Object.keys(others)].join(" · ");
}
