// What the service says about the state of the page: who somebody is, and what is recommended to them.

import { get, post } from "./api.js";

const N = 24;

/**
 * `encoded`: where somebody is, without moves; `now`: what is recommended after the moves `asked`; `bases`: the same without moves;
 * `historyItems`: what is in the history; `error`. Listeners are told which of them is new.
 */
export class Live {
  encoded = null;
  now = null;
  asked = [];
  bases = { overall: null, concepts: null };
  historyItems = null;
  error = null;
  items = new Map();
  #store;
  #listeners = new Set();
  #control = new AbortController();
  #isFlying = false;
  #done = null;
  #isStarted = false;
  #most = N;
  #items = Infinity;
  #resolve;
  #hasConcepts = new Promise((resolve) => (this.#resolve = resolve));

  constructor(store) {
    this.#store = store;
    store.subscribe((_, changed) => {
      if (changed.includes("user") || changed.includes("history")) this.meet();
      else if (changed.includes("moves") || changed.includes("list")) this.#pump();
    });
  }

  subscribe(listener) {
    this.#listeners.add(listener);
  }

  /** A history or a user as the API takes them, or null. */
  get who() {
    const { user, history } = this.#store.get();
    return user !== null ? { user } : history.length ? { history } : null;
  }

  /** Whether it is settled who it is about, be it nobody. */
  get isStarted() {
    return this.#isStarted;
  }

  get isBusy() {
    return this.#isFlying;
  }

  /** The body of the request that gives the list shown. */
  request(moves = this.#store.get().moves, byConcept = this.#store.get().list !== "overall") {
    const { user, history } = this.#store.get();
    const own = user === null ? history.length : (this.historyItems?.length ?? 0);
    const n = Math.max(1, Math.min(this.#most, this.#items - own));
    return { ...this.who, n, ...(moves.length && { moves }), ...(byConcept && { by_concept: true }) };
  }

  /** Somebody new: ask for everything, at once. */
  async meet() {
    this.#isStarted = true;
    this.#control.abort();
    this.#control = new AbortController();
    this.#isFlying = false;
    this.#done = null;
    this.bases = { overall: null, concepts: null };
    this.error = null;
    this.historyItems = null;
    if (!this.who) {
      Object.assign(this, { encoded: null, now: null, historyItems: [] });
      this.#tell("encoded", "historyItems", "now");
      return;
    }
    await Promise.all([this.#encode(), this.#listHistory(), this.#pump()]);
  }

  /** There cannot be more items in a list than the catalogue has left. */
  know(card) {
    this.#most = Math.min(N, card.limits.n);
    this.#items = card.items;
    this.#resolve(card.has_concepts);
    if (this.error?.status === 422) this.meet();
  }

  /** So that the first touch of a knob finds what its concept's list was before. */
  prepare() {
    if (this.who && !this.bases.concepts && this.encoded) this.#base(true, this.#control.signal).catch(() => {});
  }

  /** Lists to show, each with what was there before: one, or one for every concept. */
  groups() {
    const { list, concept } = this.#store.get();
    if (!this.now) return [];
    const hasMoves = this.asked.length > 0;
    if (list === "overall" || !this.now.concepts) {
      return [{ concept: null, items: this.now.items, before: hasMoves ? this.bases.overall?.items : null }];
    }
    const rows = (answer) => new Map((answer?.concepts ?? []).map((row) => [row.concept, row.items]));
    const [now, before] = [rows(this.now), rows(this.bases.concepts)];
    const all = [...(before.size ? before : now).keys()];
    const order = list !== "concept" ? all : [all.includes(concept) ? concept : all[0]];
    return order.map((k) => ({ concept: k, items: now.get(k) ?? [], before: hasMoves ? before.get(k) : null }));
  }

  remember(items) {
    for (const { id, title, concept, concept_share } of items) this.items.set(id, { id, title, concept, concept_share });
  }

  async #encode() {
    const { signal } = this.#control;
    try {
      const encoded = (await this.#hasConcepts) ? await post("/encode", this.who, { signal }) : null;
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
        const known = await get(`/users/${encodeURIComponent(user)}`, {}, { signal });
        this.remember(known.history);
        if (!signal.aborted) this.historyItems = known.history;
      } else {
        this.historyItems = history.map((id) => this.items.get(id) ?? { id, title: null, concept: null });
        const strange = history.filter((id) => !this.items.has(id));
        if (strange.length) this.remember((await post("/items", { ids: strange }, { signal })).items);
        if (!signal.aborted) this.historyItems = history.map((id) => this.items.get(id) ?? { id, title: null, concept: null, isUnknown: true });
      }
    } catch (error) {
      if (signal.aborted) return;
      if (user !== null) this.historyItems = [];
    }
    if (!signal.aborted) this.#tell("historyItems");
  }


  /** One request at a time; when it is back and something else is wanted by then, that one. */
  async #pump() {
    if (this.#isFlying || !this.who) return;
    const { signal } = this.#control;
    this.#isFlying = true;
    this.#tell("busy");
    try {
      for (;;) {
        const { moves, list } = this.#store.get();
        const isByConcept = list !== "overall";
        const wanted = JSON.stringify([moves, isByConcept]);
        if (wanted === this.#done) break;
        const base = this.#base(isByConcept, signal);
        const now = moves.length ? post("/recommend", this.request(moves, isByConcept), { signal }) : base;
        const [answer] = await Promise.all([now, base]);
        if (signal.aborted) return;
        this.remember(answer.items);
        for (const row of answer.concepts ?? []) this.remember(row.items);
        this.now = answer;
        this.asked = moves;
        this.error = null;
        this.#done = wanted;
        this.#tell("now");
      }
    } catch (error) {
      if (signal.aborted) return;
      this.error = error;
      this.#tell("now");
    }
    this.#isFlying = false;
    this.#tell("busy");
  }

  async #base(isByConcept, signal) {
    const known = isByConcept ? this.bases.concepts : (this.bases.overall ?? this.bases.concepts);
    if (known) return known;
    const answer = await post("/recommend", this.request([], isByConcept), { signal });
    if (signal.aborted) return answer;
    this.bases.overall = answer;
    if (isByConcept) this.bases.concepts = answer;
    return answer;
  }

  #tell(...what) {
    this.#listeners.forEach((listener) => listener(what));
  }
}

/** How a list differs from what it was: {changes: Map of id to {kind, by}, gone: items}. */
export function compare(items, before) {
  const changes = new Map();
  if (!before) return { changes, gone: [] };
  const was = new Map(before.map((item, place) => [item.id, place]));
  items.forEach((item, place) => {
    const from = was.get(item.id);
    if (from === undefined) changes.set(item.id, { kind: "in", by: null });
    else if (from !== place) changes.set(item.id, { kind: place < from ? "up" : "down", by: Math.abs(place - from) });
  });
  const now = new Set(items.map((item) => item.id));
  return { changes, gone: before.filter((item) => !now.has(item.id)) };
}
