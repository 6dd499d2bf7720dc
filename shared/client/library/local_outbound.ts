/** Messages that a `LocalAgent` sends through its connector, and replies that it waits for (D-117). */
import { sleep } from "../../clock.ts";
import { CLIENT_LIMITS } from "../limits.ts";
import { InboxReadResult, type OutboundRequest, OutboundResult } from "../local_shapes.ts";
import type { Content, IncomingMessage, SendOptions } from "./agent_api.ts";
import { isDown, type LocalConnection } from "./local_connection.ts";
import { messageOfLocal, payloadText } from "./message_values.ts";
import { SvcError } from "./svc_error.ts";

/** Wait before another try while no connector answers, and before a message is sent again. */
const AGAIN_MS = 1_000;

/** The members of the request body that a content and its options decide. @throws {SvcError} `PAYLOAD_TOO_LARGE` */
export function messageBody(content: Content, options: SendOptions): OutboundRequest {
  const { conversationId, requestId, onlyOnline = false } = options;
  // One serialisation decides what is measured and sent.
  const payload: unknown = JSON.parse(payloadText(content));
  return {
    ...(conversationId === undefined ? {} : { conversationId }),
    ...(requestId === undefined ? {} : { requestId }),
    ...(onlyOnline ? {} : { prefer: "respond-async" }),
    payload,
  };
}

/** Sends a message, and waits for its reply or for the seconds. @throws {SvcError} */
export async function postOutbound(
  local: LocalConnection,
  body: OutboundRequest,
  waitSeconds: number,
): Promise<OutboundResult> {
  return OutboundResult.parse(await local.call("POST", `/v1/outbound?wait=${waitSeconds}`, body, { waitSeconds }));
}

/**
 * Sends a message and returns its first reply, which it marks as read.
 *
 * @throws {SvcError} `NO_REPLY` when there is none in time; the error of the connector or the proxy
 */
export async function askThrough(
  local: LocalConnection,
  message: OutboundRequest,
  timeoutMs: number,
): Promise<IncomingMessage> {
  const { clock } = local.system;
  const deadline = clock.now() + timeoutMs;
  for (let result: OutboundResult | null = null;;) {
    result = await nextResult(local, message, result, deadline);
    if (result.reply !== null) {
      const { read } = InboxReadResult.parse(await local.call("POST", "/v1/inbox/read", { ids: [result.reply.id] }));
      // Of two readers of a message only the one that changed it may act on it.
      if (read.length === 0) throw noReply(result, "another program took the reply");
      return messageOfLocal(result.reply);
    }
    if (["dead_lettered", "refused"].includes(result.state)) {
      throw noReply(result, result.problem ?? "the recipient gave up on it");
    }
    if (clock.now() >= deadline) throw noReply(result, "none came in time");
  }
}

/** Sends the message, or waits for its reply. Tries again while no connector answers. */
async function nextResult(
  local: LocalConnection,
  message: OutboundRequest,
  last: OutboundResult | null,
  deadline: number,
): Promise<OutboundResult> {
  const { clock } = local.system;
  const pause = () => sleep(clock, Math.max(0, Math.min(AGAIN_MS, deadline - clock.now())));
  while (true) {
    const left = Math.floor((deadline - clock.now()) / 1000);
    const wait = Math.max(0, Math.min(CLIENT_LIMITS.localWaitSeconds, left));
    if (last !== null && (wait === 0 || last.state === "unknown")) await pause();
    try {
      // A message in the state `unknown` is sent again: its recipient gets it once (D-69).
      if (last === null || last.state === "unknown") return await postOutbound(local, message, wait);
      return await resultOf(local, last, wait);
    } catch (error) {
      if (!isDown(error) || clock.now() >= deadline) throw error;
      await pause();
    }
  }
}

async function resultOf(
  local: LocalConnection,
  { requestId, to }: OutboundResult,
  waitSeconds: number,
): Promise<OutboundResult> {
  const query = new URLSearchParams({ to, wait: String(waitSeconds) });
  const target = `/v1/outbound/${encodeURIComponent(requestId)}?${query}`;
  return OutboundResult.parse(await local.call("GET", target, undefined, { waitSeconds }));
}

function noReply({ requestId, state }: OutboundResult, why: string): SvcError {
  return new SvcError("NO_REPLY", `No reply to the message (state ${state}): ${why}`, { requestId });
}
