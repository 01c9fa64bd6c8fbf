// @ts-check
// Numbers in words.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const three = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });

/**
 * 12,345; 0.123
 * @param {number} x
 */
export const number = (x) => (Number.isInteger(x) || Math.abs(x) >= 1000 ? whole : three).format(x).replace("-", "−");

/**
 * 34 % of 0.34; "< 1 %" where it would be rounded away.
 * @param {number} x
 */
export function percent(x) {
  if (x > 0 && x < 0.005) return "< 1 %";
  return `${whole.format(100 * x)} %`;
}

/**
 * "1 item", "2,000 items"
 * @param {number} n
 * @param {string} one
 */
export const count = (n, one, many = `${one}s`) => `${whole.format(n)} ${n === 1 ? one : many}`;

/**
 * −0.21, +0.30
 * @param {number} x
 */
export function signed(x, digits = 2) {
  const text = Math.abs(x).toFixed(digits);
  return Number(text) === 0 ? text : `${x < 0 ? "−" : "+"}${text}`;
}

/**
 * p = 0.005; p < 0.001
 * @param {number} p
 */
export const pValue = (p) => (p < 0.001 ? "p < 0.001" : `p = ${three.format(p)}`);

/**
 * A value of an attribute: whole numbers of four digits may be years, and have no comma.
 * @param {number} x
 */
export const plain = (x) => (Number.isInteger(x) && Math.abs(x) < 10000 ? String(x) : number(x));

/**
 * Anything that an items table may hold, as text.
 * @param {unknown} value
 * @returns {string}
 */
export function anything(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "number") return plain(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(anything).join(", ");
  if (typeof value === "object") return JSON.stringify(value);
  return String(value).replaceAll("|", ", ");
}

/**
 * "a, b and c"
 * @param {string[]} words
 */
export function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/**
 * With a capital letter first.
 * @param {string} text
 */
export const capital = (text) => {
  const [first = "", ...rest] = text;
  return first.toLocaleUpperCase() + rest.join("");
};
