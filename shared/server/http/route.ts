/** The row of a route table: method, path, authentication, limit, input schemas, error codes and handler. */
import type * as z from "zod";
import type { RouteAnswer, RouteHeader } from "../../openapi.ts";
import type { Bytes } from "../../protocol/base64url.ts";
import { type ErrorCode, ERRORS } from "../../protocol/errors.ts";
import type { BodyLease } from "./body_budget.ts";
import type { Peer } from "./client_ip.ts";
import type { WindowRule } from "../rate_limit.ts";

export type Method = "GET" | "POST" | "DELETE";

export interface RouteLimit extends WindowRule {
  /** For whom a window counts. The window of a person counts the requests with all API keys of that person. */
  per: "ip" | "person" | "admin";
  /** Counts only requests that end with one of these codes (default: every request). */
  counts?: readonly ErrorCode[];
}

export interface RequestContext {
  request: Request;
  requestId: string;
  peer: Peer;
  /** The client's address as a limit per IP counts it. */
  ip: string;
  target: string;
  body: Bytes;
  /** Headers of a signed request, present once `signedHeaders` has read them. */
  signed?: SignedHeaders;
  /** Lease of the body budget. It is held until the response, unless the handler releases it before. */
  room?: BodyLease;
  /** Headers of the response by name, for error responses too. They replace those of the answer. */
  responseHeaders: Record<string, string>;
  /** The authenticated caller, for the log. */
  agentDid?: string;
  /** True when the caller says that it is an agent of another server's registry. */
  isVisit?: boolean;
  /** Path of the row, once the request is routed. The request's own path is not used, because it may hold a secret. */
  route?: string;
  /** Number of the check that refused the request, 1 to 9; absent when none of them did. */
  check?: number;
}

/** Headers of a signed request as they arrived. An absent header is an empty text. */
export interface SignedHeaders {
  /** Token of `Authorization: Svc`. It is `null` without the header, and empty for another form of it. */
  token: string | null;
  access: string;
  recipient: string;
  timestamp: string;
  nonce: string;
  bodySha256: string;
  proof: string;
}

/** What a handler answers. The last step of the request turns it into a `Response`. */
export interface Answer {
  status: number;
  /** Headers by name. The project spells each name in one way only, because two spellings would both be sent. */
  headers: Readonly<Record<string, string>>;
  /** The whole body, or `null` for none. */
  body: string | Bytes | null;
  /** The response that opens a WebSocket. It is sent in place of this answer. */
  upgrade?: Response;
}

export interface Input<P, Q, B, C> {
  params: P;
  query: Q;
  body: B;
  caller: C;
  exchange: RequestContext;
}

type Schema = z.ZodType;
type Output<S> = S extends Schema ? z.output<S> : undefined;

/** A row with the types of its input. */
interface RouteSpec<D, C, P, Q, B> {
  method: Method;
  path: string;
  summary: string;
  limit: RouteLimit | null;
  params?: P;
  query?: Q;
  body?: B;
  /** Schema of a query that the handler parses. */
  rawQuery?: Schema;
  /** Schema of a body that the handler parses. */
  rawBody?: Schema;
  headers?: readonly RouteHeader[];
  /** Other bounds, for the API documents. */
  bounds?: readonly string[];
  /** True when an empty body means `{}`. */
  emptyBody?: true;
  /** Largest body in bytes (default `LIMITS.bodyBytes`, without `body` and `rawBody` `LIMITS.bodyFreeBytes`). */
  maxBodyBytes?: number;
  /** Code for an invalid query or body. */
  invalid?: ErrorCode;
  invalidPath?: ErrorCode;
  /** Rejects a request before any check but that of its length, for example when the route is disabled. */
  precondition?: { check(deps: D): void; errors: readonly ErrorCode[] };
  /** True for a page. It is for people, so no API document has it. */
  isPage?: true;
  response: RouteAnswer;
  /** Codes that the handler throws. Those of authentication, limits and input follow from the row. */
  errors?: readonly ErrorCode[];
  handler(deps: D, input: Input<Output<P>, Output<Q>, Output<B>, C>): Answer | Promise<Answer>;
}

/** A row without the types of its input. `auth` names an authenticator of the service. */
export type Route<D> = RouteSpec<D, unknown, Schema | undefined, Schema | undefined, Schema | undefined> & {
  auth: string;
};

/** The kind of credential that the caller sends, for the API documents and for the scheme in a 401. */
export type Credential =
  | "none"
  | "api_key"
  | "bootstrap_secret"
  | "admin_token"
  | "service"
  | "optional_service"
  | "agent_proof"
  | "agent_session";

export interface Authenticator<D, C> {
  stage: "before_limit" | "before_body" | "after_body" | "after_input";
  credential: Credential;
  errors: readonly ErrorCode[];
  /** Text for the API documents about a limit that the authenticator itself counts. */
  limit?: string;
  /** Rejects a request by its headers, before the body is read; if it returns a promise, only after a wait. */
  precheck?(deps: D, exchange: RequestContext): Promise<never> | undefined;
  run(deps: D, exchange: RequestContext): Promise<C>;
  /** Tells whether a caller is exempt from the limit per IP. */
  exempt?(caller: C): boolean;
  /** Returns the person whose room and limits a caller uses. */
  bucket?(caller: C): string;
  /** Checks role or scope, after the limit has been counted. A refusal is a 403. */
  authorise?(caller: C): void;
  /**
   * Runs after the handler if authentication succeeded, even when the handler failed. If it throws, its error replaces
   * that of the handler. It does not run for a `before_limit` caller whom the limit refuses.
   */
  conclude?(deps: D, caller: C): Promise<unknown> | void;
}

export type Authenticators<D, Callers> = { [A in keyof Callers]: Authenticator<D, Callers[A]> };

/** The callers that the authenticators of a table return, by name. */
export type CallersOf<A> = { [N in keyof A]: A[N] extends Authenticator<never, infer C> ? C : never };

/** Returns the function that makes rows of a service. It infers the input of the handler from the row. */
export function routeFor<D, Callers>() {
  return function route<
    A extends keyof Callers & string,
    P extends Schema | undefined = undefined,
    Q extends Schema | undefined = undefined,
    B extends Schema | undefined = undefined,
  >(
    method: Method,
    path: string,
    summary: string,
    row: Omit<RouteSpec<D, Callers[A], P, Q, B>, "method" | "path" | "summary"> & { auth: A },
  ): Route<D> {
    return { method, path, summary, ...row } as unknown as Route<D>;
  };
}

/** Returns a row for anyone: a GET without limit and input. */
export function openRoute<D>(
  path: string,
  summary: string,
  response: RouteAnswer,
  handler: (deps: D) => Answer | Promise<Answer>,
): Route<D> {
  return { method: "GET", path, summary, auth: "none", limit: null, response, handler };
}

const OF_JSON = { "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store" } as const;

export function json<T>(body: T, status = 200, headers?: Record<string, string>): Answer {
  return { status, headers: headers ? { ...OF_JSON, ...headers } : OF_JSON, body: JSON.stringify(body) };
}

/**
 * Copies only those members of a record that a schema names, because a secret in the record could otherwise leave with
 * it. It checks no value. A member that the record lacks, or has with another value, is added first:
 * `pick(Invite, { ...record, status })`.
 */
export function pick<S extends z.ZodObject>(schema: S, record: z.output<S>): z.output<S> {
  const members = Object.keys(schema.shape).filter((name) => record[name] !== undefined);
  return Object.fromEntries(members.map((name) => [name, record[name]])) as z.output<S>;
}

export function noContent(): Answer {
  return { status: 204, headers: { "Cache-Control": "no-store" }, body: null };
}

/** The codes that every route can send, independent of its row. */
export const COMMON_ERRORS = [
  "PAYLOAD_TOO_LARGE",
  "REQUEST_TIMEOUT",
  "SERVICE_UNAVAILABLE",
  "INTERNAL_ERROR",
] as const satisfies readonly ErrorCode[];

export function errorsOf<D>(route: Route<D>, authenticator: Pick<Authenticator<D, never>, "errors">): ErrorCode[] {
  const codes: (ErrorCode | undefined)[] = [
    ...(route.precondition?.errors ?? []),
    ...authenticator.errors,
    ...(route.errors ?? []),
    route.invalid,
    route.invalidPath,
    ...(route.limit ? ["RATE_LIMIT_EXCEEDED"] as const : []),
    ...COMMON_ERRORS,
  ];
  const order = Object.keys(ERRORS);
  return [...new Set(codes.filter((code) => code !== undefined))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
}
