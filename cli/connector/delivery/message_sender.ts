/**
 * The only place of the connector that sends a message: a row on disk before the request leaves (D-115), the loop guard
 * (D-113), the signed request (D-140), and the state that the response shows.
 */
import type { Clock } from "../../../shared/clock.ts";
import { messageRequest, stateOf } from "../../../shared/client/message_request.ts";
import type { HttpResponse } from "../../../shared/client/http.ts";
import type { Origin } from "../../../shared/client/local_shapes.ts";
import { CLIENT_LIMITS } from "../../../shared/client/limits.ts";
import type { ProxyCaller } from "../../../shared/client/proxy_caller.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import type { NewId } from "../../../shared/protocol/ids.ts";
import type { EmitEvent } from "../events.ts";
import type { Inbox } from "./inbox.ts";
import type { LoopGuard } from "../../../shared/client/loop_guard.ts";
import type { SentMessage, SentMessages, StateChange } from "./sent_messages.ts";

/** A message to send. */
export interface MessageToSend {
  toDid: string;
  /** JSON text, sent unchanged. */
  payload: string;
  origin: Exclude<Origin, "runtime">;
  /** Default: a new ULID. */
  requestId?: string | undefined;
  /** Default: that of the message that this one answers (D-112). */
  conversationId?: string | undefined;
  /** Request ID of the message that this one answers. */
  inReplyTo?: string | undefined;
  /** True when no person or model decided to send it. */
  auto?: boolean | undefined;
  /** The message may wait at the proxy for an offline recipient (D-68). */
  mayWait?: boolean | undefined;
}

/** The result of a request: the message with its state, and the proxy's response unchanged. */
export interface SentResult {
  sent: SentMessage;
  response: HttpResponse;
}

/** The connector refuses to send a message. Nothing was sent. */
export class SendRefusedError extends Error {
  override name = "SendRefusedError";

  constructor(
    readonly code: "CONNECTOR_LOOP_GUARD" | "PAYLOAD_TOO_LARGE",
    message: string,
    /** Seconds to wait; `null` when waiting does not help. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }
}

interface SenderDeps {
  clock: Clock;
  newId: NewId;
  proxy: Pick<ProxyCaller, "call">;
  sent: SentMessages;
  inbox: Pick<Inbox, "question">;
  guard: LoopGuard;
  tell: EmitEvent;
}

export class MessageSender {
  readonly #deps: SenderDeps;

  constructor(deps: SenderDeps) {
    this.#deps = deps;
  }

  /**
   * Sends a message. A repeated request ID is the same message (D-69).
   *
   * @throws {SendRefusedError} before anything is stored or sent
   * @throws {import("../../../shared/client/errors.ts").UnreachableError} when the proxy does not answer; the state is `unknown`
   */
  async send(message: MessageToSend): Promise<SentResult> {
    const { clock, newId, sent, inbox } = this.#deps;
    const { toDid, payload, origin, inReplyTo = null, auto = false, mayWait = false } = message;
    const bytes = utf8Bytes(payload).length;
    if (bytes > CLIENT_LIMITS.payloadBytes) {
      const text = `The payload has ${bytes} bytes, and at most ${CLIENT_LIMITS.payloadBytes} are sent`;
      throw new SendRefusedError("PAYLOAD_TOO_LARGE", text);
    }
    const question = inReplyTo === null ? null : inbox.question(toDid, inReplyTo);
    const conversationId = message.conversationId ?? question?.conversationId ?? null;
    const { requestId = newId() } = message;
    // A repeated request is not another message, so it is not counted again.
    const before = sent.find(requestId, toDid)?.state ?? null;
    if (before === null) {
      this.#guard({ toDid, origin, conversationId, isAutoReply: auto && inReplyTo !== null, question });
    }
    const row = sent.begin({ toDid, requestId, conversationId, inReplyTo, auto, origin, payload }, clock.now());
    try {
      const { response, outcome } = await this.request(row, payload, mayWait);
      // The proxy refuses this request and may have accepted the first one.
      const isUnknown = before === "unknown" && response.status >= 400 && outcome.state === "refused";
      return { sent: this.#settle(row, isUnknown ? { ...outcome, state: "unknown" } : outcome), response };
    } catch (error) {
      this.#settle(row, { state: "unknown", problem: describeError(error) });
      throw error;
    }
  }

  /** Sends a stored message. The caller stores the outcome. @throws {UnreachableError} when the proxy does not answer */
  async request(
    message: SentMessage,
    payload: string,
    mayWait: boolean,
  ): Promise<{ response: HttpResponse; outcome: StateChange }> {
    const { toDid: to, requestId } = message;
    const response = await this.#deps.proxy.call(await messageRequest({ ...message, to, payload, mayWait }));
    const { status } = response;
    const { expiresAt, ...shown } = stateOf(response);
    this.#deps.tell(eventOf(status, shown.state), { to, status, requestId });
    return { response, outcome: { ...shown, expiresAt: expiresAt === null ? null : Date.parse(expiresAt) } };
  }

  #guard({ toDid, origin, conversationId, isAutoReply, question }: {
    toDid: string;
    origin: Origin;
    conversationId: string | null;
    isAutoReply: boolean;
    question: { auto: boolean } | null;
  }): void {
    const { clock, guard, tell } = this.#deps;
    const refuse = (why: string, wait: number | null) => {
      tell("loop_guard", { to: toDid, why });
      const seconds = wait === null ? null : Math.ceil(wait / 1000);
      throw new SendRefusedError("CONNECTOR_LOOP_GUARD", `Not sent: ${why}`, seconds);
    };
    const now = clock.now();
    if (isAutoReply && question?.auto) {
      guard.refuse();
      refuse("the message that it answers is automatic", null);
    }
    const autoWait = isAutoReply ? guard.automaticReply(toDid, conversationId, now) : 0;
    if (autoWait > 0) refuse("too many automatic replies in this conversation", autoWait);
    const modelWait = origin === "model" ? guard.modelMessage(toDid, conversationId, now) : 0;
    if (modelWait > 0) refuse("too many messages of a model to this agent in a short time", modelWait);
  }

  /** Stores the state. When the store cannot be written, the caller still gets the response. */
  #settle(message: SentMessage, outcome: StateChange): SentMessage {
    const { clock, sent, tell } = this.#deps;
    try {
      return sent.settle(message, outcome, clock.now());
    } catch (error) {
      tell("store_failed", { to: message.toDid, requestId: message.requestId, why: describeError(error) });
      return { ...message, ...outcome };
    }
  }
}

/** The event for a response to a message; an accepted message may still wait for its recipient (D-240). */
function eventOf(status: number, state: StateChange["state"]): "sent" | "queued" | "not_taken" | "not_sent" {
  if (status >= 300) return "not_sent";
  if (state === "refused") return "not_taken";
  return state === "queued" ? "queued" : "sent";
}
