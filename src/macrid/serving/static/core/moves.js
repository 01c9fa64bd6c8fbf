// @ts-check
// Moves: at most one for each slider, the newest last.

import { capital, percent } from "./format.js";

/** @import { Model, Move, Recommended } from "#types" */
/** @typedef {{ concept?: number, dimension?: number, towards?: string }} Slider of a share where there is only a concept */

export const FURTHEST = 2; // of a slider for more or less of something, in halves of the range of real users: from anywhere, it leads to the end

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

/**
 * "Less Horror, 50 %"; "Older, 20 %"; "40 % from bags"; "Size of bags, 80 % towards large"
 * @param {Move} move
 * @param {Pick<Model, "concepts" | "towards_effects">} card
 */
export function sliderInWords({ concept, dimension, to, share, towards, amount = 0, name, concept_name }, card) {
  if (towards !== undefined) {
    const effect = card.towards_effects.find((one) => one.name === towards);
    const [plainly, way] = amount < 0 ? ["less", effect?.less] : ["more", effect?.more];
    const what = !way || way === plainly ? `${plainly} ${towards.replace(/^.*?: /, "")}` : way;
    return `${capital(what)}, ${percent(Math.min(1, Math.abs(amount) / FURTHEST))}`;
  }
  const group = card.concepts.find((one) => one.concept === concept && (concept_name ?? one.label) === one.label); // none: of another model
  const label = concept_name ?? group?.label ?? `group ${concept}`;
  if (share !== undefined) return `${percent(share)} from ${label}`;
  const slider = group?.dimensions.find((one) => one.dimension === dimension && (name ?? one.label) === one.label);
  if (!slider || to === undefined) return `${capital(name ?? `slider ${dimension}`)} of ${label}`;
  const [low, high] = slider.range;
  const part = Math.min(1, Math.max(0, (to - low) / (high - low || 1)));
  return `${capital(slider.label)} of ${label}, ${percent(part)} towards ${slider.high || "high"}`;
}
