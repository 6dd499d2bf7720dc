/**
 * The connector's HTTP API on this machine (D-87), for the agent's runtime and its person. It refuses web pages, which
 * it recognises by `Origin` and `Host`, and programs of other users, which cannot read the file with the token. This
 * file answers requests; port.ts listens.
 */
import { pathParams } from "../../../shared/page/path_params.ts";
import * as z from "zod";
import { LocalDown, UnreachableError } from "../../../shared/client/errors.ts";
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import { firstProblem, inputText } from "../../../shared/protocol/input_text.ts";
import { parseOrThrow } from "../../../shared/protocol/json_text.ts";
import { CliError } from "../../errors.ts";
import { ProxyRefusal } from "../../link/proxy_caller.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import { DiskFullError } from "../store/database.ts";
import { type A2aPeer, isSameSecret, peerTokenHash } from "./a2a_peers.ts";
import { LOCAL_ERRORS, LocalError } from "../../local_errors.ts";
import { boundedText, json, type LocalApiOptions, type LocalRoute, passed } from "./local_route.ts";
import { LOCAL_ROUTES } from "./local_routes.ts";

/**
 * A request that has passed the check of the connector's token, or needs none. The token of an A2A peer is checked once
 * the route is known.
 */
interface AllowedRequest extends Pick<Request, "method" | "headers"> {
  url: URL;
  read(route: LocalRoute): string | Promise<string>;
}

/** Resolves when the answer is sent, or its caller has gone. */
type Completion = Pick<Deno.ServeHandlerInfo, "completed">;

export function localApi(options: LocalApiOptions): (request: Request, info: Completion) => Promise<Response> {
  const { connector, token, port } = options;
  const hosts = ["127.0.0.1", "localhost", "[::1]"].map((name) => `${name}:${port}`);
  let unread = 0;
  const respond = async (request: Request): Promise<Response> => {
    const { method, headers } = request, url = new URL(request.url);
    refuseWebPages(headers, url.pathname, hosts);
    const isA2a = url.pathname.startsWith("/a2a/");
    if (!isA2a) checkToken(headers, token, connector.options.agent.name);
    else if (unread > CONNECTOR_LIMITS.a2aCalls) throw new LocalError("CONNECTOR_BUSY");
    else if (typeof connector.api?.movedFrom === "number") throw new LocalError("CONNECTOR_OFF_PORT");
    else url.pathname = url.pathname.replace(/\/$/, "");
    return await answer(options, { method, url, headers, read: (route) => textOf(options, request, route) });
  };
  return async (request, info) => {
    const read = () => unread--;
    if (new URL(request.url).pathname.startsWith("/a2a/")) {
      unread++;
      info.completed.then(read, read);
    }
    const response = await respond(request).catch(refuse);
    response.headers.set("Cross-Origin-Resource-Policy", "same-origin");
    return response;
  };
}

/** Calls of this process, which need no token and no HTTP. */
export function ownCalls(options: LocalApiOptions): LocalCalls {
  const { connector } = options, { name } = connector.options.agent;
  const headers = new Headers();
  return {
    agentName: name,
    async send({ method, target, body = "{}" }) {
      // Refused, because each wait ends at once while the connector stops, so a view that waits for messages would ask
      // all the time and delay the stop.
      if (connector.isStopping) throw new LocalDown(name, "does not run");
      const allowed = { method, url: new URL(target, "http://127.0.0.1"), headers, read: () => body };
      const response = await answer(options, allowed).catch(refuse);
      return { status: response.status, headers: response.headers, text: await response.text() };
    },
  };
}

async function answer(options: LocalApiOptions, { method, url, headers, read }: AllowedRequest): Promise<Response> {
  const { route, params } = routeOf(method, url.pathname);
  const peer = route.caller === "peer" ? peerOf(headers, params, options.a2aPeers()) : null;
  const query = queryOf(route, url.searchParams);
  const text = await read(route), body = bodyOf(route, text);
  return await route.handler({ ...options, params, query, body, text, headers, peer });
}

function refuseWebPages(headers: Headers, pathname: string, hosts: readonly string[]): void {
  // Refuses DNS rebinding: a web page whose name resolves to 127.0.0.1 still sends its own name as the host.
  if (!hosts.includes(headers.get("host")?.toLowerCase() ?? "")) throw new LocalError("CONNECTOR_HOST_FORBIDDEN");
  // Sec-Fetch-Site is checked too, because a browser sends no Origin for images, links and forms with GET. Programs
  // send neither.
  const isOfPage = headers.has("origin") ||
    /^\/(?:v1|a2a)\//.test(pathname) && (headers.get("sec-fetch-site") ?? "none") !== "none";
  if (isOfPage) throw new LocalError("CONNECTOR_ORIGIN_FORBIDDEN");
}

function checkToken(headers: Headers, token: string, agentName: string): void {
  if (isSameSecret(bearerOf(headers), token)) return;
  const whose = `This is the connector of ${agentName}; its token is in connector.json of that agent`;
  throw new LocalError("CONNECTOR_UNAUTHORIZED", whose);
}

/**
 * The peer in the path, if the caller has its token.
 * @throws {LocalError} `CONNECTOR_UNAUTHORIZED`, also when there is no such peer
 */
function peerOf(headers: Headers, params: unknown, peers: readonly A2aPeer[]): A2aPeer {
  const { alias } = params as { alias: string };
  const peer = peers.find((known) => known.alias === alias);
  if (peer !== undefined && isSameSecret(peerTokenHash(bearerOf(headers)), peer.tokenHash)) return peer;
  const whose = "Missing or wrong token: this address takes the token that svc a2a add printed for this peer";
  throw new LocalError("CONNECTOR_UNAUTHORIZED", whose);
}

function bearerOf(headers: Headers): string {
  return /^Bearer ([!-~]+)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? "";
}

/** Finds the route for a request. A path without parameters wins over one with them. */
function routeOf(method: string, pathname: string): { route: LocalRoute; params: unknown } {
  const plain = LOCAL_ROUTES.filter(({ path }) => path === pathname);
  const rows = plain.length > 0 ? plain : LOCAL_ROUTES.filter(({ path }) => pathParams(path, pathname) !== null);
  if (rows.length === 0) throw new LocalError("NOT_FOUND");
  const route = rows.find((row) => row.method === method);
  if (!route) throw new LocalError("METHOD_NOT_ALLOWED", `The route takes ${rows.map((row) => row.method).join(", ")}`);
  if (route.params === undefined) return { route, params: undefined };
  const parsed = route.params.safeParse(pathParams(route.path, pathname));
  if (!parsed.success) throw new LocalError(route.invalidPath ?? "NOT_FOUND");
  return { route, params: parsed.data };
}

function queryOf({ query }: LocalRoute, given: URLSearchParams): unknown {
  const names = [...given.keys()];
  const repeated = names.find((name, i) => names.indexOf(name) !== i);
  if (repeated !== undefined) throw new LocalError("CONNECTOR_INVALID_BODY", "Invalid query: a parameter is repeated");
  if (query !== undefined) return parse(query, Object.fromEntries(given), "query");
  if (names.length > 0) throw new LocalError("CONNECTOR_INVALID_BODY", "Invalid query: the route takes none");
  return undefined;
}

async function textOf(
  { connector: { deps: { clock } } }: LocalApiOptions,
  request: Request,
  { textBody }: LocalRoute,
): Promise<string> {
  const text = await boundedText(request, CONNECTOR_LIMITS.localBodyBytes, clock).catch((error) => {
    if (error instanceof LocalError) throw error;
  });
  if (text === null) throw new LocalError("PAYLOAD_TOO_LARGE");
  if (textBody !== undefined) return text ?? "";
  if (text === undefined) throw new LocalError("CONNECTOR_INVALID_BODY", "The body is not UTF-8 text");
  return text.trim() === "" ? "{}" : text;
}

function bodyOf({ body, shownBody }: LocalRoute, text: string): unknown {
  if (body === undefined) return undefined;
  const value = parseOrThrow(text, () => new LocalError("CONNECTOR_INVALID_BODY", "The body is not JSON"));
  if (shownBody !== undefined) parse(namesOf(shownBody), value, "body");
  return parse(body, value, "body");
}

/** Checks only the names of the members, because the proxy checks their values, but ignores a misspelt name. */
function namesOf({ shape }: z.ZodObject): z.ZodType {
  return z.strictObject(Object.fromEntries(Object.keys(shape).map((name) => [name, z.unknown().optional()])));
}

function parse(schema: z.ZodType, value: unknown, what: "body" | "query"): unknown {
  const parsed = schema.safeParse(value, { error: inputText });
  if (parsed.success) return parsed.data;
  throw new LocalError("CONNECTOR_INVALID_BODY", `Invalid ${what}: ${firstProblem(parsed.error)}`);
}

function refusalOf(error: unknown): LocalError {
  if (error instanceof LocalError) return error;
  if (error instanceof UnreachableError) return new LocalError("CONNECTOR_PROXY_UNREACHABLE", describeError(error));
  if (error instanceof DiskFullError) return new LocalError("CONNECTOR_DISK_FULL");
  return new LocalError("INTERNAL_ERROR", error instanceof CliError ? error.message : undefined);
}

function refuse(error: unknown): Response {
  if (error instanceof ProxyRefusal) return passed(error.response);
  const { code, message, retryAfter } = refusalOf(error);
  const response = json({ error: { code, message } }, LOCAL_ERRORS[code].status);
  if (code === "CONNECTOR_UNAUTHORIZED") response.headers.set("WWW-Authenticate", "Bearer");
  if (retryAfter !== null) response.headers.set("Retry-After", String(retryAfter));
  return response;
}
