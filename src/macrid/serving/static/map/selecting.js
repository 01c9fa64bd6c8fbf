// @ts-check
// Selecting on the map: the segment that is open, what is done with it, and those that are kept.

import { count } from "../core/format.js";
import { hand } from "../core/kept.js";
import { historyOf } from "../core/panel.js";
import { excluded } from "../rules/chosen.js";
import { Selection } from "./overlay.js";
import { KeptSegments, SegmentPanel } from "./segment.js";
import { keepSegments, renamed, segments, withSegment, without } from "./segments.js";

/** @import { App, Rules } from "#types" */
/** @import { Segment } from "./segments.js" */
/** @import { MapState } from "./state.js" */

const LONGEST_LINK = 28_000; // letters: the page keeps rules in its address, and a longer one could not be opened again

export class MapSegments {
  #pill = new Selection();
  #kept = new KeptSegments();
  /** @type {App} */
  #app;
  /** @type {MapState} */
  #state;
  /** @type {{ changed: () => void, seen: () => void, begun: () => void }} */
  #does;
  /** @type {SegmentPanel} */
  #panel;
  /** @type {string | null} Of the kept segment that is open. */
  #name = null;

  /**
   * @param {App} app
   * @param {MapState} state
   * @param {{ changed: () => void, seen: () => void, begun: () => void }} does changed: something looks different; seen: all of
   *   the map should be; begun: a selection
   */
  constructor(app, state, does) {
    [this.#app, this.#state, this.#does] = [app, state, does];
    this.#panel = new SegmentPanel(app, {
      keep: (name, ids) => this.#change(withSegment(segments(), name, ids), () => this.#open({ name: segments().at(-1)?.name ?? name, items: ids })),
      rename: (name, to) => this.#rename(name, to),
      remove: (name) => this.#remove(name),
      only: (ids) => this.#rule({ include: ids }, `Recommendations come from these ${count(ids.length, "item")} only`),
      out: (ids) => this.#rule({ exclude: [...new Set([...excluded(app.store.get().rules), ...ids])] }, `${count(ids.length, "item")} kept out`),
      add: (ids) => this.#addAll(ids),
      meet: (cohort) => this.#meet(cohort),
      close: () => this.select([]),
    });
    addEventListener("storage", () => this.#drawKept()); // another tab has kept some
  }

  get panel() {
    return this.#panel.element;
  }

  get kept() {
    return this.#kept.element;
  }

  get pill() {
    return this.#pill.element;
  }

  get isOpen() {
    return this.#panel.isOpen;
  }

  /** Another map: nothing is selected. */
  begin() {
    this.#panel.hide();
    this.#pill.hide();
    this.#drawKept();
  }

  /**
   * @param {number[]} those
   * @param {{ name: string | null, missing: number }} [about] name: of a kept segment; missing: items of it that are not here
   */
  select(those, about = { name: null, missing: 0 }) {
    this.#state.selected = those;
    this.#name = about.name;
    this.#does.changed();
    if (!those.length) {
      this.#panel.hide();
      this.#pill.hide();
      return;
    }
    this.#does.begun();
    const ids = those.map((i) => this.#state.idOf(i));
    const known = new Set(this.#state.history);
    const { limits } = this.#app.card;
    this.#panel.show({ ids, ...about }, {
      fresh: those.filter((i) => !known.has(i)).length,
      room: Math.max(0, limits.history - known.size),
      fits: Math.min(limits.history, this.#fitting(ids)),
    });
    this.#pill.show(those.length, { look: () => this.#panel.element.scrollIntoView({ behavior: "smooth" }), drop: () => this.select([]) });
    this.#app.announce(`${count(those.length, "item")} selected`);
  }

  /**
   * How many of these items the address of the page has room for.
   * @param {string[]} ids
   */
  #fitting(ids) {
    const one = encodeURIComponent(JSON.stringify(ids)).length / ids.length;
    return Math.max(0, Math.floor((LONGEST_LINK - this.#app.store.link().length) / one));
  }

  #drawKept() {
    const shown = segments().map((segment) => ({ ...segment, here: this.#state.placesOf(segment.items).length })).filter(({ here }) => here > 0);
    this.#kept.draw(shown, { open: (segment) => this.#open(segment, true), remove: (name) => this.#remove(name) });
  }

  /** @param {Segment} segment */
  #open({ name, items }, isLooking = false) {
    const those = this.#state.placesOf(items);
    this.select(those, { name, missing: items.length - those.length });
    if (isLooking) this.#does.seen();
  }

  /** @param {Segment[]} all @param {() => void} then */
  #change(all, then = () => {}) {
    if (!keepSegments(all)) {
      this.#app.toast("The segment could not be kept: this browser has no room, or keeps nothing.");
      return;
    }
    this.#drawKept();
    then();
  }

  /** @param {string} name @param {string} to */
  #rename(name, to) {
    const place = segments().findIndex((segment) => segment.name === name);
    this.#change(renamed(segments(), name, to), () => place >= 0 && this.#open(segments()[place]));
  }

  /** @param {string} name */
  #remove(name) {
    const place = segments().findIndex((segment) => segment.name === name);
    const [removed] = segments().slice(place, place + 1);
    this.#change(without(segments(), name), () => {
      if (this.#name === name) this.select([]);
      this.#app.toast(`Deleted ${name}`, { undo: () => this.#change(segments().toSpliced(place, 0, removed)) });
    });
  }

  /** @param {Rules} rules @param {string} message */
  #rule(rules, message) {
    const { store, toast } = this.#app;
    store.step({ rules: { ...store.get().rules, ...rules }, view: "picks" });
    toast(message, { undo: store.undo });
  }

  /** @param {{ name: string, items: string[], at_least: number }} cohort */
  #meet(cohort) {
    if (hand("cohort", cohort)) this.#app.store.step({ view: "customers" });
    else this.#app.toast("This browser keeps nothing, so the segment cannot be taken along.");
  }

  /** @param {string[]} ids */
  async #addAll(ids) {
    const { store, toast, card } = this.#app;
    const before = await historyOf(store.get());
    const after = [...new Set([...before, ...ids])].slice(0, card.limits.history);
    store.step({ user: null, history: after });
    toast(`Added ${count(after.length - before.length, "item")} to the history`, { undo: store.undo });
    this.select([]);
  }
}
