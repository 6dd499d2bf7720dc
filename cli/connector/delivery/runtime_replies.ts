/**
 * The answers of a runtime as replies to its peers (D-114): which messages get one, what it says, and whether the loop
 * guard lets it pass (D-113). Stores and sends nothing.
 */
import { CLIENT_LIMITS } from "../../../shared/client/limits.ts";
import type { LoopGuard } from "../../../shared/client/loop_guard.ts";
import type { Clock } from "../../../shared/clock.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import type { PushPlatform, ReplyContent } from "../../platforms/platform.ts";
import type { EmitEvent } from "../events.ts";
import type { RuntimeAnswer } from "./delivery_rules.ts";
import type { InboxMessage } from "./inbox_rows.ts";
import { idempotencyKey } from "./runtime.ts";
import type { NewSentMessage } from "./sent_messages.ts";

/** A reply to store. `problem`: why it is stored as refused and not sent. */
export interface RuntimeReplyRow {
  message: NewSentMessage;
  problem: string | null;
}

interface ReplyDeps {
  clock: Clock;
  guard: LoopGuard;
  /** The replies of the platform; absent when its answers are about tasks. */
  replyOf?: PushPlatform["replyOf"] | undefined;
  tell: EmitEvent;
}

/** The message that a reply answers. */
export type Question = Pick<InboxMessage, "fromDid" | "requestId" | "conversationId">;

export class RuntimeReplies {
  readonly #deps: ReplyDeps;

  constructor(deps: ReplyDeps) {
    this.#deps = deps;
  }

  /** Returns true when the answer to a message may become a reply. An automatic message gets none. */
  wants({ auto }: Pick<InboxMessage, "auto">): boolean {
    return !auto;
  }

  /** Returns the reply in the answer that accepted a message; `null` when there is none. Counts it at the loop guard. */
  async from(question: InboxMessage, answer: RuntimeAnswer): Promise<RuntimeReplyRow | null> {
    const payload = this.#payloadOf(answer, { to: question.fromDid, requestId: question.requestId });
    return payload === null ? null : await this.row(question, payload);
  }

  /** Returns the reply with a payload. Counts it at the loop guard. */
  async row(question: Question, payload: string): Promise<RuntimeReplyRow> {
    const { clock, guard, tell } = this.#deps;
    const { fromDid: toDid, requestId, conversationId } = question;
    // The same for each answer to this message, so that a repeated hand-over causes one reply (D-69).
    const replyId = `r-${await idempotencyKey(question)}`;
    const isStopped = guard.automaticReply(toDid, conversationId, clock.now()) > 0;
    if (isStopped) tell("loop_guard", { to: toDid, requestId, why: "too many automatic replies in this conversation" });
    const message = { toDid, requestId: replyId, conversationId, inReplyTo: requestId, auto: true, payload } as const;
    return { message: { ...message, origin: "runtime" }, problem: isStopped ? "loop_guard" : null };
  }

  #payloadOf(answer: RuntimeAnswer, about: { to: string; requestId: string }): string | null {
    const { replyOf, tell } = this.#deps;
    if (answer.kind !== "status") return null;
    const { status, body: { contentType, text, cut } } = answer;
    if (cut === "broken") {
      tell("reply_lost", about);
      return null;
    }
    const content = cut === null && replyOf ? replyOf({ status, contentType, text }) : null;
    const payload = content && payloadOf(content);
    if (cut === null && (payload === null || utf8Bytes(payload).length <= CLIENT_LIMITS.payloadBytes)) return payload;
    tell("reply_too_large", about);
    return null;
  }
}

/** The payload of a reply; `null` for a blank text. */
function payloadOf(content: ReplyContent): string | null {
  if ("payload" in content) return content.payload;
  return content.text.trim() === "" ? null : JSON.stringify({ message: content.text });
}
