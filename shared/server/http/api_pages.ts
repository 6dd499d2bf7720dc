/** The API documents for people: one page for each resource, made from the same rows as the OpenAPI document. */
import { openPage, type PageAnswer } from "../../page/document.ts";
import { type Html, markup, type Value } from "../../page/html.ts";
import { head, lines, link, type Row, shell, table } from "../../page/parts.ts";
import { schemaOf } from "../../openapi.ts";
import { type ErrorCode, ERRORS } from "../../protocol/errors.ts";
import { CREDENTIALS, type Operation } from "./openapi.ts";
import { COMMON_ERRORS } from "./route.ts";

interface Resource {
  title: string;
  line: string;
  /** How the paths of its routes begin. */
  paths: readonly string[];
}

/** The resources, by the name in their address. A route belongs to the first resource whose `paths` it matches. */
const RESOURCES: Readonly<Record<string, Resource>> = {
  messages: {
    title: "Messages",
    line: "Deliver messages to paired agents, and read which of them arrived.",
    paths: ["/hooks/", "/v1/relay/"],
  },
  pairing: { title: "Pairing", line: "Make two agents write to each other, and end that.", paths: ["/pair/"] },
  sessions: { title: "Sessions", line: "Keep the session of an agent.", paths: ["/v1/agents/auth/"] },
  agents: { title: "Agents", line: "Create agents and their identities.", paths: ["/v1/agents", "/v1/resolve/"] },
  accounts: {
    title: "Accounts",
    line: "The person of an API key, and its keys.",
    paths: ["/v1/me", "/v1/admin/bootstrap"],
  },
  invites: { title: "Invites", line: "Let a person make an account.", paths: ["/v1/invites"] },
  relay: {
    title: "Relay",
    line: "What an operator sees of connections, queues, deliveries and refusals.",
    paths: ["/v1/admin/relay/"],
  },
  operation: {
    title: "Operation",
    line: "What an operator sees of events, keys and services.",
    paths: ["/v1/admin/tokens", "/v1/admin/audit", "/v1/admin/keys", "/v1/admin/internal-services"],
  },
  admins: { title: "Admins", line: "People and agents, as an admin sees and changes them.", paths: ["/v1/admin/"] },
  service: { title: "Service", line: "Health, keys, revocations and addresses.", paths: ["/"] },
  errors: { title: "Errors", line: "What every route can answer.", paths: [] },
};

export const API_PAGES: readonly string[] = ["/docs", ...Object.keys(RESOURCES).map((id) => `/docs/${id}`)];

export function apiPage(operations: readonly Operation[], version: string, path: string): PageAnswer {
  const byResource = Map.groupBy(operations, ({ path }) => {
    const found = Object.entries(RESOURCES).find(([, { paths }]) => paths.some((start) => path.startsWith(start)));
    return found?.[0] ?? "service";
  });
  const shown = Object.entries(RESOURCES).filter(([id]) => id === "errors" || byResource.has(id));
  const id = path.slice("/docs/".length);
  const resource = RESOURCES[id];
  const own = byResource.get(id) ?? [];
  const body = resource === undefined
    ? markup`${head("API", "Every route with its fields, its errors and an example.")}<div class="cards">${
      shown.map(([id, { title, line }]) =>
        markup`<a class="card" href="${`/docs/${id}`}"><h2>${title}</h2><p class="small soft">${line}</p></a>`
      )
    }</div>`
    : markup`${head(resource.title, resource.line)}<div class="stack">${id === "errors" ? null : own.map(section)}${
      errorTable(id === "errors" ? COMMON_ERRORS : ownErrors(own.flatMap(({ errors }) => errors)))
    }</div>`;
  const page = shell({
    title: "API",
    line: version,
    home: "/docs",
    nav: shown.map(([id, { title }]) => ({ path: `/docs/${id}`, text: title })),
    current: path,
    foot: link("/openapi.json", "OpenAPI 3.1", "bare"),
    main: body,
  });
  return openPage({ title: resource === undefined ? "API" : `${resource.title} · API`, body: page }, {
    cache: "public, max-age=300",
  });
}

function section(operation: Operation): Html {
  const { method, path, summary, credential, limits, headers, params, query, body, response, errors } = operation;
  const { what, headers: credentials } = CREDENTIALS[credential];
  const request = [
    ...fieldRows(params, "path"),
    ...fieldRows(query, "query"),
    ...headers.map(({ name, required, what }) => fieldRow(name, "header", required, withCode(what))),
    ...fieldRows(body, "body"),
  ];
  const answer = response.body ? fieldRows(response.body, "answer") : [];
  return markup`<section class="card stack tight"><h2><code>${method} ${path}</code></h2><p>${withCode(summary)}.</p>${
    lines([
      [
        "Caller",
        markup`${what}${credentials.length > 0 && ": "}${credentials.map((name) => markup`<code>${name}</code> `)}`,
      ],
      ["Limit", limits.join("; ") || "none"],
      ["Success", String(response.status)],
      [
        "Errors",
        markup`${
          ownErrors(errors).map((code) => markup`<code>${code}</code> `)
        }or an <a href="/docs/errors">error of all routes</a>`,
      ],
    ])
  }${request.length > 0 && fieldTable("Request", request)}${answer.length > 0 && fieldTable("Answer", answer)}${
    example(operation)
  }</section>`;
}

/** Returns each code once, without the codes that all routes can send. */
function ownErrors(codes: readonly ErrorCode[]): ErrorCode[] {
  return [...new Set(codes)].filter((code) => !(COMMON_ERRORS as readonly ErrorCode[]).includes(code));
}

/** Returns an example command for a route that a person can call with a key. */
function example({ method, path, credential, body, emptyBody }: Operation): Value {
  if (!["none", "api_key", "admin_token"].includes(credential)) return null;
  const bearer = credential === "none"
    ? ""
    : ` -H "Authorization: Bearer $${credential === "api_key" ? "API_KEY" : "ADMIN_TOKEN"}"`;
  const verb = method === "GET" ? "" : ` -X ${method}`;
  const sent = body && !emptyBody ? ` -H "Content-Type: application/json" -d @body.json` : "";
  return markup`<pre class="note small">curl${verb}${bearer}${sent} "$URL${path}"</pre>`;
}

function fieldTable(caption: string, rows: readonly Row[]): Html {
  return table({ caption, columns: [caption, "In", "Needed", "What it is"], rows });
}

function fieldRow(name: string, where: string, isNeeded: boolean, what: Value): Row {
  return {
    cells: [
      markup`<code>${name}</code>`,
      markup`<span class="nb">${where}</span>`,
      isNeeded ? "yes" : "no",
      markup`<span>${what}</span>`,
    ],
  };
}

type Json = Record<string, unknown>;

/** Returns a row for each member of a schema, even within lists, or one row for a value without members. */
function fieldRows(schema: Operation["body"], where: string): Row[] {
  if (schema === undefined) return [];
  const json = schemaOf(schema, where === "answer" ? "output" : "input");
  const rows = memberRows(json, "", where, 0);
  return rows.length > 0 ? rows : [fieldRow("(whole)", where, true, typeText(json))];
}

/** Levels of members shown below the first. Deeper ones are left out, because their rows would hide the others. */
const DEPTH = 2;

function memberRows(schema: Json, prefix: string, where: string, depth: number): Row[] {
  const { properties = {}, required = [] } = schema as { properties?: Record<string, Json>; required?: string[] };
  return Object.entries(properties).flatMap(([name, member]) => {
    const items = member.type === "array" ? member.items as Json | undefined : member;
    const path = `${prefix}${name}${member.type === "array" ? "[]" : ""}`;
    return [
      fieldRow(path, where, required.includes(name), typeText(member)),
      ...depth < DEPTH && items ? memberRows(items, `${path}.`, where, depth + 1) : [],
    ];
  });
}

/** Returns what a value must be, in words. */
function typeText(schema: Json): string {
  const { type, format, pattern, minimum, maximum, minLength, maxLength, minItems, maxItems, items } = schema;
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if ("const" in schema) return JSON.stringify(schema.const);
  const others = (schema.anyOf ?? schema.oneOf) as Json[] | undefined;
  if (others) return [...new Set(others.map(typeText))].join(", or ");
  const range = (low: unknown, high: unknown, unit: string) => {
    const ends = [...low === undefined ? [] : [`at least ${low}`], ...high === undefined ? [] : [`at most ${high}`]];
    return ends.length === 0 ? "" : `, ${ends.join(", ")}${unit}`;
  };
  const bounds = type === "array"
    ? range(minItems, maxItems, " entries")
    : type === "string"
    ? range(minLength, maxLength, " characters")
    : range(bound(minimum), bound(maximum), "");
  const entries = type === "array" && items ? ` of ${typeText(items as Json)}` : "";
  return `${type ?? "any JSON"}${entries}${bounds}${format ? `, ${format}` : formText(pattern)}`;
}

/** Longest pattern that is shown, because a longer one says nothing to a reader. */
const PATTERN_CHARACTERS = 50;

function formText(pattern: unknown): string {
  if (typeof pattern !== "string") return "";
  if (pattern.startsWith("^did:")) return ", a DID";
  return pattern.length > PATTERN_CHARACTERS ? ", of the form in OpenAPI" : `, matches ${pattern}`;
}

/** Returns a bound, or `undefined` for the largest safe integer, because that bounds every JSON number. */
function bound(value: unknown): unknown {
  return Math.abs(Number(value)) < Number.MAX_SAFE_INTEGER ? value : undefined;
}

function errorTable(codes: readonly ErrorCode[]): Html {
  return table({
    caption: "Errors",
    columns: ["Code", "Status", "When, and what to do"],
    rows: codes.map((code) => ({
      cells: [
        markup`<code>${code}</code>`,
        [ERRORS[code].status].flat().join(" or "),
        markup`<span>${withCode(`${ERRORS[code].when}. ${ERRORS[code].fix}`)}</span>`,
      ],
    })),
  });
}

/** Shows the words between backticks as code. */
function withCode(text: string): Value {
  return text.split("`").map((part, i) => i % 2 === 0 ? part : markup`<code>${part}</code>`);
}
