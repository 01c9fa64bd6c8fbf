// @ts-check
// How a training goes, in words.

import { number } from "../core/format.js";

/** @import { components } from "#openapi" */
/** @typedef {components["schemas"]["TrainingProgress"]} Progress */
/** @typedef {components["schemas"]["EventCounts"]} Counts */

/**
 * 35 s, 4 min, 1 h 20 min
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 59.5) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60 ? `${minutes % 60} min` : ""}`.trim();
}

/**
 * 4 KB, 1.2 MB
 * @param {number} bytes
 */
export function size(bytes) {
  const units = ["bytes", "KB", "MB", "GB"];
  let at = 0;
  for (; bytes >= 1000 && at < units.length - 1; at += 1) bytes /= 1000;
  return `${at && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`;
}

/**
 * What is being done.
 * @param {Progress} progress
 */
export function phase({ phase: name, text, curve, epochs, is_stopping: isStopping }) {
  if (isStopping && name === "training") return "Stopping after this pass";
  switch (name) {
    case "starting":
    case "reading": return "Reading your data";
    case "training": return curve.length ? `Learning: pass ${Math.min(curve.length + 1, epochs)}` : "Learning: first pass over the data";
    case "scoring": return "Measuring how good it is";
    case "understanding": return /knob/.test(text) ? "Measuring what each slider does" : "Naming the groups";
    case "comparing": return "Comparing with simple methods";
    default: return "Working";
  }
}

/**
 * How long it has taken and may still take.
 * @param {Progress} progress
 */
export function times({ seconds, seconds_left: left, phase: name, epochs, is_stopping: isStopping }) {
  const so = `${duration(seconds)} so far`;
  if (name !== "training" || isStopping) return so;
  return left === null ? `${so}, at most ${epochs} passes` : `${so}, at most ${duration(left)} more; it stops by itself when it no longer improves`;
}

/**
 * What is left out of a file, and why.
 * @param {Counts} counts
 * @param {number | null} minRating
 */
export function leftOut(counts, minRating) {
  const parts = [];
  if (counts.below_min_rating) parts.push(`${number(counts.below_min_rating)} rows rated below ${minRating}`);
  if (counts.duplicates) parts.push(`${number(counts.duplicates)} rows that repeat an earlier one`);
  if (counts.short_users) {
    const who = counts.short_users === 1 ? "1 customer" : `${number(counts.short_users)} customers`;
    parts.push(`${who} with fewer than 5 different items (${number(counts.short_rows)} rows)`);
  }
  return parts;
}
