// @ts-check
// The report in a few plain figures; what they are made of is under "Details".

import { count, number, percent } from "../core/format.js";

/** @import { Model, Report } from "#types" */
/** @typedef {{ mean: number, se: number }} Score */
/** @typedef {{ figure: string, text: string, share?: number, other?: { share: number, text: string } }} Fact other: to compare the share with */

const BESTSELLERS = "Popularity"; // the baseline that gives everybody the same list
const CLEAR = 2; // standard errors

/**
 * How good the recommendations are.
 * @param {Report["metrics"]} metrics as metrics.json has them
 * @returns {Fact[]}
 */
export function scoreFacts(metrics) {
  const { test, validation, baselines = {}, leads = {} } = /** @type {Record<string, any>} */ (metrics ?? {});
  const split = test ? "test" : "validation";
  /** @type {Record<string, Score>} */
  const scores = (test ?? validation)?.metrics ?? {};
  /** @param {string} model @param {string} metric @returns {number | undefined} */
  const other = (model, metric) => (baselines[model]?.[split] ?? baselines[model])?.metrics?.[metric]?.mean;
  const accuracy = best(scores, "ndcg");
  return [
    ...foundFact(scores, (metric) => other(BESTSELLERS, metric)),
    ...(accuracy ? [bestsellerFact(scores[accuracy].mean, other(BESTSELLERS, accuracy)), rivalFact(scores[accuracy].mean, rivals(baselines, (model) => other(model, accuracy)), leads)] : []),
  ].flatMap((fact) => fact ?? []);
}

/**
 * The metric of a kind with the longest list.
 * @param {Record<string, unknown>} scores
 * @param {string} kind
 */
function best(scores, kind) {
  const length = (/** @type {string} */ metric) => Number(metric.split("@")[1] ?? 0);
  return Object.keys(scores).filter((metric) => metric.split("@")[0] === kind).sort((a, b) => length(b) - length(a))[0];
}

/** @param {Record<string, Score>} scores @param {(metric: string) => number | undefined} bestsellers @returns {Fact[]} */
function foundFact(scores, bestsellers) {
  const metric = best(scores, "recall");
  if (!metric) return [];
  const share = scores[metric].mean;
  const usual = bestsellers(metric);
  return [{
    figure: percent(share),
    text: `of the hidden items are among the first ${metric.split("@")[1]} recommendations`,
    share,
    ...(usual !== undefined && { other: { share: usual, text: `Bestsellers for everybody: ${percent(usual)}` } }),
  }];
}

/** @param {number} mean @param {number | undefined} bestsellers @returns {Fact | null} */
function bestsellerFact(mean, bestsellers) {
  if (!bestsellers) return { figure: mean.toFixed(2), text: "accuracy, where 1 is perfect" };
  return { figure: `${(mean / bestsellers).toFixed(1)} ×`, text: "as accurate as showing everybody the bestsellers" };
}

/** @param {Record<string, any>} baselines @param {(model: string) => number | undefined} of @returns {{ model: string, mean: number }[]} the best first */
function rivals(baselines, of) {
  const known = Object.keys(baselines).filter((model) => model !== BESTSELLERS).flatMap((model) => {
    const mean = of(model);
    return mean ? [{ model, mean }] : [];
  });
  return known.sort((a, b) => b.mean - a.mean);
}

/**
 * Beside the best of the other models, where the difference is clear.
 * @param {number} mean
 * @param {{ model: string, mean: number }[]} others
 * @param {Record<string, Score>} leads of the others, customer by customer
 * @returns {Fact | null}
 */
function rivalFact(mean, [rival], leads) {
  if (!rival) return null;
  const lead = leads[rival.model];
  const by = mean / rival.mean - 1;
  const what = `${rival.model}, the best simple model tried`;
  if (lead && Math.abs(lead.mean) <= CLEAR * lead.se) return { figure: "Level", text: `with ${what}: no clear difference in accuracy` };
  return { figure: `${by < 0 ? "−" : "+"}${percent(Math.abs(by))}`, text: `accuracy against ${what}` };
}

/**
 * How cleanly tastes are separated.
 * @param {Model} card
 * @param {Record<string, any>} inspection as `macrid inspect --json` has it
 * @returns {Fact[]}
 */
export function tasteFacts({ concepts, towards_effects: general }, { independence, dci_within: within }) {
  const named = concepts.filter(({ name }) => name !== null).length;
  const sliders = concepts.reduce((sum, { dimensions }) => sum + dimensions.filter(({ name }) => name !== null).length, 0);
  /** @type {(Fact | null)[]} */
  const facts = [
    { figure: number(concepts.length), text: `groups of items that go together; ${named === concepts.length ? "all" : number(named)} have a name that fits what is in them` },
    {
      figure: number(sliders + general.length),
      text: `sliders with a name: ${general.length ? `${number(general.length)} over everything, ` : ""}${number(sliders)} within groups`,
    },
    typeof independence === "number" ? { figure: percent(independence), text: "independent: how little sliders repeat each other", share: independence } : null,
    typeof within?.in_use === "number" ? { figure: percent(within.in_use), text: "to the point: how far a slider sticks to one thing within its group", share: within.in_use } : null,
  ];
  return facts.flatMap((fact) => fact ?? []);
}

/**
 * How training went, in one sentence.
 * @param {Report["log"]} log
 * @param {Report["metrics"]} metrics
 * @param {number | null} best epoch
 */
export function trainingText(log, metrics, best) {
  const { seconds } = /** @type {Record<string, any>} */ (metrics?.training ?? {});
  const which = metrics?.final ? " of the first training, without the customers held back for testing" : "";
  const time = typeof seconds === "number" ? `, ${duration(seconds)}` : "";
  return `${count(log.length, "round")} over all customers${which}${time}${best === null ? "" : `; the model after round ${best}, the most accurate, was kept`}.`;
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 120) return `${number(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${number(seconds / 3600)} h`;
}
