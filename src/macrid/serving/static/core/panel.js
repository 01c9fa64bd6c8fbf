// @ts-check
// What the views share.

import * as api from "./api.js";
import { h } from "./dom.js";

/** @import { Item, State } from "#types" */

/** @type {Map<string, Promise<void>>} */
const linked = new Map();

/**
 * Links a stylesheet of the page, once; resolves when it is there, or is not to be had.
 * @param {string} name
 * @returns {Promise<void>}
 */
export function styles(name) {
  const known = linked.get(name);
  if (known) return known;
  const link = h("link", { rel: "stylesheet", href: `/static/${name}` });
  /** @type {Promise<void>} */
  const loaded = new Promise((done) => ["load", "error"].forEach((event) => link.addEventListener(event, () => done())));
  linked.set(name, loaded);
  document.head.append(link);
  return loaded;
}

const MOST_KEPT = 2_000;
/** @type {Map<string, Promise<Item>>} */
const kept = new Map();

/**
 * Everything about an item, asked for once.
 * @param {string} id
 */
export function lookUp(id) {
  const known = kept.get(id);
  if (known) return known;
  for (const oldest of kept.keys()) if (kept.size >= MOST_KEPT) kept.delete(oldest);
  const answer = api.item(id);
  answer.catch(() => kept.delete(id));
  kept.set(id, answer);
  return answer;
}

/**
 * The history of a state as ids; a known user's is asked for once.
 * @param {Pick<State, "user" | "history">} state
 */
export async function historyOf({ user, history }) {
  if (user === null) return history;
  if (known?.user !== user) {
    known = { user, answer: api.historyOf(user) };
    known.answer.catch(() => (known = null));
  }
  return (await known.answer).history.map(({ id }) => id);
}

/** @type {{ user: string, answer: ReturnType<typeof api.historyOf> } | null} */
let known = null;

/**
 * The last call of several in quick succession, after a pause.
 * @template {unknown[]} A
 * @param {(...values: A) => unknown} call
 * @param {number} pause ms
 */
export function later(call, pause) {
  let timer = 0;
  return {
    call: (/** @type {A} */ ...values) => {
      clearTimeout(timer);
      timer = window.setTimeout(() => call(...values), pause);
    },
    cancel: () => clearTimeout(timer),
  };
}
