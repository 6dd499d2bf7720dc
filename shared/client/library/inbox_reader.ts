/**
 * Gives the unread messages of a connector's inbox to the program's handler (D-125). A message is marked read when its
 * handler has resolved, so it is handled at least once. Replies that an `ask` of this process waits for are left to it.
 */
import { sleep } from "../../clock.ts";
import { sha256 } from "../../protocol/base64url.ts";
import { receiptWait } from "../backoff.ts";
import { CLIENT_LIMITS } from "../limits.ts";
import { InboxPage, InboxReadResult } from "../local_shapes.ts";
import type { Content, IncomingMessage, MessageHandler } from "./agent_api.ts";
import type { EventHandlers } from "./event_handlers.ts";
import { HandlerLanes } from "./handler_lanes.ts";
import { isDown, type LocalConnection } from "./local_connection.ts";
import { messageOfLocal } from "./message_values.ts";
import { SvcError } from "./svc_error.ts";

/** A message with its number in the inbox. */
type StoredMessage = IncomingMessage & { id: number };

/** Sends the value that a handler has returned. */
type SendReply = (message: IncomingMessage, content: Content, requestId: string) => Promise<unknown>;

export class InboxReader {
  readonly #stop = new AbortController();
  readonly #lanes = new HandlerLanes((message, handler) => this.#handle(message, handler));
  /** Request IDs that an `ask` waits for. */
  readonly #asked = new Set<string>();
  /** Replies to these, by the request ID that they answer. */
  readonly #leftToAsk = new Map<string, IncomingMessage[]>();
  /** Number of the newest message that was read from the inbox. */
  #after = 0;
  #running: Promise<void> | null = null;
  /** Wakes the loop when it waits for room. */
  #wake = () => {};

  constructor(
    private readonly local: LocalConnection,
    private readonly events: EventHandlers,
    private readonly reply: SendReply,
  ) {}

  /** The program's handler; `null`: none. */
  set handler(handler: MessageHandler | null) {
    this.#lanes.handler = handler;
    if (handler !== null) this.#running ??= this.#run();
    this.#wake();
  }

  get handler(): MessageHandler | null {
    return this.#lanes.handler;
  }

  /** Leaves replies to a message to the `ask` that waits for them. */
  expect(requestId: string): void {
    this.#asked.add(requestId);
  }

  /** Ends that. Replies that the `ask` did not take go to the handler. */
  release(requestId: string, taken: IncomingMessage | null): void {
    this.#asked.delete(requestId);
    for (const message of this.#leftToAsk.get(requestId) ?? []) if (message.id !== taken?.id) this.#lanes.add(message);
    this.#leftToAsk.delete(requestId);
  }

  /** Marks a message as read. Returns true when this call has changed it. */
  async markRead(id: number): Promise<boolean> {
    const body = await this.local.call("POST", "/v1/inbox/read", { ids: [id] });
    return InboxReadResult.parse(body).read.includes(id);
  }

  /** Ends the loop, and waits for handlers that run. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#wake();
    await Promise.all([this.#lanes.stop().ended, this.#running]);
  }

  async #run(): Promise<void> {
    const { clock } = this.local.system;
    let failures = 0, isConnected = false;
    while (!this.#stop.signal.aborted) {
      if (this.handler === null || this.#lanes.size >= CLIENT_LIMITS.localMessages) {
        await new Promise<void>((resolve) => this.#wake = resolve);
        continue;
      }
      try {
        await this.#readPage(isConnected ? CLIENT_LIMITS.localWaitSeconds : 0);
        if (!isConnected) this.events.emit("connected", "The connector answers");
        [isConnected, failures] = [true, 0];
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        if (isConnected) this.events.emit("disconnected", "The connector does not answer");
        if (!isDown(error) || failures++ === 0) this.events.problem(error);
        isConnected = false;
        // Its connector hands messages to a runtime; only another start of it changes that.
        if (error instanceof SvcError && error.code === "CONNECTOR_RUNTIME_PUSHES") return;
        await sleep(clock, receiptWait(failures), this.#stop.signal);
      }
    }
  }

  async #readPage(waitSeconds: number): Promise<void> {
    const limit = CLIENT_LIMITS.localMessages - this.#lanes.size;
    const query = `unread=true&after=${this.#after}&limit=${limit}&wait=${waitSeconds}`;
    const body = await this.local.call("GET", `/v1/inbox?${query}`, undefined, {
      waitSeconds,
      signal: this.#stop.signal,
    });
    for (const stored of InboxPage.parse(body).messages) {
      this.#after = Math.max(this.#after, stored.id);
      const message = messageOfLocal(stored);
      const { isReply, inReplyTo } = message;
      if (isReply && inReplyTo !== null && this.#asked.has(inReplyTo)) {
        this.#leftToAsk.set(inReplyTo, [...this.#leftToAsk.get(inReplyTo) ?? [], message]);
      } else this.#lanes.add(message);
    }
  }

  /** Handles one message: handler, reply, mark. Tries again what failed. */
  async #handle(message: IncomingMessage, handler: MessageHandler): Promise<void> {
    const { clock } = this.local.system;
    let returned: { value: Content | void } | null = null;
    for (let tries = 1;;) {
      try {
        returned ??= { value: await handler(message) };
        await this.#finish(message as StoredMessage, returned.value);
        break;
      } catch (error) {
        // While no connector answers, a try does not count.
        if (!isDown(error) && ++tries > CLIENT_LIMITS.handlerTries) {
          this.events.problem(error, `The message ${message.requestId} stays unread`);
          break;
        }
        await sleep(clock, receiptWait(tries - 1), this.#stop.signal);
        // It stays unread.
        if (this.#stop.signal.aborted) break;
      }
    }
    this.#wake();
  }

  async #finish(message: StoredMessage, value: Content | void): Promise<void> {
    // An automatic reply to an automatic message could cause the next one (D-113).
    if (value !== undefined && !message.auto) {
      try {
        await this.reply(message, value, await replyIdOf(message));
      } catch (error) {
        if (!isFinal(error)) throw error;
        this.events.problem(error, `The reply to ${message.requestId} was not sent`);
      }
    }
    await this.markRead(message.id);
  }
}

/** The request ID of an automatic reply, so that a second attempt is the same message (D-69, D-114). */
export async function replyIdOf({ from, requestId }: IncomingMessage): Promise<string> {
  return `r-${await sha256(`${from.agentDid}\n${requestId}`)}`;
}

/**
 * Codes of refusals that a repetition does not change. `PROXY_HOOK_REQUEST_ID_REUSED`: the proxy has accepted an earlier
 * reply to the message.
 */
const FINAL_CODES: ReadonlySet<string> = new Set([
  "CONNECTOR_LOOP_GUARD",
  "PAYLOAD_TOO_LARGE",
  "PROXY_HOOK_REQUEST_ID_REUSED",
  "CLI_USAGE",
]);

/** True for a refusal that a repetition does not change. */
export function isFinal(error: unknown): boolean {
  if (!(error instanceof SvcError)) return false;
  const { code, status = 0 } = error;
  if (FINAL_CODES.has(code)) return true;
  return status >= 400 && status < 500 && ![401, 408, 409, 429].includes(status);
}
