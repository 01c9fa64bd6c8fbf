// @ts-check
// The list of one side of a comparison.

import * as api from "../core/api.js";
import { carriedInWords } from "../core/carried.js";
import { requestOf, rowsOf, shapeOf, whoOf } from "../core/live.js";
import { historyOf } from "../core/panel.js";

/** @import { List, Model, State } from "#types" */
/** @typedef {{ lists: List[], notes: string[], label: (concept: number | null | undefined) => string | null, isOther: boolean }} Answer */

/**
 * @param {State} state
 * @param {Model} card
 * @param {{ beside?: string | null, signal?: AbortSignal }} [options] beside: the run that answers, unless it is the one being served
 * @returns {Promise<Answer | null>} null where the state is about nobody
 */
export async function listOf(state, card, { beside = null, signal } = {}) {
  if (!whoOf(state)) return null;
  const shape = shapeOf(state, card);
  const known = state.user === null ? 0 : (await historyOf(state)).length;
  const answer = await api.recommend({ ...requestOf(state, shape, card, known), ...(beside !== null && { beside }) }, signal);
  const isComplete = !answer.unknown.length && (answer.carried ?? []).every(({ kept }) => kept);
  const names = answer.answered_by?.concepts;
  return {
    lists: rowsOf(answer, shape, false) ?? [{ concept: shape.concept, items: answer.items, moved: null }],
    notes: beside !== null && isComplete ? [] : carriedInWords(answer, state.moves.length, beside === null ? "This was made with another model" : `In “${beside}”`),
    label: (concept) => (names ? names[concept ?? -1] : card.concepts.find((one) => one.concept === concept)?.label) ?? null,
    isOther: Boolean(answer.answered_by),
  };
}
