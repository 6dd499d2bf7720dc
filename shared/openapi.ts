/**
 * Makes an OpenAPI 3.1 document from rows of routes: one operation per row, with every error code that it can send. The
 * services and the connector's local API use it.
 */
import * as z from "zod";

export interface RouteHeader {
  name: string;
  required: boolean;
  schema: z.ZodType;
  what: string;
}

/** A success response. */
export interface RouteAnswer {
  status: number;
  body?: z.ZodType;
  contentType?: string;
  /** Response headers that a client may need. */
  headers?: readonly string[];
  /** True when a service that is not ready sends the same body with 503. */
  mayBeUnready?: true;
  /** True when the answer is 304 for a request whose `If-None-Match` is current. */
  isCacheable?: true;
}

/** One operation of a document: a row and its possible responses. */
export interface Operation<Code extends string, Credential extends string> {
  method: string;
  /** Parameters are written as `:name`. */
  path: string;
  summary: string;
  credential: Credential;
  /** The texts of all its limits and bounds. */
  limits: readonly string[];
  headers: readonly RouteHeader[];
  params: z.ZodType | undefined;
  query: z.ZodType | undefined;
  body: z.ZodType | undefined;
  emptyBody: boolean;
  response: RouteAnswer;
  /** Other success responses, with other statuses. */
  otherResponses?: readonly RouteAnswer[];
  errors: readonly Code[];
  /** True when errors of the proxy are passed on unchanged. Their codes are not listed. */
  passesOnErrors?: true;
}

/** A part of a document, for example one service. */
export interface DocumentPart<Code extends string, Credential extends string> {
  title: string;
  operations: readonly Operation<Code, Credential>[];
}

type Json = Record<string, unknown>;

/** What all operations of a document share. */
export interface DocumentForm<Code extends string, Credential extends string> {
  errors: Readonly<Record<Code, { status: number | readonly number[]; when: string }>>;
  /** Codes that every operation can send. The document has them once, in a shared response. */
  commonErrors: readonly Code[];
  securitySchemes: Readonly<Record<string, Json>>;
  /** For each credential: its security requirements, and the headers in addition to those of the schemes. */
  credentials: Readonly<Record<Credential, { security: readonly Json[]; headers: readonly RouteHeader[] }>>;
  requestHeaders: readonly RouteHeader[];
  responseHeaders: readonly string[];
  /** More schemas, which no operation names. */
  schemas: Readonly<Record<string, Json>>;
  /** Response headers of errors, by status. */
  errorHeaders: Readonly<Record<number, readonly string[]>>;
}

export function openApiDocument<Code extends string, Credential extends string>(
  parts: readonly DocumentPart<Code, Credential>[],
  version: string,
  form: DocumentForm<Code, Credential>,
): Json {
  const paths: Record<string, Json> = {};
  for (const { title, operations } of parts) {
    for (const operation of operations) {
      const path = operation.path.replace(/:([A-Za-z]+)/g, "{$1}");
      (paths[path] ??= {})[operation.method.toLowerCase()] ??= describe(operation, title, form);
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
    components: { securitySchemes: form.securitySchemes, schemas: form.schemas, responses: commonResponses(form) },
  };
}

function describe<Code extends string, Credential extends string>(
  operation: Operation<Code, Credential>,
  tag: string,
  form: DocumentForm<Code, Credential>,
): Json {
  const { summary, credential, query, params, headers, body, emptyBody, limits } = operation;
  return {
    tags: [tag],
    summary,
    ...(limits.length > 0 ? { description: `At most ${limits.join("; ")}.` } : {}),
    operationId: `${operation.method.toLowerCase()}${operation.path.replace(/[^A-Za-z0-9]+/g, "_")}`,
    security: form.credentials[credential].security,
    parameters: [
      ...parametersOf(params, "path"),
      ...parametersOf(query, "query"),
      ...form.credentials[credential].headers.map(headerParameter),
      // `Content-Type` follows from the body. If it were a parameter, generated clients would ask callers for it.
      ...headers.filter(({ name }) => name !== "Content-Type").map(headerParameter),
      ...operation.response.isCacheable
        ? [{ name: "If-None-Match", in: "header", required: false, schema: { type: "string" } }]
        : [],
      ...form.requestHeaders.map(headerParameter),
    ],
    ...(body ? { requestBody: { required: !emptyBody, content: jsonContent(body, "input") } } : {}),
    responses: responsesOf(operation, form),
  };
}

function headerParameter({ name, required, schema, what }: RouteHeader): Json {
  return { name, in: "header", required, description: what, schema: schemaOf(schema, "input") };
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

function responsesOf<Code extends string, Credential extends string>(
  { response, otherResponses = [], errors, limits, passesOnErrors }: Operation<Code, Credential>,
  form: DocumentForm<Code, Credential>,
): Record<string, Json> {
  const statusesOf = (code: Code) => [form.errors[code].status].flat();
  const isLimited = errors.some((code) => statusesOf(code).includes(429)) && limits.length > 0;
  const common = [...form.responseHeaders, ...isLimited ? ["RateLimit", "RateLimit-Policy"] : []];
  const responses: Record<string, Json> = {};
  for (const one of [response, ...otherResponses]) {
    responses[one.status] = successOf(one, common);
    if (one.isCacheable) responses[304] = { description: "Not modified", headers: headersOf([...common, "ETag"]) };
  }
  const byStatus = new Map<number, Code[]>();
  for (const code of errors) {
    for (const status of statusesOf(code)) byStatus.set(status, [...byStatus.get(status) ?? [], code]);
  }
  for (const [status, codes] of [...byStatus].sort(([a], [b]) => a - b)) {
    const [code] = codes;
    if (codes.length === 1 && code !== undefined && form.commonErrors.includes(code)) {
      responses[status] = { $ref: `#/components/responses/${code}` };
      continue;
    }
    const envelope = envelopeOf(passesOnErrors ? null : codes);
    const schema = response.body && schemaOf(response.body, "output");
    const isUnready = status === 503 && schema && response.mayBeUnready;
    responses[status] = {
      description: codes.map((code) => `${code}: ${form.errors[code].when}`).join("; ") +
        (isUnready ? "; or not ready" : ""),
      headers: headersOf([...common, ...form.errorHeaders[status] ?? []]),
      content: { "application/json": { schema: isUnready ? { anyOf: [envelope, schema] } : envelope } },
    };
  }
  if (passesOnErrors) {
    responses.default = {
      description: "An error of the proxy, unchanged",
      headers: headersOf(common),
      content: { "application/json": { schema: envelopeOf(null) } },
    };
  }
  return responses;
}

function successOf({ body, contentType, headers = [], isCacheable }: RouteAnswer, common: readonly string[]): Json {
  return {
    description: "Success",
    headers: headersOf([...common, ...headers, ...isCacheable ? ["ETag"] : []]),
    ...(body ? { content: jsonContent(body, "output") } : {}),
    ...(contentType ? { content: { [contentType]: { schema: {} } } } : {}),
  };
}

function headersOf(names: readonly string[]): Json {
  return Object.fromEntries(names.map((name) => [name, { schema: { type: "string" } }]));
}

/** @param codes the codes that can occur; `null` for any code */
function envelopeOf(codes: readonly string[] | null): Json {
  const error = {
    type: "object",
    required: ["code", "message"],
    properties: {
      code: codes === null ? { type: "string" } : { enum: codes },
      message: { type: "string" },
      details: { type: "object" },
    },
  };
  return { type: "object", required: ["error"], properties: { error } };
}

function commonResponses<Code extends string, Credential extends string>(
  { errors, commonErrors, responseHeaders, errorHeaders }: DocumentForm<Code, Credential>,
): Json {
  return Object.fromEntries(commonErrors.map((code) => {
    const [status = 500] = [errors[code].status].flat();
    const headers = headersOf([...responseHeaders, ...errorHeaders[status] ?? []]);
    const content = { "application/json": { schema: envelopeOf([code]) } };
    return [code, { description: `${code}: ${errors[code].when}`, headers, content }];
  }));
}

/** Returns a body, with an example if the schema accepts it, because an example is understood sooner than a schema. */
function jsonContent(body: z.ZodType, io: "input" | "output"): Json {
  const schema = schemaOf(body, io), example = exampleOf(schema);
  return { "application/json": { schema, ...body.safeParse(example).success ? { example } : {} } };
}

/** Returns a value that fits a schema: its own example, or a plain value of its type. */
export function exampleOf(schema: Json): unknown {
  const { type, examples, properties = {}, items, minItems, minimum, format } = schema;
  const others = (schema.anyOf ?? schema.oneOf) as Json[] | undefined;
  if (Array.isArray(examples)) return examples[0];
  if ("const" in schema) return schema.const;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if (others?.[0] !== undefined) return exampleOf(others[0]);
  switch (Array.isArray(type) ? type[0] : type) {
    case "object":
      return Object.fromEntries(Object.entries(properties as Json).map(([key, of]) => [key, exampleOf(of as Json)]));
    case "array":
      return Array.from({ length: Number(minItems ?? 1) }, () => exampleOf(items as Json));
    case "integer":
    case "number":
      return Math.max(1, Number(minimum ?? 1));
    case "boolean":
      return true;
    case "string":
      return format === "date-time" ? "2026-02-21T00:01:00.000Z" : "text";
    default:
      return type === "null" ? null : {};
  }
}

export function schemaOf(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return rest;
}
