// What the panels Walk, Map and Report share.

import * as api from "./api.js";
import { h } from "./dom.js";

/** Links a stylesheet of the page, once. */
export function styles(name) {
  const href = `/static/${name}`;
  if (!document.querySelector(`link[href="${href}"]`)) document.head.append(h("link", { rel: "stylesheet", href }));
}

const MOST_KEPT = 2_000;
const found = new Map();

/** Everything about an item, asked for once. */
export function lookUp(id) {
  if (!found.has(id)) {
    if (found.size >= MOST_KEPT) found.delete(found.keys().next().value);
    const asked = api.get(`/items/${encodeURIComponent(id)}`);
    asked.catch(() => found.delete(id));
    found.set(id, asked);
  }
  return found.get(id);
}

/** The history of a state as ids; that of a known user is asked for once. */
export async function historyOf(state) {
  if (state.user === null) return state.history;
  if (asked.user !== state.user) {
    asked = { user: state.user, answer: api.get(`/users/${encodeURIComponent(state.user)}`) };
    asked.answer.catch(() => { asked = { user: null, answer: null }; });
  }
  return (await asked.answer).history.map(({ id }) => id);
}

let asked = { user: null, answer: null };

/** Somebody, as requests have it: a known user or a history; null where there is nobody. */
export function who(state) {
  if (state.user !== null) return { user: state.user };
  return state.history.length ? { history: state.history } : null;
}

/** The last call of several in quick succession, after a pause. */
export function later(call, pause) {
  let timer = 0;
  const wrapped = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), pause);
  };
  wrapped.cancel = () => clearTimeout(timer);
  return wrapped;
}

export const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const FEW = 3;

/** Dimensions of a concept to walk along: named ones, the strongest first, some without a name where there are few, popularity last. */
export function walkable(concept) {
  const isPopularity = ({ attribute }) => attribute === "popularity";
  const strength = (dimension) => dimension.strength ?? (dimension.edited ? 1 : 0);
  const named = concept.dimensions.filter((one) => one.name !== null && !isPopularity(one)).sort((a, b) => strength(b) - strength(a));
  const others = concept.dimensions.filter((one) => one.name === null);
  return [...named, ...others.slice(0, Math.max(0, FEW - named.length)), ...concept.dimensions.filter(isPopularity)];
}
