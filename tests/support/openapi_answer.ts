/** Checks a recorded answer against an OpenAPI document. */
import { Ajv2020 } from "ajv";

export interface Recorded {
  method: string;
  /** A path of the document, for example `/v1/agents/{id}`. */
  path: string;
  status: number;
  headers: Headers;
  text: string;
}

// deno-lint-ignore no-explicit-any -- the document is checked by a validator of its own
export type ApiDocument = any;

/** Why an answer does not match the document; `null` when it does. */
export function problemOf(document: ApiDocument, { method, path, status, headers, text }: Recorded): string | null {
  const operation = document.paths[path]?.[method.toLowerCase()];
  if (!operation) return "no such operation";
  const response = operation.responses[status] ?? (status >= 400 ? operation.responses.default : undefined);
  if (!response) return `status ${status} is not described`;
  const type = headers.get("content-type")?.split(";")[0];
  const content = response.content?.[type ?? ""];
  if (text === "") return response.content && method !== "HEAD" ? "a body is described and missing" : null;
  if (!content) return `content type ${type} is not described`;
  if (type !== "application/json") return null;
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  return ajv.validate(content.schema, JSON.parse(text)) ? null : ajv.errorsText();
}

/**
 * Returns what is wrong with the Schema Objects of a document by the meta-schema of JSON Schema 2020-12, which OpenAPI 3.1
 * names as its dialect. A validator of the document alone takes any object for a schema.
 */
export function schemaProblems(document: unknown): string[] {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
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
