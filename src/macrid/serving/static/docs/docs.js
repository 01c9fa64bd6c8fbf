// @ts-check
// The API for people: every address with what it takes and gives, from the service's own description.

import * as api from "../core/api.js";
import { byId, h } from "../core/dom.js";
import { failure } from "../core/items.js";
import { curlOf, fieldsOf, operationsOf, shapeOf } from "./reading.js";

/** @import { Document, Field, Operation } from "./reading.js" */

async function show() {
  try {
    const document = /** @type {Document} */ (await api.description());
    byId("docs").replaceChildren(
      h("p", { class: "docs-about", text: document.info.description }),
      h("p", {}, h("a", { href: "/v1/openapi.json", text: "The same as JSON (OpenAPI)" }), ", for generated clients."),
      ...operationsOf(document).map(([tag, operations]) => h("section", { "aria-labelledby": `docs-${tag}` },
        h("h2", { id: `docs-${tag}`, text: tag }), operations.map((operation) => oneOperation(document, operation)))),
    );
  } catch (error) {
    byId("docs").replaceChildren(failure(error, show));
  }
}

/** @param {Document} document @param {Operation} operation */
function oneOperation(document, operation) {
  const { method, path, description, parameters, body, answer } = operation;
  const inside = h("div", { class: "docs-inside" });
  const details = h(
    "details",
    { class: "docs-operation" },
    h("summary", {}, h("span", { class: "docs-method", "data-method": method, text: method.toUpperCase() }), h("code", { text: path }), h("span", { class: "docs-does", text: description.split("\n\n")[0] })),
    inside,
  );
  details.addEventListener("toggle", () => {
    if (!details.open || inside.firstChild) return;
    inside.append(
      ...[
        h("pre", { tabindex: "0", role: "region", "aria-label": "Example" }, h("code", { text: curlOf(document, operation, location.origin) })),
        fields("Parameters", parameters),
        fields("Request", body ? fieldsOf(document, body) : []),
        fields("Response", answer ? fieldsOf(document, answer) : []),
      ].flat(),
    );
  });
  return details;

  /** @param {string} title @param {Field[]} all */
  function fields(title, all) {
    if (!all.length) return [];
    return [h("h3", { text: title }), h("dl", { class: "docs-fields" }, all.map(({ name, schema, description: text, isRequired }) => h("div", {},
      h("dt", {}, h("code", { text: name }), h("span", { class: "quiet", text: ` ${shapeOf(schema)}${isRequired ? "" : ", optional"}` })), text && h("dd", { text }))))];
  }
}

show();
