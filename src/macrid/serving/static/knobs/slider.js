// @ts-check
// A slider that shows where it started, and says when it is dragged and when it is let go.

import { h } from "../core/dom.js";

/** @import { Props } from "../core/types.d.ts" */

/** @param {Props} props @param {{ drag: (value: number) => void, drop: (value: number) => void }} does */
export function slider(props, { drag, drop }) {
  const input = h("input", { type: "range", class: "slider", ...props });
  input.addEventListener("input", () => drag(Number(input.value)));
  input.addEventListener("change", () => drop(Number(input.value)));
  return {
    input,
    /**
     * @param {number} from parts of the way, from 0 to 1
     * @param {number} to
     */
    fill: (from, to) => {
      input.style.setProperty("--from", String(from));
      input.style.setProperty("--to", String(to));
    },
  };
}
