// Renaming concepts, knobs and their ends, in place.

import { patch } from "./api.js";
import { h } from "./dom.js";

export function renameConcept(app, concept, head) {
  const path = `/concepts/${concept.concept}`;
  form(app, head, [["name", "Name", concept.name ?? ""]], path, () => (concept.name === null ? null : { name: concept.name }));
}

export function renameDimension(app, dimension, head) {
  const fields = [
    ["name", "Name", dimension.name ?? ""],
    ["low", "Low end", dimension.low ?? ""],
    ["high", "High end", dimension.high ?? ""],
  ];
  const path = `/concepts/${dimension.concept}/dimensions/${dimension.dimension}`;
  form(app, head, fields, path, (changed) =>
    changed.name !== undefined && dimension.name === null
      ? null
      : Object.fromEntries(Object.keys(changed).map((key) => [key, dimension[key]])));
}

/** A small form in the place of a heading; before(changed) says what to send to take it back, or null if it cannot be. */
function form(app, head, fields, path, before) {
  const inputs = new Map();
  const close = () => {
    element.replaceWith(head);
    head.querySelector("button")?.focus();
  };
  const element = h(
    "form",
    { class: "rename", on: { submit: save, keydown: (event) => event.key === "Escape" && close() } },
    fields.map(([name, label, value]) => {
      const input = h("input", { class: "field", type: "text", value, maxlength: 60, "aria-label": label, placeholder: label });
      inputs.set(name, input);
      return input;
    }),
    h("div", { class: "rename-foot" }, h("button", { class: "button primary", text: "Save" }), h("button", { type: "button", class: "text-button", text: "Cancel", on: { click: close } })),
  );

  async function save(event) {
    event.preventDefault();
    const changed = {};
    for (const [name, , value] of fields) {
      const given = inputs.get(name).value.trim();
      if (given && given !== value) changed[name] = given;
    }
    if (!Object.keys(changed).length) {
      close();
      return;
    }
    try {
      await patch(path, changed);
      await app.refreshCard();
      document.getElementById("concept-panel").focus();
      const back = before(changed);
      app.toast("Renamed", { undo: back && (async () => (await patch(path, back), await app.refreshCard())) });
    } catch (error) {
      app.toast(error.detail ?? "That did not work.", { kind: "bad" });
    }
  }

  head.replaceWith(element);
  inputs.values().next().value.focus();
}
