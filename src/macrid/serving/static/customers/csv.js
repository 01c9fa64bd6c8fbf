// @ts-check
// The result for each customer as a table (RFC 4180).

/** @import { CohortUser } from "#types" */

const HEAD = ["customer", "items in the history", "recommendations", "new recommendations", "accuracy before", "accuracy after", "change of accuracy"];

/** @param {CohortUser[]} rows */
export function table(rows) {
  const lines = rows.map(({ id, items, length, new: fresh, before, after }) => [
    id, items, length, fresh, before ?? "", after ?? "", typeof before === "number" && typeof after === "number" ? after - before : "",
  ]);
  return [HEAD, ...lines].map((line) => `${line.map(field).join(",")}\r\n`).join("");
}

/** A text that a spreadsheet would take for a formula gets an apostrophe in front. @param {string | number} value */
function field(value) {
  if (typeof value === "number") return String(Number(value.toFixed(6)));
  const safe = /^[\s]*[=+\-@]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
  return /[",;\r\n\t]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
