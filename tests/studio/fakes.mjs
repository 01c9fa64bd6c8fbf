// A page's address and a service, for modules that need them.

/** @import { RecommendRequest } from "#types" */

/** An address with a history, as browsers keep it. */
export function address(search = "") {
  const path = "/";
  const entries = [path + search];
  let at = 0;
  let pop = () => {};
  return {
    path,
    get search() { return entries[at].slice(path.length); },
    push: (/** @type {string} */ url) => void entries.splice(++at, entries.length, url),
    replace: (/** @type {string} */ url) => void (entries[at] = url),
    onPop: (/** @type {() => void} */ listener) => void (pop = listener),
    back: () => (at -= 1, pop()),
    entries,
  };
}

/**
 * Answers to fetch, one by one: `sent` has the bodies, `answer` resolves the oldest that is open.
 */
export function service() {
  /** @type {RecommendRequest[]} */
  const sent = [];
  /** @type {{ done: (answer: Response) => void, body: RecommendRequest }[]} */
  const open = [];
  const page = /** @type {any} */ (globalThis);
  page.location = { hash: "", pathname: "/", search: "" };
  page.sessionStorage = { getItem: () => null };
  page.fetch = (/** @type {string} */ url, /** @type {RequestInit} */ { body, signal }) => {
    if (!url.endsWith("/recommend")) return Promise.resolve(Response.json({ concepts: [], history: [], items: [], unknown: [] }));
    sent.push(JSON.parse(String(body)));
    return new Promise((done, fail) => {
      open.push({ done, body: sent[sent.length - 1] });
      signal?.addEventListener("abort", () => fail(signal.reason));
    });
  };
  return {
    sent,
    /** @param {(request: RecommendRequest) => object} [make] */
    async answer(make = () => ({}), status = 200) {
      const next = open.shift();
      if (!next) throw new Error("no request was sent");
      next.done(Response.json({ items: [], warnings: [], moves: next.body.moves, ...make(next.body) }, { status }));
      await new Promise((done) => setTimeout(done));
      await new Promise((done) => setTimeout(done));
    },
  };
}
