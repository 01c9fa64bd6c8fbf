// @ts-check
// Small charts: dots with whiskers, lines over epochs, bars. Positions are in per cent: text keeps its size at any width.

import { h, svg } from "./dom.js";

/** @typedef {{ label: string, mean: number, se: number | null, kind: "model" | "baseline" | "limit" }} Row */
/** @typedef {{ x: number, y: number }} Point */

const ROW = 30;

/** @param {unknown} value */
export function short(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10_000) return Math.round(value).toLocaleString("en-GB");
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  return value.toFixed(3);
}

/**
 * Round numbers around [low, high], three to six of them.
 * @param {number} low
 * @param {number} high
 */
export function ticks(low, high, most = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999) ?? raw;
  const values = [];
  for (let i = Math.floor(low / step + 1e-9); i <= Math.ceil(high / step - 1e-9); i += 1) values.push(i * step);
  return values;
}

/** @param {number} value @param {number} step */
function tickText(value, step) {
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
  const isWhole = Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) < 1e-6;
  return value.toFixed(isWhole ? digits : digits + 1);
}

/**
 * @param {Row[]} rows in reading order
 * @param {{ title: string }} options
 */
export function dotChart(rows, { title }) {
  const ends = rows.flatMap(({ mean, se }) => [mean - 2 * (se ?? 0), mean + 2 * (se ?? 0)]);
  const spread = Math.max(...ends) - Math.min(...ends) || 0.1;
  const low = Math.max(0, Math.min(...ends) - spread * 0.12);
  const marks = ticks(low, Math.max(...ends) + spread * 0.06, 4);
  const [first, last] = [marks[0], marks[marks.length - 1]];
  const step = marks.length > 1 ? marks[1] - marks[0] : 1;
  const at = (/** @type {number} */ value) => `${(4 + (92 * (value - first)) / (last - first || 1)).toFixed(3)}%`;
  const height = rows.length * ROW;
  const said = rows.map(({ label, mean, se }) => `${label} ${short(mean)}${se ? ` ± ${short(se)}` : ""}`).join("; ");
  const plot = svg(
    "svg",
    { class: "dots-plot", height: height + 24, width: "100%", role: "img", "aria-label": `${title}: ${said}` },
    marks.map((mark) => [
      svg("line", { class: "gridline", x1: at(mark), x2: at(mark), y1: 0, y2: height }),
      svg("text", { class: "tick", x: at(mark), y: height + 17, "text-anchor": "middle" }, tickText(mark, step)),
    ]),
    rows.map(({ mean, se, kind }, i) => {
      const y = i * ROW + ROW / 2;
      if (kind === "limit") return svg("line", { class: "limit", x1: at(mean), x2: at(mean), y1: 0, y2: height });
      return svg(
        "g",
        { class: `dots-mark ${kind}` },
        se ? svg("line", { class: "whisker", x1: at(mean - 2 * se), x2: at(mean + 2 * se), y1: y, y2: y }) : null,
        svg("circle", { cx: at(mean), cy: y, r: kind === "model" ? 6 : 4.5 }),
      );
    }),
  );
  return h(
    "div",
    { class: "dots-chart" },
    h("div", { class: "dots-labels" }, rows.map(({ label, kind }) => h("div", { class: kind, title: label }, label))),
    plot,
    h(
      "div",
      { class: "dots-values" },
      rows.map(({ mean, se, kind }) =>
        h("div", { class: kind }, h("b", {}, short(mean)), se ? h("span", {}, ` ± ${short(se)}`) : null)),
    ),
  );
}

/**
 * The value under the pointer is in the heading.
 * @param {Point[]} points by growing x
 * @param {{ title: string, note: string | null, best?: number | null, domain?: [number, number] | null }} options
 *   best: the epoch to mark; domain: of y, if not that of the points
 */
export function lineChart(points, { title, note, best = null, domain = null }) {
  const height = 112;
  const ys = points.map(({ y }) => y);
  // A first wild value or two must not flatten all the others.
  const sorted = [...ys].sort((a, b) => a - b);
  const spare = sorted.length > 20 ? Math.floor(sorted.length * 0.02) : 0;
  let [low, high] = domain ?? [sorted[spare], sorted[sorted.length - 1 - spare]];
  if (high - low < 1e-9 * (1 + Math.abs(high))) [low, high] = [low - 0.5 * (Math.abs(low) || 1), high + 0.5 * (Math.abs(high) || 1)];
  const [x0, x1] = [points[0].x, points[points.length - 1].x];
  const px = (/** @type {Point} */ { x }) => (x1 > x0 ? (100 * (x - x0)) / (x1 - x0) : 50);
  const py = (/** @type {Point} */ { y }) => 8 + (height - 16) * (1 - Math.max(-0.06, Math.min(1.06, (y - low) / (high - low))));
  const path = points.map((p, i) => `${i ? "L" : "M"}${px(p).toFixed(2)} ${py(p).toFixed(2)}`).join("");
  const area = `${path}L${px(points[points.length - 1]).toFixed(2)} ${height}L${px(points[0]).toFixed(2)} ${height}Z`;
  const marked = points.find(({ x }) => x === best) ?? null;
  const last = points[points.length - 1];
  const rest = marked ?? last;

  const value = h("span", { class: "line-value" });
  const where = h("span", { class: "line-where" });
  const rule = svg("line", { class: "rule", y1: 0, y2: height, visibility: "hidden" });
  const spot = svg("circle", { class: "spot", r: 4, visibility: "hidden" });
  const tell = (/** @type {Point} */ point, /** @type {string} */ name) => {
    value.textContent = short(point.y);
    where.textContent = name;
  };
  const calm = () => {
    rule.setAttribute("visibility", "hidden");
    spot.setAttribute("visibility", "hidden");
    tell(rest, marked ? `at the best epoch, ${best}` : `epoch ${last.x}`);
  };
  const hover = (/** @type {PointerEvent} */ event) => {
    const box = plot.getBoundingClientRect();
    const wanted = x0 + ((x1 - x0) * (event.clientX - box.left)) / box.width;
    const point = points.reduce((a, b) => (Math.abs(b.x - wanted) < Math.abs(a.x - wanted) ? b : a));
    for (const name of ["x1", "x2"]) rule.setAttribute(name, `${px(point)}%`);
    spot.setAttribute("cx", `${px(point)}%`);
    spot.setAttribute("cy", String(py(point)));
    for (const node of [rule, spot]) node.setAttribute("visibility", "visible");
    tell(point, `epoch ${point.x}`);
  };
  const said = `${title}: ${short(points[0].y)} at epoch ${x0}, ${short(last.y)} at epoch ${x1}` +
    (marked ? `, ${short(marked.y)} at the best epoch, ${best}` : "");
  const plot = svg(
    "svg",
    { class: "line-plot", width: "100%", height, role: "img", "aria-label": said,
      on: { pointermove: hover, pointerdown: hover, pointerleave: calm } },
    svg("line", { class: "gridline", x1: 0, x2: "100%", y1: height - 0.5, y2: height - 0.5 }),
    svg(
      "svg",
      { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", width: "100%", height, x: 0, y: 0 },
      svg("path", { class: "area", d: area }),
      svg("path", { class: "line", d: path, "vector-effect": "non-scaling-stroke" }),
    ),
    marked ? [
      svg("line", { class: "best-rule", x1: `${px(marked)}%`, x2: `${px(marked)}%`, y1: 0, y2: height }),
      svg("circle", { class: "best", cx: `${px(marked)}%`, cy: py(marked), r: 4 }),
    ] : null,
    rule,
    spot,
  );
  calm();
  return h(
    "figure",
    { class: "line-chart" },
    h("figcaption", {}, h("span", { class: "line-title" }, title), h("span", { class: "line-now" }, value, " ", where)),
    plot,
    h("div", { class: "line-ends", "aria-hidden": "true" }, h("span", {}, `epoch ${x0}`), h("span", {}, `${x1}`)),
    note ? h("p", { class: "line-note" }, note) : null,
  );
}

/**
 * A bar from 0 to 1 with its figure.
 * @param {number} value
 * @param {{ colour?: string | null, text?: string | null, label?: string | null }} [options]
 */
export function gauge(value, { colour = null, text = null, label = null } = {}) {
  const share = Math.max(0, Math.min(1, value));
  const fill = h("span", { class: "gauge-fill", style: { width: `${(100 * share).toFixed(1)}%` } });
  if (colour) fill.style.background = colour;
  return h(
    "span",
    { class: "gauge", title: label },
    h("span", { class: "gauge-track", "aria-hidden": "true" }, fill),
    h("span", { class: "gauge-text" }, text ?? short(value)),
  );
}

/**
 * Heights of a histogram, as a quiet shape.
 * @param {number[]} counts
 * @param {{ label: string }} options
 */
export function sparkArea(counts, { label }) {
  const most = Math.max(1, ...counts);
  const node = svg("svg", {
    class: "spark", viewBox: `0 0 ${counts.length} 1`, preserveAspectRatio: "none", role: "img", "aria-label": label,
  });
  counts.forEach((count, i) => {
    if (count) node.append(svg("rect", { x: i, width: 1.02, y: 1 - count / most, height: count / most }));
  });
  return node;
}
