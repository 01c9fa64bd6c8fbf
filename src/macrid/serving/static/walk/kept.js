// @ts-check
// What the stops have in common with the start, in words.

import { anything, listed } from "../core/format.js";

/** @import { Dimension, Item, Traversed } from "#types" */

/**
 * How often each attribute is kept, most often first: "Kept at every stop: size.", "Kept at 7 of 8 stops: metal, price."
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
    const where = times === items.length ? "at every stop" : times > 1 ? `at ${times} of ${items.length} stops` : "at no other stop";
    return `Kept ${where}: ${some.join(", ")}.`;
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
 * What else differs from the start: "also differs: size 4.39", "also differs: War, no Fantasy".
 * @param {string[]} differs as the API names it
 * @param {Pick<Item, "attributes">} item
 * @param {Pick<Item, "attributes">} first the start
 * @param {Pick<Dimension, "attribute" | "kind">} dimension
 */
export function differsText(differs, item, first, dimension) {
  const parts = differs.map((label) => {
    const name = label in item.attributes ? label : label.replace(/^other /, "");
    const [here, there] = [item.attributes[name] ?? null, first.attributes[name] ?? null];
    const tags = [tagsOf(here), tagsOf(there)];
    if (here === null || tags.every((some) => some.length < 2)) return here === null ? (name in item.attributes ? `no ${name}` : name) : `${name} ${anything(here)}`;
    const ignored = dimension.kind === "tag" ? dimension.attribute?.slice(name.length + 2) : null;
    const [more, less] = [tags, [...tags].reverse()].map(([own, others]) => own.filter((tag) => !others.includes(tag) && tag !== ignored));
    return [...more, ...less.map((tag) => `no ${tag}`)].join(", ");
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
