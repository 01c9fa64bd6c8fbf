// @ts-check
// What the service says about the state of the page: a user's place in each concept, and what is recommended.

import * as api from "./api.js";
import { warningsOf } from "./carried.js";
import { applied, isSame, keyOf } from "./moves.js";

/** @import { Store } from "./store.js" */
/** @import { Difference, DiversityCost, Encoded, List, Model, Move, Recommended, RecommendRequest, Shown, State } from "#types" */
/** @typedef {"encoded" | "historyItems" | "lists" | "before" | "busy"} Part */
/** @typedef {{ concept: number | null, rows: "concepts" | "shelves" | null }} Shape which list is asked for: of one concept, of all, or rows */

export const N = 24; // items of a list, unless somebody wants more or fewer
const RETRY = [1_000, 2_000, 4_000, 8_000, 15_000]; // ms between attempts to reach a service that is away

/** Listeners are told which parts are new. */
export class Live {
  /** @type {Encoded | null} The user's place without moves. */
  encoded = null;
  /** @type {List[] | null} What is recommended after the moves `asked`. */
  lists = null;
  /** Whether they are shelves. */
  hasShelves = false;
  /** Whether there are rules that they follow. */
  hasRules = false;
  /** @type {Move[]} */
  asked = [];
  /** @type {number[] | null} Of the concepts in what is recommended. */
  shares = null;
  /** @type {string[]} */
  warnings = [];
  /** @type {string | null} Why the rules are not in force. */
  rulesError = null;
  /** @type {DiversityCost | null} */
  diversity = null;
  /** @type {Shown[] | null} */
  historyItems = null;
  /** @type {unknown} */
  error = null;
  /** Whether the service is away; what was shown last stays. */
  isAway = false;
  /** @type {Difference[]} Attributes in which the list differs from the one before the moves. */
  differences = [];
  /** @type {Map<string, Shown>} Every item seen so far. */
  items = new Map();
  isBusy = false;
  /** Whether it is settled whom the page is about, if anybody. */
  isStarted = false;
  /** @type {Map<string, List[]>} Lists without moves, by shape and rules. */
  #unmoved = new Map();
  #isComparing = false;
  /** @type {string | null} What the lists shown are the answer to. */
  #answered = null;
  #wanted = ""; // what was asked last
  #listed = ""; // whose lists are shown
  #ruled = "{}"; // the rules of the lists shown
  /** @type {Store} */
  #store;
  /** @type {Set<(parts: Part[]) => void>} */
  #listeners = new Set();
  #control = new AbortController();
  #attempts = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #retrying;
  /** @type {Model | null} */
  #card = null;
  #resolve = /** @type {(card: Model) => void} */ (() => {});
  /** @type {Promise<Model>} */
  #known = new Promise((resolve) => (this.#resolve = resolve));

  /** @param {Store} store */
  constructor(store) {
    this.#store = store;
    store.subscribe((_, changed) => {
      if (changed.includes("user") || changed.includes("history")) this.meet();
      else {
        if (this.who) this.#keepUp();
        if (["list", "concept", "rules", "n"].some((name) => changed.includes(/** @type {keyof State} */ (name)))) this.#compare();
      }
    });
  }

  /** @param {(parts: Part[]) => void} listener */
  subscribe(listener) {
    this.#listeners.add(listener);
  }

  /** A history or a user as the API takes them, or null. */
  get who() {
    return whoOf(this.#store.get());
  }

  /** The request that gives the list shown. */
  get request() {
    return this.#request(this.#store.get().moves, this.#shape(false));
  }

  /** The same lists without moves; null until they are there, see `compare`. */
  get before() {
    return this.#unmoved.get(this.#unmovedKey(this.#shape(false))) ?? null;
  }

  /** Somebody new: ask for everything at once. */
  async meet() {
    this.isStarted = true;
    this.#control.abort();
    this.#control = new AbortController();
    clearTimeout(this.#retrying);
    this.#unmoved.clear();
    Object.assign(this, { isBusy: false, error: null, historyItems: null, warnings: [] });
    this.#answered = null;
    if (!this.who) {
      Object.assign(this, { encoded: null, lists: null, shares: null, historyItems: [], differences: [] });
      this.#tell("encoded", "historyItems", "lists");
      return;
    }
    await Promise.all([this.#encode(), this.#listHistory(), this.#keepUp(), this.#compare()]);
  }

  /**
   * There cannot be more items in a list than the catalogue has left, nor lists of concepts that do not exist.
   * @param {Model} card
   */
  know(card) {
    this.#card = card;
    this.#resolve(card);
    if (this.error instanceof api.ApiError && [409, 422].includes(this.error.status)) this.meet();
  }

  /** @param {boolean} isOn whether lists without moves are wanted, too */
  compare(isOn) {
    this.#isComparing = isOn;
    this.#compare();
  }

  /** @param {Shown[]} items */
  remember(items) {
    for (const { id, title, concept, concept_share, second_concept, second_share, facts, new: isNew, placed } of items) {
      this.items.set(id, { id, title, concept, concept_share, second_concept, second_share, facts, new: isNew, placed });
    }
  }

  /** @returns {Shape} */
  #shape(isDragging = this.#store.isDragging) {
    return shapeOf(this.#store.get(), this.#card, isDragging);
  }

  /** @param {Move[]} moves @param {Shape} shape @returns {RecommendRequest} */
  #request(moves, shape) {
    return requestOf({ ...this.#store.get(), moves }, shape, this.#card, this.historyItems?.length ?? 0);
  }

  async #encode() {
    const { signal } = this.#control;
    try {
      const { has_concepts } = await this.#known;
      const { who } = this;
      const encoded = has_concepts && who ? await api.encode(who, signal) : null;
      if (signal.aborted) return;
      this.encoded = encoded;
    } catch {
      if (signal.aborted) return;
      this.encoded = null; // The list says what is wrong.
    }
    this.#tell("encoded");
  }

  async #listHistory() {
    const { signal } = this.#control;
    const { user, history } = this.#store.get();
    try {
      if (user !== null) {
        const known = await api.historyOf(user, signal);
        this.remember(known.history);
        if (!signal.aborted) this.historyItems = known.history;
      } else {
        this.historyItems = history.map((id) => this.items.get(id) ?? { id });
        const strange = history.filter((id) => !this.items.has(id));
        if (strange.length) this.remember((await api.items(strange, signal)).items);
        if (!signal.aborted) this.historyItems = history.map((id) => this.items.get(id) ?? { id, isUnknown: true });
      }
    } catch {
      if (!signal.aborted && user !== null) this.historyItems = [];
    }
    if (!signal.aborted) this.#tell("historyItems");
  }

  /** @param {Shape} shape */
  #key(shape) {
    const { moves, rules, n } = this.#store.get();
    return keyOf(moves) + JSON.stringify([shape, rules, n]);
  }

  /** @param {Shape} shape */
  #unmovedKey(shape) {
    const { rules, n } = this.#store.get();
    return JSON.stringify([shape, rules, n]);
  }

  /** One request at a time; if the state has moved on when it is answered, one for the newest state. */
  async #keepUp() {
    if (this.isBusy || this.#key(this.#shape()) === this.#answered) return;
    const { signal } = this.#control;
    this.isBusy = true;
    this.#tell("busy");
    try {
      while (this.#key(this.#shape()) !== this.#answered) {
        const [state, shape] = [this.#store.get(), this.#shape()];
        const wanted = (this.#wanted = this.#key(shape));
        const answer = await api.recommend(this.#request(state.moves, shape), signal);
        if (signal.aborted) return;
        this.#take(answer, state, shape);
        this.#answered = wanted;
        if ((state.moves.length || state.run !== null) && isSame(state.moves, this.#store.get().moves)) {
          this.#store.carryOver(applied(answer, state.moves), inForce(answer, state));
          this.asked = this.#store.get().moves;
          this.#ruled = JSON.stringify(this.#store.get().rules);
          this.#answered = this.#key(shape);
        }
        this.#tell("lists");
      }
    } catch (error) {
      if (signal.aborted) return;
      this.#fail(error);
    }
    this.isBusy = false;
    this.#tell("busy");
    if (this.rulesError !== null) this.#keepUp(); // if the rules have changed meanwhile
  }

  /** What is wrong with rules is said beside them; the list stays. @param {unknown} error */
  #fail(error) {
    if (error instanceof api.ApiError && error.status === 0) this.#wait();
    if (this.#listed !== JSON.stringify(this.who)) this.lists = null;
    if (error instanceof api.ApiError && error.at?.startsWith("rules") && this.lists) {
      this.rulesError = error.detail.replace(/^rules\./, "");
      this.#answered = this.#wanted;
    } else this.error = error;
    this.#tell("lists");
  }

  /** The service is away: try again soon, then less and less often. What is shown stays. */
  #wait() {
    this.isAway = true;
    clearTimeout(this.#retrying);
    this.#retrying = setTimeout(() => this.retry(), RETRY[Math.min(this.#attempts, RETRY.length - 1)]);
    this.#attempts += 1;
  }

  /** Ask again for what failed. */
  retry() {
    if (!this.who) return;
    if (this.encoded === null || this.historyItems === null) this.meet();
    else this.#keepUp();
  }

  /** @param {Recommended} answer @param {State} state @param {Shape} shape */
  #take(answer, { moves, list, run, rules, n }, shape) {
    this.remember(answer.items);
    const hasMoves = moves.length > 0;
    const one = { concept: shape.concept, items: answer.items, moved: hasMoves ? (answer.moved ?? null) : null };
    const rows = rowsOf(answer, shape, hasMoves);
    if (rows) {
      rows.forEach(({ items }) => this.remember(items));
      const isStill = !answer.shelves || this.#store.isDragging; // shelves go by share
      this.lists = isStill ? inOrderOf(this.lists ?? [], rows) : rows;
    } else if (list === "concepts" && this.lists && this.lists.length > 1) {
      this.lists = this.lists.map((row) => (row.concept === shape.concept ? one : row));
    } else this.lists = [one];
    if (!hasMoves) this.#unmoved.set(JSON.stringify([shape, rules, n]), this.lists);
    this.differences = hasMoves ? (answer.differences ?? []) : [];
    [this.isAway, this.#attempts, this.#listed] = [false, 0, JSON.stringify(this.who)];
    this.shares = answer.shares ?? null;
    this.hasShelves = shape.rows === "shelves";
    this.hasRules = Object.keys(rules).length > 0;
    [this.rulesError, this.diversity] = [null, answer.diversity ?? null];
    // What could not be carried over from a link stays said until something else is moved.
    const isNew = !isSame(moves, this.asked) || JSON.stringify(rules) !== this.#ruled;
    if (run !== null || !this.warnings.length || isNew) this.warnings = warningsOf(answer, moves.length);
    this.#ruled = JSON.stringify(rules);
    this.asked = moves;
    this.error = null;
  }

  async #compare() {
    const shape = this.#shape(false);
    const key = this.#unmovedKey(shape);
    if (!this.#isComparing || !this.who || this.#unmoved.has(key)) return;
    const { signal } = this.#control;
    try {
      const answer = await api.recommend(this.#request([], shape), signal);
      if (signal.aborted) return;
      this.#unmoved.set(key, rowsOf(answer, shape, false) ?? [{ concept: shape.concept, items: answer.items, moved: null }]);
      this.#tell("before");
    } catch {
      // The list that is asked for at the same time says what is wrong.
    }
  }

  /** @param {Part[]} parts */
  #tell(...parts) {
    this.#listeners.forEach((listener) => listener(parts));
  }
}

/**
 * A history or a user as the API takes them, or null.
 * @param {State} state
 */
export const whoOf = ({ user, history }) => (user !== null ? { user } : history.length ? { history } : null);

/**
 * @param {State} state
 * @param {Model | null} card
 * @returns {Shape}
 */
export function shapeOf({ list, concept, moves }, card, isDragging = false) {
  const hasConcept = card === null || card.concepts.some((one) => one.concept === concept);
  const hasConcepts = card === null || card.has_concepts;
  if (list === "concept") return { concept: hasConcept ? concept : null, rows: null };
  if (list === "overall" || !hasConcepts) return { concept: null, rows: null };
  if (list === "shelves" || !isDragging) return { concept: null, rows: list };
  const last = moves.at(-1); // the rows of other concepts follow when the slider is let go
  return { concept: last?.to === undefined ? null : (last.concept ?? null), rows: null };
}

/**
 * The request for the list of a state.
 * @param {State} state
 * @param {Shape} shape
 * @param {Model | null} card
 * @param {number} known how many items a known user has
 * @returns {RecommendRequest}
 */
export function requestOf(state, { concept, rows }, card, known) {
  const { user, history, moves, run, n, rules: chosen } = state;
  const rules = rows === "shelves" ? { ...chosen, shelves: chosen.shelves || true } : chosen;
  const seen = user === null ? history.length : known;
  const most = card ? Math.min(n ?? N, card.limits.n, card.items - seen) : n ?? N;
  return {
    ...whoOf(state),
    n: Math.max(1, most),
    ...(moves.length && { moves }),
    ...(run !== null && { run }),
    ...(concept !== null && { concept }),
    ...(rows === "concepts" && { by_concept: true }),
    ...(Object.keys(rules).length && { rules }),
  };
}

/**
 * The rules of a state that are in force, if some of them were left out; shelves may be those of the list.
 * @param {Recommended} answer
 * @param {State} state
 */
function inForce({ rules }, state) {
  if (!rules) return state.rules;
  const { shelves, ...others } = rules;
  return state.rules.shelves === undefined ? others : { ...others, shelves };
}

/**
 * @param {Recommended} answer
 * @param {Shape} shape
 * @param {boolean} hasMoves
 * @returns {List[] | null} null where it is one list
 */
export function rowsOf(answer, { rows }, hasMoves) {
  if (rows === "shelves") return (answer.shelves ?? []).map(({ concept, items, share }) => ({ concept, items, moved: null, share }));
  return answer.concepts?.map(({ concept, items, moved }) => ({ concept, items, moved: hasMoves ? (moved ?? null) : null })) ?? null;
}

/**
 * Rows in the order of those shown so far: nothing jumps while somebody looks at it.
 * @param {List[]} shown
 * @param {List[]} rows
 */
function inOrderOf(shown, rows) {
  const place = new Map(shown.map(({ concept }, at) => [concept, at]));
  return rows.every(({ concept }) => place.has(concept)) ? rows.sort((a, b) => (place.get(a.concept) ?? 0) - (place.get(b.concept) ?? 0)) : rows;
}
