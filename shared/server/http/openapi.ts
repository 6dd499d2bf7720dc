/**
 * What the OpenAPI builder of shared/openapi.ts needs of the services: the operations of a route table, the texts of
 * their limits, and the credentials of their callers.
 */
import { REQUEST_ID_FORM } from "../../protocol/ids.ts";
import * as z from "zod";
import * as openapi from "../../openapi.ts";
import { FRAME_SHAPES } from "../../protocol/api/frames.ts";
import { type ErrorCode, ERRORS } from "../../protocol/errors.ts";
import { HEADERS } from "../../protocol/proof.ts";
import { LIMITS } from "../../protocol/limits.ts";
import {
  type Authenticator,
  type Authenticators,
  COMMON_ERRORS,
  type Credential,
  errorsOf,
  type Route,
} from "./route.ts";

export type Operation = openapi.Operation<ErrorCode, Credential>;

export type DocumentPart = openapi.DocumentPart<ErrorCode, Credential>;

/** Returns the operations of a table, without its pages. */
export function operationsOf<D, C>(routes: readonly Route<D>[], authenticators: Authenticators<D, C>): Operation[] {
  return routes.filter(({ isPage }) => !isPage).map((route) => {
    const authenticator = authenticators[route.auth as keyof C];
    return {
      ...route,
      credential: authenticator.credential,
      limits: limitsOf(route, authenticator),
      headers: route.headers ?? [],
      params: route.params,
      query: route.query ?? route.rawQuery,
      body: route.body ?? route.rawBody,
      emptyBody: route.emptyBody ?? false,
      errors: errorsOf(route, authenticator),
    };
  });
}

/** Returns the texts of all limits and bounds of a row. */
export function limitsOf<D>(route: Route<D>, authenticator: Pick<Authenticator<D, never>, "limit">): string[] {
  const { limit, maxBodyBytes = LIMITS.bodyBytes, bounds = [] } = route;
  const texts: string[] = [];
  if (limit) {
    const failures = limit.counts ? ", failures only" : "";
    const per = { ip: "IP", person: "person, over all their keys", admin: "admin" }[limit.per];
    texts.push(`${limit.requests} in ${limit.windowMs / 1000} s per ${per}${failures}`);
  }
  if (authenticator.limit !== undefined) texts.push(authenticator.limit);
  if (route.body || route.rawBody) texts.push(`a body of ${maxBodyBytes.toLocaleString("en-US")} bytes`);
  return [...texts, ...bounds];
}

const PROOF = [
  required(HEADERS.timestamp, /^(0|[1-9][0-9]{0,15})$/, "time of the signature, Unix seconds"),
  required(HEADERS.nonce, /^[A-Za-z0-9_-]{16,128}$/, "a value that is used once"),
  required(HEADERS.bodySha256, /^[A-Za-z0-9_-]{43}$/, "SHA-256 of the body, base64url"),
  required(HEADERS.proof, /^[A-Za-z0-9_-]{86}$/, "Ed25519 signature of the request, base64url"),
];
const PROOF_HEADERS = PROOF.map(({ name }) => name);
const ACCESS = required(HEADERS.access, /^svc_agt_[A-Za-z0-9_-]{43}$/, "access token of the session");

function required(name: string, pattern: RegExp, what: string): openapi.RouteHeader {
  return { name, required: true, schema: z.string().regex(pattern), what };
}

export const CREDENTIALS: Readonly<Record<Credential, { what: string; headers: readonly string[] }>> = {
  none: { what: "none", headers: [] },
  api_key: { what: "API key", headers: ["Authorization: Bearer"] },
  bootstrap_secret: { what: "bootstrap secret", headers: ["x-bootstrap-secret"] },
  admin_token: { what: "admin token", headers: ["Authorization: Bearer"] },
  service: { what: "internal service", headers: [HEADERS.serviceId, HEADERS.serviceSecret] },
  optional_service: { what: "none, or an internal service", headers: [] },
  agent_proof: { what: "agent: AIT and proof of possession", headers: ["Authorization: Svc", ...PROOF_HEADERS] },
  agent_session: {
    what: "agent: AIT, proof of possession and access token",
    headers: ["Authorization: Svc", ...PROOF_HEADERS, HEADERS.access],
  },
};

export const SERVICE_FORM: openapi.DocumentForm<ErrorCode, Credential> = {
  errors: ERRORS,
  commonErrors: COMMON_ERRORS,
  schemas: Object.fromEntries(
    FRAME_SHAPES.map(([type, shape]) => [`frame.${type}`, openapi.schemaOf(shape, "output")]),
  ),
  securitySchemes: {
    api_key: { type: "http", scheme: "bearer", description: "An API key: svc_pat_…" },
    admin_token: {
      type: "http",
      scheme: "bearer",
      bearerFormat: "JWS",
      description: "An admin token of POST /v1/admin/tokens",
    },
    agent: { type: "apiKey", in: "header", name: HEADERS.authorization, description: "Svc <AIT>" },
    bootstrap_secret: { type: "apiKey", in: "header", name: "x-bootstrap-secret" },
    service_id: { type: "apiKey", in: "header", name: HEADERS.serviceId },
    service_secret: { type: "apiKey", in: "header", name: HEADERS.serviceSecret },
  },
  credentials: {
    none: { security: [], headers: [] },
    api_key: { security: [{ api_key: [] }], headers: [] },
    bootstrap_secret: { security: [{ bootstrap_secret: [] }], headers: [] },
    admin_token: { security: [{ admin_token: [] }], headers: [] },
    service: { security: [{ service_id: [], service_secret: [] }], headers: [] },
    optional_service: { security: [{}, { service_id: [], service_secret: [] }], headers: [] },
    agent_proof: { security: [{ agent: [] }], headers: PROOF },
    agent_session: { security: [{ agent: [] }], headers: [...PROOF, ACCESS] },
  },
  requestHeaders: [{
    name: HEADERS.requestId,
    required: false,
    schema: z.string(),
    what: `ID of the request: ${REQUEST_ID_FORM}; without it, or for any other value, the service makes one`,
  }],
  responseHeaders: [HEADERS.requestId],
  errorHeaders: { 401: ["WWW-Authenticate"], 426: ["Upgrade"], 429: ["Retry-After"], 503: ["Retry-After"] },
};
