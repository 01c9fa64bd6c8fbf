// @ts-check
// Filters as people set them, and the condition that says the same: genres in ('Comedy', 'Drama') and year >= 1990.

/** @import { ItemAttribute } from "#types" */
/**
 * @typedef {object} Filter what one attribute must be; an empty one demands nothing
 * @property {string} name
 * @property {string[]} [values] one of these
 * @property {string} [low] at least; a number or a date, as it was typed
 * @property {string} [high] at most
 * @property {boolean} [truth]
 */
/** @typedef {{ filters: Filter[], rest: string | null }} Conditions `rest`: what people cannot set with filters */

const NAME = /^(?:`([^`]+)`|([^\W\d][\w.-]*))\s*(.*)$/su;
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;
const TEXT = /^'((?:[^']|'')*)'$/s;

/** @param {string | null | undefined} where @returns {Conditions} */
export function read(where) {
  /** @type {Map<string, Filter>} */
  const filters = new Map();
  /** @type {string[]} */
  const rest = [];
  for (const part of parts(where ?? "")) {
    const filter = readOne(part);
    const known = filter && filters.get(filter.name);
    if (!filter || (known && clashes(known, filter))) rest.push(part);
    else filters.set(filter.name, { ...known, ...filter });
  }
  return { filters: [...filters.values()], rest: rest.join(" and ") || null };
}

/** @param {Conditions} conditions @returns {string | undefined} */
export function write({ filters, rest }) {
  const conditions = filters.flatMap(writeOne);
  if (rest) conditions.push(conditions.length && hasOr(rest) ? `(${rest})` : rest);
  return conditions.join(" and ") || undefined;
}

/** @param {Filter} filter @returns {string[]} */
function writeOne({ name, values = [], low, high, truth }) {
  const written = /^[^\W\d][\w.-]*$/u.test(name) && !KEYWORDS.has(name.toLowerCase()) ? name : `\`${name}\``;
  const number = (/** @type {string} */ text) => (NUMBER.test(text) ? text : quote(text));
  return [
    ...(values.length === 1 ? [`${written} = ${quote(values[0])}`] : values.length ? [`${written} in (${values.map(quote).join(", ")})`] : []),
    ...(low ? [`${written} >= ${number(low)}`] : []),
    ...(high ? [`${written} <= ${number(high)}`] : []),
    ...(truth === undefined ? [] : [`${written} = ${truth}`]),
  ];
}

const KEYWORDS = new Set(["and", "or", "not", "in", "contains", "is", "missing", "true", "false"]);

/** @param {string} text */
const quote = (text) => `'${text.replaceAll("'", "''")}'`;

/** @param {string} part @returns {Filter | null} */
function readOne(part) {
  const [, quoted, plain, rest = ""] = NAME.exec(part) ?? [];
  const name = quoted ?? plain;
  if (!name) return null;
  const [, sign, value] = /^(>=|<=|=)\s*(.+)$/s.exec(rest) ?? [];
  if (sign === "=" && (value === "true" || value === "false")) return { name, truth: value === "true" };
  const text = TEXT.exec(value ?? "")?.[1]?.replaceAll("''", "'");
  if (sign === "=") return text === undefined ? null : { name, values: [text] };
  if (sign) {
    const limit = text ?? (NUMBER.test(value) ? value : null);
    return limit === null ? null : sign === ">=" ? { name, low: limit } : { name, high: limit };
  }
  const listed = /^in\s*\((.*)\)$/s.exec(rest)?.[1];
  const values = listed === undefined ? [] : split(listed, /,/y);
  const texts = values.map((each) => TEXT.exec(each)?.[1]?.replaceAll("''", "'"));
  return texts.length && texts.every((each) => each !== undefined) ? { name, values: /** @type {string[]} */ (texts) } : null;
}

/** @param {Filter} one @param {Filter} other */
const clashes = (one, other) => ["values", "low", "high", "truth"].some((name) => name in one && name in other);

/** The conditions that must all hold; one part if it cannot be taken apart. @param {string} where */
function parts(where) {
  const whole = where.trim();
  if (!whole) return [];
  return hasOr(whole) ? [whole] : split(whole, /\sand\s/iy);
}

/** @param {string} text */
const hasOr = (text) => split(text, /\sor\s/iy).length > 1;

/** Splits outside quotes and parentheses. @param {string} text @param {RegExp} separator sticky */
function split(text, separator) {
  const found = [];
  let [from, at, depth] = [0, 0, 0];
  while (at < text.length) {
    const letter = text[at];
    if (letter === "'" || letter === '"' || letter === "`") {
      const end = text.indexOf(letter, at + 1);
      at = end < 0 ? text.length : end + 1;
      continue;
    }
    if (letter === "(") depth += 1;
    if (letter === ")") depth -= 1;
    separator.lastIndex = at;
    const match = depth === 0 && separator.exec(text);
    if (match) {
      found.push(text.slice(from, at).trim());
      at += match[0].length;
      from = at;
    } else at += 1;
  }
  return [...found, text.slice(from).trim()];
}

/**
 * In words: "genres: Comedy or Drama", "year from 1990 to 1999", "price up to 30".
 * @param {Filter} filter
 */
export function inWords({ name, values = [], low, high, truth }) {
  if (values.length) return `${name}: ${values.length > 3 ? `${values.slice(0, 3).join(", ")} and ${values.length - 3} more` : values.join(" or ")}`;
  if (truth !== undefined) return truth ? name : `not ${name}`;
  if (low && high) return `${name} from ${low} to ${high}`;
  return low ? `${name} from ${low}` : high ? `${name} up to ${high}` : name;
}

/** @param {ItemAttribute} attribute @returns {boolean} whether people can filter by it */
export const isFilterable = ({ kind, name, values, low }) =>
  kind !== "id" && name !== "title" && (kind === "boolean" || (kind === "text" ? values.length > 0 : low !== null));
