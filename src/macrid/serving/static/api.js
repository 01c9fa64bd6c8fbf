// The service, as its OpenAPI description has it. Paths are given without /v1.

import { h } from "./dom.js";

const KEY = "macrid-token";
let token = takeToken();
let asking = null;

export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
    this.detail = detail;
  }
}

export function get(path, params = {}, { signal } = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return ask("GET", query.size ? `${path}?${query}` : path, undefined, signal);
}

export const post = (path, body, { signal } = {}) => ask("POST", path, body, signal);

export const patch = (path, body) => ask("PATCH", path, body);

export const pictureURL = (id) => `/v1/pictures/${encodeURIComponent(id)}`;

export const hasToken = () => Boolean(token);

const pictures = new Map();

/** Show an item's picture in an <img>; rejects where there is none. */
export async function showPicture(img, id) {
  if (!token) {
    img.src = pictureURL(id);
    return;
  }
  // An <img> cannot send the token, and the page's policy lets no blob: through.
  if (!pictures.has(id)) pictures.set(id, dataURL(id));
  img.src = await pictures.get(id);
}

async function dataURL(id) {
  const answer = await fetch(pictureURL(id), { headers: headers() });
  if (!answer.ok) throw new ApiError(answer.status, answer.statusText);
  const reader = new FileReader();
  const read = new Promise((done) => reader.addEventListener("load", done));
  reader.readAsDataURL(await answer.blob());
  await read;
  return reader.result;
}

async function ask(method, path, body, signal) {
  const sent = token;
  let answer;
  try {
    answer = await fetch(`/v1${path}`, {
      method,
      headers: headers(body !== undefined),
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The service does not answer. Is it still running?");
  }
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => null);
  if (answer.status === 401) {
    if (sent === token) await askForToken();
    return ask(method, path, body, signal);
  }
  throw new ApiError(answer.status, problem?.detail ?? `${answer.status} ${answer.statusText}`);
}

function headers(hasBody = false) {
  return { ...(hasBody && { "Content-Type": "application/json" }), ...(token && { Authorization: `Bearer ${token}` }) };
}

/** From the fragment of the address, from which it is taken away, or of this tab. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  return given ?? sessionStorage.getItem(KEY);
}

function askForToken() {
  asking ??= new Promise((done) => {
    const input = h("input", { type: "password", id: "token", class: "field", autocomplete: "off", required: true });
    const dialog = h(
      "dialog",
      { class: "dialog", "aria-labelledby": "token-title" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "token-title", text: "This service asks for a token" }),
        h("label", { for: "token", text: token ? "That one was not right; try another." : "Whoever started it knows it." }),
        input,
        h("p", { class: "dialog-foot" }, h("button", { class: "button primary", text: "Continue" })),
      ),
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      token = input.value;
      sessionStorage.setItem(KEY, token);
      asking = null;
      dialog.remove();
      done();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}
