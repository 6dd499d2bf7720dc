/**
 * The messages that an `Agent` has received (D-125): acknowledged when they are in memory, given to the program's handler,
 * answered with what it returns, and reported to their senders with a receipt.
 */
import { BoundedMap } from "../../bounded_map.ts";
import { type Clock, sleep } from "../../clock.ts";
import { utf8Bytes } from "../../protocol/base64url.ts";
import type { DeliverFrame } from "../../protocol/frames.ts";
import { toIso } from "../../protocol/time.ts";
import { receiptWait } from "../backoff.ts";
import { CLIENT_LIMITS } from "../limits.ts";
import type { Ack } from "../link.ts";
import { LoopGuard } from "../loop_guard.ts";
import type { Content, IncomingMessage, MessageHandler } from "./agent_api.ts";
import type { EventHandlers } from "./event_handlers.ts";
import { HandlerLanes } from "./handler_lanes.ts";
import { isFinal, replyIdOf } from "./inbox_reader.ts";
import { isSealed, messageOfFrame } from "./message_values.ts";
import type { ReceiptQueue } from "./receipt_queue.ts";
import { SvcError } from "./svc_error.ts";

interface IncomingDeps {
  clock: Clock;
  /** DID of the agent. */
  did: string;
  events: EventHandlers;
  receipts: ReceiptQueue;
  /** The alias of a peer; `null` without one. */
  aliasOf(did: string): string | null;
  /** Sends an automatic reply. */
  reply(message: IncomingMessage, content: Content, requestId: string): Promise<unknown>;
}

export class IncomingMessages {
  readonly #deps: IncomingDeps;
  readonly #guard = new LoopGuard();
  readonly #lanes = new HandlerLanes((message, handler) => this.#handle(message, handler));
  /** `ask` calls that wait, by recipient and request ID. */
  readonly #asked = new Map<string, (reply: IncomingMessage) => void>();
  /** Received messages by sender and request ID, so that a repeated delivery is handled once. */
  readonly #known = new BoundedMap<string, true>(CLIENT_LIMITS.agentKnownIds);
  /** Sent messages by recipient and request ID. */
  readonly #sent = new BoundedMap<string, true>(CLIENT_LIMITS.agentKnownIds);
  /** Size in bytes of each message that waits or is being handled. */
  readonly #held = new Map<IncomingMessage, number>();
  #heldBytes = 0;
  readonly #stopped = new AbortController();
  #isClosing = false;

  constructor(deps: IncomingDeps) {
    this.#deps = deps;
  }

  get handler(): MessageHandler | null {
    return this.#lanes.handler;
  }

  set handler(handler: MessageHandler | null) {
    this.#lanes.handler = handler;
  }

  /** Records a message that the agent sends, so that a reply to it is known as one. */
  noteSent(to: string, requestId: string): void {
    this.#sent.set(keyOf(to, requestId), true);
  }

  /** Gives the first reply to a message to `resolve`. Returns a function that ends it. */
  expect(to: string, requestId: string, resolve: (reply: IncomingMessage) => void): () => void {
    const key = keyOf(to, requestId);
    this.#asked.set(key, resolve);
    return () => void this.#asked.delete(key);
  }

  /** Takes a message into memory. What it returns is the acknowledgement. */
  take(frame: DeliverFrame): Ack {
    const { fromAgentDid, requestId, inReplyTo, payload } = frame;
    const { clock, did, receipts, aliasOf } = this.#deps;
    const key = keyOf(fromAgentDid, requestId);
    if (frame.toAgentDid !== did) return refused("wrong_recipient");
    if (this.#isClosing) return refused("closed");
    if (this.#known.has(key)) return { accepted: true };
    const question = inReplyTo === undefined ? null : keyOf(fromAgentDid, inReplyTo);
    const isReply = question !== null && this.#sent.has(question);
    const message = messageOf(frame, { alias: aliasOf(fromAgentDid), isReply, receivedAt: toIso(clock.now()) });
    if (message === null) return refused("payload_invalid");
    if (isSealed(message.payload)) return refused("seal_key_unknown");
    const answered = question === null ? undefined : this.#asked.get(question);
    const size = utf8Bytes(payload).length;
    if (answered === undefined && !this.#hasRoom(size)) return refused("inbox_full");
    this.#known.set(key, true);
    if (question !== null && answered !== undefined) {
      this.#asked.delete(question);
      receipts.add(message, "processed_by_svc");
      answered(message);
    } else {
      this.#held.set(message, size);
      this.#heldBytes += size;
      this.#lanes.add(message);
    }
    return { accepted: true };
  }

  /**
   * Ends the handler; messages that it has not begun are reported as dead letters, because their senders have an
   * acknowledgement. Resolves when handlers that run have ended, and their receipts are sent.
   */
  async close(): Promise<void> {
    this.#isClosing = true;
    const { left, ended } = this.#lanes.stop();
    for (const message of left) this.#deps.receipts.add(message, "dead_lettered");
    await ended;
    await this.#deps.receipts.sent();
  }

  /** Ends the repetitions of what fails. */
  stop(): void {
    this.#stopped.abort();
    this.#deps.receipts.stop();
  }

  /** Messages and receipts count together, so that a proxy which takes no receipts does not fill the memory. */
  #hasRoom(bytes: number): boolean {
    return this.#held.size + this.#deps.receipts.size < CLIENT_LIMITS.agentMessages &&
      this.#heldBytes + bytes <= CLIENT_LIMITS.agentBytes;
  }

  async #handle(message: IncomingMessage, handler: MessageHandler): Promise<void> {
    const { receipts, events } = this.#deps;
    try {
      const value = await handler(message);
      // An automatic reply to an automatic message could cause the next one (D-113).
      if (value !== undefined && !message.auto) await this.#reply(message, value);
      receipts.add(message, "processed_by_svc");
    } catch (error) {
      events.problem(error, `The message ${message.requestId} was not processed`);
      receipts.add(message, "dead_lettered");
    } finally {
      this.#heldBytes -= this.#held.get(message) ?? 0;
      this.#held.delete(message);
    }
  }

  /** Sends what a handler returned. A failure is a problem, and does not make the message unprocessed. */
  async #reply(message: IncomingMessage, content: Content): Promise<void> {
    const { clock, events } = this.#deps;
    const what = `The reply to ${message.requestId} was not sent`;
    if (this.#guard.automaticReply(message.from.agentDid, message.conversationId, clock.now()) > 0) {
      const why = "too many automatic replies in this conversation";
      return events.problem(new SvcError("CONNECTOR_LOOP_GUARD", why), what);
    }
    const requestId = await replyIdOf(message);
    for (let tries = 1;; tries++) {
      try {
        await this.#deps.reply(message, content, requestId);
        return;
      } catch (error) {
        const isLast = tries === CLIENT_LIMITS.handlerTries || this.#stopped.signal.aborted;
        if (isFinal(error) || isLast) return events.problem(error, what);
        await sleep(clock, receiptWait(tries), this.#stopped.signal);
      }
    }
  }
}

function keyOf(did: string, requestId: string): string {
  return `${did} ${requestId}`;
}

function refused(reason: string): Ack {
  return { accepted: false, reason };
}

/** The message of a frame; `null` when its payload is not JSON. */
function messageOf(...[frame, more]: Parameters<typeof messageOfFrame>): IncomingMessage | null {
  try {
    return messageOfFrame(frame, more);
  } catch {
    return null;
  }
}
