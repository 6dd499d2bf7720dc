/**
 * The API documents of a service: `/openapi.json`, and a page at `/docs`, both from the route table. The page has no
 * script and loads only its own style sheet.
 */
import { ServiceHealth } from "../../protocol/api/meta.ts";
import { ERRORS } from "../../protocol/errors.ts";
import { openApiDocument, schemaOf } from "../../openapi.ts";
import { CREDENTIALS, type DocumentPart, type Operation, SERVICE_FORM } from "./openapi.ts";
import type { Route } from "./route.ts";

/** The documents; each is built at its first request. */
export interface ApiDocs {
  readonly openApi: string;
  readonly page: string;
}

/** Returns the documents of one service, or of both. */
export function apiDocsOf(services: readonly DocumentPart[], version: string): ApiDocs {
  const parts = services.length > 1 ? withoutRepeats(services) : services;
  let openApi: string | undefined, page: string | undefined;
  return {
    get openApi() {
      return openApi ??= JSON.stringify(openApiDocument(parts, version, SERVICE_FORM));
    },
    get page() {
      return page ??= pageOf(parts, version);
    },
  };
}

/** Operations with one response of both services in one process (D-249). */
const TOGETHER: readonly Operation[] = [{
  method: "GET",
  path: "/health",
  summary: "Whether registry and proxy can work",
  credential: "none",
  limits: [],
  headers: [],
  params: undefined,
  query: undefined,
  body: undefined,
  emptyBody: false,
  response: { status: 200, body: ServiceHealth, mayBeUnready: true },
  errors: ["SERVICE_UNAVAILABLE", "INTERNAL_ERROR"],
}];

/** Returns each operation once: the shared one, else that of the first service that has it. */
function withoutRepeats(parts: readonly DocumentPart[]): DocumentPart[] {
  const nameOf = ({ method, path }: Operation) => `${method} ${path}`;
  const together = new Map(TOGETHER.map((operation) => [nameOf(operation), operation]));
  const known = new Set<string>();
  return parts.map(({ title, operations }) => ({
    title,
    operations: operations.filter((operation) => !known.has(nameOf(operation)) && known.add(nameOf(operation)))
      .map((operation) => together.get(nameOf(operation)) ?? operation),
  }));
}

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1b1f24 }
h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem; border-bottom: 1px solid #d0d7de }
article { margin: 1.5rem 0 } h3 { margin: 0; font-size: 1rem } code { font-family: ui-monospace, monospace }
p { margin: .25rem 0 } table { border-collapse: collapse; font-size: .85rem; margin-top: .5rem; width: 100% }
td { border-top: 1px solid #eaeef2; padding: .2rem .5rem; vertical-align: top } td:first-child { white-space: nowrap }
.muted { color: #57606a } pre { overflow: auto; font-size: .8rem }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3 } .muted { color: #8b949e } }
`;

/** Returns the three routes of the documents; `documents` is a member of the service's dependencies. */
export function apiDocsRoutes<D extends { documents: ApiDocs }>(): Route<D>[] {
  const row = (
    path: string,
    summary: string,
    contentType: string,
    text: (documents: ApiDocs) => string,
  ): Route<D> => ({
    method: "GET",
    path,
    summary,
    auth: "none",
    limit: null,
    response: { status: 200, contentType },
    errors: [],
    handler: ({ documents }) => ({
      status: 200,
      headers: {
        "Content-Type": `${contentType}; charset=utf-8`,
        "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "public, max-age=300",
      },
      body: text(documents),
    }),
  });
  return [
    row("/openapi.json", "This service as OpenAPI 3.1", "application/json", (documents) => documents.openApi),
    row("/docs", "This service for people", "text/html", (documents) => documents.page),
    row("/docs/style.css", "Style of the page", "text/css", () => STYLE),
  ];
}

function pageOf(parts: readonly DocumentPart[], version: string): string {
  const title = escape(parts.map((part) => part.title).join(" and "));
  const sections = parts.map((part) =>
    `<section><h2>${escape(part.title)}</h2>${part.operations.map(articleOf).join("")}</section>`
  );
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title>` +
    `<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/docs/style.css"></head><body>` +
    `<h1>${title} <span class="muted">${escape(version)}</span></h1>` +
    `<p>Also as <a href="/openapi.json">OpenAPI 3.1</a>.</p>${sections.join("")}</body></html>\n`;
}

function articleOf(operation: Operation): string {
  const { method, path, summary, credential, limits, headers, response, errors } = operation;
  const { what, headers: shown } = CREDENTIALS[credential];
  const sent = shown.length === 0 ? "" : `: ${shown.map((header) => `<code>${escape(header)}</code>`).join(", ")}`;
  const own = headers.map(({ name, required, what }) =>
    `<p><code>${escape(name)}</code>${required ? "" : " (optional)"}: ${escape(what)}.</p>`
  );
  const rows = errors.map((code) =>
    `<tr><td><code>${code}</code></td><td>${[ERRORS[code].status].flat().join(" or ")}</td>` +
    `<td>${escape(ERRORS[code].when)}. <span class="muted">${escape(ERRORS[code].fix)}</span></td></tr>`
  );
  return `<article><h3><code>${method} ${escape(path)}</code></h3><p>${escape(summary)}.</p>` +
    `<p class="muted">Caller: ${escape(what)}${sent}. Limit: ${
      escape(limits.join("; ") || "none")
    }. Success: ${response.status}.</p>${own.join("")}${bodyOf(operation)}` +
    `<table>${rows.join("")}</table></article>`;
}

function bodyOf({ body, emptyBody }: Operation): string {
  if (!body) return "";
  const schema = escape(JSON.stringify(schemaOf(body, "input"), null, 1));
  return `<details><summary>Body${emptyBody ? " (optional)" : ""}</summary><pre>${schema}</pre></details>`;
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}
