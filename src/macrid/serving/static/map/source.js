// @ts-check
// The map as the service has it: rough at first, final once it is computed.

import * as api from "../core/api.js";

/** @import { Map as ItemMap } from "#types" */

const ASK_AGAIN = 2_000; // ms, while the map is being computed

export class MapSource {
  /** @type {Promise<void> | null} */
  #asked = null;
  #polling = 0;
  #isComputing = false;
  /** @type {(map: ItemMap) => void} */
  #take;
  /** @type {(error: unknown) => void} */
  #fail;

  /**
   * @param {(map: ItemMap) => void} take called with every answer
   * @param {(error: unknown) => void} fail
   */
  constructor(take, fail) {
    [this.#take, this.#fail] = [take, fail];
  }

  /** Until the first answer; further ones come by themselves until the map is final. */
  load() {
    this.#asked ??= this.#ask();
    return this.#asked;
  }

  /** Ask again from the start. */
  forget() {
    this.stop();
    this.#asked = null;
  }

  /** Ask for nothing more until `load`. */
  stop() {
    clearTimeout(this.#polling);
    if (this.#isComputing) this.#asked = null;
  }

  async #ask() {
    clearTimeout(this.#polling);
    try {
      const map = await api.map();
      this.#isComputing = map.state === "computing";
      if (this.#isComputing) this.#polling = window.setTimeout(() => (this.#asked = this.#ask()), ASK_AGAIN);
      this.#take(map);
    } catch (error) {
      this.#asked = null;
      this.#fail(error);
    }
  }
}
