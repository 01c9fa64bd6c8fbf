// @ts-check
// What the page asks of the service about training, and how it goes: looked at again while something is going on.

import { ApiError, ask, headers } from "../core/api.js";

/** @import { components } from "#openapi" */
/** @typedef {components["schemas"]["Training"]} Training */
/** @typedef {components["schemas"]["ExaminedFile"]} ExaminedFile */
/** @typedef {components["schemas"]["RunBeside"]} RunBeside */
/** @typedef {"events" | "items"} What */

const BUSY = ["uploading", "examining", "training"];
const PAUSE = { seen: 700, unseen: 2_000, hidden: 5_000 }; // ms between two looks

/** @param {components["schemas"]["ReadRequest"]} request @returns {Promise<Training>} */
export const read = (request) => ask("POST", "/training/read", request);

/** @param {components["schemas"]["TrainRequest"]} request @returns {Promise<Training>} */
export const train = (request) => ask("POST", "/training", request);

/** Finish early and keep the best so far. @returns {Promise<Training>} */
export const stop = () => ask("DELETE", "/training?keep=true");

/** @returns {Promise<Training>} */
export const discard = () => ask("DELETE", "/training");

/** @returns {Promise<Training>} */
export const removeItems = () => ask("DELETE", "/training/items");

/** @returns {Promise<RunBeside[]>} */
export const runs = async () => (await ask("GET", "/runs")).runs;

/** @param {string} run */
export const serve = (run) => ask("POST", "/reload", { run });

/**
 * Send a file; `fetch` would not say how far it is.
 * @param {What} what
 * @param {File} file
 * @param {(share: number) => void} progress from 0 to 1
 * @param {AbortSignal} signal
 * @returns {Promise<Training>}
 */
export function upload(what, file, progress, signal) {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `/v1/training/${what}?name=${encodeURIComponent(file.name || what)}`);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => progress(event.total ? event.loaded / event.total : 1));
    request.addEventListener("load", () => {
      const answer = parsed(request.responseText);
      if (request.status === 200) done(answer);
      else fail(new ApiError(request.status, answer?.detail ?? `${request.status} ${request.statusText}`));
    });
    request.addEventListener("error", () => fail(new ApiError(0, "The file could not be sent. Is it still there, and is the service still running?")));
    request.addEventListener("abort", () => fail(new DOMException("aborted", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The latest status, for all who show it. */
export class Watch {
  /** @type {Training | null} */
  now = null;
  /** Whether somebody looks at every change. */
  isSeen = false;
  /** @type {Set<(now: Training, before: Training | null) => void>} */
  #listeners = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #turn = 0;

  /** @param {(now: Training, before: Training | null) => void} listener */
  subscribe(listener) {
    this.#listeners.add(listener);
    if (this.now) listener(this.now, this.now);
  }

  /** @param {Training} now */
  set(now) {
    const before = this.now;
    this.now = now;
    this.#turn += 1;
    this.#listeners.forEach((listener) => listener(now, before));
    this.#lookLater();
  }

  /** Ask the service; what was asked before something else was answered does not count. */
  async look() {
    clearTimeout(this.#timer);
    const turn = this.#turn;
    try {
      const now = await ask("GET", "/training");
      if (turn === this.#turn) this.set(now);
    } catch {
      this.#lookLater(); // it may be restarting
    }
  }

  #lookLater() {
    clearTimeout(this.#timer);
    if (!this.now || !BUSY.includes(this.now.state)) return;
    const pause = document.hidden ? PAUSE.hidden : this.isSeen ? PAUSE.seen : PAUSE.unseen;
    this.#timer = setTimeout(() => this.look(), pause);
  }
}
