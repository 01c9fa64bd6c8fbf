// Smooth ways: of the camera to another view, and of points to other places.

import { isCalm } from "./panel.js";

const FLIGHT = 420; // ms
const SETTLE = 1_100; // ms from rough to final places

const eased = (t) => (t < 0.5 ? 4 * t ** 3 : 1 - (-2 * t + 2) ** 3 / 2);

export class Flight {
  #frame = 0;

  /** step() is called whenever something moved. */
  constructor(camera, step) {
    Object.assign(this, { camera, step });
  }

  stop() {
    cancelAnimationFrame(this.#frame);
  }

  /** goal: {scale, x, y} */
  to(goal, isSmooth) {
    const move = this.#view(goal);
    this.#run(isSmooth ? FLIGHT : 0, move, () => {});
  }

  /** Points from where they are to where others are, with the camera; points are changed in place. */
  settle(points, to, goal, done) {
    const [fromX, fromY] = [points.x.slice(), points.y.slice()];
    const move = this.#view(goal);
    this.#run(SETTLE, (t) => {
      move(t);
      for (let i = 0; i < to.n; i += 1) {
        points.x[i] = fromX[i] + t * (to.x[i] - fromX[i]);
        points.y[i] = fromY[i] + t * (to.y[i] - fromY[i]);
      }
    }, done);
  }

  #view(goal) {
    const { camera } = this;
    const from = { scale: camera.scale, x: camera.x, y: camera.y };
    return (t) => {
      camera.scale = from.scale * (goal.scale / from.scale) ** t;
      camera.x = from.x + t * (goal.x - from.x);
      camera.y = from.y + t * (goal.y - from.y);
    };
  }

  #run(time, move, done) {
    this.stop();
    const began = performance.now();
    const next = (now) => {
      const t = time && !isCalm() ? eased(Math.max(0, Math.min(1, (now - began) / time))) : 1;
      move(t);
      if (t < 1) this.#frame = requestAnimationFrame(next);
      else done();
      this.step();
    };
    next(began);
  }
}
