// @ts-check
// What the stops have in common with the start, in words.

import { anything, listed } from "../core/format.js";

/** @import { Dimension, Item, Traversed } from "#types" */

/**
 * How often each attribute is kept, most often first: "Kept at every stop: size.", "Kept at 7 of 8 stops: metal, price.",
 * "Not kept: genres." The start is one of the stops.
 * @param {Traversed} walk
 */
export function keptTexts({ held, items }) {
  /** @type {Map<number, string[]>} */
  const names = new Map();
  for (const name of held) {
    const times = items.filter((stop) => !stop.differs.includes(name)).length;
    names.set(times, [...(names.get(times) ?? []), name]);
  }
  return [...names].sort(([a], [b]) => b - a).map(([times, some]) => {
    const where = times === items.length ? "Kept at every stop" : times > 1 ? `Kept at ${times} of ${items.length} stops` : "Not kept";
    return `${where}: ${some.join(", ")}.`;
  });
}

/**
 * What cannot stay: "Colour and style change with it."
 * @param {string[]} tied
 */
export function tiedText(tied) {
  if (!tied.length) return "";
  const text = listed(tied);
  return `${text[0].toLocaleUpperCase()}${text.slice(1)} ${tied.length > 1 ? "change" : "changes"} with it.`;
}

/**
 * What else differs from the start: "also differs: size 4.39", "also differs: War, no Fantasy"; all values if none is the same.
 * @param {string[]} differs as the API names it
 * @param {Pick<Item, "attributes">} item
 * @param {Pick<Item, "attributes">} first the start
 * @param {Pick<Dimension, "attribute" | "kind">} dimension
 */
export function differsText(differs, item, first, dimension) {
  const parts = differs.map((label) => {
    const name = label in item.attributes ? label : label.replace(/^other /, "");
    if (!(name in item.attributes)) return label; // a dimension that a person has named
    const value = item.attributes[name] ?? null;
    if (value === null) return `no ${name}`;
    const others = (/** @type {unknown} */ all) => tagsOf(all).filter((tag) => dimension.kind !== "tag" || dimension.attribute !== `${name}: ${tag}`);
    const [here, there] = [others(value), others(first.attributes[name])];
    if (!here.some((tag) => there.includes(tag))) return `${name} ${here.length ? here.join(", ") : anything(value)}`;
    return [...here.filter((tag) => !there.includes(tag)), ...there.filter((tag) => !here.includes(tag)).map((tag) => `no ${tag}`)].join(", ");
  });
  return parts.length ? `also differs: ${parts.join(", ")}` : "";
}

/**
 * Several values in one: a list, or text separated by "|".
 * @param {unknown} value
 */
function tagsOf(value) {
  const tags = Array.isArray(value) ? value.map(String) : typeof value === "string" ? value.split("|") : [];
  return tags.map((tag) => tag.trim()).filter(Boolean);
}

/**
 * What is varied, and its value of an item: ["year", "1977"], ["Comedy", "no"]; null if it is unknown.
 * @param {Pick<Dimension, "attribute" | "kind">} dimension
 * @param {Pick<Item, "attributes">} item
 * @returns {[name: string, value: string] | null}
 */
export function factOf({ attribute, kind }, { attributes }) {
  if (attribute === null) return null;
  const column = attribute in attributes ? attribute : Object.keys(attributes).find((name) => attribute.startsWith(`${name}: `));
  const value = column === undefined ? null : (attributes[column] ?? null);
  if (column === undefined || value === null) return null;
  if (kind !== "tag") return [column, anything(value)];
  const tag = attribute.slice(column.length + 2);
  return [tag, tagsOf(value).includes(tag) ? "yes" : "no"];
}
