// @ts-check
// What the service says, in the words of the page. What is not known here is shown as it is.

/** @type {[RegExp, (...parts: string[]) => string | null][]} null: not worth a word */
const WORDS = [
  [/ is beyond the range of real users in /, () => null], // sliders stop where customers do; that is what they are for
  [/ is beyond ±1, the limit of /, () => null],
  [/^no known item in the history: these are the most popular items$/, () => "Nothing is known about this history yet, so these are simply popular."],
  [/^no known item in the history: this is a user without tastes$/, () => "Nothing is known about this history yet; the sliders start from nobody in particular."],
  [/^only (\d+) of (\d+) items: /, (_, have, wanted) => `Only ${have} of ${wanted}: the filters and rules leave no more.`],
  [/^left out the move (?:towards |along |to a )(.+): this run has no such .+$/, (_, move) => `“${move}” does not exist in this model, so it was left out.`],
  [/^left out the rule (.+?): .+$/s, (_, rule) => `The rule “${rule}” does not fit this model, so it was left out.`],
  [/^carried over by name from another run or other axes: the move (?:towards |along |to a )(.+)$/, (_, move) => `“${move}” comes from another model and was found here by its name.`],
  [/^(?:exclude|include|pins): ignored (\d[\d,]*) unknown items?: (.+?)(?:; ids are .*)?$/s, (_, count, ids) => `${count} chosen ${count === "1" ? "item does" : "items do"} not exist here: ${ids}`],
  [/^(?:boosts\[\d+\]\.)?where: no item has (.+)$/s, (_, what) => `No item has ${what}${what.endsWith("?") ? "" : "."}`],
];

/** @param {string} message @returns {string | null} null if people need not know */
export function inWords(message) {
  for (const [pattern, words] of WORDS) {
    const match = pattern.exec(message);
    if (match) return words(...match);
  }
  return message === "" ? null : `${message[0].toLocaleUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? "" : "."}`;
}

/** @param {string[]} messages @returns {string[]} each once */
export const allInWords = (messages) => [...new Set(messages.flatMap((message) => inWords(message) ?? []))];

/**
 * What is wrong, without what only programs need: addresses and options.
 * @param {string} detail
 */
export function forPeople(detail) {
  return detail
    .replace(/\s*\((?:[A-Z]+ \/|[^()]*--)[^()]*\)/g, "")
    .replace(/; see \/\S+(?: or \/\S+)*/g, "")
    .replace(/^no user /, "no customer ")
    .replace("; known users: ", "; some that are known: ");
}
