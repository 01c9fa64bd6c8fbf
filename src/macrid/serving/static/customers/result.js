// @ts-check
// The result of a trial: one sentence, then what moves, which groups, who gains and who loses.

import { conceptColour } from "../core/colours.js";
import { h } from "../core/dom.js";
import { capital, count, number, percent, plain, signed } from "../core/format.js";
import { ranked, tasteBar } from "../core/tastes.js";

/** @import { App, Child, CohortRequest, CohortResult, CohortUser } from "#types" */
/** @typedef {{ open: (id: string) => void, save: () => void, isOpen: Set<string> }} Does `isOpen`: titles of what is folded out */

const MOST_ATTRIBUTES = 6;
const LEAST_MOVE = 0.02; // standard deviations; less is not worth a row
const MOST_NAMED = 5;
const DRAWN = /drawn evenly$/;
const LEAST_SHARE = 0.01; // change of a group's share that is worth a word

/** "For 500 customers, 6.2 of 10 recommendations change. Accuracy 0.423 → 0.401 (−5 %)." @param {CohortResult} result */
export function headline({ users, n, new: fresh, accuracy }) {
  const changed = fresh === 0 ? "no recommendation changes" : `${oneDigit(fresh * n)} of ${n} recommendations change`;
  const lists = users === 1 ? `For this customer, ${changed}.` : `For ${count(users, "customer")}, ${changed}.`;
  return `${lists}${accuracy ? ` ${accuracyText(accuracy)}` : ""}`;
}

/** @param {NonNullable<CohortResult["accuracy"]>} accuracy */
function accuracyText({ metrics }) {
  const { before, after } = metrics["ndcg@100"];
  const [old, now] = [before.mean ?? 0, after.mean ?? 0];
  if (old.toFixed(3) === now.toFixed(3)) return `Accuracy stays at ${old.toFixed(3)}.`;
  const by = old > 0 ? 100 * (now / old - 1) : 0;
  return `Accuracy ${old.toFixed(3)} → ${now.toFixed(3)}${old > 0 ? ` (${signed(by, Math.abs(by) < 0.95 ? 1 : 0)} %)` : ""}.`;
}

/** @param {number} x */
const oneDigit = (x) => (x > 0 && x < 0.05 ? "less than 0.1" : Number(x.toFixed(1)).toLocaleString("en-GB"));

/**
 * Nothing is on yet: what to do, and how things are.
 * @param {App} app
 * @param {CohortResult} result
 */
export function todayView(app, result) {
  const { shares, coverage, accuracy } = result;
  const label = (/** @type {number} */ k) => app.label(k);
  return h(
    "div",
    { class: "trial-empty" },
    h("p", { class: "trial-headline", text: app.card.has_concepts ? "Move a slider and see what it would do to them." : "Add a filter or a rule and see what it would do to them." }),
    h("p", { class: "quiet" }, "Filters and rules of ", h("button", { type: "button", class: "text-button inline", text: "Recommendations", on: { click: () => app.store.step({ view: "picks" }) } }), " count, too. Nothing goes live: this only computes."),
    shares.before.length > 0 && section("Their recommendations today", tasteBar(shares.before, label, { inOrder: true, name: "Groups in the lists" }), legend(app, shares.before, null)),
    h("p", { class: "quiet", text: [
      `${number(coverage.before)} of ${count(app.card.items, "item")} are recommended to somebody.`,
      accuracy ? `Accuracy ${(accuracy.metrics["ndcg@100"].before.mean ?? 0).toFixed(3)}.` : "",
    ].join(" ") }),
    warnings(result),
  );
}

/**
 * @param {App} app
 * @param {CohortResult} result
 * @param {CohortRequest} request
 * @param {Does} does
 */
export function resultView(app, result, request, does) {
  const { shares, accuracy, coverage } = result;
  const label = (/** @type {number} */ k) => app.label(k);
  return h(
    "div",
    {},
    h("p", { class: "trial-headline", text: headline(result) }),
    warnings(result),
    attributes(result, request),
    shares.before.length > 0 && section(
      "How much of the lists comes from each group",
      h("div", { class: "before-after" },
        h("span", { class: "quiet", text: "Before" }), tasteBar(shares.before, label, { inOrder: true, name: "Before" }),
        h("span", { class: "quiet", text: "After" }), tasteBar(shares.after, label, { inOrder: true, name: "After" })),
      legend(app, shares.before, shares.after),
    ),
    accuracy ? gainsAndLosses(result, does) : section("Whose list changes most", people(result.changes, does, (one) => `${one.new} of ${one.length} new`)),
    byTaste(app, result),
    h("p", { class: "quiet", text: `${number(coverage.before)} → ${number(coverage.after)} of ${count(app.card.items, "item")} are recommended to somebody.` }),
    details(result, does),
    h("p", {}, h("button", { type: "button", class: "button", text: "Download as CSV", title: "What happens to each customer", on: { click: does.save } })),
  );
}

/** @param {string} title @param {...Child} children */
const section = (title, ...children) => h("section", { class: "trial-section" }, h("h3", { text: title }), children);

/** What is wrong, and what is good to know. @param {CohortResult} result */
function warnings({ short_users: short, short: some, n, users, chosen, skipped, warnings: said }) {
  const fewest = some[0]?.length ?? 0;
  const wrong = [
    short > 0 && `For ${count(short, "customer")} the filters and rules leave fewer than ${n} items${fewest === 0 ? ", for some of them none" : ` (${fewest} at the least)`}.`,
    ...said.filter((text) => !DRAWN.test(text)).map(inPlainWords),
  ].filter((text) => typeof text === "string");
  const notes = [
    users + skipped < chosen && `Computed for ${number(users)} of ${number(chosen)} customers, drawn evenly.`,
    skipped > 0 && `${count(skipped, "customer")} without a known item ${skipped === 1 ? "is" : "are"} left out.`,
  ].filter(Boolean);
  return [
    notes.length > 0 && h("p", { class: "trial-notes", text: notes.join(" ") }),
    wrong.length > 0 && h("ul", { class: "trial-warnings" }, wrong.map((text) => h("li", { text }))),
  ];
}

/** What the service says, in the words of the page. @param {string} text */
const inPlainWords = (text) => `${capital(text.replace(/\buser(s?)\b/g, "customer$1"))}${/[.!?]$/.test(text) ? "" : "."}`;

/** Those that were asked for first. @param {CohortResult} result @param {CohortRequest} request */
function attributes({ attributes: all }, { moves = [] }) {
  const asked = new Set(moves.map(({ towards }) => towards));
  const shown = all.filter(({ name, moves: by }) => asked.has(name) || Math.abs(by) >= LEAST_MOVE);
  const first = [...shown.filter(({ name }) => asked.has(name)), ...shown.filter(({ name }) => !asked.has(name))].slice(0, MOST_ATTRIBUTES);
  if (!first.length) return null;
  return section(
    "What the lists are like",
    h("ul", { class: "moved-attributes" }, first.map(({ name, label, before, after, is_share: isShare, moves: by }) =>
      h(
        "li",
        { class: asked.has(name) ? "is-asked" : "" },
        h("span", { class: `way ${by > 0 ? "up" : "down"}`, "aria-hidden": "true", text: Math.abs(by) < LEAST_MOVE ? "" : by > 0 ? "▲" : "▼" }),
        h("span", { class: "moved-name", dir: "auto", text: capital(name.replace(/^.*?: /, "")) }),
        isShare && h("span", { class: "moved-track", "aria-hidden": "true" },
          h("span", { class: "moved-span", style: { left: `${100 * Math.min(before, after)}%`, width: `${100 * Math.abs(after - before)}%` } }),
          h("span", { class: "moved-dot", style: { left: `${100 * after}%` } })),
        h("span", { class: "moved-label", text: label }),
      ))),
  );
}

/**
 * Groups with their shares; after a change, those that change most first.
 * @param {App} app
 * @param {number[]} before
 * @param {number[] | null} after
 */
function legend(app, before, after) {
  const rows = before.map((share, concept) => ({ concept, share, now: after?.[concept] ?? share }));
  const shown = after
    ? rows.filter(({ share, now }) => Math.abs(now - share) >= LEAST_SHARE).sort((a, b) => Math.abs(b.now - b.share) - Math.abs(a.now - a.share))
    : ranked(before).map(({ concept, share }) => ({ concept, share, now: share }));
  if (!shown.length) return h("p", { class: "quiet", text: "The groups keep their shares." });
  return h("ul", { class: "trial-legend" }, shown.slice(0, MOST_ATTRIBUTES).map(({ concept, share, now }) =>
    h("li", {}, h("span", { class: "dot", style: { "--c": conceptColour(concept) } }), h("span", { class: "legend-name", dir: "auto", text: app.label(concept) ?? `Group ${concept}` }),
      h("span", { class: "legend-share", text: after ? `${percent(share)} → ${percent(now)}` : percent(share) }))));
}

/** @param {CohortResult} result @param {Does} does */
function gainsAndLosses({ accuracy, gains, losses }, does) {
  const { gained, lost, same } = accuracy ?? { gained: 0, lost: 0, same: 0 };
  const parts = [["good", gained, "gain"], ["same", same, "stay the same"], ["bad", lost, "lose"]];
  const change = (/** @type {CohortUser} */ { before, after }) => `${(before ?? 0).toFixed(2)} → ${(after ?? 0).toFixed(2)}`;
  return section(
    "Who gains and who loses",
    h("span", { class: "outcome-bar", role: "img", "aria-label": `${gained} gain, ${same} stay the same, ${lost} lose` },
      parts.filter(([, some]) => Number(some) > 0).map(([kind, some]) => h("span", { class: `outcome ${kind}`, style: { flexGrow: Number(some) } }))),
    h("p", { class: "outcome-words" }, parts.map(([kind, some, text]) => h("span", { class: `outcome-word ${kind}`, text: `${number(Number(some))} ${text}` }))),
    h("div", { class: "gains-losses" },
      losses.length > 0 && h("div", {}, h("h4", { text: "Lose most accuracy" }), people(losses, does, change)),
      gains.length > 0 && h("div", {}, h("h4", { text: "Gain most accuracy" }), people(gains, does, change))),
  );
}

/** @param {CohortUser[]} some @param {Does} does @param {(one: CohortUser) => string} amount */
function people(some, does, amount) {
  if (!some.length) return h("p", { class: "quiet", text: "Nobody." });
  return h("ul", { class: "trial-people" }, some.slice(0, MOST_NAMED).map((one) =>
    h("li", {},
      h("button", { type: "button", class: "customer-open", dir: "auto", text: `Customer ${one.id}`, title: "Open in Recommendations", on: { click: () => does.open(one.id) } }),
      h("span", { class: "quiet", text: amount(one) }))));
}

/** @param {App} app @param {CohortResult} result */
function byTaste(app, { tastes, n }) {
  if (tastes.length < 2) return null;
  const hasAccuracy = tastes.some(({ before }) => before !== null);
  const change = (/** @type {number | null} */ before, /** @type {number | null} */ after) => (before && after !== null ? `${signed(100 * (after / before - 1), 0)} %` : "–");
  return section(
    "By what customers like most",
    h("table", { class: "trial-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "Like most" }), h("th", { scope: "col", class: "figure", text: "Customers" }), h("th", { scope: "col", class: "figure", text: `New of ${n}` }), hasAccuracy && h("th", { scope: "col", class: "figure", text: "Accuracy" }))),
      h("tbody", {}, tastes.map(({ concept, users, new: fresh, before, after }) =>
        h("tr", {},
          h("th", { scope: "row" }, h("span", { class: "concept-tag" }, h("span", { class: "dot", style: { "--c": conceptColour(concept) } }), h("span", { class: "concept-label", dir: "auto", text: app.label(concept) ?? `Group ${concept}` }))),
          h("td", { class: "figure", text: number(users) }),
          h("td", { class: "figure", text: oneDigit(fresh * n) }),
          hasAccuracy && h("td", { class: "figure", text: change(before, after) }))))),
  );
}

/** For those who want to know exactly. @param {CohortResult} result @param {Does} does */
function details({ accuracy, popularity, changed_places: places, unchanged, stopped, n, users }, does) {
  const measured = (/** @type {{ mean: number | null, se: number | null }} */ { mean, se }) => `${(mean ?? 0).toFixed(3)} ± ${(se ?? 0).toFixed(3)}`;
  const names = { "ndcg@100": "NDCG@100", "recall@20": "Recall@20" };
  /** @type {HTMLDetailsElement} */
  const element = h(
    "details",
    { class: "trial-details", open: does.isOpen.has("details"), on: { toggle: () => does.isOpen[element.open ? "add" : "delete"]("details") } },
    h("summary", { text: "Details" }),
    accuracy && h("table", { class: "trial-table" },
      h("thead", {}, h("tr", {}, ["Metric", "Before", "After", "Difference"].map((text, at) => h("th", { scope: "col", class: at ? "figure" : "", text })))),
      h("tbody", {}, Object.entries(accuracy.metrics).map(([name, { before, after, difference }]) =>
        h("tr", {}, h("th", { scope: "row", text: names[/** @type {keyof typeof names} */ (name)] ?? name }), [measured(before), measured(after), `${signed(difference.mean ?? 0, 3)} ± ${(difference.se ?? 0).toFixed(3)}`].map((text) => h("td", { class: "figure", text })))))),
    accuracy && h("p", { text: `Over ${count(accuracy.users, "customer")} with something to predict: items taken out of their histories. ± is one standard error; the difference is paired. The list is continued with the best of the rest.` }),
    !accuracy && h("p", { text: "Accuracy is unknown: it takes customers with items taken out of their histories." }),
    h("p", { text: `Another item at place 1 for ${percent(places[0] ?? 0)}, at place ${n} for ${percent(places.at(-1) ?? 0)} of customers; the same list for ${number(unchanged)} of ${number(users)}.` }),
    popularity && h("p", { text: `A recommended item has ${plain(Math.round(popularity.before))} → ${plain(Math.round(popularity.after))} customers on average.` }),
    stopped > 0 && h("p", { text: `A slider stops at the range of real customers for ${number(stopped)}.` }),
  );
  return element;
}
