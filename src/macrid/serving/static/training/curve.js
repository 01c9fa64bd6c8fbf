// @ts-check
// Accuracy over passes, as it grows.

import { short, ticks } from "../core/charts.js";
import { h, svg } from "../core/dom.js";

/** @import { components } from "#openapi" */
/** @typedef {components["schemas"]["CurvePoint"]} Point */

const HEIGHT = 190;
const TITLE = "Accuracy on customers it has not seen";

/**
 * Where points lie: x in per cent, y in pixels, and the marks of both axes.
 * @param {{ epoch: number, accuracy: number }[]} points
 */
export function layout(points) {
  const ys = points.map(({ accuracy }) => accuracy);
  const marks = ticks(Math.max(0, Math.min(...ys) - 0.01), Math.max(...ys) + 0.01, 4);
  const [low, high] = [marks[0], marks[marks.length - 1]];
  const last = Math.max(10, points[points.length - 1].epoch);
  const x = (/** @type {number} */ epoch) => (100 * (epoch - 1)) / (last - 1);
  const y = (/** @type {number} */ value) => 6 + (HEIGHT - 12) * (1 - (value - low) / (high - low || 1));
  const step = [1, 2, 5, 10, 20, 50, 100, 200].find((size) => last / size <= 6) ?? last;
  const passes = [1];
  for (let pass = step; pass <= last; pass += step) if (pass > 1) passes.push(pass);
  return { x, y, marks, passes };
}

/**
 * @param {Point[]} curve
 * @param {string} label of the best point
 * @returns {HTMLElement}
 */
export function curveChart(curve, label = "best so far") {
  const points = curve.flatMap(({ epoch, accuracy }) => (accuracy === null ? [] : [{ epoch, accuracy }]));
  if (!points.length) {
    return h("figure", { class: "curve" }, h("figcaption", { text: TITLE }), h("div", { class: "curve-wait" }, "The first point comes after the first pass."));
  }
  const { x, y, marks, passes } = layout(points);
  const path = points.map(({ epoch, accuracy }, i) => `${i ? "L" : "M"}${x(epoch).toFixed(2)} ${y(accuracy).toFixed(2)}`).join("");
  const best = points.reduce((one, other) => (other.accuracy > one.accuracy ? other : one));
  const now = points[points.length - 1];
  const said = `${TITLE}: ${short(now.accuracy)} after pass ${now.epoch}; best ${short(best.accuracy)} after pass ${best.epoch}`;
  return h(
    "figure",
    { class: "curve" },
    h("figcaption", {}, TITLE, h("span", { class: "curve-best" }, `${label} `, h("b", { text: short(best.accuracy) }), ` of 1, pass ${best.epoch}`)),
    h(
      "div",
      { class: "curve-plot" },
      h("div", { class: "curve-marks", "aria-hidden": "true" }, marks.map((mark) => h("span", { style: { top: `${y(mark)}px` }, text: String(Number(mark.toFixed(3))) }))),
      svg(
        "svg",
        { width: "100%", height: HEIGHT, role: "img", "aria-label": said },
        marks.map((mark) => svg("line", { class: "curve-grid", x1: 0, x2: "100%", y1: y(mark), y2: y(mark) })),
        svg(
          "svg",
          { viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: HEIGHT },
          svg("path", { class: "curve-line", d: path, "vector-effect": "non-scaling-stroke" }),
        ),
        svg("circle", { class: "curve-spot", cx: `${x(best.epoch)}%`, cy: y(best.accuracy), r: 5 }),
        now !== best && svg("circle", { class: "curve-now", cx: `${x(now.epoch)}%`, cy: y(now.accuracy), r: 3.5 }),
      ),
      h("div", { class: "curve-passes", "aria-hidden": "true" }, passes.map((pass) => h("span", { style: { left: `${x(pass)}%` }, text: String(pass) }))),
    ),
    h("p", { class: "curve-axis", "aria-hidden": "true", text: "passes over your data" }),
  );
}
