/** The API documents that the services serve are valid and complete, and the page is safe to open. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020 } from "ajv/dist/2020.js";
import { PROXY_DOCUMENT } from "../../../../proxy/routes.ts";
import { REGISTRY_DOCUMENT } from "../../../../registry/routes.ts";
import { exampleOf, schemaOf } from "../../../../shared/openapi.ts";
import { ERRORS } from "../../../../shared/protocol/errors.ts";
import { FRAMES } from "../../../../shared/protocol/frames.ts";
import { HEADERS } from "../../../../shared/protocol/proof.ts";
import { apiDocsOf } from "../../../../shared/server/http/api_docs.ts";
import { resolved, schemaProblems } from "../../../support/openapi_answer.ts";
import { REGISTRY_URL, World } from "../../../support/world.ts";

const parsed = (document: Uint8Array) => JSON.parse(new TextDecoder().decode(document));

const PARTS = {
  registry: [REGISTRY_DOCUMENT],
  proxy: [PROXY_DOCUMENT],
  both: [REGISTRY_DOCUMENT, PROXY_DOCUMENT],
};

Deno.test("all responses share one copy of the document, because it has 344 KB", () => {
  const docs = apiDocsOf(PARTS.both, "1.2.3");
  assert(docs.openApi instanceof Uint8Array && docs.openApi === docs.openApi);
});

for (const [name, parts] of Object.entries(PARTS)) {
  Deno.test(`the OpenAPI document of ${name} is valid and has every route with every code`, async () => {
    const document = parsed(apiDocsOf(parts, "1.2.3").openApi);
    const result = await new Validator().validate(structuredClone(document));
    assertEquals(result.errors ?? [], []);
    assert(result.valid);
    assertEquals(schemaProblems(document), []);
    assertEquals([document.openapi, document.info.version], ["3.1.0", "1.2.3"]);
    for (const { method, path, errors } of parts.flatMap((part) => part.operations)) {
      const operation = document.paths[path.replace(/:(\w+)/g, "{$1}")]?.[method.toLowerCase()];
      assert(operation, `${method} ${path}`);
      const shared = ["/health", "/openapi.json"].includes(path) && parts.length > 1;
      if (shared) continue;
      const listed = Object.values(operation.responses as Record<string, { content?: never }>)
        .flatMap((response) => codesOf(resolved(document, response)));
      assertEquals([...new Set(listed)].sort(), [...errors].sort(), `${method} ${path}`);
    }
  });
}

Deno.test("a schema that JSON Schema 2020-12 does not know is found in a document", () => {
  const document = parsed(apiDocsOf(PARTS.both, "1.2.3").openApi);
  const content = document.paths["/hooks/agent"].post.requestBody.content["application/json"];
  content.schema = { type: "array", items: [{ type: "string" }] };
  const [problem = "", ...others] = schemaProblems(document);
  assert(problem.startsWith("/paths//hooks/agent/post/requestBody/content/application/json/schema: "), problem);
  assertEquals(others, []);
});

Deno.test("the documents have body, headers and limits of a message, and limits of pairing and relay routes", () => {
  for (const parts of [PARTS.proxy, PARTS.both]) {
    const { openApi, page } = apiDocsOf(parts, "1.2.3");
    const messages = page("/docs/messages").body ?? "";
    const { paths } = parsed(openApi);
    const hook = paths["/hooks/agent"].post;
    assertEquals(hook.requestBody.required, true);
    assert("schema" in hook.requestBody.content["application/json"]);
    const parameters = hook.parameters as { name: string; required: boolean }[];
    const required = (name: string) => parameters.find((one) => one.name === name)?.required;
    assertEquals(
      ["X-Svc-Recipient-Agent-Did", "X-Svc-Conversation-Id", "Prefer", "x-request-id"].map(required),
      [true, false, false, false],
    );
    assertStringIncludes(hook.description, "60 in 60 s per agent");
    assertStringIncludes(hook.description, "262,144 bytes");
    for (const [path, methods] of Object.entries<Record<string, { description?: string }>>(paths)) {
      if (!/^\/(?:pair|hooks|v1\/relay)\//.test(path)) continue;
      for (const { description } of Object.values(methods)) assertStringIncludes(description ?? "", " per agent", path);
    }
    for (const name of ["X-Svc-Recipient-Agent-Did", "Prefer"]) assertStringIncludes(messages, `<code>${name}</code>`);
  }
});

Deno.test("the document of both services describes the health answer of both, and each route once", () => {
  const { openApi, page } = apiDocsOf(PARTS.both, "1.2.3");
  const health = parsed(openApi).paths["/health"].get.responses[200].content["application/json"].schema;
  assertEquals(Object.keys(health.properties).slice(-2), ["registry", "proxy"]);
  assertEquals(page("/docs/service").body?.split("<code>GET /health</code>").length, 2);
  const alone = parsed(apiDocsOf(PARTS.proxy, "1.2.3").openApi).paths["/health"].get.responses[200];
  assert("connectedSockets" in alone.content["application/json"].schema.properties);
});

Deno.test("each example is taken by the shape that it is an example of", () => {
  for (const { method, path, body, response } of PARTS.both.flatMap((part) => part.operations)) {
    for (const [shape, io] of [[body, "input"], [response.body, "output"]] as const) {
      if (shape === undefined) continue;
      const { error } = shape.safeParse(exampleOf(schemaOf(shape, io)));
      assertEquals(error?.issues ?? [], [], `${method} ${path}, ${io}`);
    }
  }
});

Deno.test("the schemas of the frames take and refuse what the vectors say", async () => {
  const { components } = parsed(apiDocsOf(PARTS.both, "1.2.3").openApi);
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const vectors = JSON.parse(await Deno.readTextFile("tests/vectors/frames.json"));
  const seen = new Set<string>();
  for (const { name, text } of vectors.valid as { name: string; text: string }[]) {
    const frame = JSON.parse(text);
    seen.add(frame.type);
    assert(ajv.validate(components.schemas[`frame.${frame.type}`], frame), `${name}: ${ajv.errorsText()}`);
  }
  assertEquals([...seen].sort(), Object.keys(FRAMES).sort());
  const head = ["v", "id", "ts", "type", "payload"];
  for (const [type, { members }] of Object.entries(FRAMES)) {
    const { properties, required } = components.schemas[`frame.${type}`];
    const own = (names: string[]) => names.filter((name) => !head.includes(name)).sort();
    assertEquals(own(Object.keys(properties)), Object.keys(members).sort(), type);
    const needed = Object.entries(members).filter(([, check]) => !(check as (value: unknown) => boolean)(undefined));
    assertEquals(own(required), needed.map(([name]) => name).sort(), type);
  }
  // A schema cannot say the size, the sender, the place of a member, or what a DID is.
  const absent = (vectors.invalid as { name: string; text: string; reason: string }[]).filter(({ text, reason }) =>
    text.startsWith("{") && reason !== "json" && !Object.hasOwn(JSON.parse(text), reason)
  );
  const refused = absent.filter(({ text, reason }) => {
    const frame = JSON.parse(text), schema = components.schemas[`frame.${frame.type}`];
    return schema?.required.includes(reason) && !ajv.validate(schema, frame);
  });
  assert(refused.length >= 3, `${refused.length} of ${absent.length}`);
});

Deno.test("each header that the services read is named by an operation", async () => {
  const document = parsed(apiDocsOf(PARTS.both, "1.2.3").openApi);
  const operations = Object.values<Record<string, { parameters: { name: string; in: string }[] }>>(document.paths)
    .flatMap((methods) => Object.values(methods));
  const schemes = Object.values<{ type: string; name?: string }>(document.components.securitySchemes);
  const named = new Set([
    ...operations.flatMap(({ parameters }) => parameters.filter((one) => one.in === "header")).map(({ name }) => name),
    ...schemes.map(({ type, name }) => type === "http" ? HEADERS.authorization : name),
  ]);
  const read = new Set<string>();
  for (const folder of ["registry", "proxy", "shared/server"]) {
    for (const file of await filesIn(folder)) {
      const text = await Deno.readTextFile(file);
      for (const [, key = ""] of text.matchAll(/\bHEADERS\.(\w+)/g)) read.add(HEADERS[key as keyof typeof HEADERS]);
    }
  }
  assert(read.size >= 10, `${[...read]}`);
  assertEquals([...read].filter((name) => !named.has(name)), []);
});

Deno.test("no header has `const`, because openapi-python-client leaves out an operation with such a header", () => {
  const { paths } = parsed(apiDocsOf(PARTS.both, "1.2.3").openApi);
  type Operation = { parameters: { name: string; in: string; schema: object }[] };
  const headers = Object.values<Record<string, Operation>>(paths).flatMap((methods) => Object.values(methods))
    .flatMap(({ parameters }) => parameters).filter((one) => one.in === "header");
  assert(headers.length > 0);
  assertEquals(headers.filter(({ schema }) => "const" in schema).map(({ name }) => name), []);
});

async function filesIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) found.push(...await filesIn(`${folder}/${name}`));
    else if (name.endsWith(".ts")) found.push(`${folder}/${name}`);
  }
  return found;
}

interface Schema {
  properties?: { error?: { properties?: { code?: { enum?: string[] } } } };
  anyOf?: Schema[];
}

/** Codes of an error answer. The answer of a service that is not ready can be an alternative to the envelope. */
function codesOf(response: { content?: Record<string, { schema?: Schema }> }): string[] {
  const schema = response.content?.["application/json"]?.schema;
  return [schema, ...schema?.anyOf ?? []]
    .flatMap((one) => one?.properties?.error?.properties?.code?.enum?.filter((code) => code in ERRORS) ?? []);
}

Deno.test("the pages name every route once and every code, and an unknown resource has no page", async () => {
  await using w = await World.open();
  const contents = await (await w.fetch(`${REGISTRY_URL}/docs`)).text();
  const paths = new Set([...contents.matchAll(/href="(\/docs\/[a-z]+)"/g)].map(([, path]) => path));
  const pages = (await Promise.all([...paths].map(async (path) => await (await w.fetch(REGISTRY_URL + path)).text())))
    .join("");
  for (const { method, path, errors } of PARTS.both.flatMap((part) => part.operations)) {
    assertEquals(pages.split(`<h2><code>${method} ${path}</code></h2>`).length, 2, `${method} ${path}`);
    for (const code of errors) assertStringIncludes(pages, code);
  }
  const missing = await w.fetch(`${REGISTRY_URL}/docs/style.css`);
  assertEquals(missing.status, 404);
  await missing.body?.cancel();
});
