/** Checks a recorded answer against an OpenAPI document. */
import { Ajv2020 } from "ajv/dist/2020.js";

/** One for all, because it compiles each schema, and that of schemas, once. */
const ajv = new Ajv2020({ strict: false, validateFormats: false });

export interface Recorded {
  method: string;
  /** A path of the document, for example `/v1/agents/{id}`. */
  path: string;
  status: number;
  headers: Headers;
  text: string;
  /** What was asked. */
  asked?: { query: URLSearchParams; headers: Headers; body: string | null };
}

// deno-lint-ignore no-explicit-any -- the document is checked by a validator of its own
export type ApiDocument = any;

/** Why an answer does not match the document; `null` when it does. */
export function problemOf(document: ApiDocument, { method, path, status, headers, text }: Recorded): string | null {
  const operation = document.paths[path]?.[method.toLowerCase()];
  if (!operation) return "no such operation";
  const listed = operation.responses[status] ?? (status >= 400 ? operation.responses.default : undefined);
  const response = listed && resolved(document, listed);
  if (!response) return `status ${status} is not described`;
  const type = headers.get("content-type")?.split(";")[0];
  const content = response.content?.[type ?? ""];
  if (text === "") return response.content && method !== "HEAD" ? "a body is described and missing" : null;
  if (!content) return `content type ${type} is not described`;
  if (type !== "application/json") return null;
  return ajv.validate(content.schema, JSON.parse(text)) ? null : ajv.errorsText();
}

/** What a reference within a document leads to; another value itself. */
export function resolved(document: ApiDocument, value: object): ApiDocument {
  if (!("$ref" in value)) return value;
  return String(value.$ref).slice("#/".length).split("/").reduce((place, name) => place[name], document);
}

/** Why a request is not one of the document; `null` when it has only what its operation names, and all of what that needs. */
export function requestProblemOf(
  document: ApiDocument,
  { method, path, asked }: Recorded,
): string | null {
  if (asked === undefined) return "the request was not recorded";
  const { query, headers, body } = asked;
  const operation = document.paths[path]?.[method.toLowerCase()];
  if (!operation) return "no such operation";
  const parameters: { name: string; in: string; required: boolean; schema: object }[] = operation.parameters;
  const schemes = Object.values<{ type: string; name?: string }>(document.components.securitySchemes);
  const given = { query: (name: string) => query.get(name), header: (name: string) => headers.get(name) };
  for (const { name, in: where, required, schema } of parameters) {
    if (where === "path") continue;
    const value = given[where as "query" | "header"](name);
    if (value === null && required) return `${where} ${name} is missing`;
    if (value !== null && !ajv.validate(schema, value)) return `${where} ${name}: ${ajv.errorsText()}`;
  }
  const named = new Set(parameters.map(({ name }) => name.toLowerCase()));
  const credentials = schemes.map(({ type, name }) => type === "http" ? "authorization" : name?.toLowerCase());
  const unknown = [...headers.keys()].filter((name) => !named.has(name) && !credentials.includes(name));
  const extra = [...query.keys(), ...unknown].filter((name) =>
    !named.has(name.toLowerCase()) && name !== "content-type"
  );
  if (extra.length > 0) return `${extra} is not described`;
  const content = operation.requestBody?.content["application/json"];
  if (body === null) return operation.requestBody?.required ? "the body is missing" : null;
  if (!content) return "no body is described";
  return ajv.validate(content.schema, JSON.parse(body)) ? null : `body: ${ajv.errorsText()}`;
}

/**
 * Returns what is wrong with the Schema Objects of a document by the meta-schema of JSON Schema 2020-12, which OpenAPI 3.1
 * names as its dialect. A validator of the document alone takes any object for a schema.
 */
export function schemaProblems(document: unknown): string[] {
  const problems: string[] = [];
  const walk = (value: unknown, path: string): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [name, member] of Object.entries(value)) {
      const place = `${path}/${name}`;
      if (name !== "schema") walk(member, place);
      else if (!ajv.validateSchema(member as Record<string, unknown>)) problems.push(`${place}: ${ajv.errorsText()}`);
    }
  };
  walk(document, "");
  return problems;
}
