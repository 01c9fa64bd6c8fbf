// @ts-check
// The sides of a comparison as a link has them: "now", "plain", "customer:ID", "run:NAME" or "state:NAME?query".

import { read } from "../core/link.js";
import { queryOf } from "../states/saved.js";

/** @import { Saved, State } from "#types" */
/**
 * @typedef {{ kind: "now" } | { kind: "plain" } | { kind: "customer", user: string } | { kind: "run", run: string }
 *   | { kind: "state", name: string, query: string }} Side
 */

/** What is compared unless somebody chooses: before and after. */
export const USUAL = { left: "plain", right: "now" };

/**
 * @param {string} text
 * @param {keyof typeof USUAL} place
 * @returns {Side}
 */
export function readSide(text, place) {
  const [, kind, rest] = /^(now|plain|customer|run|state)(?::(.*))?$/s.exec(text || USUAL[place]) ?? [];
  if (kind === "customer" && rest) return { kind, user: rest };
  if (kind === "run" && rest) return { kind, run: rest };
  if (kind === "state" && rest) {
    const [name, ...query] = rest.split("?");
    return { kind, name: decoded(name), query: query.join("?") };
  }
  return kind === "now" || kind === "plain" ? { kind } : readSide(USUAL[place], place); // somebody has edited the link
}

/** @param {Side} side */
export function writeSide(side) {
  if (side.kind === "customer") return `customer:${side.user}`;
  if (side.kind === "run") return `run:${side.run}`;
  return side.kind === "state" ? `state:${encodeURIComponent(side.name)}?${side.query}` : side.kind;
}

/** Everything about a saved list, so that a link needs nothing from this browser. @param {Saved} saved */
export const sideOf = (saved) => writeSide({ kind: "state", name: saved.name, query: queryOf(saved).slice(1) });

/**
 * The state whose list a side shows.
 * @param {Side} side
 * @param {State} now
 * @param {string} served the run being served
 * @returns {State}
 */
export function stateOn(side, now, served) {
  if (side.kind === "plain") return { ...now, moves: [], rules: {}, run: null };
  if (side.kind === "customer") return { ...now, user: side.user, history: [] };
  if (side.kind !== "state") return now;
  const state = read(`?${side.query}`);
  return { ...state, run: state.run === served ? null : state.run };
}

/** @param {Side} side */
export function nameOf(side) {
  if (side.kind === "plain") return "Without sliders and rules";
  if (side.kind === "customer") return `Customer ${side.user}, the same sliders`;
  if (side.kind === "run") return `The model “${side.run}”`;
  return side.kind === "state" ? side.name : "What is shown now";
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody has edited the link
  }
}
