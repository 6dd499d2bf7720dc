/**
 * OpenAPI 3.1 from the route tables (D-52): one operation per row, with every code that it can send. Contains only what
 * the rows contain.
 */
import * as z from "zod";
import { type ErrorCode, ERRORS } from "../../protocol/errors.ts";
import { HEADERS } from "../../protocol/proof.ts";
import { LIMITS } from "../../protocol/limits.ts";
import {
  type Authenticator,
  type Authenticators,
  type Credential,
  errorsOf,
  type Route,
  type RouteAnswer,
  type RouteHeader,
} from "./route.ts";

/** The part of one service in a document. */
export interface DocumentPart {
  title: string;
  operations: readonly Operation[];
}

/** A row and its possible responses. */
export interface Operation {
  method: string;
  path: string;
  summary: string;
  credential: Credential;
  /** Texts of every limit and bound. */
  limits: readonly string[];
  headers: readonly RouteHeader[];
  params: z.ZodType | undefined;
  query: z.ZodType | undefined;
  body: z.ZodType | undefined;
  emptyBody: boolean;
  response: RouteAnswer;
  errors: readonly ErrorCode[];
}

type Json = Record<string, unknown>;

/** Returns the operations of a table. */
export function operationsOf<D, C>(routes: readonly Route<D>[], authenticators: Authenticators<D, C>): Operation[] {
  return routes.map((route) => {
    const authenticator = authenticators[route.auth as keyof C];
    const { method, path, summary, params, query, headers = [], response } = route;
    return {
      method,
      path,
      summary,
      credential: authenticator.credential,
      limits: limitsOf(route, authenticator),
      headers,
      params,
      query,
      body: route.body ?? route.rawBody,
      emptyBody: route.emptyBody ?? false,
      response,
      errors: errorsOf(route, authenticator),
    };
  });
}

/** Returns the texts of every limit and bound of a row. */
export function limitsOf<D>(route: Route<D>, authenticator: Pick<Authenticator<D, never>, "limit">): string[] {
  const { limit, maxBodyBytes = LIMITS.bodyBytes, bounds = [] } = route;
  const texts: string[] = [];
  if (limit) {
    const failures = limit.counts ? ", failures only" : "";
    texts.push(`${limit.requests} in ${limit.windowMs / 1000} s per ${limit.per}${failures}`);
  }
  if (authenticator.limit !== undefined) texts.push(authenticator.limit);
  if (route.body || route.rawBody) texts.push(`body of ${maxBodyBytes.toLocaleString("en-US")} bytes`);
  return [...texts, ...bounds];
}

/** Name and headers of each credential. */
export const CREDENTIALS: Readonly<Record<Credential, { what: string; headers: readonly string[] }>> = {
  none: { what: "none", headers: [] },
  api_key: { what: "API key", headers: ["Authorization: Bearer"] },
  bootstrap_secret: { what: "bootstrap secret", headers: ["x-bootstrap-secret"] },
  service: { what: "internal service", headers: [HEADERS.serviceId, HEADERS.serviceSecret] },
  optional_service: { what: "none, or an internal service", headers: [] },
  agent_proof: { what: "agent: AIT and proof of possession", headers: ["Authorization: Svc", ...proofHeaderNames()] },
  agent_session: {
    what: "agent: AIT, proof of possession and access token",
    headers: ["Authorization: Svc", ...proofHeaderNames(), HEADERS.access],
  },
};

function proofHeaderNames(): string[] {
  return [HEADERS.timestamp, HEADERS.nonce, HEADERS.bodySha256, HEADERS.proof];
}

/** Header of every request and response (D-11). */
const REQUEST_ID: Json = { type: "string", pattern: "^[A-Za-z0-9._:-]{8,128}$" };
const PROOF_PATTERNS: Readonly<Record<string, string>> = {
  [HEADERS.timestamp]: "^(0|[1-9][0-9]{0,15})$",
  [HEADERS.nonce]: "^[A-Za-z0-9_-]{16,128}$",
  [HEADERS.bodySha256]: "^[A-Za-z0-9_-]{43}$",
  [HEADERS.proof]: "^[A-Za-z0-9_-]{86}$",
  [HEADERS.access]: "^svc_agt_[A-Za-z0-9_-]{43}$",
};

/** Returns the document as a JSON value. */
export function openApiDocument(parts: readonly DocumentPart[], version: string): Json {
  const paths: Record<string, Json> = {};
  for (const { title, operations } of parts) {
    for (const operation of operations) {
      const path = operation.path.replace(/:([A-Za-z]+)/g, "{$1}");
      (paths[path] ??= {})[operation.method.toLowerCase()] ??= describe(operation, title);
    }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: parts.map((part) => part.title).join(" and "),
      version,
      license: { name: "MIT", identifier: "MIT" },
    },
    paths,
    components: {
      securitySchemes: {
        api_key: { type: "http", scheme: "bearer", description: "An API key: svc_pat_…" },
        agent: { type: "apiKey", in: "header", name: HEADERS.authorization, description: "Svc <AIT>" },
        bootstrap_secret: { type: "apiKey", in: "header", name: "x-bootstrap-secret" },
        service_id: { type: "apiKey", in: "header", name: HEADERS.serviceId },
        service_secret: { type: "apiKey", in: "header", name: HEADERS.serviceSecret },
      },
    },
  };
}

function describe(operation: Operation, tag: string): Json {
  const { summary, credential, query, params, headers, body, emptyBody, limits } = operation;
  return {
    tags: [tag],
    summary,
    ...(limits.length > 0 ? { description: `At most ${limits.join("; ")}.` } : {}),
    operationId: `${operation.method.toLowerCase()}${operation.path.replace(/[^A-Za-z0-9]+/g, "_")}`,
    security: SECURITY[credential],
    parameters: [
      ...parametersOf(params, "path"),
      ...parametersOf(query, "query"),
      ...credential.startsWith("agent") ? headerParameters(credential) : [],
      ...headers.map(({ name, required, schema, what }) => ({
        name,
        in: "header",
        required,
        description: what,
        schema: schemaOf(schema, "input"),
      })),
      ...operation.response.isCacheable
        ? [{ name: "If-None-Match", in: "header", required: false, schema: { type: "string" } }]
        : [],
      { name: HEADERS.requestId, in: "header", required: false, schema: REQUEST_ID },
    ],
    ...(body ? { requestBody: { required: !emptyBody, content: jsonContent(schemaOf(body, "input")) } } : {}),
    responses: responsesOf(operation),
  };
}

const SECURITY: Readonly<Record<Credential, readonly Record<string, readonly string[]>[]>> = {
  none: [],
  api_key: [{ api_key: [] }],
  bootstrap_secret: [{ bootstrap_secret: [] }],
  service: [{ service_id: [], service_secret: [] }],
  optional_service: [{}, { service_id: [], service_secret: [] }],
  agent_proof: [{ agent: [] }],
  agent_session: [{ agent: [] }],
};

function headerParameters(credential: Credential): Json[] {
  const names = credential === "agent_session" ? [...proofHeaderNames(), HEADERS.access] : proofHeaderNames();
  return names.map((name) => ({
    name,
    in: "header",
    required: true,
    schema: { type: "string", pattern: PROOF_PATTERNS[name] },
  }));
}

function parametersOf(schema: z.ZodType | undefined, where: "path" | "query"): Json[] {
  if (!schema) return [];
  const { properties = {}, required = [] } = schemaOf(schema, "input") as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: where,
    required: where === "path" || required.includes(name),
    schema: property,
  }));
}

function responsesOf({ response, errors, limits }: Operation): Record<string, Json> {
  const schema = response.body && schemaOf(response.body, "output");
  const isLimited = errors.some((code) => [ERRORS[code].status].flat().includes(429)) && limits.length > 0;
  const common = [HEADERS.requestId, ...isLimited ? ["RateLimit", "RateLimit-Policy"] : []];
  const responses: Record<string, Json> = {
    [response.status]: {
      description: "Success",
      headers: headersOf([...common, ...response.headers ?? [], ...response.isCacheable ? ["ETag"] : []]),
      ...(schema ? { content: jsonContent(schema) } : {}),
      ...(response.contentType ? { content: { [response.contentType]: { schema: {} } } } : {}),
    },
    ...(response.isCacheable ? { 304: { description: "Not modified", headers: headersOf([...common, "ETag"]) } } : {}),
  };
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of errors) {
    for (const status of [ERRORS[code].status].flat()) byStatus.set(status, [...byStatus.get(status) ?? [], code]);
  }
  for (const [status, codes] of [...byStatus].sort(([a], [b]) => a - b)) {
    const envelope = envelopeOf(codes);
    const isUnready = status === 503 && schema && response.mayBeUnready;
    responses[status] = {
      description: codes.map((code) => `${code}: ${ERRORS[code].when}`).join("; ") +
        (isUnready ? "; or not ready" : ""),
      headers: headersOf([...common, ...ERROR_HEADERS[status] ?? []]),
      content: jsonContent(isUnready ? { anyOf: [envelope, schema] } : envelope),
    };
  }
  return responses;
}

/** Headers of error responses, by status. */
const ERROR_HEADERS: Readonly<Record<number, readonly string[]>> = {
  401: ["WWW-Authenticate"],
  426: ["Upgrade"],
  429: ["Retry-After"],
  503: ["Retry-After"],
};

function headersOf(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { schema: { type: "string" } }]));
}

function envelopeOf(codes: readonly ErrorCode[]): Json {
  const error = {
    type: "object",
    required: ["code", "message"],
    properties: { code: { enum: codes }, message: { type: "string" }, details: { type: "object" } },
  };
  return { type: "object", required: ["error"], properties: { error } };
}

function jsonContent(schema: Json): Json {
  return { "application/json": { schema } };
}

/** Returns the JSON schema of a schema. */
export function schemaOf(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return rest;
}
