// @ts-check
// The result for each customer as a table.

import { csv } from "../share/csv.js";

/** @import { CohortUser } from "#types" */

const HEAD = ["customer", "items in the history", "recommendations", "new recommendations", "accuracy before", "accuracy after", "change of accuracy"];

/** @param {CohortUser[]} rows */
export function table(rows) {
  return csv([HEAD, ...rows.map(({ id, items, length, new: fresh, before, after }) => {
    const change = typeof before === "number" && typeof after === "number" ? after - before : null;
    return [id, items, length, fresh, ...[before, after, change].map((value) => (typeof value === "number" ? Number(value.toFixed(6)) : null))];
  })]);
}
