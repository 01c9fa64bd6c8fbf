// @ts-check
// The second step: what was understood of the file, to be corrected, and how to train on it.

import { h, segments } from "../core/dom.js";
import { count, number, plain } from "../core/format.js";
import { ACCEPT } from "./choose.js";
import { read, removeItems } from "./service.js";
import { leftOut } from "./words.js";

/** @import { ExaminedFile, Training } from "./service.js" */
/** @import { components } from "#openapi" */
/** @typedef {components["schemas"]["TrainRequest"]} TrainRequest */
/**
 * @typedef {{
 *   take: (status: Training) => void,
 *   send: (file: File) => void,
 *   again: () => void,
 *   start: (options: TrainRequest) => void,
 *   fail: (error: unknown) => void,
 * }} Does
 */

/** @typedef {"user" | "item" | "rating"} Role */

const ROLES = /** @type {[Role, string][]} */ ([["user", "Customer"], ["item", "Item"], ["rating", "Rating"]]);
const KINDS = { number: "numbers", text: "text", date: "dates", "yes or no": "yes or no", list: "lists", empty: "empty" };

/** Kept while the step is drawn again: how to train, which says nothing about the file. */
const chosen = { groups: "", effort: /** @type {"best" | "quick"} */ ("best") };

/** @param {Training} now @param {Does} does */
export function checkStep(now, does) {
  const { files, choice } = now;
  const understood = /** @type {ExaminedFile} */ (now.understood);
  const minRating = typeof choice.min_rating === "number" ? choice.min_rating : null;
  const section = h("section", { class: "training-check" });

  const again = async (/** @type {Partial<Record<Role, string | null>>} */ columns, /** @type {number | null} */ threshold) => {
    section.classList.add("is-reading");
    section.setAttribute("aria-busy", "true");
    const { user = null, item = null, rating = null } = { ...understood.roles, ...columns };
    try {
      does.take(await read({ columns: { user, item, rating }, min_rating: rating === null ? null : threshold }));
    } catch (error) {
      does.fail(error);
    }
  };

  section.append(
    h("h3", { dir: "auto" }, files.events, h("span", { class: "quiet" }, ` ${understood.format}, ${count(understood.columns_total, "column")}`)),
    ...messages(understood),
    h(
      "div",
      { class: "training-roles" },
      ROLES.map(([role, label]) => roleField(understood, role, label, (column) => again({ [role]: column }, minRating))),
      thresholdField(understood, minRating, (threshold) => again({}, threshold)),
    ),
    ...counts(understood, minRating),
    preview(understood),
    itemsField(files.items ?? null, understood, does),
    h("div", { class: "training-options" }, groupsField(), effortField()),
    h(
      "p",
      { class: "training-foot" },
      h("button", { type: "button", class: "text-button", text: "Choose another file", on: { click: does.again } }),
      h("button", {
        type: "button", class: "button primary", disabled: !understood.can_train,
        on: { click: () => does.start({ concepts: chosen.groups === "" ? "auto" : Number(chosen.groups), effort: chosen.effort }) },
      }, "Start training"),
    ),
  );
  return section;
}

/** @param {ExaminedFile} understood */
function messages({ problems, warnings }) {
  return [
    problems.length > 0 && h(
      "div",
      { class: "training-problem", role: "alert" },
      h("strong", { text: problems.length === 1 ? "This has to be put right first:" : "These have to be put right first:" }),
      h("ul", {}, problems.map((text) => h("li", { dir: "auto", text }))),
    ),
    warnings.length > 0 && h("ul", { class: "training-warnings" }, warnings.map((text) => h("li", { dir: "auto", text }))),
  ].filter((part) => part !== false);
}

/**
 * @param {ExaminedFile} understood
 * @param {Role} role
 * @param {string} label
 * @param {(column: string | null) => void} choose
 */
function roleField({ columns, roles }, role, label, choose) {
  const id = `role-${role}`;
  const now = roles[role] ?? "";
  /** @type {HTMLSelectElement} */
  const select = h(
    "select",
    { id, class: "field", on: { change: () => choose(select.value === "" ? null : columns[Number(select.value)].name) } },
    h("option", { value: "", text: role === "rating" ? "none" : "choose …", selected: now === "" }),
    columns.map(({ name, examples }, i) =>
      h("option", { value: String(i), selected: name === now }, examples.length ? `${name} (${examples.slice(0, 2).join(", ")})` : name)),
  );
  return h("div", { class: "training-field" }, h("label", { for: id, text: label }), select);
}

/**
 * @param {ExaminedFile} understood
 * @param {number | null} now
 * @param {(threshold: number | null) => void} choose
 */
function thresholdField({ ratings }, now, choose) {
  if (!ratings) return null;
  const id = "min-rating";
  if (!ratings.values.length) {
    /** @type {HTMLInputElement} */
    const input = h("input", {
      id, class: "field", type: "number", step: "any", value: now ?? "", placeholder: "every row",
      on: { change: () => choose(input.value === "" ? null : Number(input.value)) },
    });
    return h("div", { class: "training-field" }, h("label", { for: id, text: `Count ratings from (${plain(ratings.lowest)} to ${plain(ratings.highest)})` }), input);
  }
  const above = ratings.values.slice(1).map(({ value }) => value);
  /** @type {HTMLSelectElement} */
  const select = h(
    "select",
    { id, class: "field", on: { change: () => choose(select.value === "" ? null : Number(select.value)) } },
    h("option", { value: "", text: "every row", selected: now === null }),
    above.map((value) => h("option", { value, selected: value === now }, value === above.at(-1) ? `only ${plain(value)}` : `${plain(value)} or more`)),
  );
  return h("div", { class: "training-field" }, h("label", { for: id, text: "Count ratings of" }), select);
}

/** @param {ExaminedFile} understood @param {number | null} minRating */
function counts({ counts: found }, minRating) {
  if (!found) return [];
  const out = leftOut(found, minRating);
  const facts = [[found.kept_users, "customer"], [found.kept_items, "item"], [found.kept_rows, "choice"]];
  return [
    h(
      "dl",
      { class: "training-counts" },
      facts.map(([n, name]) => h("div", {}, h("dt", { text: Number(n) === 1 ? name : `${name}s` }), h("dd", { text: number(Number(n)) }))),
    ),
    h("p", { class: "quiet" }, `From ${count(found.rows, "row")}${out.length ? `. Left out: ${out.join("; ")}.` : "; nothing is left out."}`),
  ];
}

/** @param {ExaminedFile} understood */
function preview({ columns, columns_total: total, preview: rows, roles }) {
  const roleOf = new Map([[roles.time, "time, not used"], ...ROLES.map(([role, label]) => /** @type {[string | null | undefined, string]} */ ([roles[role], label]))]);
  const shown = columns.map((column, at) => ({ ...column, at })).filter(({ name, at }) => at < 8 || roleOf.has(name));
  return h(
    "div",
    { class: "training-preview", role: "region", "aria-label": "First rows", tabindex: "0" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, shown.map(({ name, kind }) =>
        h("th", { scope: "col" }, h("span", { class: "column-name", dir: "auto", text: name }), h("span", { class: "column-kind", text: roleOf.get(name) ?? KINDS[kind] }))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, shown.map(({ at }) => h("td", { dir: "auto", text: row[at] ?? "" }))))),
    ),
    total > shown.length && h("p", { class: "quiet", text: `and ${count(total - shown.length, "more column", "more columns")}` }),
  );
}

/**
 * @param {string | null} file
 * @param {ExaminedFile} understood
 * @param {Does} does
 */
function itemsField(file, { items }, does) {
  const remove = async () => {
    try {
      does.take(await removeItems());
    } catch (error) {
      does.fail(error);
    }
  };
  /** @type {HTMLInputElement} */
  const input = h("input", {
    type: "file", class: "unseen", accept: ACCEPT,
    on: { change: () => input.files?.[0] && does.send(input.files[0]) },
  });
  const has = items && [items.has_titles ? "titles" : "no titles", items.attributes.length ? count(items.attributes.length, "attribute") : "no attributes"].join(", ");
  return h(
    "div",
    { class: "training-items" },
    h("h3", { text: "Titles and attributes of the items" }),
    file === null
      ? h("p", { class: "quiet", text: "Optional: a table with one row per item, whose columns become names, filters and sliders." })
      : h("p", {}, h("span", { dir: "auto", text: file }), h("span", { class: "quiet", text: has ? ` ${has}` : "" })),
    items && items.notes.length > 0 && h("ul", { class: "training-warnings" }, items.notes.map((text) => h("li", { dir: "auto", text }))),
    h(
      "p",
      { class: "training-line" },
      h("label", { class: "button file-button" }, input, file === null ? "Add a table of items" : "Choose another"),
      file !== null && h("button", { type: "button", class: "text-button", text: "Remove", on: { click: remove } }),
    ),
  );
}

function groupsField() {
  const input = h("input", {
    id: "groups", class: "field", type: "number", min: 1, max: 1024, step: 1, placeholder: "automatic", value: chosen.groups,
    on: {
      change: () => {
        const wanted = Math.round(Number(input.value));
        chosen.groups = input.value === "" || !(wanted >= 1) ? "" : String(Math.min(1024, wanted));
        input.value = chosen.groups;
      },
    },
  });
  return h("div", { class: "training-field" }, h("label", { for: "groups", text: "Groups of items" }), input);
}

function effortField() {
  const choose = (/** @type {"best" | "quick"} */ effort) => {
    chosen.effort = effort;
    buttons.select(effort);
    hint.textContent = effort === "best" ? "Until it no longer improves, then compared with simple methods." : "At most 30 passes: a first look.";
  };
  const hint = h("p", { class: "quiet" });
  const buttons = segments("How thorough", [["best", "Thorough"], ["quick", "Quick"]], choose);
  choose(chosen.effort);
  return h("div", { class: "training-field" }, h("span", { class: "training-label", text: "How thorough" }), buttons.element, hint);
}
