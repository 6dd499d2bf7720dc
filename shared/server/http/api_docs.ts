/** The API documents of a service, made from its route table: `/openapi.json`, and pages at `/docs`. */
import { type Bytes, utf8Bytes } from "../../protocol/base64url.ts";
import { ServiceHealth } from "../../protocol/api/meta.ts";
import { openApiDocument } from "../../openapi.ts";
import type { PageAnswer } from "../../page/document.ts";
import { apiPage } from "./api_pages.ts";
import { type DocumentPart, type Operation, SERVICE_FORM } from "./openapi.ts";
import { openRoute, type Route } from "./route.ts";

export interface ApiDocs {
  /** As bytes, because each response that waits for its client would otherwise hold a copy of 344 KB. */
  readonly openApi: Bytes;
  page(path: string): PageAnswer;
}

export function apiDocsOf(services: readonly DocumentPart[], version: string): ApiDocs {
  const parts = services.length > 1 ? withoutRepeats(services) : services;
  const operations = parts.flatMap((part) => part.operations);
  const pages = new Map<string, PageAnswer>();
  let openApi: Bytes | undefined;
  return {
    get openApi() {
      return openApi ??= utf8Bytes(JSON.stringify(openApiDocument(parts, version, SERVICE_FORM)));
    },
    page: (path) => pages.getOrInsertComputed(path, () => apiPage(operations, version, path)),
  };
}

/** How `/health` differs when both services run in one process and give one answer. */
const HEALTH_OF_BOTH: Partial<Operation> = {
  summary: "Whether registry and proxy can work",
  response: { status: 200, body: ServiceHealth, mayBeUnready: true },
  errors: ["SERVICE_UNAVAILABLE", "INTERNAL_ERROR"],
};

/** Returns each operation only once, from the first service that has it. */
function withoutRepeats(parts: readonly DocumentPart[]): DocumentPart[] {
  const nameOf = ({ method, path }: Operation) => `${method} ${path}`;
  const known = new Set<string>();
  return parts.map(({ title, operations }) => ({
    title,
    operations: operations.filter((operation) => !known.has(nameOf(operation)) && known.add(nameOf(operation)))
      .map((operation) => operation.path === "/health" ? { ...operation, ...HEALTH_OF_BOTH } : operation),
  }));
}

/** Returns the route of the OpenAPI document. `documents` is a member of the service's dependencies. */
export function openApiRoute<D extends { documents: ApiDocs }>(): Route<D> {
  const headers = {
    "Content-Type": "application/json; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "public, max-age=300",
  };
  const response = { status: 200, contentType: "application/json" };
  return openRoute("/openapi.json", "This service as OpenAPI 3.1", response, ({ documents }) => ({
    status: 200,
    headers,
    body: documents.openApi,
  }));
}
