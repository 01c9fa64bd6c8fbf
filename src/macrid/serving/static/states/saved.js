// @ts-check
// Saved lists: made from a state, kept in a row, written to files and read back. What a file says is checked here.

import { read, write } from "../core/link.js";

/** @import { Move, Saved, State } from "#types" */

export const SUFFIX = ".macrid.json";
export const LARGEST_FILE = 1_000_000; // bytes; the largest state has a few hundred thousand
const FORMAT = "macrid-list";
const VERSION = 1;
const LONGEST_NAME = 80;
const MOST_KEPT = 200;
const MOST_ITEMS = 5_000;
const MOST_MOVES = 100;
const OTHER = "another model"; // whose name is not known
const BLANK = read("");

/** What is wrong with a file, for a person. */
export class FileError extends Error {}

/**
 * @param {State} state
 * @param {object} about
 * @param {string} about.name
 * @param {{ run: string, run_id: string }} about.card
 * @param {(k: number | null) => string | null} about.label of a concept
 * @param {string[]} [about.items] of a known customer
 * @param {Date} [about.now]
 * @returns {Saved}
 */
export function savedOf({ view, run, walk, by, compare, ...state }, { name, card, label, items = [], now = new Date() }) {
  const concept = state.list === "concept" ? label(state.concept) : null;
  const moves = state.moves.map((move) => (move.concept === undefined || move.concept_name ? move : { ...move, ...named(label(move.concept)) }));
  return {
    name: cleaned(name),
    saved: now.toISOString(),
    run: { id: run ?? card.run_id, name: run === null ? card.run : OTHER },
    state: { ...state, moves },
    ...(state.user !== null && items.length && { items: items.slice(0, MOST_ITEMS) }),
    ...(concept && { concept_name: concept }),
  };
}

/** @param {string | null} concept_name */
const named = (concept_name) => (concept_name ? { concept_name } : {});

/**
 * A state to show, with the run that its moves and rules belong to.
 * @param {Saved} saved
 * @param {string} [served] the run being served
 * @returns {State}
 */
export const stateOf = ({ state, run }, served = "") => ({ ...BLANK, ...state, run: run.id === served ? null : run.id });

/** The query of a link that opens it anywhere. @param {Saved} saved */
export const queryOf = (saved) => write(stateOf(saved));

/**
 * One more, newest first. A name that exists gets a number.
 * @param {Saved[]} all
 * @param {Saved} saved
 */
export const added = (all, saved) => [{ ...saved, name: freeName(all, saved.name) }, ...all].slice(0, MOST_KEPT);

/**
 * @param {Saved[]} all
 * @param {Saved} saved
 * @param {string} name
 */
export function renamed(all, saved, name) {
  const others = all.filter((one) => !isSame(one, saved));
  return all.map((one) => (isSame(one, saved) ? { ...one, name: freeName(others, cleaned(name)) } : one));
}

/** @param {Saved[]} all @param {Saved} saved */
export const removed = (all, saved) => all.filter((one) => !isSame(one, saved));

/** @param {Saved} one @param {Saved} other */
const isSame = (one, other) => one.name === other.name;

/**
 * @param {Saved[]} all
 * @param {string} name
 */
export function freeName(all, name) {
  const taken = new Set(all.map((one) => one.name));
  if (!taken.has(name)) return name;
  const stem = name.replace(/ \(\d+\)$/, "");
  for (let number = 2; ; number += 1) if (!taken.has(`${stem} (${number})`)) return `${stem} (${number})`;
}

/** @param {unknown} name */
function cleaned(name) {
  const text = [...String(name).replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim()].slice(0, LONGEST_NAME).join("").trim();
  return text || "Untitled";
}

/** @param {Saved} saved @returns {string} */
export const toFile = (saved) => `${JSON.stringify({ format: FORMAT, version: VERSION, ...saved }, null, 2)}\n`;

/**
 * @param {string} text of a file
 * @returns {Saved} throws a `FileError`
 */
export function fromFile(text) {
  if (text.length > LARGEST_FILE) throw new FileError(`This file is too large to be a saved list. Those end with ${SUFFIX}.`);
  let content;
  try {
    content = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch {
    throw new FileError(`This is not a saved list. Choose a file that ends with ${SUFFIX}.`);
  }
  if (!isObject(content) || content.format !== FORMAT) throw new FileError(`This file holds something else. Saved lists end with ${SUFFIX}.`);
  if (!Number.isInteger(content.version) || content.version < 1) throw new FileError("This file does not say which version it has. Save the list again and send the new file.");
  if (content.version > VERSION) throw new FileError(`This file was written by a newer version of macrid (format ${content.version}, this one reads ${VERSION}). Update macrid, or ask for a link instead.`);
  return checked(content);
}

/**
 * @param {unknown} content of a file, or of what this browser kept
 * @returns {Saved} throws a `FileError`
 */
export function checked(content) {
  if (!isObject(content) || !isObject(content.state) || !isObject(content.run) || typeof content.run.id !== "string") {
    throw new FileError("This file is incomplete: it does not say which list it is, or which model it was made with.");
  }
  const { name, saved, run, items, concept_name } = content;
  return {
    name: cleaned(name ?? ""),
    saved: Number.isNaN(Date.parse(String(saved))) ? new Date(0).toISOString() : new Date(String(saved)).toISOString(),
    run: { id: run.id, name: cleaned(run.name || OTHER) },
    state: checkedState(content.state),
    ...(items !== undefined && { items: ids(items, "items") }),
    ...(typeof concept_name === "string" && { concept_name: cleaned(concept_name) }),
  };
}

/** @param {Record<string, any>} state @returns {Saved["state"]} */
function checkedState({ user = null, history = [], moves = [], rules = {}, ...others }) {
  if (user !== null && typeof user !== "string") throw new FileError("This file is damaged: the customer is no text.");
  if (!isObject(rules)) throw new FileError("This file is damaged: the rules cannot be read.");
  if (!Array.isArray(moves) || moves.length > MOST_MOVES) throw new FileError("This file is damaged: the sliders cannot be read.");
  const plain = Object.fromEntries(Object.entries(others).filter(([name, value]) => name in BLANK && (value === null || typeof value !== "object")));
  const whole = /** @type {State} */ ({ ...BLANK, ...plain, view: "picks", run: "x", user, history: user === null ? ids(history, "history") : [], moves: moves.map(move), rules });
  const { view, run, walk, by, compare, ...state } = read(write(whole)); // as a link would have it
  if (state.moves.length !== moves.length) throw new FileError("This file is damaged: a slider cannot be read.");
  return state;
}

/** @param {unknown} value @param {number} at @returns {Move} */
function move(value, at) {
  const wrong = new FileError(`This file is damaged: slider ${at + 1} cannot be read.`);
  if (!isObject(value)) throw wrong;
  for (const name of ["concept", "dimension", "to", "share", "amount"]) if (value[name] !== undefined && !Number.isFinite(value[name])) throw wrong;
  for (const name of ["towards", "axis", "name", "concept_name"]) if (value[name] !== undefined && typeof value[name] !== "string") throw wrong;
  return /** @type {Move} */ (value);
}

/** @param {unknown} values @param {string} what @returns {string[]} */
function ids(values, what) {
  const isId = (/** @type {unknown} */ id) => typeof id === "string" || Number.isInteger(id);
  if (!Array.isArray(values) || values.length > MOST_ITEMS || !values.every(isId)) throw new FileError(`This file is damaged: its ${what} cannot be read.`);
  return values.map(String);
}

/** @param {unknown} value @returns {value is Record<string, any>} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
