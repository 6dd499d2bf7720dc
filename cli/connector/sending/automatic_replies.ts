/**
 * Which automatic replies may be sent (D-113), and the reply that an asker gets in place of a refused one, because an
 * asker without an answer would wait until its time is over, and try again.
 */
import { LOOP_MESSAGES, type LoopGuard } from "../../link/loop_guard.ts";
import { BUSY, errorPayload } from "../../../shared/client/local_shapes.ts";
import type { Clock } from "../../../shared/clock.ts";
import type { Answered } from "../store/received_messages.ts";
import { idempotencyKey } from "../store/received_rows.ts";
import type { NewSentMessage, SentMessages } from "../store/sent_messages.ts";

interface Deps {
  clock: Clock;
  guard: LoopGuard;
  store: { sent: Pick<SentMessages, "automaticInThread"> };
}

/** Why automatic replies are refused, for events and errors. */
export const TOO_MANY = "too many automatic replies in this thread";

const BUSY_ID = /^b-[A-Za-z0-9_-]{43}$/;

/** Milliseconds until an automatic reply to a message may be sent; 0: now. */
export function waitForThread({ clock, guard, store: { sent } }: Deps, { fromDid, requestId }: Answered): number {
  return guard.automaticReply(sent.automaticInThread(fromDid, requestId, LOOP_MESSAGES), clock.now());
}

/**
 * The reply `BUSY` to a message whose automatic reply may not be sent for `waitMs`. `null` when the message is a reply
 * `BUSY` or answers one, because two agents could otherwise send such replies to each other without end.
 */
export async function busyReply(answered: Answered, waitMs: number): Promise<NewSentMessage | null> {
  const { fromDid: toDid, requestId: inReplyTo } = answered;
  if (BUSY_ID.test(inReplyTo) || BUSY_ID.test(answered.inReplyTo ?? "")) return null;
  const message =
    "Too many automatic answers followed each other in this thread. Ask in a new message, or answer again " +
    `in ${Math.ceil(waitMs / 1000)} s.`;
  return {
    toDid,
    requestId: `b-${await idempotencyKey(answered)}`,
    conversationId: conversationOf(answered),
    inReplyTo,
    auto: true,
    origin: "runtime",
    payload: JSON.stringify(errorPayload(message, { code: BUSY, message })),
  };
}

/** The conversation of a reply. A message without one opens its own, because answers to two questions would mix. */
export function conversationOf({ conversationId, requestId }: Pick<Answered, "conversationId" | "requestId">): string {
  return conversationId ?? requestId;
}
