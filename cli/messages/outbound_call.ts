/**
 * One message through the local API of a connector (D-117): sends it and waits for the reply, in as many calls as that
 * takes. The same request ID makes a repeated call safe (D-69).
 */
import { type Clock, sleep } from "../../shared/clock.ts";
import type { OutboundRequest, OutboundResult } from "../../shared/client/local_shapes.ts";
import type { Access } from "../connector/attach.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../connector/limits.ts";
import { parseResult, type SendResult } from "./received.ts";

/** What sends a request to the local API of a connector. */
export type LocalCaller = Pick<Access, "send">;

/** A message, and how long its sender waits for the reply. */
export interface Sending {
  members: Omit<OutboundRequest, "payload" | "text" | "requestId"> & { requestId: string };
  /** JSON text. */
  payload: string;
  waitSeconds: number;
  /** Longest wait of one call, seconds: after it `signal` is checked. */
  callSeconds?: number;
  /** Ends the wait; the message stays sent. */
  signal?: AbortSignal;
}

/**
 * Sends a message. Resolves at its reply, at an end without one, or when the time is over.
 *
 * @throws {import("../../shared/client/errors.ts").ApiError} the refusal of the connector or of the proxy
 * @throws {import("../errors.ts").CliError} `CLI_CONNECTOR_DOWN`
 */
export async function sendAndWait(
  clock: Clock,
  agentName: string,
  connector: LocalCaller,
  { members, payload, waitSeconds, callSeconds = LIMIT.waitMaxMs / 1000, signal }: Sending,
): Promise<SendResult> {
  const body = `${JSON.stringify(members).slice(0, -1)},"payload":${payload}}`;
  const end = clock.now() + waitSeconds * 1000;
  const ask = async (method: "GET" | "POST", target: string, body?: string): Promise<SendResult> => {
    const wait = Math.min(callSeconds, Math.max(0, Math.ceil((end - clock.now()) / 1000)));
    const withinMs = LIMIT.callTimeoutMs + wait * 1000;
    return parseResult(agentName, await connector.send(method, `${target}wait=${wait}`, body, withinMs, true));
  };
  let sent = await ask("POST", "/v1/outbound?", body);
  const recipient = encodeURIComponent(sent.result.to);
  while (!isOver(sent.result) && clock.now() < end && !signal?.aborted) {
    await sleep(clock, LIMIT.waitPauseMs, signal);
    sent = await ask("GET", `/v1/outbound/${encodeURIComponent(members.requestId)}?to=${recipient}&`);
  }
  return sent;
}

/** True when waiting longer brings no reply. */
function isOver({ reply, state }: OutboundResult): boolean {
  return reply !== null || state === "dead_lettered" || state === "refused";
}
