// What a person has chosen. It is kept in the address, so that a link reproduces everything.

/**
 * view: "picks", "walk", "map" or "report"
 * user: a known user's id, or null; history: ids, where there is no user
 * moves: as the API takes them, {concept, dimension, to} or {concept, share}; at most one for each knob
 * concept: whose knobs are shown; list: "overall", "concepts" or "concept" (only the chosen one)
 * walk: {item, dimension}; by: what the map is coloured by
 */
const EMPTY = {
  view: "picks", user: null, history: [], moves: [], concept: null, list: "overall", walk: { item: null, dimension: null }, by: null,
};
const UNDOABLE = ["user", "history", "moves"];
const TOGETHER = 1200; // ms within which moves of one knob, by arrow keys, are one step

let state = read(location.search);
let settled = state;
let last = { key: null, at: 0 };
let pending = 0;
const past = [];
const listeners = new Set();

export const get = () => state;

export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * push: a step of its own, which the back button and `undo` take back; not while something is being dragged.
 * Steps with the same key, one soon after the other, are one. start: no step, but what the first step starts from.
 */
export function set(patch, { push = false, key = null, start = false } = {}) {
  change({ ...state, ...patch });
  if (start) settled = state;
  if (!push) {
    clearTimeout(pending);
    pending = setTimeout(() => history.replaceState(null, "", link(state)), 300);
    return;
  }
  clearTimeout(pending);
  const isSame = key !== null && key === last.key && performance.now() - last.at < TOGETHER;
  last = { key, at: performance.now() };
  if (differs(UNDOABLE, state, settled) && !isSame) past.push(pick(settled, UNDOABLE));
  settled = state;
  if (link(state) !== location.pathname + location.search) history[isSame ? "replaceState" : "pushState"](null, "", link(state));
  notify([]);
}

export const canUndo = () => past.length > 0;

export function undo() {
  if (!past.length) return;
  const before = past.pop();
  last.key = null;
  change({ ...state, ...before });
  settled = state;
  history.pushState(null, "", link(state));
}

/** The address of a state, without the host. */
export function link(of = state) {
  const query = new URLSearchParams();
  if (of.view !== EMPTY.view) query.set("view", of.view);
  if (of.user !== null) query.set("user", of.user);
  else for (const id of of.history) query.append("item", id);
  for (const move of of.moves) {
    if (move.share === undefined) query.append("move", `${move.concept}.${move.dimension}:${short(move.to)}`);
    else query.append("share", `${move.concept}:${short(move.share)}`);
  }
  if (of.concept !== null) query.set("concept", of.concept);
  if (of.list !== EMPTY.list) query.set("list", of.list);
  if (of.walk.item !== null) query.set("from", of.walk.item);
  if (of.walk.dimension !== null) query.set("along", of.walk.dimension);
  if (of.by !== null) query.set("by", of.by);
  const text = query.toString();
  return location.pathname + (text && `?${text}`);
}

/** Whether an address says anything; if not, this is a first visit. */
export const isBlank = () => state.user === null && state.history.length === 0;

addEventListener("popstate", () => {
  change(read(location.search));
  settled = state;
});

function read(search) {
  const query = new URLSearchParams(search);
  const moves = [];
  for (const [name, value] of query) {
    const found = (name === "move" ? /^(\d+)\.(\d+):(-?[\d.e-]+)$/ : name === "share" ? /^(\d+):()([\d.e-]+)$/ : /$^/).exec(value);
    if (!found || !Number.isFinite(Number(found[3]))) continue;
    if (name === "move") moves.push({ concept: Number(found[1]), dimension: Number(found[2]), to: Number(found[3]) });
    else moves.push({ concept: Number(found[1]), share: Math.min(Math.max(Number(found[3]), 0), 1) });
  }
  const user = query.get("user");
  return {
    view: oneOf(query.get("view"), ["picks", "walk", "map", "report"]),
    user,
    history: user === null ? [...new Set(query.getAll("item"))] : [],
    moves,
    concept: natural(query.get("concept")),
    list: oneOf(query.get("list"), ["overall", "concepts", "concept"]),
    walk: { item: query.get("from"), dimension: natural(query.get("along")) },
    by: query.get("by"),
  };
}

function change(next) {
  const changed = Object.keys(next).filter((key) => JSON.stringify(next[key]) !== JSON.stringify(state[key]));
  state = next;
  if (changed.length) notify(changed);
}

function notify(changed) {
  listeners.forEach((listener) => listener(state, changed));
}

function differs(keys, one, other) {
  return keys.some((key) => JSON.stringify(one[key]) !== JSON.stringify(other[key]));
}

function pick(from, keys) {
  return Object.fromEntries(keys.map((key) => [key, from[key]]));
}

function short(x) {
  return String(Number(x.toFixed(5)));
}

function natural(text) {
  return /^\d+$/.test(text ?? "") ? Number(text) : null;
}

function oneOf(value, known) {
  return known.includes(value) ? value : known[0];
}
