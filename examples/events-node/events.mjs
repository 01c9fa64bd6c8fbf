// Posts events of a user and asks for recommendations, with nothing but Node 20 and the service's OpenAPI document.
//
//   MACRID_TOKEN=… node events.mjs http://localhost:8000 alice bag-0001 bag-0012

import { randomUUID } from "node:crypto";

const [base, user, ...items] = process.argv.slice(2);
if (!items.length) {
  console.error("usage: node events.mjs URL USER ITEM [ITEM …]");
  process.exit(2);
}

const headers = { "content-type": "application/json" };
if (process.env.MACRID_TOKEN) headers.authorization = `Bearer ${process.env.MACRID_TOKEN}`;

/** The JSON of a response; an error has its reason in `detail`. */
async function request(method, path, body) {
  const response = await fetch(new URL(path, base), { method, headers, body: body && JSON.stringify(body) });
  const content = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${content.detail ?? content.title}`);
  return content;
}

/** The path of an operation in the OpenAPI document, such as POST /v1/users/{user}/events; undefined if it has none. */
function find(description, method, ending) {
  const paths = Object.entries(description.paths).filter(([, methods]) => method in methods);
  return paths.map(([path]) => path).find((path) => path.replace(/\{[^}]*\}/g, "{}").endsWith(ending));
}

try {
  const description = await request("GET", "/v1/openapi.json");
  const path = find(description, "post", "/users/{}/events");
  let who = { history: items };
  if (path) {
    // An event keeps its id when it is sent again, and is counted once.
    const events = items.map((item) => ({ id: randomUUID(), item, time: new Date().toISOString() }));
    const address = path.replace(/\{[^}]*\}/, encodeURIComponent(user));
    console.log("stored", JSON.stringify(await request("POST", address, { events })));
    who = { user };
  } else {
    console.log("the service keeps no events; recommending for the items themselves");
  }
  const { items: best } = await request("POST", find(description, "post", "/recommend"), { ...who, n: 5 });
  best.forEach(({ id, title }, rank) => console.log(`${rank + 1}. ${title ?? id} [${id}]`));
} catch (error) {
  console.error(`error: ${error.cause?.message ?? error.message}`);
  process.exit(1);
}
