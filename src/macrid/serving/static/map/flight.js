// @ts-check
// Smooth ways: of the camera to another view, and of points to other places.

import { isCalm } from "../core/dom.js";

/** @import { Camera, Points, View } from "./plane.js" */

const FLIGHT = 420; // ms
const SETTLE = 1_100; // ms from rough to final places

/** @param {number} t */
const eased = (t) => (t < 0.5 ? 4 * t ** 3 : 1 - (-2 * t + 2) ** 3 / 2);

export class Flight {
  #frame = 0;
  /** @type {Camera} */
  #camera;
  /** @type {() => void} */
  #step;

  /**
   * @param {Camera} camera
   * @param {() => void} step called whenever something moved
   */
  constructor(camera, step) {
    [this.#camera, this.#step] = [camera, step];
  }

  stop() {
    cancelAnimationFrame(this.#frame);
  }

  /** @param {View} goal @param {boolean} isSmooth */
  to(goal, isSmooth) {
    this.#run(isSmooth ? FLIGHT : 0, this.#way(goal), () => {});
  }

  /**
   * Points from where they are to where others are, with the camera; points are changed in place.
   * @param {Points} points
   * @param {Points} to
   * @param {View} goal
   * @param {() => void} done
   */
  settle(points, to, goal, done) {
    const [fromX, fromY] = [points.x.slice(), points.y.slice()];
    const move = this.#way(goal);
    this.#run(SETTLE, (t) => {
      move(t);
      for (let i = 0; i < to.n; i += 1) {
        points.x[i] = fromX[i] + t * (to.x[i] - fromX[i]);
        points.y[i] = fromY[i] + t * (to.y[i] - fromY[i]);
      }
    }, done);
  }

  /** @param {View} goal */
  #way(goal) {
    const camera = this.#camera;
    const from = { scale: camera.scale, x: camera.x, y: camera.y };
    return (/** @type {number} */ t) => {
      camera.scale = from.scale * (goal.scale / from.scale) ** t;
      camera.x = from.x + t * (goal.x - from.x);
      camera.y = from.y + t * (goal.y - from.y);
    };
  }

  /**
   * @param {number} time ms
   * @param {(t: number) => void} move t: from 0 to 1
   * @param {() => void} done
   */
  #run(time, move, done) {
    this.stop();
    const began = performance.now();
    const next = (/** @type {number} */ now) => {
      const t = time && !isCalm() ? eased(Math.max(0, Math.min(1, (now - began) / time))) : 1;
      move(t);
      if (t < 1) this.#frame = requestAnimationFrame(next);
      else done();
      this.#step();
    };
    next(began);
  }
}
