// @ts-check
// Moves: at most one for each slider, the newest last.

/** @import { Move, Recommended } from "#types" */
/** @typedef {{ concept?: number, dimension?: number, towards?: string }} Slider of a share where there is only a concept */

/** @param {Move[]} moves @param {Slider} slider */
export const moveOf = (moves, { concept, dimension, towards }) =>
  moves.find((move) => move.concept === concept && move.dimension === dimension && move.towards === towards);

/** @param {Move[]} moves @param {Slider} slider */
export const without = (moves, slider) => moves.filter((move) => move !== moveOf(moves, slider));

/** @param {Move[]} moves @param {Move} move */
export const withMove = (moves, move) => [...without(moves, move), { ...move, ...identityOf(moveOf(moves, move)) }];

/**
 * Whether they do the same, along whatever axes.
 * @param {Move[]} one
 * @param {Move[]} other
 */
export const isSame = (one, other) => keyOf(one) === keyOf(other);

/** @param {Move[]} moves */
export const keyOf = (moves) => JSON.stringify(moves.map(({ concept, dimension, to, share, towards, amount }) => [concept, dimension, to, share, towards, amount]));

/**
 * The moves that an answer says were applied, with their axes and names.
 * @param {Recommended} answer
 * @param {Move[]} asked
 * @returns {Move[]}
 */
export function applied(answer, asked) {
  if (!answer.moves) return asked;
  /** @type {Move[]} */
  const moves = [];
  for (const { concept, dimension, to, share, towards, amount, ...identity } of answer.moves) {
    if (typeof towards === "string" && typeof amount === "number") moves.push({ towards, amount });
    else if (typeof concept !== "number") continue;
    else if (typeof share === "number") moves.push({ concept, share, ...identityOf(identity) });
    else if (typeof dimension === "number" && typeof to === "number") moves.push({ concept, dimension, to, ...identityOf(identity) });
  }
  return moves;
}

/** @param {{ axis?: string | null, name?: string | null, concept_name?: string | null } | undefined} move */
const identityOf = (move) => ({
  ...(move?.axis && { axis: move.axis }),
  ...(move?.name && { name: move.name }),
  ...(move?.concept_name && { concept_name: move.concept_name }),
});
