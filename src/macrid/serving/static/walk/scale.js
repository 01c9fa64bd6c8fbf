// @ts-check
// Where the stops are between the two ends, under the frames, over how many real users are where.

import { sparkArea } from "../core/charts.js";
import { svg } from "../core/dom.js";

/** @import { Route } from "./route.js" */

const HEIGHT = 88; // of the rule, below the frames
const HILL = 34;

/** @param {Route} route */
export function scale({ dimension, walk }) {
  const values = walk.items.map((stop) => stop.value);
  const low = Math.min(walk.range[0], ...values);
  const high = Math.max(walk.range[1], ...values);
  const at = (/** @type {number} */ value) => 3 + (94 * (value - low)) / (high - low || 1);
  const middle = (/** @type {number} */ i) => (100 * (i + 0.5)) / values.length;
  return svg(
    "svg",
    { class: "walk-scale", width: "100%", height: HEIGHT + 8, role: "img", "aria-label": `Where the stops are between ${dimension.low} and ${dimension.high}` },
    svg("svg", { width: "100%", height: "100%", overflow: "hidden" }, hill(dimension, at)),
    svg(
      "svg",
      { viewBox: `0 0 100 ${HEIGHT}`, preserveAspectRatio: "none", width: "100%", height: HEIGHT, x: 0, y: 0 },
      values.map((value, i) => svg("path", {
        class: "walk-lead", "data-stop": i, "vector-effect": "non-scaling-stroke",
        d: `M${middle(i)} 0C${middle(i)} 62 ${at(value)} 36 ${at(value)} ${HEIGHT}`,
      })),
    ),
    svg("line", { class: "walk-rule", x1: 0, x2: "100%", y1: HEIGHT, y2: HEIGHT }),
    values.map((value, i) => svg("circle", {
      class: `walk-dot${walk.items[i].start ? " is-start" : ""}`, "data-stop": i, cx: `${at(value)}%`, cy: HEIGHT, r: 5,
    })),
  );
}

/** @param {Route["dimension"]} dimension @param {(value: number) => number} at */
function hill({ histogram: { low, high, counts, of }, label }, at) {
  const spark = sparkArea(counts, { label: `how many ${of} are where along ${label}` });
  for (const [name, value] of Object.entries({ x: `${at(low)}%`, y: HEIGHT - HILL, width: `${at(high) - at(low)}%`, height: HILL })) {
    spark.setAttribute(name, String(value));
  }
  return spark;
}
