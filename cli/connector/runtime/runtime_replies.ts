/**
 * The answers of a runtime as replies to its peers: which messages get one, what it says, and whether the loop guard
 * lets it pass (D-113). Stores and sends nothing.
 */
import type { LoopGuard } from "../../link/loop_guard.ts";
import type { Clock } from "../../../shared/clock.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { payloadProblem } from "../../../shared/protocol/payload_bounds.ts";
import type { ReplyContent } from "../../platforms/platform.ts";
import type { EmitEvent } from "../events.ts";
import { busyReply, conversationOf, TOO_MANY, waitForThread } from "../sending/automatic_replies.ts";
import type { StatusAnswer } from "./delivery_rules.ts";
import type { Runtime } from "./runtime.ts";
import { idempotencyKey, type InboxMessage } from "../store/received_rows.ts";
import type { NewSentMessage } from "../store/sent_messages.ts";
import type { ConnectorStore } from "../store/store.ts";

/** A reply to store. `problem` says why it is stored as refused and not sent. */
export interface RuntimeReplyRow {
  message: NewSentMessage;
  problem: string | null;
}

export interface RuntimeDeps {
  clock: Clock;
  guard: LoopGuard;
  store: ConnectorStore;
  runtime: Runtime;
  emit: EmitEvent;
}

type Question = Pick<InboxMessage, "fromDid" | "requestId" | "conversationId">;

export class RuntimeReplies {
  constructor(private readonly deps: RuntimeDeps) {}

  /** Returns the reply in the answer that accepted a message; `null` when there is none. */
  async from(question: InboxMessage, answer: StatusAnswer): Promise<RuntimeReplyRow | null> {
    return await this.row(question, this.#payloadOf(answer, { to: question.fromDid, requestId: question.requestId }));
  }

  /**
   * Returns the reply with a payload, or `null` without one. If the loop guard refuses it, returns one that says so.
   */
  async row(question: Question, payload: string | null): Promise<RuntimeReplyRow | null> {
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
    if (answered === null || wait === 0) return { message, problem: null };
    emit("loop_guard", { to: toDid, requestId, why: TOO_MANY });
    const busy = await busyReply(answered, wait);
    return busy === null ? { message, problem: "loop_guard" } : { message: busy, problem: null };
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
