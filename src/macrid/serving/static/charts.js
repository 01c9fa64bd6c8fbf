// Small charts: dots with whiskers, lines over epochs, bars. SVG in per cent, so that text keeps its size at any width.

import { clear, h, svg } from "./dom.js";

const ROW = 30;

export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10_000) return Math.round(value).toLocaleString("en-GB");
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  return value.toFixed(3);
}

// Round numbers that hold [low, high], three to six of them.
export function ticks(low, high, most = 5) {
  if (!(high > low)) return [low];
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999);
  const values = [];
  for (let i = Math.floor(low / step + 1e-9); i <= Math.ceil(high / step - 1e-9); i += 1) values.push(i * step);
  return values;
}

function tickText(value, step) {
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
  const isWhole = Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) < 1e-6;
  return value.toFixed(isWhole ? digits : digits + 1);
}

// rows: [{label, mean, se, kind: "own" | "baseline" | "limit"}], in the order they are to be read.
export function dotChart(rows, { title }) {
  const ends = rows.flatMap(({ mean, se }) => [mean - 2 * (se ?? 0), mean + 2 * (se ?? 0)]);
  const spread = Math.max(...ends) - Math.min(...ends) || 0.1;
  const low = Math.max(0, Math.min(...ends) - spread * 0.12);
  const marks = ticks(low, Math.max(...ends) + spread * 0.06, 4);
  const [first, last] = [marks[0], marks[marks.length - 1]];
  const step = marks.length > 1 ? marks[1] - marks[0] : 1;
  const at = (value) => `${(4 + (92 * (value - first)) / (last - first || 1)).toFixed(3)}%`;
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
        svg("circle", { cx: at(mean), cy: y, r: kind === "own" ? 6 : 4.5 }),
      );
    }),
  );
  return h(
    "div",
    { class: "dots-chart", "data-testid": "dots" },
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

// points: [{x, y}] by growing x; best: the x to mark; domain: [low, high] of y, if not that of the points. The value under the pointer is told in the heading.
export function lineChart(points, { title, note, best = null, unit = "epoch", format = short, domain = null }) {
  const height = 112;
  const ys = points.map(({ y }) => y);
  // A first wild value or two must not flatten all the others.
  const sorted = [...ys].sort((a, b) => a - b);
  const spare = sorted.length > 20 ? Math.floor(sorted.length * 0.02) : 0;
  let [low, high] = domain ?? [sorted[spare], sorted[sorted.length - 1 - spare]];
  if (high - low < 1e-9 * (1 + Math.abs(high))) [low, high] = [low - 0.5 * (Math.abs(low) || 1), high + 0.5 * (Math.abs(high) || 1)];
  const [x0, x1] = [points[0].x, points[points.length - 1].x];
  const px = ({ x }) => (x1 > x0 ? (100 * (x - x0)) / (x1 - x0) : 50);
  const py = ({ y }) => 8 + (height - 16) * (1 - Math.max(-0.06, Math.min(1.06, (y - low) / (high - low))));
  const path = points.map((p, i) => `${i ? "L" : "M"}${px(p).toFixed(2)} ${py(p).toFixed(2)}`).join("");
  const area = `${path}L${px(points[points.length - 1]).toFixed(2)} ${height}L${px(points[0]).toFixed(2)} ${height}Z`;
  const marked = points.find(({ x }) => x === best) ?? null;
  const last = points[points.length - 1];
  const rest = marked ?? last;

  const value = h("span", { class: "line-value" });
  const where = h("span", { class: "line-where" });
  const rule = svg("line", { class: "rule", y1: 0, y2: height, visibility: "hidden" });
  const spot = svg("circle", { class: "spot", r: 4, visibility: "hidden" });
  const tell = (point, name) => {
    value.textContent = format(point.y);
    where.textContent = name;
  };
  const calm = () => {
    rule.setAttribute("visibility", "hidden");
    spot.setAttribute("visibility", "hidden");
    tell(rest, marked ? `at the best ${unit}, ${best}` : `${unit} ${last.x}`);
  };
  const hover = (event) => {
    const box = plot.getBoundingClientRect();
    const wanted = x0 + ((x1 - x0) * (event.clientX - box.left)) / box.width;
    const point = points.reduce((a, b) => (Math.abs(b.x - wanted) < Math.abs(a.x - wanted) ? b : a));
    for (const [node, names] of [[rule, ["x1", "x2"]], [spot, ["cx"]]]) {
      for (const name of names) node.setAttribute(name, `${px(point)}%`);
      node.setAttribute("visibility", "visible");
    }
    spot.setAttribute("cy", py(point));
    tell(point, `${unit} ${point.x}`);
  };
  const said = `${title}: ${format(points[0].y)} at ${unit} ${x0}, ${format(last.y)} at ${unit} ${x1}` +
    (marked ? `, ${format(marked.y)} at the best ${unit}, ${best}` : "");
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
    { class: "line-chart", "data-testid": "curve" },
    h("figcaption", {}, h("span", { class: "line-title" }, title), h("span", { class: "line-now" }, value, " ", where)),
    plot,
    h("div", { class: "line-ends", "aria-hidden": "true" }, h("span", {}, `${unit} ${x0}`), h("span", {}, `${x1}`)),
    note ? h("p", { class: "line-note" }, note) : null,
  );
}

// A bar from 0 to 1 with its figure.
export function gauge(value, { colour = null, text = null, label = null } = {}) {
  const share = Math.max(0, Math.min(1, value ?? 0));
  const fill = h("span", { class: "gauge-fill", style: { width: `${(100 * share).toFixed(1)}%` } });
  if (colour) fill.style.background = colour;
  return h(
    "span",
    { class: "gauge", title: label },
    h("span", { class: "gauge-track", "aria-hidden": "true" }, fill),
    h("span", { class: "gauge-text" }, text ?? short(value)),
  );
}

// Heights of a histogram, as a quiet shape.
export function sparkArea(counts, { label }) {
  const most = Math.max(1, ...counts);
  const node = svg("svg", {
    class: "spark", viewBox: `0 0 ${counts.length} 1`, preserveAspectRatio: "none", role: "img", "aria-label": label,
  });
  clear(node);
  counts.forEach((count, i) => {
    if (count) node.append(svg("rect", { x: i, width: 1.02, y: 1 - count / most, height: count / most }));
  });
  return node;
}
