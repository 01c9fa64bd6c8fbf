// @ts-check
// What this browser keeps between visits. Where storage is off or full, everything works and nothing is kept.

const PREFIX = "macrid-";

/**
 * A kept value; `otherwise` if there is none, or somebody has broken it.
 * @template T
 * @param {string} name
 * @param {T} otherwise
 * @returns {T}
 */
export function kept(name, otherwise) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 * @returns {boolean} whether it is kept
 */
export function keep(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/**
 * What one view of this tab leaves for another; null if there is nothing.
 * @template T
 * @param {string} name
 * @returns {T | null}
 */
export function handed(name) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null;
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 * @returns {boolean} whether it is there to be taken
 */
export function hand(name, value) {
  try {
    sessionStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
