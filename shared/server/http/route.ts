/**
 * What a route is: one complete row of a service's table. Method, path, who may call it, its limit, the shapes of its
 * input, the code for invalid input, every error it can answer, and its handler.
 */
import type * as z from "zod";
import type { Bytes } from "../../protocol/base64url.ts";
import { type ErrorCode, ERRORS } from "../../protocol/errors.ts";
import type { BodyLease } from "./body_budget.ts";
import type { Peer } from "./client_ip.ts";

/** HTTP methods in use. */
export type Method = "GET" | "POST" | "DELETE";

/** A limit of a route. */
export interface RouteLimit {
  name: string;
  requests: number;
  windowMs: number;
  /** Who shares a window. */
  per: "ip" | "api-key";
  /** Count only requests that end in one of these codes; without it, every request. */
  counts?: readonly ErrorCode[];
}

/** A request header that a route reads, for the documents (D-234). */
export interface RouteHeader {
  name: string;
  required: boolean;
  schema: Schema;
  what: string;
}

/** A request on its way through the pipeline. */
export interface RequestContext {
  request: Request;
  requestId: string;
  peer: Peer;
  /** Bucket of the client's address. */
  ip: string;
  /** Path and query exactly as in the request line. */
  target: string;
  /** Raw body, once read. */
  body: Bytes;
  /** Room that the body takes up until the answer, or until the handler gives it back. */
  room?: BodyLease;
  /** Headers that the answer gets, whatever it is. */
  responseHeaders: Headers;
  /** Who it turned out to be, for the log. */
  agentDid?: string;
}

/** What a handler is called with. */
export interface Input<P, Q, B, C> {
  params: P;
  query: Q;
  body: B;
  caller: C;
  exchange: RequestContext;
}

type Schema = z.ZodType;
type Output<S> = S extends Schema ? z.output<S> : undefined;

/** What a success answers. */
export interface RouteAnswer {
  status: number;
  body?: Schema;
  contentType?: string;
  /** Headers of the answer that a client may need. */
  headers?: readonly string[];
  /** The same body with 503, when the service is not ready. */
  mayBeUnready?: true;
  /** 304 to a request with a current `If-None-Match`. */
  isCacheable?: true;
}

/** A row, with its types known. */
export interface RouteSpec<D, C, P, Q, B> {
  method: Method;
  path: string;
  summary: string;
  limit: RouteLimit | null;
  params?: P;
  query?: Q;
  body?: B;
  /** Shape of a body that the handler parses itself. */
  rawBody?: Schema;
  /** Headers that the handler reads. */
  headers?: readonly RouteHeader[];
  /** Bounds beside `limit` and the size of the body, for the documents. */
  bounds?: readonly string[];
  /** An empty body stands for `{}`. */
  emptyBody?: true;
  /** Largest body in bytes, when not the usual one. */
  maxBodyBytes?: number;
  /** Code for invalid query or body. */
  invalid?: ErrorCode;
  /** Code for invalid path parameters. */
  invalidPath?: ErrorCode;
  /** Refuses before anything else is looked at, for instance when the route is switched off. */
  precondition?: { check(deps: D): void; errors: readonly ErrorCode[] };
  /** What a success answers. */
  response: RouteAnswer;
  /** Codes of the handler; those of authentication, limits and input follow from the row. */
  errors: readonly ErrorCode[];
  handler(deps: D, input: Input<Output<P>, Output<Q>, Output<B>, C>): Response | Promise<Response>;
}

/** A row whose types have been checked and forgotten; `auth` names an authenticator of the service. */
export type Route<D> = RouteSpec<D, unknown, Schema | undefined, Schema | undefined, Schema | undefined> & {
  auth: string;
};

/** What a caller must show, for the documents. */
export type Credential =
  | "none"
  | "api_key"
  | "bootstrap_secret"
  | "service"
  | "optional_service"
  | "agent_proof"
  | "agent_session";

/** Proves who calls; one of a service's named ways. */
export interface Authenticator<D, C> {
  /** When in the order of a request (D-15, D-42, D-45, D-60). */
  stage: "before_limit" | "before_body" | "after_body" | "after_input";
  credential: Credential;
  /** What `WWW-Authenticate` of a 401 names. */
  scheme: "Bearer" | "Svc";
  errors: readonly ErrorCode[];
  /** A limit that the authenticator counts itself, as text for the documents. */
  limit?: string;
  /** Refuses at a glance, before the body is read. */
  precheck?(deps: D, exchange: RequestContext): void;
  run(deps: D, exchange: RequestContext): Promise<C>;
  /** True for a caller whom the limit per IP does not concern. */
  exempt?(caller: C): boolean;
  /** Bucket of a `per: "api-key"` limit. */
  bucket?(caller: C): string;
  /** Judged after the limit: a role, a scope (403). */
  authorise?(caller: C): void;
  /**
   * Runs after the handler if authentication succeeded, on success and on error (D-198). Its error replaces that of the
   * handler. A `before_limit` caller whom the limit refuses is not concluded.
   */
  conclude?(deps: D, caller: C): Promise<void>;
}

/** The authenticators of a service, by name. */
export type Authenticators<D, Callers> = { [A in keyof Callers]: Authenticator<D, Callers[A]> };

/** Gives the function that makes rows of a service: it infers a handler's input from the row. */
export function routeFor<D, Callers>() {
  return function route<
    A extends keyof Callers & string,
    P extends Schema | undefined = undefined,
    Q extends Schema | undefined = undefined,
    B extends Schema | undefined = undefined,
  >(row: RouteSpec<D, Callers[A], P, Q, B> & { auth: A }): Route<D> {
    return row as unknown as Route<D>;
  };
}

/** A JSON answer. */
export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store", ...headers },
  });
}

/** 204. */
export function noContent(): Response {
  return new Response(null, { status: 204, headers: { "Cache-Control": "no-store" } });
}

/** Every code that a route can answer: its own, and those that follow from its row. */
export function errorsOf<D>(route: Route<D>, authenticator: Pick<Authenticator<D, never>, "errors">): ErrorCode[] {
  const codes: (ErrorCode | undefined)[] = [
    ...(route.precondition?.errors ?? []),
    ...authenticator.errors,
    ...route.errors,
    route.invalid,
    route.invalidPath,
    ...(route.limit ? ["RATE_LIMIT_EXCEEDED"] as const : []),
    "PAYLOAD_TOO_LARGE",
    "REQUEST_TIMEOUT",
    "SERVICE_UNAVAILABLE",
    "INTERNAL_ERROR",
  ];
  const order = Object.keys(ERRORS);
  return [...new Set(codes.filter((code) => code !== undefined))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
}
