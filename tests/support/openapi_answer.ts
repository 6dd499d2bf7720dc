/** Checks a recorded answer against an OpenAPI document (D-234). */
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
