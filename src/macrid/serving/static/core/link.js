// @ts-check
// Links: the state of the page as a query, and back.

/** @import { ListKind, Move, Rules, State, View } from "#types" */

/** @type {View[]} */
export const VIEWS = ["picks", "walk", "customers", "compare", "map", "report"];
/** @type {ListKind[]} */
const LISTS = ["overall", "concepts", "shelves", "concept"];

const SIDES = /** @type {const} */ (["left", "right"]);

/**
 * Whether it has what means something else in another run.
 * @param {Pick<State, "moves" | "rules">} state
 */
const isCarried = ({ moves, rules }) => moves.length > 0 || Object.keys(rules).length > 0;

/**
 * The query of a state: "" or "?…".
 * @param {State} state
 * @param {string | null} run the run being served
 * @param {boolean} isChosen whether an empty history is what somebody chose
 */
export function write(state, run = null, isChosen = false) {
  const query = new URLSearchParams();
  if (state.view !== VIEWS[0]) query.set("view", state.view);
  if (isNobody(state) && isChosen) query.set("empty", "1");
  else if (state.user !== null) query.set("user", state.user);
  else for (const id of state.history) query.append("item", id);
  for (const { concept, dimension, to, share, towards, amount, axis, name, concept_name } of state.moves) {
    if (towards !== undefined && amount !== undefined) query.append("towards", joined(towards, short(amount)));
    else if (to !== undefined) query.append("move", joined(`${concept}.${dimension}`, short(to), axis, name, concept_name));
    else if (share !== undefined) query.append("share", joined(String(concept), short(share), concept_name));
  }
  const made = state.run ?? run;
  if (isCarried(state) && made !== null) query.set("run", made);
  if (Object.keys(state.rules).length) query.set("rules", JSON.stringify(state.rules));
  if (state.concept !== null) query.set("concept", String(state.concept));
  if (state.list !== LISTS[0]) query.set("list", state.list);
  if (state.n !== null) query.set("n", String(state.n));
  if (state.walk.item !== null) query.set("from", state.walk.item);
  if (state.walk.dimension !== null) query.set("along", String(state.walk.dimension));
  if (state.by !== null) query.set("by", state.by);
  for (const side of SIDES) if (state.compare[side]) query.set(side, state.compare[side]);
  const text = query.toString();
  return text && `?${text}`;
}

/** @param {State} state @returns {boolean} whether there is neither a customer nor a history */
export const isNobody = ({ user, history }) => user === null && history.length === 0;

/** @param {string} search @returns {boolean} whether somebody chose to start with an empty history */
export const isChosen = (search) => new URLSearchParams(search).has("empty");

/** @param {string} search @returns {State} */
export function read(search) {
  const query = new URLSearchParams(search);
  const moves = [...query].flatMap(([name, value]) => READERS[name]?.(value) ?? []);
  const user = query.get("user");
  const concept = natural(query.get("concept"));
  const list = oneOf(query.get("list"), LISTS);
  const chosen = rules(query.get("rules"));
  return {
    view: oneOf(query.get("view"), VIEWS),
    user,
    history: user === null ? [...new Set(query.getAll("item"))] : [],
    moves,
    rules: chosen,
    run: isCarried({ moves, rules: chosen }) ? query.get("run") : null,
    concept,
    list: list === "concept" && concept === null ? "overall" : list,
    n: natural(query.get("n")) || null,
    walk: { item: query.get("from"), dimension: natural(query.get("along")) },
    by: query.get("by"),
    compare: { left: query.get("left") ?? "", right: query.get("right") ?? "" },
  };
}

/** @param {(string | undefined)[]} parts the last ones may be missing */
const joined = (...parts) => parts.map((part) => encodeURIComponent(part ?? "")).join(":").replace(/:+$/, "");

/**
 * @param {string} text concept.dimension:to, then :axis:name:concept where they are known
 * @returns {Move[]} one, or none if it cannot be read
 */
function coordinate(text) {
  const [, concept, dimension, to, axis, name, of] = /^(\d+)\.(\d+):(-?[\d.e-]+)(?::(\w*)(?::([^:]*)(?::([^:]*))?)?)?$/.exec(text) ?? [];
  if (!Number.isFinite(Number(to))) return [];
  const names = { ...(axis && { axis }), ...(name && { name: decoded(name) }), ...(of && { concept_name: decoded(of) }) };
  return [{ concept: Number(concept), dimension: Number(dimension), to: Number(to), ...names }];
}

/**
 * @param {string} text concept:share, then :concept where its name is known
 * @returns {Move[]}
 */
function share(text) {
  const [, concept, part, of] = /^(\d+):([\d.e-]+)(?::([^:]*))?$/.exec(text) ?? [];
  if (!Number.isFinite(Number(part))) return [];
  return [{ concept: Number(concept), share: Math.min(Math.max(Number(part), 0), 1), ...(of && { concept_name: decoded(of) }) }];
}

/**
 * @param {string} text attribute:amount
 * @returns {Move[]}
 */
function attribute(text) {
  const [, towards, amount] = /^([^:]+):(-?[\d.e-]+)$/.exec(text) ?? [];
  if (!Number.isFinite(Number(amount))) return [];
  return [{ towards: decoded(towards), amount: Number(amount) }];
}

/** @param {string | null} text JSON @returns {Rules} none if they cannot be read; the service checks them */
function rules(text) {
  try {
    const value = JSON.parse(text ?? "{}");
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {}; // somebody has edited the link
  }
}

/** @type {Record<string, (text: string) => Move[]>} By the name of a parameter. */
const READERS = { move: coordinate, share, towards: attribute };

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody has edited the link
  }
}

/** @param {number} x */
const short = (x) => String(Number(x.toFixed(5)));

/** @param {string | null} text */
const natural = (text) => (/^\d+$/.test(text ?? "") ? Number(text) : null);

/** @template {string} T @param {string | null} value @param {T[]} known @returns {T} */
const oneOf = (value, known) => known.find((one) => one === value) ?? known[0];
