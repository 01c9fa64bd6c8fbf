// @ts-check
// Which variations: of an item, along a dimension of its concept.

import * as api from "../core/api.js";
import { historyOf, lookUp } from "../core/panel.js";

/** @import { Concept, Dimension, Item, Model, State, Traversed } from "#types" */
/**
 * @typedef {object} Route
 * @property {Item} item the start
 * @property {Dimension[]} choices
 * @property {Dimension} dimension
 * @property {Traversed} walk
 * @property {Item[]} items of its stops
 */

const FEW = 3;

/**
 * @param {State} state
 * @param {Model} card
 * @param {number} steps
 * @param {string[] | null} hold attributes to keep; null for all that can be
 * @param {AbortSignal} signal
 * @returns {Promise<Route>}
 */
export async function find(state, card, steps, hold, signal) {
  const item = await lookUp(state.walk.item ?? (await firstItem(state)));
  const choices = await dimensionsOf(item, state.walk.dimension, card);
  const dimension = choices.find((one) => one.dimension === state.walk.dimension) ?? choices[0];
  const walk = await api.traverse({ item: item.id, dimension: dimension.dimension, steps, keep_start: true, hold: hold ?? true }, signal);
  const items = await Promise.all(walk.items.map((stop) => lookUp(stop.id)));
  return { item, choices, dimension, walk, items };
}

/**
 * The place of the item that the walk begins at.
 * @param {Route} route
 */
export const startOf = ({ walk }) => Math.max(0, walk.items.findIndex((stop) => stop.start));

/** @param {State} state */
async function firstItem(state) {
  const [first] = await historyOf(state);
  if (first !== undefined) return first;
  const { items } = await api.search({ limit: 1 });
  if (!items.length) throw new api.ApiError(0, "There are no items to vary.");
  return items[0].id;
}

/** @param {Item} item @param {number | null} wanted @param {Model} card */
async function dimensionsOf(item, wanted, card) {
  const concept = card.concepts.find((one) => one.concept === item.concept);
  const choices = concept ? walkable(concept) : [];
  if (choices.length && (wanted === null || choices.some((one) => one.dimension === wanted))) return choices;
  const { dimensions } = await api.dimensions(item.concept ?? 0);
  const extra = dimensions.find((one) => one.dimension === wanted);
  if (extra) return [...choices, extra];
  if (choices.length) return choices;
  if (!dimensions.length) throw new api.ApiError(0, "Nothing is known that could be varied in this group.");
  return dimensions.slice(0, 5);
}

/**
 * Dimensions to walk along: named ones, the strongest first, some without a name where there are few, popularity last.
 * @param {Concept} concept
 */
export function walkable({ dimensions }) {
  const isPopularity = (/** @type {Dimension} */ { attribute }) => attribute === "popularity";
  const strength = (/** @type {Dimension} */ { strength: known, edited }) => known ?? (edited ? 1 : 0);
  const named = dimensions.filter((one) => one.name !== null && !isPopularity(one)).sort((a, b) => strength(b) - strength(a));
  const others = dimensions.filter((one) => one.name === null);
  return [...named, ...others.slice(0, Math.max(0, FEW - named.length)), ...dimensions.filter(isPopularity)];
}
