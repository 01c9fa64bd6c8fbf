// @ts-check
// What a state is, in a few words each: who it is for, its sliders, its rules.

import { count, listed, percent, signed } from "../core/format.js";
import { sliderInWords } from "../core/moves.js";
import { excluded, pinned } from "../rules/chosen.js";

/** @import { Model, Move, Rules, State } from "#types" */
/** @typedef {{ key: string, text: string }} Setting `key`: what it is a setting of */

/**
 * @param {Pick<State, "user" | "history" | "moves" | "rules" | "list" | "concept">} state
 * @param {Model} card
 * @returns {Setting[]} the first says whom it is for
 */
export function settings({ user, history, moves, rules, list, concept }, card) {
  return [
    { key: "who", text: user !== null ? `Customer ${user}` : history.length ? `A history of ${count(history.length, "item")}` : "Nobody yet" },
    ...moves.map((move) => ({ key: keyOf(move), text: sliderInWords(move, card) })),
    ...rulesInWords(rules),
    ...(list === "overall" ? [] : [{ key: "list", text: listInWords(list, concept, card) }]),
  ];
}

/** @param {Move} move */
const keyOf = ({ concept, dimension, towards, share }) => (towards !== undefined ? `towards ${towards}` : share !== undefined ? `share ${concept}` : `move ${concept}.${dimension}`);

/** @param {Rules} rules @returns {Setting[]} */
function rulesInWords({ where, include, boosts, at_most, diversity, diversity_by, shelves, strict, ...rules }) {
  const [pins, banned] = [pinned(rules).length, excluded(rules).length];
  return [
    ...(where ? [{ key: "where", text: `only where ${where}` }] : []),
    ...(include ? [{ key: "include", text: `only ${count([include].flat().length, "chosen item")}` }] : []),
    ...(boosts ?? []).map((boost) => ({ key: `boost ${boost.where}`, text: `${boost.amount < 0 ? "fewer" : "more"} where ${boost.where} (${signed(boost.amount, 1)})` })),
    ...Object.entries(at_most ?? {}).map(([name, most]) => ({ key: `at_most ${name}`, text: `at most ${most} per ${name}` })),
    ...(diversity ? [{ key: "diversity", text: `diversity ${percent(diversity)}${diversity_by?.length ? ` by ${listed([diversity_by].flat())}` : ""}` }] : []),
    ...(pins ? [{ key: "pins", text: `${count(pins, "pinned item")}` }] : []),
    ...(banned ? [{ key: "exclude", text: `${count(banned, "item")} left out` }] : []),
  ];
}

/** @param {State["list"]} list @param {number | null} concept @param {Model} card */
function listInWords(list, concept, card) {
  if (list === "shelves") return "as shelves";
  if (list === "concepts") return "by group";
  return `only ${card.concepts.find((one) => one.concept === concept)?.label ?? `group ${concept}`}`;
}

/** A name to suggest for a state. @param {Setting[]} all */
export function suggestion([who, ...others]) {
  return [who.text, ...others.slice(0, 2).map(({ text }) => text.replace(/, \d+ %.*$/, ""))].join(", ");
}
