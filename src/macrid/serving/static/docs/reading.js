// @ts-check
// An OpenAPI document, as far as the page about the API shows it.

/** @typedef {Record<string, any>} Schema */
/** @typedef {{ info: { description: string }, paths: Record<string, Record<string, any>>, components: { schemas: Record<string, Schema> } }} Document */
/** @typedef {{ name: string, schema: Schema, description: string, isRequired: boolean }} Field */
/** @typedef {{ method: string, path: string, description: string, parameters: Field[], body: Schema | null, answer: Schema | null }} Operation */

/**
 * Every address and method, by tag, in the document's order.
 * @param {Document} document
 * @returns {[tag: string, operations: Operation[]][]}
 */
export function operationsOf(document) {
  /** @type {Map<string, Operation[]>} */
  const byTag = new Map();
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, told] of Object.entries(methods)) {
      const tag = told.tags?.[0] ?? "other";
      byTag.set(tag, [...(byTag.get(tag) ?? []), {
        method,
        path,
        description: told.description ?? "",
        parameters: (told.parameters ?? []).map((/** @type {Schema} */ { name, schema, description = "", required = false }) => ({ name, schema, description, isRequired: required })),
        body: told.requestBody?.content?.["application/json"]?.schema ?? null,
        answer: told.responses?.["200"]?.content?.["application/json"]?.schema ?? null,
      }]);
    }
  }
  return [...byTag];
}

/** @param {Document} document @param {Schema} schema @returns {Schema} what it refers to */
export function resolved(document, schema) {
  const name = schema.$ref?.split("/").at(-1);
  return name ? (document.components.schemas[name] ?? {}) : schema;
}

/** @param {Document} document @param {Schema} schema @returns {Field[]} */
export function fieldsOf(document, schema) {
  const { properties = {}, required = [] } = resolved(document, schema);
  return Object.entries(properties).map(([name, part]) => ({ name, schema: part, description: part.description ?? "", isRequired: required.includes(name) }));
}

/**
 * "list of Move", "integer or string".
 * @param {Schema} schema
 * @returns {string}
 */
export function shapeOf(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return [...new Set(schema.anyOf.map(shapeOf))].filter((shape) => shape !== "null").join(" or ");
  if (schema.type === "array") return `list of ${schema.items ? shapeOf(schema.items) : "anything"}`;
  return schema.enum ? schema.enum.join(" or ") : (schema.type ?? "anything");
}

/**
 * A request that works, where the document has an example.
 * @param {Document} document
 * @param {Operation} operation
 * @param {string} origin
 */
export function curlOf(document, { method, path, body }, origin) {
  const [example] = body ? (resolved(document, body).examples ?? []) : [];
  const verb = method === "get" || (method === "post" && body) ? "" : ` -X ${method.toUpperCase()}`;
  const sent = example === undefined ? "" : ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example).replaceAll("'", "'\\''")}'`;
  return `curl -s${verb} ${origin}${path}${sent}`;
}
