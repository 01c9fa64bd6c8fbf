// Colours of concepts and of numbers. style.css has the concepts' colours, for light and for dark.

const CONCEPT_COLOURS = 12;

/** A CSS colour that follows the theme. */
export const conceptColour = (concept) =>
  concept === null || concept === undefined || concept < 0 ? "var(--muted)" : `var(--concept-${concept % CONCEPT_COLOURS})`;

/** What a CSS colour is right now, as [r, g, b] of 0 to 255, for canvas and WebGL; ask again after "macrid:theme". */
export function resolved(colour) {
  const probe = document.createElement("span");
  probe.style.color = colour;
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return found;
}

// Viridis, at nine even places: perceptually even, and safe for the colour-blind.
const STOPS = [
  [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37],
];

/** [r, g, b] of 0 to 255 for t from 0 to 1. */
export function rampRGB(t) {
  const at = Math.min(Math.max(t, 0), 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((from, channel) => Math.round(from + (at - low) * (STOPS[low + 1][channel] - from)));
}

export const ramp = (t) => `rgb(${rampRGB(t).join(" ")})`;
