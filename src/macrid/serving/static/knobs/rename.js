// @ts-check
// Renaming concepts, knobs and their ends, in place.

import * as api from "../core/api.js";
import { byId, h } from "../core/dom.js";

/** @import { App, Concept, Dimension } from "#types" */
/** @typedef {[name: string, label: string, value: string | null][]} Fields */
/** @typedef {(names: any) => Promise<unknown>} Save */

/** @param {App} app @param {Concept} concept @param {HTMLElement} head */
export function renameConcept(app, concept, head) {
  form(app, head, [["name", "Name", concept.name]], (names) => api.renameConcept(concept.concept, names));
}

/** @param {App} app @param {Dimension} dimension @param {HTMLElement} head */
export function renameDimension(app, dimension, head) {
  /** @type {Fields} */
  const fields = [["name", "Name", dimension.name], ["low", "Low end", dimension.low], ["high", "High end", dimension.high]];
  form(app, head, fields, (names) => api.renameDimension(dimension.concept, dimension.dimension, names));
}

/**
 * A small form in the place of a heading.
 * @param {App} app
 * @param {HTMLElement} head
 * @param {Fields} fields
 * @param {Save} save
 */
function form(app, head, fields, save) {
  const inputs = fields.map(([, label, value]) =>
    h("input", { class: "field", type: "text", value: value ?? "", maxlength: 60, "aria-label": label, placeholder: label }));
  const close = () => {
    element.replaceWith(head);
    head.querySelector("button")?.focus();
  };
  const element = h(
    "form",
    { class: "rename", on: { submit, keydown: (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close() } },
    inputs,
    h("div", { class: "rename-foot" }, h("button", { class: "button primary", text: "Save" }), h("button", { type: "button", class: "text-button", text: "Cancel", on: { click: close } })),
  );

  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    const given = inputs.map((input) => input.value.trim());
    const changed = fields.map(([name, , value], at) => ({ name, value, given: given[at] })).filter(({ value, given: text }) => text && text !== (value ?? ""));
    if (!changed.length) {
      close();
      return;
    }
    try {
      await save(Object.fromEntries(changed.map(({ name, given: text }) => [name, text])));
      await app.refreshCard();
      byId("concept-panel").focus();
      // A name cannot be taken away again.
      const canUndo = changed.every(({ value }) => value !== null);
      const undo = async () => {
        await save(Object.fromEntries(changed.map(({ name, value }) => [name, value])));
        await app.refreshCard();
      };
      app.toast("Renamed", { undo: canUndo ? undo : null });
    } catch (error) {
      app.toast(api.detailOf(error), { kind: "bad" });
    }
  }

  head.replaceWith(element);
  inputs[0].focus();
}
