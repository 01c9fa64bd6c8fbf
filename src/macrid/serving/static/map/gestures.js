// @ts-check
// Fingers, mouse, wheel and keys on a surface, as pans, zooms, clicks and outlines.

/** @typedef {[x: number, y: number]} XY */
/**
 * @typedef {object} Does
 * @property {(dx: number, dy: number) => void} pan
 * @property {(factor: number, x: number, y: number, isSmooth?: boolean) => void} zoom
 * @property {(at: XY | null) => void} hover
 * @property {(at: XY) => void} click
 * @property {(outline: XY[], isDone: boolean) => void} outline
 * @property {() => boolean} isOutlining
 */

const STILL = 5; // px that a click may wander

/** @param {HTMLElement} surface @param {Does} does */
export function gestures(surface, does) {
  /** @type {Map<number, XY>} */
  const down = new Map();
  let moved = 0;
  /** @type {XY[] | null} */
  let outline = null;
  /** @param {MouseEvent} event @returns {XY} */
  const at = (event) => {
    const box = surface.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const spread = () => {
    const [[ax, ay], [bx, by]] = [...down.values()];
    return { x: (ax + bx) / 2, y: (ay + by) / 2, far: Math.hypot(ax - bx, ay - by) || 1 };
  };

  surface.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    surface.setPointerCapture(event.pointerId);
    down.set(event.pointerId, at(event));
    if (down.size === 1) {
      moved = 0;
      outline = event.shiftKey || does.isOutlining() ? [at(event)] : null;
    } else if (outline) {
      outline = null;
      does.outline([], false);
    }
    does.hover(null);
  });
  surface.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    const last = down.get(event.pointerId);
    if (!last) {
      if (event.pointerType !== "touch") does.hover([x, y]);
      return;
    }
    if (down.size === 1) {
      moved += Math.hypot(x - last[0], y - last[1]);
      down.set(event.pointerId, [x, y]);
      if (outline) {
        outline.push([x, y]);
        does.outline(outline, false);
      } else if (moved > STILL) does.pan(x - last[0], y - last[1]);
      return;
    }
    const before = spread();
    down.set(event.pointerId, [x, y]);
    const after = spread();
    moved = Infinity;
    does.pan(after.x - before.x, after.y - before.y);
    does.zoom(after.far / before.far, after.x, after.y);
  });
  const up = (/** @type {PointerEvent} */ event) => {
    if (!down.delete(event.pointerId) || down.size) return;
    if (outline) does.outline(outline, true);
    else if (moved <= STILL && event.type === "pointerup") does.click(at(event));
    outline = null;
  };
  surface.addEventListener("pointerup", up);
  surface.addEventListener("pointercancel", up);
  surface.addEventListener("pointerleave", () => down.size || does.hover(null));
  surface.addEventListener("dblclick", (event) => does.zoom(event.shiftKey ? 0.5 : 2, ...at(event), true));
  surface.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    does.zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY * lines)) * (event.ctrlKey ? 0.008 : 0.0025)), ...at(event));
  }, { passive: false });
}

/**
 * @param {HTMLElement} surface
 * @param {{ pan: (dx: number, dy: number) => void, zoom: (factor: number) => void, fit: () => void, take: () => void, after: () => void }} does
 */
export function keyboard(surface, does) {
  /** @type {Record<string, XY>} */
  const pans = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  surface.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (pans[event.key]) does.pan(...pans[event.key]);
    else if (event.key === "+" || event.key === "=") does.zoom(1.4);
    else if (event.key === "-" || event.key === "_") does.zoom(1 / 1.4);
    else if (event.key === "0" || event.key === "Home") does.fit();
    else if (event.key === "Enter" || event.key === " ") does.take();
    else return;
    event.preventDefault();
    does.after();
  });
}
