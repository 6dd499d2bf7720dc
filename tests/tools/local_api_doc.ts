/**
 * The text of docs/local-api.md, from the table of local routes: a section for each route with its query, bodies and
 * codes. Shapes are written as TypeScript types.
 */
import * as z from "zod";
import type { LocalCode } from "../../cli/local_errors.ts";
import { localErrorsOf, type LocalRoute } from "../../cli/connector/local_api/local_route.ts";
import { LOCAL_ROUTES } from "../../cli/connector/local_api/local_routes.ts";
import { ChangedPeer, LocalMessage, OutboundResult, SENT_STATES, SentEntry } from "../../shared/client/local_shapes.ts";
import { schemaOf } from "../../shared/openapi.ts";
import { PairingProfile, PairKey } from "../../shared/protocol/api/pairing.ts";

const HEAD = `# Local API

The routes, shapes and codes of a running connector, for programs that use it; also as OpenAPI 3.1 at \`/openapi.json\`.

- Address and token are in \`connector.json\` in the agent's folder. Read the file before each connection, because each
  start makes a new token, and another program may have the old port.
- Each request has \`Authorization: Bearer <token>\`. A \`Host\` that is not loopback, an \`Origin\`, and under \`/v1/\` and
  \`/a2a/\` a \`Sec-Fetch-Site\` other than \`none\` are refused, because a page of another site could otherwise call it.
- Bodies are JSON. Unknown members and query parameters are refused, except in A2A requests, because a misspelt one would
  do nothing.
- Under \`/a2a/<alias>\` an A2A 1.0 client reaches one peer, with the token that \`svc a2a add\` printed. Errors of the
  call are JSON-RPC errors with status 200. A reply goes to a client whose call waits or that has asked for the task;
  otherwise it goes to the runtime too after 30 s, because it would be lost.
- An error is \`{"error":{"code","message"}}\`; [errors.md](errors.md) explains each code.
- A \`Time\` is a string in ISO 8601.
`;

/** Names of shapes by their texts, so that a shape inside of another one, or in a second route, is not spelled again. */
const names = new Map<string, string>();

/** The shapes with names. One that holds another follows it. */
const SHAPES = ([
  ["State", z.enum(SENT_STATES)],
  ["Profile", PairingProfile],
  ["Key", PairKey],
  ["Peer", ChangedPeer],
  ["Message", LocalMessage],
  ["SentMessage", SentEntry],
  ["Result", OutboundResult],
] as const).map(([name, schema]) => {
  const text = written(schemaOf(schema, "output"));
  names.set(text, name);
  return [name, text] as const;
});

/** The name of a shape with this text, else the text. */
function named(text: string): string {
  return names.get(text) ?? text;
}

/** Returns the document without the line that names its sources. */
export function localApiDoc(): string {
  const common = LOCAL_ROUTES.map(localErrorsOf).reduce((all, codes) => all.filter((code) => codes.includes(code)));
  const every = `Each route can answer ${common.map(coded).join(", ")}; one that needs a token also ${
    coded("CONNECTOR_UNAUTHORIZED")
  }, and a POST ${coded("CONNECTOR_DISK_FULL")}.\n`;
  const shapes = SHAPES.map(([name, text]) => `- \`${name}\`: \`${text}\``);
  return [
    HEAD,
    every,
    `Shapes of several routes:\n\n${shapes.join("\n")}\n`,
    ...LOCAL_ROUTES.map((route) => sectionOf(route, new Set<LocalCode>([...common, "CONNECTOR_UNAUTHORIZED"]))),
  ].join("\n");
}

function sectionOf(route: LocalRoute, common: ReadonlySet<LocalCode>): string {
  const {
    method,
    path,
    summary,
    query,
    bounds = [],
    response,
    otherResponses = [],
  } = route;
  const body = route.shownBody ?? route.textBody ?? route.body;
  const own = localErrorsOf(route).filter((code) =>
    !common.has(code) && !(code === "CONNECTOR_DISK_FULL" && method === "POST")
  );
  const errors = [...own.map(coded), ...route.passesOnErrors ? ["an error of the proxy, unchanged"] : []];
  const lines = [
    `${summary}.${bounds.length > 0 ? ` At most ${bounds.join("; ")}.` : ""}`,
    ...query === undefined ? [] : [`- Query: ${typeOf(query, "input")}`],
    ...body === undefined ? [] : [`- Body: ${typeOf(body, "input")}`],
    ...[response, ...otherResponses].map(({ status, body }) =>
      `- ${status}${body === undefined ? "" : `: ${typeOf(body, "output")}`}`
    ),
    ...errors.length > 0 ? [`- Errors: ${errors.join(", ")}`] : [],
  ];
  const [first, ...rest] = lines;
  return `## ${method} ${path.replace(/:([A-Za-z]+)/g, "{$1}")}\n\n${first}\n\n${rest.join("\n")}\n`;
}

function coded(code: LocalCode): string {
  return `\`${code}\``;
}

interface JsonSchema {
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  minLength?: number;
  maxLength?: number;
  format?: string;
}

function typeOf(schema: z.ZodType, io: "input" | "output"): string {
  return `\`${written(schemaOf(schema, io))}\``;
}

function written(schema: JsonSchema): string {
  if (schema.enum !== undefined) return named(schema.enum.map((value) => JSON.stringify(value)).join(" | "));
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.anyOf !== undefined) return schema.anyOf.map(written).join(" | ");
  if (Array.isArray(schema.type)) return schema.type.join(" | ");
  switch (schema.type) {
    case "object": {
      const { properties = {}, required = [] } = schema;
      const members = Object.entries(properties).map(([name, member]) =>
        `${name}${required.includes(name) ? "" : "?"}: ${written(member)}${boundOf(member)}`
      );
      const text = members.length === 0 ? "{}" : `{ ${members.join("; ")} }`;
      return named(text);
    }
    case "array": {
      const { items = {} } = schema;
      return items.enum || items.anyOf ? `(${written(items)})[]` : `${written(items)}[]`;
    }
    case undefined:
      // The output of a transformation has no type of its own; only texts have a length.
      return schema.maxLength === undefined ? "any JSON value" : "string";
    default:
      return schema.format === "date-time" ? "Time" : schema.type;
  }
}

/** Bounds and the default of a member, in parentheses. */
function boundOf({ type, minimum, maximum, minItems, maxItems, minLength, maxLength, ...rest }: JsonSchema): string {
  const range = (unit: string, low: number | undefined, high: number | undefined) =>
    high === undefined || high === Number.MAX_SAFE_INTEGER ? [] : [`${low ?? 0} to ${high}${unit}`];
  const parts = [
    ...type === "integer" ? range("", minimum, maximum) : [],
    ...range(" entries", minItems, maxItems),
    ...range(" characters", minLength, maxLength),
    ...rest.default === undefined ? [] : [`default ${JSON.stringify(rest.default)}`],
  ];
  return parts.length === 0 ? "" : ` (${parts.join(", ")})`;
}
