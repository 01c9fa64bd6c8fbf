// @ts-check
// Items that rules name: pinned to the top, or never listed.

/** @import { App, Rules } from "#types" */

/** @param {Rules} rules @returns {string[]} by rank */
export function pinned({ pins }) {
  if (Array.isArray(pins)) return pins.map(String);
  return Object.entries(pins ?? {}).sort(([, one], [, other]) => one - other).map(([id]) => id);
}

/** @param {Rules} rules @returns {string[]} */
export const excluded = ({ exclude }) => (Array.isArray(exclude) ? exclude.map(String) : []);

/** @param {Rules} rules @param {string} id @returns {Rules} with the item after the other pins, and allowed */
export function withPin(rules, id) {
  if (pinned(rules).includes(id)) return rules;
  const { pins } = rules;
  const places = pins && !Array.isArray(pins) ? { ...pins, [id]: freeRank(Object.values(pins)) } : [...pinned(rules), id];
  return { ...allowed(rules, id), pins: places };
}

/** @param {Rules} rules @param {string} id @returns {Rules} */
export function withoutPin({ pins, ...rules }, id) {
  const others = pinned({ pins }).filter((other) => other !== id);
  if (!others.length) return rules;
  return { ...rules, pins: Array.isArray(pins) ? others : Object.fromEntries(others.map((other) => [other, pins?.[other] ?? 1])) };
}

/** @param {Rules} rules @param {string} id @returns {Rules} with the item never listed */
export const withExcluded = (rules, id) => ({ ...withoutPin(rules, id), exclude: [...new Set([...excluded(rules), id])] });

/** @param {Rules} rules @param {string} id @returns {Rules} */
export function allowed({ exclude, ...rules }, id) {
  const others = excluded({ exclude }).filter((other) => other !== id);
  return others.length ? { ...rules, exclude: others } : rules;
}

/** @param {number[]} taken @returns {number} the first that is free, from 1 */
const freeRank = (taken, rank = 1) => (taken.includes(rank) ? freeRank(taken, rank + 1) : rank);

/** @param {App} app @param {string} id */
export const isPinned = (app, id) => pinned(app.store.get().rules).includes(id);

/** @param {App} app @param {string} id */
export const isExcluded = (app, id) => excluded(app.store.get().rules).includes(id);

/** @param {App} app @param {string} id */
export function togglePin(app, id) {
  const { rules } = app.store.get();
  app.store.step({ rules: (isPinned(app, id) ? withoutPin : withPin)(rules, id) });
}

/** @param {App} app @param {string} id */
export function toggleExcluded(app, id) {
  const { rules } = app.store.get();
  const wasExcluded = isExcluded(app, id);
  app.store.step({ rules: (wasExcluded ? allowed : withExcluded)(rules, id) });
  if (!wasExcluded) app.toast("No longer recommended", { undo: app.store.undo });
}
