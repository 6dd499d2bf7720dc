/**
 * The connector's HTTP API on this machine (D-87): for the agent's runtime and its person. Safe from web pages (no
 * `Origin`, a loopback `Host`) and from other users (a token from a private file). Answers requests; listens elsewhere.
 */
import { hash, timingSafeEqual } from "node:crypto";
import * as z from "zod";
import { HookAnswer } from "../../../shared/protocol/api/relay.ts";
import { inputText, problemText } from "../../../shared/protocol/input_text.ts";
import { isRequestId } from "../../../shared/protocol/ids.ts";
import { topLevelMembers } from "../../../shared/protocol/json_text.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { apiErrorOf, type HttpResponse } from "../../../shared/client/http.ts";
import { CliError } from "../../errors.ts";
import { UnreachableError } from "../../../shared/client/errors.ts";
import type { Connector } from "../connector.ts";
import { LOCAL_ERRORS, type LocalCode } from "./local_errors.ts";
import { readAllPeers } from "../../../shared/client/peer_pages.ts";
import { describeError } from "../../../shared/client/refusals.ts";

class LocalError extends Error {
  constructor(readonly code: LocalCode, message?: string) {
    super(message ?? LOCAL_ERRORS[code].when);
  }
}

/** The input of a route. */
interface Exchange {
  connector: Connector;
  query: URLSearchParams;
  /** JSON text; `{}` when there is none. */
  body: string;
  /** Called with the ticket of a pairing that this API started, to print it. */
  onTicket(ticket: string, expiresAt: string): void;
}

type Handler = (exchange: Exchange) => Promise<Response> | Response;

const MAX_BODY_BYTES = LIMITS.hookBodyBytes + 8 * 1024;

const Ids = z.union([
  z.strictObject({ ids: z.array(z.int().min(1)).min(1).max(10_000) }),
  z.strictObject({ all: z.literal(true) }),
]);
const Outbound = z.strictObject({
  to: z.string().min(1).max(256),
  payload: z.unknown(),
  conversationId: z.string().regex(/^[!-+\--~]{1,128}$/).optional(),
  requestId: z.string().refine(isRequestId).optional(),
  prefer: z.literal("respond-async").optional(),
});
const Pairing = z.record(z.string(), z.unknown());

/** All routes. */
const ROUTES: Readonly<Record<string, Readonly<Record<string, Handler>>>> = {
  "/v1/status": { GET: ({ connector }) => json(connector.status()) },
  "/v1/outbound": { POST: outbound },
  "/v1/pair/start": { POST: pairStart },
  "/v1/pair/confirm": { POST: pairConfirm },
  "/v1/pair/status": { POST: ({ connector, body }) => passOn(connector, "POST", "/pair/status", body) },
  "/v1/pair/peers": { GET: pairPeers },
  "/v1/pair/remove": { POST: pairRemove },
  "/v1/receipts": { GET: receipts },
  "/v1/dead-letter": { GET: deadLetters },
  "/v1/dead-letter/replay": { POST: ({ connector, body }) => json({ replayed: connector.replay(idsOf(body)) }) },
  "/v1/dead-letter/purge": { POST: ({ connector, body }) => json({ purged: connector.inbox.purge(idsOf(body)) }) },
};

export interface LocalApiOptions {
  connector: Connector;
  token: string;
  port: number;
  onTicket?: (ticket: string, expiresAt: string) => void;
}

/** The request handler of the local API. */
export function localApi(
  { connector, token, port, onTicket = () => {} }: LocalApiOptions,
): (request: Request) => Promise<Response> {
  const hosts = ["127.0.0.1", "localhost", "[::1]"].map((name) => `${name}:${port}`);
  return async (request) => {
    try {
      admit(request, hosts, token, connector.options.agent.name);
      const { pathname, searchParams: query } = new URL(request.url);
      const methods = Object.hasOwn(ROUTES, pathname) ? ROUTES[pathname] ?? {} : null;
      if (methods === null) throw new LocalError("NOT_FOUND");
      const handler = Object.hasOwn(methods, request.method) ? methods[request.method] : undefined;
      if (!handler) throw new LocalError("METHOD_NOT_ALLOWED", `The route takes ${Object.keys(methods).join(", ")}`);
      return await handler({ connector, query, body: await bodyOf(request), onTicket });
    } catch (error) {
      return refuse(error);
    }
  };
}

function admit({ headers }: Request, hosts: readonly string[], token: string, agentName: string): void {
  // DNS rebinding: a web page whose name resolves to 127.0.0.1 still sends its own name.
  if (!hosts.includes(headers.get("host")?.toLowerCase() ?? "")) throw new LocalError("CONNECTOR_HOST_FORBIDDEN");
  if (headers.has("origin")) throw new LocalError("CONNECTOR_ORIGIN_FORBIDDEN");
  const given = /^Bearer ([!-~]+)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? "";
  if (timingSafeEqual(sha256(given), sha256(token))) return;
  const whose = `This is the connector of ${agentName}; its token is in connector.json of that agent`;
  throw new LocalError("CONNECTOR_UNAUTHORIZED", whose);
}

/** Digests have one length, as `timingSafeEqual` requires (D-204). */
function sha256(text: string): Uint8Array {
  return hash("sha256", text, "buffer");
}

async function bodyOf(request: Request): Promise<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "", length = 0;
  try {
    for await (const chunk of request.body ?? []) {
      length += chunk.length;
      if (length > MAX_BODY_BYTES) throw new LocalError("PAYLOAD_TOO_LARGE");
      text += decoder.decode(chunk, { stream: true });
    }
    text += decoder.decode();
  } catch (error) {
    throw error instanceof LocalError ? error : new LocalError("CONNECTOR_INVALID_BODY", "The body is not UTF-8 text");
  }
  return text.trim() === "" ? "{}" : text;
}

function read<S extends z.ZodType>(schema: S, body: string): z.output<S> {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    throw new LocalError("CONNECTOR_INVALID_BODY", "The body is not JSON");
  }
  const parsed = schema.safeParse(value, { error: inputText });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new LocalError("CONNECTOR_INVALID_BODY", `Invalid body: ${issue ? problemText(issue) : "it does not fit"}`);
}

function idsOf(body: string): number[] | null {
  const wanted = read(Ids, body);
  return "ids" in wanted ? wanted.ids : null;
}

async function outbound({ connector, body }: Exchange): Promise<Response> {
  const { to, conversationId, requestId, prefer } = read(Outbound, body);
  const member = topLevelMembers(body).findLast(({ key }) => key === "payload");
  if (!member) throw new LocalError("CONNECTOR_INVALID_BODY", "payload: it is missing");
  const recipient = await connector.findPeer(to);
  if (recipient === null) throw new LocalError("CONNECTOR_PEER_UNKNOWN", `No peer has the alias "${to}"`);
  const response = await connector.proxy.call({
    method: "POST",
    target: "/hooks/agent",
    // Unchanged: numbers that JavaScript would round keep their digits.
    body: body.slice(member.start, member.end),
    recipient,
    headers: {
      ...(requestId === undefined ? {} : { [HEADERS.requestId]: requestId }),
      ...(conversationId === undefined ? {} : { [HEADERS.conversationId]: conversationId }),
      ...(prefer === undefined ? {} : { Prefer: prefer }),
    },
  });
  connector.deps.tell(sendingEvent(response), {
    to: recipient,
    status: response.status,
    requestId: response.headers.get(HEADERS.requestId),
  });
  return passed(response);
}

/** The event for a response to a message; an accepted message may still wait for its recipient (D-240). */
function sendingEvent({ status, text }: HttpResponse): "sent" | "queued" | "not_taken" | "not_sent" {
  if (status >= 300) return "not_sent";
  try {
    const { delivered, queued } = HookAnswer.parse(JSON.parse(text));
    return delivered ? "sent" : queued ? "queued" : "not_taken";
  } catch {
    // The response is passed on unchanged; only this event is less precise.
    return "sent";
  }
}

async function pairStart({ connector, body, onTicket }: Exchange): Promise<Response> {
  const { profile } = connector.options;
  const wanted = { initiatorProfile: profile, ...read(Pairing, body) };
  const response = await ask(connector, "POST", "/pair/start", JSON.stringify(wanted));
  if (apiErrorOf(response) === null) {
    const { ticket, expiresAt } = JSON.parse(response.text) as { ticket: string; expiresAt: string };
    connector.deps.tell("pair_ticket", { until: expiresAt });
    onTicket(ticket, expiresAt);
  }
  return passed(response);
}

async function pairConfirm({ connector, body }: Exchange): Promise<Response> {
  const wanted = { responderProfile: connector.options.profile, ...read(Pairing, body) };
  const response = await ask(connector, "POST", "/pair/confirm", JSON.stringify(wanted));
  if (apiErrorOf(response) === null) await connector.updatePeers();
  return passed(response);
}

async function pairPeers({ connector }: Exchange): Promise<Response> {
  const read = await readAllPeers(connector.proxy);
  return "refused" in read ? passed(read.refused) : json(read);
}

async function pairRemove({ connector, body }: Exchange): Promise<Response> {
  const { to, ...rest } = read(Pairing, body);
  const named = typeof to === "string" ? await connector.findPeer(to) : null;
  const wanted = named === null ? rest : { ...rest, peerAgentDid: named };
  const response = await ask(connector, "POST", "/pair/remove", JSON.stringify(wanted));
  if (apiErrorOf(response) === null) await connector.updatePeers();
  return passed(response);
}

async function receipts({ connector, query }: Exchange): Promise<Response> {
  const to = query.get("to");
  const recipient = to === null ? query.get("recipientAgentDid") : await connector.findPeer(to);
  const wanted = new URLSearchParams({
    requestId: query.get("requestId") ?? "",
    recipientAgentDid: recipient ?? to ?? "",
  });
  return await passOn(connector, "GET", `/v1/relay/delivery-receipts?${wanted}`);
}

function deadLetters({ connector, query }: Exchange): Response {
  const limit = Number(query.get("limit") ?? 100);
  if (!Number.isInteger(limit) || limit < 1 || limit > 1_000) {
    throw new LocalError("CONNECTOR_INVALID_BODY", "limit must be a whole number from 1 to 1000");
  }
  return json({ deadLetters: connector.inbox.deadLetters(limit) });
}

async function passOn(connector: Connector, method: "GET" | "POST", target: string, body?: string): Promise<Response> {
  return passed(await ask(connector, method, target, body));
}

function ask(connector: Connector, method: "GET" | "POST", target: string, body?: string): Promise<HttpResponse> {
  return connector.proxy.call({ method, target, ...(body === undefined ? {} : { body }) });
}

/** The proxy's response, unchanged. */
function passed({ status, text, headers: given }: HttpResponse): Response {
  const headers = new Headers({ "Cache-Control": "no-store" });
  if (text !== "") headers.set("Content-Type", "application/json; charset=utf-8");
  for (const name of [HEADERS.requestId, "Retry-After"]) {
    const value = given.get(name);
    if (value !== null) headers.set(name, value);
  }
  return new Response(status === 204 ? null : text, { status, headers });
}

function json(value: unknown, status = 200): Response {
  return Response.json(value, { status, headers: { "Cache-Control": "no-store" } });
}

function refuse(error: unknown): Response {
  let code: LocalCode = "INTERNAL_ERROR", message: string = LOCAL_ERRORS.INTERNAL_ERROR.when;
  if (error instanceof LocalError) ({ code, message } = error);
  else if (error instanceof UnreachableError) [code, message] = ["CONNECTOR_PROXY_UNREACHABLE", describeError(error)];
  else if (error instanceof CliError) message = error.message;
  return json({ error: { code, message } }, LOCAL_ERRORS[code].status);
}
