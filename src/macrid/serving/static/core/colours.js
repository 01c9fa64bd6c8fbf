// @ts-check
// Colours of concepts and of numbers. style.css has the concepts' colours, for light and for dark.

export const CONCEPT_COLOURS = 12;

/**
 * A CSS colour that follows the theme.
 * @param {number | null | undefined} concept
 */
export const conceptColour = (concept) =>
  concept === null || concept === undefined || concept < 0 ? "var(--muted)" : `var(--concept-${concept % CONCEPT_COLOURS})`;

// Viridis, at nine even places: perceptually even, and safe for the colour-blind.
const STOPS = [
  [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37],
];

/**
 * A CSS colour for t from 0 to 1.
 * @param {number} t
 */
export function ramp(t) {
  const at = Math.min(Math.max(t, 0), 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return `rgb(${STOPS[low].map((from, channel) => Math.round(from + (at - low) * (STOPS[low + 1][channel] - from))).join(" ")})`;
}
