/**
 * The only client of a connector's local API: the commands of `svc`, `svc mcp` and `LocalAgent` all use it. Its errors
 * are `ApiError` and `LocalDown`. The commands and the client library add, in their own words, what to do about them.
 */
import type * as z from "zod";
import { type Clock, sleep, timeLeft } from "../clock.ts";
import type { ConnectorFile } from "./agent_files.ts";
import { ApiError, LocalDown } from "./errors.ts";
import { apiErrorOf, exchange, type ExchangeDeps, type HttpResponse, type Query, searchOf } from "./http.ts";
import { type InboxRead, InboxReadResult, type OutboundRequest, OutboundResult } from "./local_shapes.ts";
import { LIMITS } from "../protocol/limits.ts";

/** Time for the answer to a status request. With more, a program waits longer for a connector that is stuck. */
export const STATUS_MS = 3_000;
/**
 * Time for the answer to any other request. It exceeds the 30 s for which the connector waits for the proxy, because
 * with less a message that was sent would count as failed.
 */
const CALL_MS = 45_000;
/** Most bytes of an answer. With more, another program at the port of the connector could fill the memory. */
const ANSWER_BYTES_MAX = 10 * 1024 ** 2;

export interface LocalRequest {
  method: "GET" | "POST";
  target: string;
  /** JSON text. */
  body?: string;
  /** Seconds that the connector may wait before it answers, as the query of the request says. */
  waitSeconds?: number;
  /** Milliseconds for the answer, in addition to `waitSeconds` (default 45,000). */
  timeoutMs?: number;
  /** True if the request may be sent twice (default: only a GET may). */
  repeatable?: boolean;
  signal?: AbortSignal;
}

export function get(path: string, query: Query = {}): LocalRequest {
  return { method: "GET", target: path + searchOf(query) };
}

export function post(target: string, body: object): LocalRequest {
  return { method: "POST", target, body: JSON.stringify(body) };
}

export interface LocalCalls {
  readonly agentName: string;
  /**
   * Returns any answer of the connector, even an error of the connector or of the proxy behind it.
   *
   * @throws {LocalDown}
   */
  send(request: LocalRequest): Promise<HttpResponse>;
}

export interface LocalDeps extends Pick<ExchangeDeps, "fetch" | "clock" | "closed"> {
  /**
   * Returns the discovery file of the running connector, or `null` while none runs. It is called before each request,
   * because another program can take the port of a connector that has ended, and would get its messages and its token.
   */
  find(): Promise<ConnectorFile | null>;
  /** Tells whether another user's process listens at a connector's address. If absent, that is not checked. */
  isOfOtherUser?(file: ConnectorFile): Promise<boolean>;
}

export class LocalClient implements LocalCalls {
  constructor(readonly agentName: string, readonly deps: LocalDeps) {}

  async send(request: LocalRequest): Promise<HttpResponse> {
    const { agentName, deps } = this;
    const { method, target, body, waitSeconds = 0, timeoutMs = CALL_MS, signal } = request;
    if (deps.closed?.aborted) throw new LocalDown(agentName, "is not called, because the agent was closed");
    const file = await deps.find();
    if (file === null) throw new LocalDown(agentName, "does not run");
    const { url, token, pid } = file;
    if (await deps.isOfOtherUser?.(file)) {
      throw new LocalDown(agentName, `is not what listens at ${url}, but another user`);
    }
    // The file is read again, because the check of the user may take seconds. If the connector ends meanwhile, any
    // program can take its port.
    if (deps.isOfOtherUser && (await deps.find())?.token !== token) throw new LocalDown(agentName, "has ended");
    const response = await exchange(deps, {
      method,
      url: url + target,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body,
      timeoutMs: timeoutMs + waitSeconds * 1000,
      maxBytes: ANSWER_BYTES_MAX,
      onTooLarge: "fail",
      ...signal === undefined ? {} : { signal },
    }).catch((cause) => {
      throw new LocalDown(agentName, `does not answer at ${url}`, { cause, wasSent: true, silentPid: pid });
    });
    if (apiErrorOf(response)?.code !== null) return response;
    throw new LocalDown(agentName, `is not what answers at ${url}`, { wasSent: true });
  }
}

/**
 * Sends a request and returns the checked body of the answer.
 *
 * @throws {ApiError} for an error of the connector, or of the proxy behind it
 * @throws {LocalDown} also when another program or version answers
 */
export async function call<S extends z.ZodType>(
  calls: LocalCalls,
  schema: S,
  request: LocalRequest,
): Promise<z.output<S>> {
  return (await callForText(calls, schema, request)).body;
}

/** As `call`, but also returns the JSON text of the body, with payloads byte for byte as their senders wrote them. */
export async function callForText<S extends z.ZodType>(
  calls: LocalCalls,
  schema: S,
  request: LocalRequest,
): Promise<{ body: z.output<S>; json: string }> {
  const response = await calls.send(request);
  const error = apiErrorOf(response);
  if (error !== null) throw error;
  const json = response.text === "" ? "null" : response.text;
  try {
    return { body: schema.parse(JSON.parse(json)), json };
  } catch (cause) {
    throw new LocalDown(calls.agentName, "is not what answered, or has another version", { cause, wasSent: true });
  }
}

/**
 * Marks messages as read, leases them, or releases their lease. A repetition changes nothing.
 *
 * @returns the IDs that this request has changed
 * @throws as `call`
 */
export async function readMessages(calls: LocalCalls, body: z.input<typeof InboxRead>): Promise<number[]> {
  return (await call(calls, InboxReadResult, { ...post("/v1/inbox/read", body), repeatable: true })).read;
}

/** A message, and how long its sender waits for the reply. */
export interface WaitedMessage {
  members: Omit<OutboundRequest, "payload" | "text" | "requestId"> & { requestId: string };
  /** JSON text. */
  payload: string;
  waitSeconds: number;
  /** Longest wait of one request in seconds, after which `signal` is checked (default 60). */
  callSeconds?: number;
  /** Called with what is known after a second, if the wait is not over then. */
  onState?: (result: OutboundResult) => void;
  /** Ends the wait; the message has still been sent. */
  signal?: AbortSignal;
  /** True to wait as long as a refusal asks, then try again (default: a refusal is thrown at once). */
  obeysRetryAfter?: boolean;
}

export interface SendResult {
  result: OutboundResult;
  json: string;
}

/**
 * Wait after a request that was answered in less time than this, because a connector that is ending answers at once and
 * would be asked all the time. After a longer request there is no wait, because another program could take a reply that
 * comes meanwhile.
 */
const PAUSE_MS = 250;
/** Wait before `onState`. With less, it is called for a reply that comes at once; with more, a person waits for it. */
const STATE_SECONDS = 1;
/** Shortest wait before a message is sent again, because without a connector each attempt fails at once. */
const AGAIN_MS = 1_000;

/**
 * Sends a message and waits for its reply, for an end without one, or until the time is over. It sends the message
 * again while its state is `unknown` or no connector answers. That is safe, because a message with the same request ID
 * is delivered only once.
 *
 * @throws {ApiError} the refusal of the connector or of the proxy
 * @throws {LocalDown} when no connector answers in time
 */
export async function sendAndWait(calls: LocalCalls, clock: Clock, message: WaitedMessage): Promise<SendResult> {
  const { members, payload, waitSeconds, callSeconds = LIMITS.localWaitSeconds, signal, onState } = message;
  const body = `${JSON.stringify(members).slice(0, -1)},"payload":${payload}}`;
  const left = timeLeft(clock, waitSeconds * 1000);
  for (let sent: SendResult | null = null;;) {
    const isFirst = sent === null, rest = Math.ceil(left() / 1000);
    const wait = Math.min(isFirst && onState ? STATE_SECONDS : callSeconds, rest);
    const began = clock.now();
    let pauseMs = 0;
    try {
      sent = sent === null || sent.result.state === "unknown"
        ? await resultOf(calls, { method: "POST", target: `/v1/outbound?wait=${wait}`, body, waitSeconds: wait })
        : await sentMessage(calls, sent.result, wait);
      // After a shorter wait there is one more look, because the reply may have come while this machine slept.
      if (isOver(sent.result) || left() === 0 && wait === rest || signal?.aborted) return sent;
      if (isFirst) onState?.(sent.result);
      if (sent.result.state === "unknown") pauseMs = AGAIN_MS;
      else if (clock.now() - began < PAUSE_MS) pauseMs = PAUSE_MS;
    } catch (error) {
      const asked = message.obeysRetryAfter && error instanceof ApiError ? error.retryAfter : null;
      pauseMs = Math.max(AGAIN_MS, (asked ?? 0) * 1000);
      const isPassing = error instanceof LocalDown || asked !== null;
      if (!isPassing || pauseMs >= left() || signal?.aborted) throw error;
    }
    if (pauseMs > 0) await sleep(clock, Math.min(pauseMs, left()), signal);
  }
}

/** Returns what is known of a sent message, after a wait for its reply. @throws as `call` */
export function sentMessage(
  calls: LocalCalls,
  { requestId, to }: { requestId: string; to?: string | undefined },
  waitSeconds = 0,
): Promise<SendResult> {
  const request = get(`/v1/outbound/${encodeURIComponent(requestId)}`, { to, wait: waitSeconds });
  return resultOf(calls, { ...request, waitSeconds });
}

async function resultOf(calls: LocalCalls, request: LocalRequest): Promise<SendResult> {
  const { body: result, json } = await callForText(calls, OutboundResult, { ...request, repeatable: true });
  return { result, json };
}

/** Tells whether the wait is over, because the reply is there or none can come. */
export function isOver({ reply, state }: OutboundResult): boolean {
  return reply !== null || state === "dead_lettered" || state === "refused";
}
