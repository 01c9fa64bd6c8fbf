// @ts-check
// The list shown, as a table (RFC 4180) and as JSON.

import { changes } from "../picks/changes.js";

/** @import { List, RecommendRequest, Rules } from "#types" */
/** @typedef {Map<string, Record<string, unknown>>} Attributes by item */
/** @typedef {(concept: number | null | undefined) => string | null} Label what to call a concept */

/** So that spreadsheets read UTF-8. */
export const BOM = "\uFEFF";
const FORMULA = /^\s*[=+\-@＝＋－＠]|^[\t\r\n]/u;
const NUMBER = /^[+-]?\d+(\.\d+)?$/;

/**
 * A field. A text that a spreadsheet would take for a formula gets an apostrophe in front.
 * @param {unknown} value
 */
export function field(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = Array.isArray(value) ? value.map(String).join("|") : typeof value === "object" ? JSON.stringify(value) : String(value);
  const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",;\r\n\t]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {unknown[][]} rows */
export const csv = (rows) => rows.map((row) => `${row.map(field).join(",")}\r\n`).join("");

/**
 * Rank, id, title, attributes, group, score and change of every item. Rows of groups have the name of the group.
 * @param {List[]} lists
 * @param {Attributes} attributes
 * @param {Label} label
 */
export function table(lists, attributes, label) {
  const names = [...new Set([...attributes.values()].flatMap((one) => Object.keys(one)))];
  const rows = entries(lists, attributes, label);
  const hasGroups = rows.some(({ group }) => group !== null);
  const own = ["rank", "id", "title", "group", "score", "change"];
  const head = ["rank", "id", "title", ...names.map((name) => (own.includes(name) ? `${name} (attribute)` : name)), ...(hasGroups ? ["group"] : []), "score", "change"];
  return csv([
    head,
    ...rows.map(({ rank, id, title, group, score, change, attributes: of }) => [rank, id, title, ...names.map((name) => of[name]), ...(hasGroups ? [group] : []), score, change]),
  ]);
}

/**
 * @param {List[]} lists
 * @param {Attributes} attributes
 * @param {Label} label
 * @param {{ run: string, run_id: string, user: string | null, history: string[], moves: RecommendRequest["moves"], rules: Rules }} about
 */
export function json(lists, attributes, label, { run, run_id, user, history, moves, rules }) {
  const content = {
    run, run_id, ...(user === null ? { history } : { customer: user }), moves, rules,
    items: entries(lists, attributes, label).map(({ group, change, ...item }) => ({ ...item, ...(group !== null && { group }), ...(change && { change }) })),
  };
  return JSON.stringify(content, null, 2);
}

/**
 * @param {List[]} lists
 * @param {Attributes} attributes
 * @param {Label} label
 */
function entries(lists, attributes, label) {
  return lists.flatMap(({ concept, items, moved }) => {
    const changed = changes(moved);
    return items.map((item, place) => {
      const change = changed.get(item.id);
      return {
        rank: place + 1, id: item.id, title: item.title ?? null, group: label(concept ?? item.concept), score: item.score,
        change: !change ? "" : change.kind === "in" ? "new" : `${change.kind} ${change.by}`, attributes: attributes.get(item.id) ?? {},
      };
    });
  });
}
