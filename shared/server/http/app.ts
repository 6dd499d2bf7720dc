/**
 * Builds an app from a route table: the steps of every request, and the only place that writes error responses, because
 * an error in any other form would need a second parser in each client. A limit per IP also counts wrong credentials,
 * because they could otherwise be guessed without limit. Records are read last, because the status could otherwise tell
 * a stranger whether a record exists.
 */
import * as z from "zod";
import { Hono } from "@hono/hono";
import type { Clock } from "../../clock.ts";
import { type ErrorCode, type ErrorDetails, errorEnvelope, ERRORS, ServiceError } from "../../protocol/errors.ts";
import { isRequestId, type NewId } from "../../protocol/ids.ts";
import { inputText, problemText } from "../../protocol/input_text.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Random } from "../../random.ts";
import type { ApiDocs } from "./api_docs.ts";
import { declaredBytes, parseJson, readBody, refuseByLength } from "./body.ts";
import { BodyBudget } from "./body_budget.ts";
import { clientBucket, type Peer, type TrustedProxies } from "./client_ip.ts";
import { toResponse, UnsentResponses } from "./response.ts";
import {
  type Answer,
  type Authenticator,
  type Authenticators,
  type Credential,
  json,
  type RequestContext,
  type Route,
  type RouteLimit,
} from "./route.ts";
import type { Level, Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { type RateLimiter, rateLimitHeaders } from "../rate_limit.ts";
import type { Store } from "../store/open_store.ts";
import { reasonText, StoreUnavailable } from "../store/store_errors.ts";
import type { WriteWatch } from "../write_watch.ts";

/** Most problems that are reported. With more, one invalid input would get an answer many times its own length. */
const PROBLEMS_REPORTED_MAX = 20;

export interface AppDeps {
  clock: Clock;
  newId: NewId;
  log: Log;
  metrics: Metrics;
  accessLog?: boolean;
  /** Adds the path of a route to the OpenTelemetry span of the present request. */
  labelSpan?(route: string): void;
  limiter: RateLimiter;
  trustedProxies: TrustedProxies;
  /** True when errors contain `details`, which is only in `local` and `dev`. */
  showDetails: boolean;
  /** Called for each refusal that is logged. */
  onRefused?(code: ErrorCode, exchange: RequestContext): void;
}

type StoreMembers = Pick<Store, "kv" | "place" | "maxChecks" | "commitsInFlight" | "reliedMs">;

export interface ServiceDeps extends Omit<AppDeps, "limiter" | "showDetails" | "onRefused">, StoreMembers {
  /** Sees all writes of a store that only this process has open. */
  writes?: WriteWatch | null;
  random: Random;
  /** Origins that a proof may name; the public origin is first. */
  origins: readonly string[];
  documents: ApiDocs;
}

export interface App {
  /** @param path `routedPath` of the request, if known */
  fetch(request: Request, peer: Peer, path?: string): Promise<Response>;
  /** Tells whether the table has the path, for any method. */
  owns(path: string): boolean;
  fixedPaths: readonly string[];
}

export function createApp<D extends AppDeps, Callers>(
  routes: readonly Route<D>[],
  authenticators: Authenticators<D, Callers>,
  deps: D,
): App {
  const hono = new Hono<{ Bindings: { exchange: RequestContext } }>();
  const bodies = new BodyBudget(deps.clock), unsent = new UnsentResponses();
  const methods = [...new Set(routes.map((route) => route.method))];
  const rows = routes.map((route) => {
    const authenticator = (authenticators as Record<string, Authenticator<D, unknown>>)[route.auth];
    if (!authenticator) throw new Error(`Route ${route.path} names the unknown authenticator ${route.auth}`);
    const answerTo = (exchange: RequestContext, params: Record<string, string>) => {
      exchange.route = route.path;
      return handleRequest(route, authenticator, deps, { bodies, unsent }, exchange, params)
        .catch((error) => errorAnswer(deps, exchange, error, authenticator.credential));
    };
    return { method: route.method, path: route.path, answerTo };
  });
  for (const { method, path, answerTo } of rows) {
    hono.on(method, path, async (c) => {
      const { exchange } = c.env;
      return responseOf(exchange, await answerTo(exchange, c.req.param()));
    });
  }
  deps.metrics.addRoutes(routes.map(({ path }) => path));
  deps.metrics.read("body_room_bytes", () => bodies.total);
  // `/v1/agents/challenge` also matches `/v1/agents/:id` but is no ID, so fixed paths are looked up first.
  const fixed = Map.groupBy(rows.filter(({ path }) => !path.includes(":")), ({ path }) => path);
  const methodsOf = (path: string): readonly string[] =>
    fixed.get(path)?.map(({ method }) => method) ??
      methods.filter((method) => hono.router.match(method, path)[0].length > 0);
  const failed = (exchange: RequestContext, error: Error) =>
    responseOf(exchange, errorAnswer(deps, exchange, error, "none"));
  const noRoute = (exchange: RequestContext, path: string) => {
    const allowed = methodsOf(path);
    if (allowed.length === 0) return failed(exchange, new ServiceError("NOT_FOUND"));
    const Allow = allowed.flatMap((method) => method === "GET" ? ["GET", "HEAD"] : [method]).join(", ");
    return failed(exchange, new ServiceError("METHOD_NOT_ALLOWED", { headers: { Allow } }));
  };
  hono.notFound((c) => noRoute(c.env.exchange, c.req.path));
  hono.onError((error, c) => failed(c.env.exchange, error));
  return {
    owns: (path) => methodsOf(path).length > 0,
    fixedPaths: [...fixed.keys()],
    async fetch(request, peer, path = routedPath(request)) {
      const exchange = requestContextOf(deps, request, peer);
      const began = deps.clock.now();
      // HEAD is handled as GET, by the router too. A proof must name HEAD, because it covers the method that was sent.
      const method = request.method === "HEAD" ? "GET" : request.method;
      const own = fixed.get(path), row = own?.find((one) => one.method === method);
      const response = row
        ? responseOf(exchange, await row.answerTo(exchange, {}))
        : own
        ? noRoute(exchange, path)
        : await hono.fetch(request, { exchange });
      recordResponse(deps, exchange, response.status, deps.clock.now() - began);
      return response;
    },
  };
}

/**
 * Returns the path by which a request is routed, with percent-encoded letters decoded. All deployments use it, because
 * one could otherwise find a route that another does not. A proof covers `rawTarget` instead.
 */
export function routedPath(request: Request): string {
  return ROUTER.getPath(request);
}

const ROUTER = new Hono();

/** Returns path and query of the request line. They are unchanged in `Request.url`, but not in a parsed URL. */
export function rawTarget(url: string): string {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  return start === -1 ? "/" : url.slice(start);
}

/** Returns the client's request ID if it is valid, or else a new one. */
export function requestIdOf(request: Request, newId: NewId): string {
  const own = request.headers.get("x-request-id");
  return isRequestId(own) ? own : newId();
}

const NO_BODY = new Uint8Array();

export function requestContextOf(
  deps: Pick<AppDeps, "newId" | "trustedProxies">,
  request: Request,
  peer: Peer,
): RequestContext {
  return {
    request,
    requestId: requestIdOf(request, deps.newId),
    peer,
    ip: clientBucket(peer, request.headers.get("x-forwarded-for"), deps.trustedProxies),
    target: rawTarget(request.url),
    body: NO_BODY,
    responseHeaders: {},
  };
}

async function handleRequest<D extends AppDeps>(
  route: Route<D>,
  authenticator: Authenticator<D, unknown>,
  deps: D,
  { bodies, unsent }: { bodies: BodyBudget; unsent: UnsentResponses },
  exchange: RequestContext,
  rawParams: Record<string, string>,
): Promise<Answer> {
  // A DELETE declares no length, so with the limit of other routes it would wait for the room of a large body.
  const maxBytes = route.maxBodyBytes ?? (route.body || route.rawBody ? LIMITS.bodyBytes : LIMITS.bodyFreeBytes);
  refuseByLength(exchange.request.headers, maxBytes);
  route.precondition?.check(deps);
  const lateRefusal = authenticator.precheck?.(deps, exchange);
  if (lateRefusal) await lateRefusal;
  const { limit } = route, { stage } = authenticator;
  let caller: unknown;
  const perIp = limit?.per === "ip" ? limit : null;
  const authenticate = async () => {
    caller = await authenticator.run(deps, exchange);
    if (limit && !perIp) await countRequest(deps, exchange, limit, authenticator.bucket?.(caller) ?? "");
    authenticator.authorise?.(caller);
  };
  if (stage === "before_limit") {
    try {
      await authenticate();
    } catch (error) {
      // A failed authentication still counts against the limit per IP, because credentials could otherwise be guessed.
      if (perIp) await countRequest(deps, exchange, perIp, exchange.ip);
      throw error;
    }
  }
  if (perIp && !authenticator.exempt?.(caller)) await countRequest(deps, exchange, perIp, exchange.ip);
  try {
    try {
      if (stage === "before_body") await authenticate();
      const params = route.params && parseInput(route.params, rawParams, route.invalidPath);
      const length = declaredBytes(exchange.request);
      // Requests of this process to itself take no room. They are small, and would wait for uploads of clients.
      const expected = exchange.peer.from === "process" ? 0 : length ?? maxBytes;
      let room = bodies.take(exchange.ip, expected);
      if (room instanceof Promise) room = await room;
      exchange.room = room;
      exchange.body = await readBody(exchange.request, maxBytes, deps.clock, { room, length });
      if (stage === "after_body") await authenticate();
      const query = route.query && parseInput(route.query, queryOf(exchange.target, route.invalid), route.invalid);
      const body = route.body && parseInput(route.body, jsonBody(route, exchange), route.invalid);
      if (stage === "after_input") await authenticate();
      const answer = await route.handler(deps, { params, query, body, caller, exchange });
      // A person has room of their own, because a client at the same address that reads nothing would otherwise keep
      // from them what they ask for, as the tokens of an agent that is registered already.
      if (unsent.admits(answer, exchange.peer, authenticator.bucket?.(caller) ?? exchange.ip)) return answer;
      throw new ServiceError("SERVICE_UNAVAILABLE", {
        message: "Read the responses to your earlier requests first",
        headers: { "Retry-After": "1" },
      });
    } finally {
      if (caller !== undefined) await authenticator.conclude?.(deps, caller);
    }
  } catch (error) {
    if (error instanceof ServiceError && limit?.counts?.includes(error.code)) {
      const { counts: _, ...every } = limit;
      // Refuses the request even now, if others have filled the window since it was checked.
      await countRequest(deps, exchange, every, exchange.ip);
    }
    throw error;
  } finally {
    exchange.room?.release();
    // Frees a large body now, because many at once would fill the memory before the next garbage collection.
    if (exchange.body.length > LIMITS.bodyFreeBytes) exchange.body.buffer.transfer(0);
  }
}

/** Counts a request in its window. If the limit counts only failures, it just checks whether the window is full. */
async function countRequest(deps: AppDeps, exchange: RequestContext, limit: RouteLimit, who: string): Promise<void> {
  if (exchange.peer.from === "process") return;
  const decision = limit.counts ? await deps.limiter.peek(limit, who) : await deps.limiter.hit(limit, who);
  Object.assign(exchange.responseHeaders, rateLimitHeaders(limit, decision));
  if (!decision.allowed) throw new ServiceError("RATE_LIMIT_EXCEEDED");
}

/** Returns the query by name. A repeated name has a list of values. */
function queryOf(target: string, code: ErrorCode | undefined): Record<string, string | string[]> {
  const at = target.indexOf("?");
  const text = at === -1 ? "" : target.slice(at + 1);
  if (text.length > LIMITS.queryLength) {
    throw invalidInput(code, { formErrors: [`the query is over ${LIMITS.queryLength} characters`], fieldErrors: {} });
  }
  const query: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) {
    const known = query[name];
    if (known === undefined) query[name] = value;
    else if (typeof known === "string") query[name] = [known, value];
    else known.push(value);
  }
  return query;
}

function jsonBody<D>(route: Route<D>, { body }: RequestContext): unknown {
  if (body.length === 0 && route.emptyBody) return {};
  const parsed = parseJson(body);
  if (!parsed) throw invalidInput(route.invalid, { formErrors: ["the body is not JSON"], fieldErrors: {} });
  return parsed.value;
}

function errorAnswer(deps: AppDeps, exchange: RequestContext, error: unknown, credential: Credential): Answer {
  const known = asServiceError(error);
  // The other service in this process handles and logs its own rejected calls. A registry without any revocation is no
  // fault, but the log would show every connector that starts as refused.
  const isRoutine = exchange.peer.from === "process" && known.status < 500 || known.code === "CRL_NOT_FOUND";
  if (!isRoutine) {
    const check = exchange.check === undefined ? "none" : String(exchange.check);
    deps.metrics.count("refusals_total", known.code, check, exchange.isVisit ? "foreign" : "local");
    deps.log(levelOf(known.status), "request_refused", {
      code: known.code,
      status: known.status,
      requestId: exchange.requestId,
      // A client may send 60 KB as the method, and with whole methods the lines of a flood would fill the disk.
      method: exchange.request.method.slice(0, 16),
      path: exchange.target.split("?")[0]?.slice(0, 256),
      ip: exchange.ip,
      agentDid: exchange.agentDid,
      ...(known.status >= 500 ? { cause: known.cause } : {}),
    });
    deps.onRefused?.(known.code, exchange);
  }
  // Every 401 must name a scheme. A secret in a header of its own has none, so it gets that of most routes.
  const scheme = credential === "agent_proof" || credential === "agent_session" ? "Svc" : "Bearer";
  return json(errorEnvelope(known, deps.showDetails), known.status, {
    ...(known.status === 401 ? { "WWW-Authenticate": scheme } : {}),
    ...known.headers,
  });
}

/** 502 (agent offline) and 507 (mailbox full) are no failures of the service, so they are not logged as errors. */
function levelOf(status: number): Level {
  return status === 500 || status === 503 ? "error" : "info";
}

function asServiceError(error: unknown): ServiceError {
  if (error instanceof ServiceError) return error;
  if (error instanceof StoreUnavailable) {
    const headers = { "Retry-After": "1" };
    return new ServiceError("SERVICE_UNAVAILABLE", { ...reasonText(error), headers, cause: error });
  }
  return new ServiceError("INTERNAL_ERROR", { cause: error });
}

export function responseOf({ request, responseHeaders, requestId }: RequestContext, answer: Answer): Response {
  const headers = { ...answer.headers, ...responseHeaders, "x-request-id": requestId };
  if (!answer.upgrade) return toResponse(answer, { headers, isHead: request.method === "HEAD" });
  for (const [name, value] of Object.entries(headers)) answer.upgrade.headers.set(name, value);
  return answer.upgrade;
}

/**
 * Returns an untrusted value as the schema reads it.
 *
 * @throws {ServiceError} with `code` and the problems of each member
 */
export function parseInput<S extends z.ZodType>(schema: S, value: unknown, code: ErrorCode | undefined): z.output<S> {
  const parsed = schema.safeParse(value, { error: inputText });
  if (parsed.success) return parsed.data;
  // A body may have ten thousand problems, so only the first ones are reported.
  const first = new z.ZodError(parsed.error.issues.slice(0, PROBLEMS_REPORTED_MAX));
  const { fieldErrors, formErrors } = z.flattenError(first, problemText);
  throw invalidInput(code, { fieldErrors: fieldErrors as Record<string, string[]>, formErrors });
}

/** Returns the error for invalid input. It names the first wrong member, never its value, which may be a secret. */
export function invalidInput(code: ErrorCode | undefined, details: ErrorDetails): ServiceError {
  if (code === undefined) return new ServiceError("INTERNAL_ERROR", { message: "The route has no code for bad input" });
  const first = [...details.formErrors, ...Object.values(details.fieldErrors).flat()][0];
  const when = ERRORS[code].when;
  const message = `${when.charAt(0).toUpperCase()}${when.slice(1)}${first === undefined ? "" : `: ${first}`}`;
  if (code === "AGENT_AUTH_REFRESH_INVALID") return new ServiceError(code, { status: 400, message, details });
  return new ServiceError(code, { message, details });
}

/** The parts of an admin's path after `/v1/admin/` that the metrics count separately. */
const ADMIN_AREAS = ["people", "agents", "audit", "relay"];

/** Records the response to a request of a client. `ms` is the time that it took. */
export function recordResponse(
  { metrics, log, accessLog = false, labelSpan }: Pick<AppDeps, "metrics" | "log" | "accessLog" | "labelSpan">,
  { request, requestId, peer, route = "none", ip, agentDid }: RequestContext,
  status: number,
  ms: number,
): void {
  if (peer.from === "process") return;
  const { method } = request;
  metrics.count("http_requests_total", route, method, String(status));
  metrics.observe("http_request_duration_seconds", ms / 1000, route);
  labelSpan?.(route);
  const area = route.startsWith("/v1/admin/") && ADMIN_AREAS.find((area) => area === route.split("/")[3]);
  if (area) metrics.count("admin_requests_total", area);
  // A refusal has a line of its own already.
  if (accessLog && status < 400) log("info", "request_done", { requestId, method, route, status, ms, ip, agentDid });
}
