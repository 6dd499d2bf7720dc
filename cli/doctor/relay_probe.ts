/** `provider relay-test`: sends a probe, or a message, to a peer and waits for its receipt. */
import { type Clock, sleep } from "../../shared/clock.ts";
import { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { call, get, type LocalCalls, post } from "../../shared/client/local_client.ts";
import { CheckedReceipts } from "../../shared/client/local_shapes.ts";

const WAIT_MS = 30_000;
const LOOK_EVERY_MS = 500;

export interface RelayProbe {
  peer: string;
  /** Text of a message that the peer's agent reads; `null`: a probe, which its connector answers. */
  message: string | null;
  requestId: string;
  sessionId?: string | undefined;
}

export interface ProbeResult {
  requestId: string;
  delivered: boolean;
  /** Why it was not delivered: the reason of the recipient's connector, or `queued`; `null` when it was delivered. */
  reason: string | null;
  /** Status of the receipt; `null` when no receipt came in time. */
  status: "processed_by_svc" | "dead_lettered" | null;
  sentInMs: number;
  receiptInMs: number | null;
}

/** Sends the message and waits for its receipt. @throws the refusal of the connector or the proxy */
export async function sendProbe(clock: Clock, connector: LocalCalls, probe: RelayProbe): Promise<ProbeResult> {
  const { peer, message, requestId, sessionId } = probe;
  const began = clock.now();
  const conversation = sessionId === undefined ? {} : { conversationId: sessionId };
  const body = {
    to: peer,
    payload: message === null ? { svcProbe: requestId } : { message },
    requestId,
    ...conversation,
  };
  const sent = await call(connector, HookAnswer, post("/v1/outbound", body));
  const sentInMs = clock.now() - began;
  const query = new URLSearchParams({ to: peer, requestId });
  while (sent.delivered && clock.now() - began < WAIT_MS) {
    const { receipts } = await call(connector, CheckedReceipts, get(`/v1/receipts?${query}`));
    const status = receipts.findLast(({ problem }) => problem === undefined)?.status;
    if (status) return { requestId, delivered: true, reason: null, status, sentInMs, receiptInMs: clock.now() - began };
    await sleep(clock, LOOK_EVERY_MS);
  }
  const reason = sent.delivered ? null : sent.queued ? "queued" : sent.reason ?? "refused";
  return { requestId, delivered: sent.delivered, reason, status: null, sentInMs, receiptInMs: null };
}
