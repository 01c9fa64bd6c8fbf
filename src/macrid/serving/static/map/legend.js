// @ts-check
// What the colours of the map mean: groups of items, and a legend of them.

import { CONCEPT_COLOURS, conceptColour, ramp } from "../core/colours.js";
import { h } from "../core/dom.js";
import { count, number, plain } from "../core/format.js";

/** @import { App, Map as ItemMap, MapValues } from "#types" */
/** @typedef {{ label: string | null, colour: string, items: number, isRest?: boolean }} Entry isRest: of items that have nothing in common */
/**
 * @typedef {object} Groups
 * @property {string} title
 * @property {Uint16Array} groups whose colour every item has
 * @property {Entry[]} entries of every group
 * @property {ArrayLike<number>[]} members the items of every group; an item may be in several. None for a number
 * @property {boolean} [hasSeveral] whether items may be in several
 * @property {{ ticks: number[], isByRank: boolean }} [scale] of a number
 */

const MOST_GROUPS = 11; // with a colour of their own
const SHADES = 48;
const OTHER = "var(--muted)";

/** @param {App} app @param {ItemMap} map @returns {Groups} */
export function byConcept(app, map) {
  const order = app.card.concepts.map(({ concept }) => concept);
  const place = new Map(order.map((concept, i) => [concept, i]));
  const groups = Uint16Array.from(map.concept, (concept) => place.get(concept) ?? order.length);
  const members = membersOf(groups, order.length + 1);
  /** @type {Entry[]} */
  const entries = order.map((concept, i) => ({ label: app.label(concept), colour: conceptColour(concept), items: members[i].length }));
  const rest = order.length ? { label: "no group", colour: OTHER } : { label: "items", colour: "var(--accent)" };
  entries.push({ ...rest, items: members[order.length].length, isRest: true });
  return { title: order.length ? "Groups" : "Items", groups, entries, members };
}

/**
 * The items of every group, each in one.
 * @param {Uint16Array} groups
 * @param {number} count
 */
function membersOf(groups, count) {
  /** @type {number[][]} */
  const members = Array.from({ length: count }, () => []);
  groups.forEach((group, i) => members[group].push(i));
  return members;
}

/** @param {ItemMap} map @param {MapValues} values @returns {Groups} */
export function byValues(map, values) {
  return values.kind === "number" ? byNumber(values) : byLabel(map, values);
}

/** @param {ItemMap} map @param {MapValues} values @returns {Groups} */
function byLabel(map, { name, values, labels, has_several: hasSeveral, counts, all }) {
  const n = Math.min(labels.length, MOST_GROUPS);
  const [more, unknown] = [n, n + 1];
  const groups = Uint16Array.from(values, (value) => (value === null ? unknown : Math.min(value, more)));
  const members = counts && all ? severalMembers(counts, all, n) : membersOf(groups, n + 2);
  const colours = coloursOf(labels.slice(0, n), groups, map);
  /** @type {Entry[]} */
  const entries = labels.slice(0, n).map((label, i) => ({ label, colour: colours[i], items: members[i].length }));
  entries.push({ label: count(labels.length - n, "other"), colour: OTHER, items: members[more].length, isRest: true });
  entries.push({ label: "unknown", colour: "var(--line)", items: members[unknown].length, isRest: true });
  return { title: name, groups, entries, members, hasSeveral };
}

/**
 * The items of every group, where an item is in the groups of all its values.
 * @param {number[]} counts of every item's values
 * @param {number[]} all values, item by item
 * @param {number} n groups of their own; then come other values, and items without any
 */
export function severalMembers(counts, all, n) {
  /** @type {number[][]} */
  const members = Array.from({ length: n + 2 }, () => []);
  let at = 0;
  counts.forEach((many, i) => {
    if (!many) members[n + 1].push(i);
    for (const end = at + many; at < end; at += 1) {
      const those = members[Math.min(all[at], n)];
      if (those.at(-1) !== i) those.push(i);
    }
  });
  return members;
}

/**
 * Words for colours are shown in their colour; a label that is nearly one concept has that concept's colour.
 * @param {string[]} labels
 * @param {Uint16Array} groups
 * @param {ItemMap} map
 */
function coloursOf(labels, groups, map) {
  const words = labels.map((label) => (/^[a-z]+$/i.test(label) && CSS.supports("color", label) ? label : label === "amber" ? "#ffb300" : null));
  if (words.filter(Boolean).length > labels.length / 2) {
    return words.map((word, i) => (word ? `color-mix(in oklab, ${word} 84%, var(--ink))` : conceptColour(i)));
  }
  const shared = labels.map(() => /** @type {Map<number, number>} */ (new Map()));
  groups.forEach((group, i) => {
    if (group < labels.length) shared[group].set(map.concept[i], (shared[group].get(map.concept[i]) ?? 0) + 1);
  });
  const taken = new Set();
  const nearest = shared.map((concepts) => {
    const all = [...concepts.values()].reduce((a, b) => a + b, 0);
    const [concept, most] = [...concepts].sort((a, b) => b[1] - a[1])[0] ?? [-1, 0];
    if (concept < 0 || most < 0.6 * all || taken.has(concept % CONCEPT_COLOURS)) return null;
    taken.add(concept % CONCEPT_COLOURS);
    return concept;
  });
  const free = Array.from({ length: CONCEPT_COLOURS }, (_, k) => k).filter((k) => !taken.has(k));
  return nearest.map((concept) => conceptColour(concept ?? free.shift() ?? 0));
}

/** @param {MapValues} values @returns {Groups} */
function byNumber({ name, values }) {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  const low = known[Math.floor(known.length * 0.01)] ?? 0;
  const high = known[Math.ceil(known.length * 0.99) - 1] ?? 1;
  const quantile = (/** @type {number} */ part) => known[Math.floor((known.length - 1) * part)] ?? 0;
  // Where most values are crowded into a small part of the range, ranks are shown instead.
  const isByRank = quantile(0.75) - quantile(0.25) < 0.15 * (high - low);
  const even = Array.from({ length: SHADES - 1 }, (_, i) => (isByRank ? quantile((i + 1) / SHADES) : low + ((i + 1) * (high - low)) / SHADES));
  const shade = (/** @type {number} */ value) => {
    let [from, to] = [0, even.length];
    while (from < to) {
      const at = (from + to) >> 1;
      if (even[at] < value) from = at + 1;
      else to = at;
    }
    return from;
  };
  const groups = Uint16Array.from(values, (value) => (value === null ? SHADES : shade(value)));
  /** @type {Entry[]} */
  const entries = Array.from({ length: SHADES }, (_, i) => ({ label: null, colour: ramp(i / (SHADES - 1)), items: 0 }));
  entries.push({ label: "unknown", colour: "var(--line)", items: 0 });
  for (const group of groups) entries[group].items += 1;
  return { title: name, groups, entries, members: [], scale: { ticks: [low, even[SHADES / 2 - 1], high], isByRank } };
}

/**
 * @param {Groups} groups
 * @param {number} only the group that stands out, or -1
 * @param {(group: number) => void} pick called when one is clicked
 */
export function legend({ title, entries, hasSeveral, scale }, only, pick) {
  const unknown = entries[SHADES]?.items ?? 0;
  if (scale) {
    const stops = entries.slice(0, SHADES).map(({ colour }) => colour).join(", ");
    return h(
      "div",
      { class: "legend" },
      h("h3", { text: title }),
      h("div", { class: "legend-ramp", "aria-hidden": "true", style: { background: `linear-gradient(to right, ${stops})` } }),
      h("div", { class: "legend-ends" },
        scale.ticks.map((value) => h("span", { text: plain(value) }))),
      scale.isByRank && h("p", { class: "legend-note", text: "By rank: half of the items lie on either side of the middle." }),
      unknown > 0 && h("p", { class: "legend-note" }, h("span", { class: "legend-swatch", style: { "--c": "var(--line)" } }), `unknown for ${count(unknown, "item")}`),
    );
  }
  return h(
    "div",
    { class: "legend" },
    h("h3", { text: title }),
    h("ul", {}, entries.map((entry, group) => entry.items > 0 && h("li", {}, h(
      "button",
      { type: "button", class: "legend-entry", "aria-pressed": String(group === only), on: { click: () => pick(group === only ? -1 : group) } },
      h("span", { class: "legend-swatch", style: { "--c": entry.colour } }),
      h("span", { class: "legend-label", dir: "auto", title: entry.label, text: entry.label }),
      h("span", { class: "legend-count", text: number(entry.items) }),
    )))),
    hasSeveral && h("p", { class: "legend-note", text: "An item with several of these counts in each, so the numbers add up to more than all items. Its dot has the colour of the most frequent one; click an entry to see everything that has it." }),
  );
}
