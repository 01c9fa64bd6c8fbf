// @ts-check
// The service: one function for every question that the page asks.

import { h } from "./dom.js";
import { forPeople } from "./messages.js";

/** @import { components } from "#openapi" */
/** @import { CohortRequest, CohortResult, Concept, Dimension, Encoded, Explained, ExplainRequest, Item, Map as ItemMap, MapValues, Model, Move, Recommended, RecommendRequest, Report, SegmentProfile, Traversed, Who } from "#types" */

const KEY = "macrid-token";
let token = takeToken();
/** @type {Promise<void> | null} */
let asking = null;

export class ApiError extends Error {
  /**
   * @param {number} status 0 where there was no answer
   * @param {string} detail for a person
   * @param {string | null} at the part of the request that is wrong
   */
  constructor(status, detail, at = null) {
    super(detail);
    this.status = status;
    this.detail = detail;
    this.at = at;
  }
}

/**
 * What to tell a person about an error.
 * @param {unknown} error
 * @param {string} [otherwise]
 */
export const detailOf = (error, otherwise = "Something went wrong.") => (error instanceof ApiError ? error.detail : otherwise);

/** @returns {Promise<Model>} */
export const model = () => ask("GET", "/model");

/**
 * @param {{ q?: string, limit?: number, offset?: number, sort?: string }} params
 * @param {AbortSignal} [signal]
 * @returns {Promise<components["schemas"]["UserPage"]>}
 */
export const users = (params, signal) => ask("GET", withQuery("/users", params), undefined, signal);

/** @param {string} user @param {AbortSignal} [signal] @returns {Promise<components["schemas"]["UserHistory"]>} */
export const historyOf = (user, signal) => ask("GET", `/users/${encodeURIComponent(user)}`, undefined, signal);

/**
 * Items that match a text, the most popular ones without one.
 * @param {{ q?: string, limit?: number }} params
 * @param {AbortSignal} [signal]
 * @returns {Promise<components["schemas"]["ItemPage"]>}
 */
export const search = (params, signal) => ask("GET", withQuery("/items", params), undefined, signal);

/**
 * @param {string[]} ids
 * @param {AbortSignal} [signal]
 * @param {{ attributes?: boolean }} [options]
 * @returns {Promise<components["schemas"]["ItemList"]>}
 */
export const items = (ids, signal, options = {}) => ask("POST", "/items/lookup", { ids, ...options }, signal);

/** @param {string[]} ids @param {AbortSignal} [signal] @returns {Promise<SegmentProfile>} */
export const segmentProfile = (ids, signal) => ask("POST", "/segments/profile", { ids }, signal);

/** @param {string[]} ids @returns {Promise<components["schemas"]["ItemList"]>} with what the items table has about each */
export const itemsInFull = (ids) => ask("POST", "/items/lookup", { ids, attributes: true });

/** @param {string[]} left @param {string[]} right @param {AbortSignal} [signal] @returns {Promise<components["schemas"]["Contrasts"]>} */
export const contrast = (left, right, signal) => ask("POST", "/contrast", { left, right }, signal);

/** @returns {Promise<components["schemas"]["RunsBeside"]>} refused where edits are off */
export const runs = () => ask("GET", "/runs");

/** @param {string} id @returns {Promise<Item>} */
export const item = (id) => ask("GET", `/items/${encodeURIComponent(id)}`);

/** @param {string} id @param {number} n @returns {Promise<components["schemas"]["Similar"]>} */
export const similar = (id, n) => ask("GET", withQuery("/similar", { item: id, n }));

/** @param {RecommendRequest} request @param {AbortSignal} [signal] @returns {Promise<Recommended>} */
export const recommend = (request, signal) => ask("POST", "/recommend", request, signal);

/**
 * Why items have their places in a list, or are not in it.
 * @param {ExplainRequest} request
 * @returns {Promise<Explained>}
 */
export const explain = (request) => ask("POST", "/explain", request);

/** @param {Who & { moves?: Move[] }} request @param {AbortSignal} [signal] @returns {Promise<Encoded>} */
export const encode = (request, signal) => ask("POST", "/encode", request, signal);

/** @param {CohortRequest} request @param {AbortSignal} [signal] @returns {Promise<CohortResult>} */
export const cohort = (request, signal) => ask("POST", "/cohort", request, signal);

/** @param {components["schemas"]["TraverseRequest"]} request @param {AbortSignal} [signal] @returns {Promise<Traversed>} */
export const traverse = (request, signal) => ask("POST", "/traverse", request, signal);

/** @param {string} text @returns {Promise<components["schemas"]["Wishes"]>} */
export const words = (text) => ask("POST", "/words", { text });

/** @returns {Promise<components["schemas"]["ItemAttributes"]>} */
export const attributes = () => ask("GET", "/attributes");

/** @param {number} concept @returns {Promise<components["schemas"]["Dimensions"]>} */
export const dimensions = (concept) => ask("GET", `/concepts/${concept}/dimensions`);

/** @param {number} concept @param {components["schemas"]["ConceptRename"]} names @returns {Promise<Concept>} */
export const renameConcept = (concept, names) => ask("PATCH", `/concepts/${concept}`, names);

/** @param {number} concept @param {number} dimension @param {components["schemas"]["DimensionRename"]} names @returns {Promise<Dimension>} */
export const renameDimension = (concept, dimension, names) => ask("PATCH", `/concepts/${concept}/dimensions/${dimension}`, names);

/** @returns {Promise<ItemMap>} */
export const map = () => ask("GET", "/map");

/** @param {string} by @returns {Promise<MapValues>} */
export const mapValues = (by) => ask("GET", withQuery("/map/values", { by }));

/** @returns {Promise<Record<string, any>>} the API, as an OpenAPI document */
export const description = () => ask("GET", "/openapi.json");

/** @returns {Promise<Report>} */
export const report = () => ask("GET", "/report");

/** @returns {Promise<{ before: string | null, after: string, diff: Record<string, any> | null }>} */
export const diff = () => ask("GET", "/diff");

export const hasToken = () => Boolean(token);

/** @type {Map<string, Promise<string>>} */
const pictures = new Map();

/**
 * Show an item's picture in an <img>; rejects where there is none.
 * @param {HTMLImageElement} img
 * @param {string} id
 */
export async function showPicture(img, id) {
  const url = `/v1/pictures/${encodeURIComponent(id)}`;
  if (!token) {
    img.src = url;
    return;
  }
  // An <img> cannot send the token, and the page's policy lets no blob: through.
  if (!pictures.has(id)) pictures.set(id, dataURL(url));
  img.src = (await pictures.get(id)) ?? "";
}

/** @param {string} url @returns {Promise<string>} */
async function dataURL(url) {
  const answer = await fetch(url, { headers: headers() });
  if (!answer.ok) throw new ApiError(answer.status, answer.statusText);
  const reader = new FileReader();
  const read = new Promise((done) => reader.addEventListener("load", done));
  reader.readAsDataURL(await answer.blob());
  await read;
  return String(reader.result);
}

/** @param {string} path @param {Record<string, string | number>} params */
function withQuery(path, params) {
  const query = new URLSearchParams(Object.entries(params).map(([name, value]) => [name, String(value)]).filter(([, value]) => value !== ""));
  return query.size ? `${path}?${query}` : path;
}

/**
 * @param {string} method
 * @param {string} path without /v1
 * @param {unknown} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(method, path, body, signal) {
  const sent = token;
  let answer;
  try {
    answer = await fetch(`/v1${path}`, {
      method,
      headers: headers(body !== undefined),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "The service is not responding. Is it still running?");
  }
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => null);
  if (answer.status === 401) {
    if (sent === token) await askForToken();
    return ask(method, path, body, signal);
  }
  throw new ApiError(answer.status, forPeople(problem?.detail ?? `${answer.status} ${answer.statusText}`), problem?.errors?.[0]?.at ?? null);
}

/** @returns {Record<string, string>} */
export function headers(hasBody = false) {
  return { ...(hasBody && { "Content-Type": "application/json" }), ...(token && { Authorization: `Bearer ${token}` }) };
}

/** From the address's fragment, which is then removed, or kept earlier in this tab. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  return given ?? sessionStorage.getItem(KEY);
}

/** @returns {Promise<void>} */
function askForToken() {
  asking ??= new Promise((done) => {
    const input = h("input", { type: "password", id: "token", class: "field", autocomplete: "off", required: true });
    const dialog = h(
      "dialog",
      { class: "dialog", "aria-labelledby": "token-title" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "token-title", text: "This service needs a token" }),
        h("label", { for: "token", text: token ? "That token is invalid. Try another." : "Ask whoever runs the service for it." }),
        input,
        h("p", { class: "dialog-foot" }, h("button", { class: "button primary", text: "Continue" })),
      ),
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      token = input.value;
      sessionStorage.setItem(KEY, token);
      asking = null;
      dialog.remove();
      done();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}
