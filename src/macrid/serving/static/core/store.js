// @ts-check
// What a person has chosen, kept in the address: a link reproduces everything.

import { isChosen, isNobody, read, write } from "./link.js";

/** @import { Move, Rules, State } from "#types" */

/**
 * @typedef {object} Address where the state is kept; a browser's by default
 * @property {string} path
 * @property {string} search
 * @property {(url: string) => void} push
 * @property {(url: string) => void} replace
 * @property {(listener: () => void) => void} onPop
 */

/** @type {(keyof State)[]} What lists depend on: changes of these can be undone. */
const UNDOABLE = ["user", "history", "moves", "rules", "list", "n"];
const MOST_STEPS = 200;
const TOGETHER = 1200; // ms within which steps of one knob, by arrow keys, are one
const REST = 300; // ms without a change before the address follows a drag

/** @type {Address} */
const BROWSER = {
  get path() { return location.pathname; },
  get search() { return location.search; },
  push: (url) => history.pushState(null, "", url),
  replace: (url) => history.replaceState(null, "", url),
  onPop: (listener) => addEventListener("popstate", listener),
};

export class Store {
  /** The run being served, once it is known: links name it. */
  run = /** @type {string | null} */ (null);
  /** Whether something is being dragged: the state may change again at once. */
  isDragging = false;
  #address;
  #state;
  #settled; // as of the last step
  #isChosen; // whether somebody chose whom the page is about, or nobody
  #last = { key: /** @type {string | null} */ (null), at: 0 };
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #pending;
  /** @type {Partial<State>[]} */
  #past = [];
  /** @type {Partial<State>[]} */
  #future = [];
  /** @type {Set<(state: State, changed: (keyof State)[]) => void>} */
  #listeners = new Set();

  constructor(address = BROWSER) {
    this.#address = address;
    this.#state = read(address.search);
    this.#settled = this.#state;
    this.#isChosen = isChosen(address.search);
    address.onPop(() => {
      this.isDragging = false;
      this.#change(read(address.search));
      this.#settled = this.#state;
    });
  }

  get = () => this.#state;

  /** @param {(state: State, changed: (keyof State)[]) => void} listener */
  subscribe(listener) {
    this.#listeners.add(listener);
  }

  /** Whether nobody is chosen yet: a first visit. Somebody who starts with an empty history has chosen that. */
  get isBlank() {
    return isNobody(this.#state) && !this.#isChosen;
  }

  /**
   * What the first step starts from; no step itself.
   * @param {Partial<State>} patch
   */
  start(patch) {
    this.#change({ ...this.#state, ...patch });
    this.#settled = this.#state;
    this.#replaceSoon();
  }

  /**
   * While a slider is held.
   * @param {Partial<State>} patch
   */
  drag(patch) {
    this.isDragging = true;
    this.#change({ ...this.#state, ...patch });
    this.#replaceSoon();
  }

  /**
   * A step, which the back button and `undo` take back. Steps with the same key, one soon after the other, are one.
   * @param {Partial<State>} patch
   * @param {string | null} key
   */
  step(patch, key = null) {
    this.isDragging = false;
    this.#isChosen ||= "user" in patch || "history" in patch;
    this.#change({ ...this.#state, ...patch });
    clearTimeout(this.#pending);
    const isSame = key !== null && key === this.#last.key && performance.now() - this.#last.at < TOGETHER;
    this.#last = { key, at: performance.now() };
    if (isAnother(this.#settled, this.#state) && !isSame) {
      this.#past.push(undoable(this.#settled));
      this.#past.splice(0, this.#past.length - MOST_STEPS);
      this.#future = [];
    }
    this.#settled = this.#state;
    const link = this.link();
    if (link !== this.#address.path + this.#address.search) this.#address[isSame ? "replace" : "push"](link);
    this.#notify([]);
  }

  /**
   * Moves and rules as the service applied them: those of a link may belong to another run.
   * @param {Move[]} moves with their axes
   * @param {Rules} [rules]
   */
  carryOver(moves, rules = this.#state.rules) {
    const isSettled = this.#settled === this.#state;
    this.#change({ ...this.#state, moves, rules, run: null });
    if (isSettled) this.#settled = this.#state;
    this.#replaceSoon();
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  get canRedo() {
    return this.#future.length > 0;
  }

  undo = () => this.#travel(this.#past, this.#future);

  redo = () => this.#travel(this.#future, this.#past);

  /** @param {Partial<State>[]} from @param {Partial<State>[]} to */
  #travel(from, to) {
    const there = from.pop();
    if (!there) return;
    to.push(undoable(this.#settled));
    this.isDragging = false;
    this.#last.key = null;
    this.#change({ ...this.#state, ...there });
    this.#settled = this.#state;
    this.#address.push(this.link());
    this.#notify([]);
  }

  /** The address of this state, without the host. */
  link() {
    return this.#address.path + write(this.#state, this.run, this.#isChosen);
  }

  #replaceSoon() {
    clearTimeout(this.#pending);
    this.#pending = setTimeout(() => this.#address.replace(this.link()), REST);
  }

  /** @param {State} next */
  #change(next) {
    const names = /** @type {(keyof State)[]} */ (Object.keys(next));
    const changed = names.filter((name) => differs(next[name], this.#state[name]));
    this.#state = next;
    if (changed.length) this.#notify(changed);
  }

  /** @param {(keyof State)[]} changed */
  #notify(changed) {
    this.#listeners.forEach((listener) => listener(this.#state, changed));
  }
}

/** @param {unknown} one @param {unknown} other */
const differs = (one, other) => JSON.stringify(one) !== JSON.stringify(other);

/** @param {State} one @param {State} other @returns {boolean} whether their lists may differ */
const isAnother = (one, other) =>
  UNDOABLE.some((name) => differs(one[name], other[name])) || (other.list === "concept" && one.concept !== other.concept);

/** @param {State} state @returns {Partial<State>} */
const undoable = (state) => Object.fromEntries([...UNDOABLE, "concept"].map((name) => [name, state[/** @type {keyof State} */ (name)]]));
