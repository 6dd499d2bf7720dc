/**
 * Which automatic replies may be sent (D-113), and the reply that an asker gets in place of a refused one, because an
 * asker without an answer would wait until its time is over, and try again. Also the answers of a runtime as replies to
 * its peers: which messages get one, and what it says. Stores and sends nothing.
 */
import { LOOP_MESSAGES } from "../../link/loop_guard.ts";
import { BUSY, errorPayload } from "../../../shared/client/local_shapes.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { payloadProblem } from "../../../shared/protocol/payload_bounds.ts";
import type { ReplyContent } from "../../platforms/platform.ts";
import type { Parts } from "../parts.ts";
import type { StatusAnswer } from "./delivery_rules.ts";
import type { Runtime } from "./runtime.ts";
import type { Answered } from "../store/received_messages.ts";
import { idempotencyKey, type InboxMessage } from "../store/received_rows.ts";
import type { NewSentMessage, SentMessages } from "../store/sent_messages.ts";

type Deps = Pick<Parts, "clock" | "guard"> & { store: { sent: Pick<SentMessages, "automaticInThread"> } };

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

export interface RuntimeDeps extends Parts {
  runtime: Runtime;
}

type Question = Pick<InboxMessage, "fromDid" | "requestId" | "conversationId">;

export class RuntimeReplies {
  constructor(private readonly deps: RuntimeDeps) {}

  /** Returns the reply in the answer that accepted a message; `null` when there is none. */
  async from(question: InboxMessage, answer: StatusAnswer): Promise<NewSentMessage | null> {
    return await this.row(question, this.#payloadOf(answer, { to: question.fromDid, requestId: question.requestId }));
  }

  /**
   * Returns the reply with a payload, or `null` without one. If the loop guard refuses it, returns one that says so.
   */
  async row(question: Question, payload: string | null): Promise<NewSentMessage | null> {
    if (payload === null) return null;
    const { store: { received }, emit } = this.deps;
    const { fromDid: toDid, requestId } = question;
    // The ID is the same for each answer to this message, so that a repeated hand-over causes one reply (D-69).
    const replyId = `r-${await idempotencyKey(question)}`;
    const conversationId = conversationOf(question);
    const answer = { toDid, requestId: replyId, conversationId, inReplyTo: requestId, auto: true, payload } as const;
    const message: NewSentMessage = { ...answer, origin: "runtime" };
    const answered = received.question(toDid, requestId);
    const wait = answered === null ? 0 : waitForThread(this.deps, answered);
    if (answered === null || wait === 0) return message;
    emit("loop_guard", { to: toDid, requestId, why: TOO_MANY });
    return await busyReply(answered, wait) ?? { ...message, problem: "loop_guard" };
  }

  #payloadOf({ text, cut }: StatusAnswer, about: { to: string; requestId: string }): string | null {
    const { runtime: { platform: { replyOf } }, emit } = this.deps;
    if (cut === "broken") {
      emit("reply_lost", about);
      return null;
    }
    const content = cut === null && replyOf ? replyOf(text) : null;
    const payload = content && payloadOf(content);
    if (cut === "large" || payload !== null && utf8Bytes(payload).length > LIMITS.payloadBytes) {
      emit("reply_too_large", about);
      return null;
    }
    const problem = payload === null ? null : payloadProblem(payload);
    if (problem === null) return payload;
    emit("reply_invalid", { ...about, why: problem });
    return null;
  }
}

/** The payload of a reply; `null` for a blank text. */
function payloadOf(content: ReplyContent): string | null {
  if ("payload" in content) return content.payload;
  return content.text.trim() === "" ? null : JSON.stringify({ message: content.text });
}
