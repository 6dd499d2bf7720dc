/**
 * Gives the unread messages of a connector's inbox to the program's handler. A message is marked read only after its
 * handler has resolved, so after a crash it is handled again and not lost. Replies for which an `ask` of this process
 * waits go to that `ask` instead.
 */
import { BoundedMap } from "../bounded_map.ts";
import { type Clock, sleep } from "../clock.ts";
import { sha256, utf8Bytes } from "../protocol/base64url.ts";
import { retryWait } from "./backoff.ts";
import { InboxPlace } from "./inbox_place.ts";
import { call, get, type LocalCalls, readMessages, type WaitedMessage } from "./local_client.ts";
import { InboxPage, type LocalMessage } from "./local_shapes.ts";
import type { AgentEvent, AgentEventName, Content, IncomingMessage, MessageHandler, SendOptions } from "./agent_api.ts";
import { asSvcError, SvcError } from "./svc_error.ts";
import { LIMITS } from "../protocol/limits.ts";
import { describeError } from "./refusals.ts";

/** Most messages that are read and not yet handled. With more, they fill memory while the handlers are busy. */
const MESSAGES_HELD_MAX = 20;
/**
 * Most such messages of one sender. With more, a peer whose messages are handled slowly holds up those of the others; with
 * less, the inbox is read more often.
 */
const SENDER_HELD_MAX = 10;
/** Messages that are remembered. With more, a peer whose messages cannot be handled would fill the memory. */
const KNOWN_MAX = 10_000;
/** Attempts to handle one message. With more, a message that cannot be handled blocks later ones for longer. */
const TRIES_MAX = 5;

/** Tells whether no connector answered. The next call may reach one. */
function isDown(error: unknown): boolean {
  return error instanceof SvcError && error.code === "CONNECTOR_DOWN";
}

/** Sends the value that a handler has returned. @throws {SvcError} */
type SendReply = (message: IncomingMessage, content: Content, requestId: string) => Promise<unknown>;

export class InboxReader {
  readonly #stop = new AbortController();
  readonly #lanes = new HandlerLanes((message, handler) => this.#handle(message, handler));
  /** Request IDs of the messages whose reply an `ask` waits for. */
  readonly #asked = new Set<string>();
  /** Replies that were left to an `ask`, by the request ID of the message that they answer. */
  readonly #leftToAsk = new Map<string, IncomingMessage[]>();
  /**
   * Messages that are not added again: those in work, those that stay unread, and those that have been marked read. The
   * last ones are forgotten at the next page, because a page under way may show them. The bound is also for a program
   * that only asks: it reads no page, so its replies would fill the memory.
   */
  readonly #known = new BoundedMap<string, "unread" | "read">(KNOWN_MAX);
  /** Begins again after a failure too. */
  #place = new InboxPlace();
  /**
   * Senders that have as many messages in work as one sender may have. Their other messages are left unread until half
   * of those are handled, because the messages of the other senders would otherwise wait behind them.
   */
  readonly #full = new Set<string>();
  /** Ends the read under way. */
  #reading = new AbortController();
  #running: Promise<void> | null = null;
  /** Wakes the loop when it waits for a handler or for room. */
  #wake = () => {};

  constructor(
    private readonly local: LocalCalls,
    private readonly clock: Clock,
    private readonly events: EventHandlers,
    private readonly reply: SendReply,
  ) {}

  set handler(handler: MessageHandler | null) {
    this.#lanes.handler = handler;
    if (handler !== null) this.#running ??= this.#run();
    this.#wake();
  }

  get handler(): MessageHandler | null {
    return this.#lanes.handler;
  }

  /** Leaves replies to this message to the `ask` that waits for them. */
  expect(requestId: string): void {
    this.#asked.add(requestId);
  }

  /** Ends the wait that `expect` began. Replies that the `ask` did not take go to the handler. */
  release(requestId: string, taken: IncomingMessage | null): void {
    this.#asked.delete(requestId);
    if (taken !== null) this.#known.set(keyOf(taken), "read");
    for (const message of this.#leftToAsk.get(requestId) ?? []) if (message.id !== taken?.id) this.#lanes.add(message);
    this.#leftToAsk.delete(requestId);
  }

  /** Ends the loop and waits for the handlers that are running. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#reading.abort();
    this.#wake();
    await Promise.all([this.#lanes.stop(), this.#running]);
  }

  async #run(): Promise<void> {
    let failures = 0, isConnected = false;
    while (!this.#stop.signal.aborted) {
      if (this.handler === null || this.#lanes.size >= MESSAGES_HELD_MAX) {
        await new Promise<void>((resolve) => this.#wake = resolve);
        continue;
      }
      try {
        await this.#readPage(isConnected ? LIMITS.localWaitSeconds : 0);
        if (!isConnected) this.events.emit("connected", "The connector answers");
        [isConnected, failures] = [true, 0];
      } catch (cause) {
        if (this.#stop.signal.aborted) return;
        if (this.#reading.signal.aborted) continue;
        const error = asSvcError(cause);
        if (isConnected) this.events.emit("disconnected", "The connector does not answer");
        if (!isDown(error) || failures++ === 0) this.events.problem(error);
        isConnected = false;
        this.#place = new InboxPlace();
        // This connector hands its messages to a runtime until it is restarted, so later attempts would fail too.
        if (error instanceof SvcError && error.code === "CONNECTOR_RUNTIME_PUSHES") return;
        await sleep(this.clock, retryWait(failures), this.#stop.signal);
      }
    }
  }

  async #readPage(waitSeconds: number): Promise<void> {
    const limit = MESSAGES_HELD_MAX - this.#lanes.size;
    const except = this.#full.size > 0 ? [...this.#full].join(",") : undefined;
    const query = get("/v1/inbox", { unread: true, after: this.#place.after, limit, wait: waitSeconds, except });
    const { signal } = this.#reading = new AbortController();
    const request = { ...query, waitSeconds, signal };
    for (const [key, state] of this.#known) if (state === "read") this.#known.delete(key);
    const { messages, more } = await call(this.local, InboxPage, request);
    if (signal.aborted) return;
    this.#place.move(messages.at(-1)?.id, more);
    for (const message of messages.map(messageOfLocal)) {
      const { agentDid } = message.from;
      if (this.#known.has(keyOf(message)) || this.#full.has(agentDid)) continue;
      this.#known.set(keyOf(message), "unread");
      this.#add(message);
      if (this.#lanes.countOf(agentDid) >= SENDER_HELD_MAX) this.#full.add(agentDid);
    }
  }

  #add(message: IncomingMessage): void {
    const { isReply, inReplyTo } = message;
    if (isReply && inReplyTo !== null && this.#asked.has(inReplyTo)) {
      this.#leftToAsk.set(inReplyTo, [...this.#leftToAsk.get(inReplyTo) ?? [], message]);
    } else this.#lanes.add(message);
  }

  /** Handles one message: calls the handler, sends its reply, marks the message as read. Repeats what failed. */
  async #handle(message: IncomingMessage, handler: MessageHandler): Promise<void> {
    let returned: { value: Content | void } | null = null;
    for (let tries = 1;;) {
      try {
        returned ??= { value: await handler(message) };
        await this.#finish(message, returned.value);
        break;
      } catch (cause) {
        const error = asSvcError(cause);
        const askedMs = error instanceof SvcError ? (error.retryAfter ?? 0) * 1000 : 0;
        // A try does not count while no connector answers or one asks to wait, because the message is not at fault.
        if (!isDown(error) && askedMs === 0 && ++tries > TRIES_MAX) {
          this.events.problem(error, `The message ${message.requestId} stays unread`);
          break;
        }
        await sleep(this.clock, retryWait(tries - 1, askedMs), this.#stop.signal);
        if (this.#stop.signal.aborted) break;
      }
    }
    this.#readMoreOf(message.from.agentDid);
    this.#wake();
  }

  /** Reads again what was left out of a sender, once there is room for it. */
  #readMoreOf(did: string): void {
    if (this.#lanes.countOf(did) > SENDER_HELD_MAX / 2 || !this.#full.delete(did)) return;
    this.#place = new InboxPlace();
    this.#reading.abort();
  }

  async #finish(message: IncomingMessage, value: Content | void): Promise<void> {
    // An automatic reply to an automatic message could cause the next one, without end, so it is not sent.
    if (value !== undefined && !message.auto) {
      try {
        await this.reply(message, value, await replyIdOf(message));
      } catch (error) {
        if (!isFinal(error)) throw error;
        this.events.problem(error, `The reply to ${message.requestId} was not sent`);
      }
    }
    await readMessages(this.local, { ids: [message.id] });
    this.#known.set(keyOf(message), "read");
  }
}

/** The key of a message, which a new database of its connector does not change. */
function keyOf({ from, requestId }: IncomingMessage): string {
  return `${from.agentDid} ${requestId}`;
}

/**
 * Returns the request ID of an automatic reply. It depends only on the message, so a second attempt is a repetition and
 * is not delivered twice.
 */
async function replyIdOf({ from, requestId }: IncomingMessage): Promise<string> {
  return `r-${await sha256(`${from.agentDid}\n${requestId}`)}`;
}

/**
 * Codes of refusals that a repetition cannot change. With `PROXY_HOOK_REQUEST_ID_REUSED`, the proxy has already
 * accepted another reply to the message.
 */
const FINAL_CODES: ReadonlySet<string> = new Set([
  "CONNECTOR_LOOP_GUARD",
  "PAYLOAD_TOO_LARGE",
  "PROXY_HOOK_REQUEST_ID_REUSED",
  "CLI_USAGE",
]);

function isFinal(error: unknown): boolean {
  if (!(error instanceof SvcError)) return false;
  const { code, status = 0 } = error;
  if (FINAL_CODES.has(code)) return true;
  return status >= 400 && status < 500 && ![401, 408, 409, 429].includes(status);
}

/**
 * Handlers that run at once. With more, handlers that call a model exceed the limits of its provider; with 1, a slow
 * peer holds up the others.
 */
const HANDLERS_AT_ONCE = 4;

/**
 * Runs the program's handler over messages: at most four at once, and one per conversation, in order of arrival. Waits
 * while there is no handler.
 */
export class HandlerLanes {
  /** Messages by lane (`laneOf`). The first message of a busy lane is being handled. */
  readonly #lanes = new Map<string, IncomingMessage[]>();
  readonly #busy = new Map<string, Promise<void>>();
  #handler: MessageHandler | null = null;

  /** @param work handles one message with the program's handler; does not reject */
  constructor(private readonly work: (message: IncomingMessage, handler: MessageHandler) => Promise<void>) {}

  /** Number of messages that wait or are being handled. */
  get size(): number {
    let size = 0;
    for (const lane of this.#lanes.values()) size += lane.length;
    return size;
  }

  countOf(did: string): number {
    return [...this.#lanes.values()].flat().filter(({ from }) => from.agentDid === did).length;
  }

  set handler(handler: MessageHandler | null) {
    this.#handler = handler;
    this.#pump();
  }

  get handler(): MessageHandler | null {
    return this.#handler;
  }

  add(message: IncomingMessage): void {
    const lane = laneOf(message);
    const waiting = this.#lanes.get(lane);
    if (waiting) waiting.push(message);
    else this.#lanes.set(lane, [message]);
    this.#pump();
  }

  /** Removes the handler and waits for its calls that are running. */
  async stop(): Promise<void> {
    this.#handler = null;
    await Promise.all(this.#busy.values());
  }

  #pump(): void {
    for (const lane of this.#lanes.keys()) {
      if (this.#handler === null || this.#busy.size >= HANDLERS_AT_ONCE) return;
      if (!this.#busy.has(lane)) this.#busy.set(lane, this.#run(lane, this.#handler));
    }
  }

  async #run(lane: string, handler: MessageHandler): Promise<void> {
    const messages = this.#lanes.get(lane) ?? [];
    const [message] = messages;
    // Waits one turn, because the handler may add messages, and the lane must be marked busy before that.
    await Promise.resolve();
    if (message) await this.work(message, handler);
    messages.shift();
    this.#busy.delete(lane);
    this.#lanes.delete(lane);
    // Moves the lane to the end, because a busy peer would otherwise hold up the others.
    if (messages.length > 0) this.#lanes.set(lane, messages);
    this.#pump();
  }
}

function laneOf({ from, conversationId }: IncomingMessage): string {
  return conversationId === null ? from.agentDid : `${from.agentDid} ${conversationId}`;
}

export class EventHandlers {
  readonly #handlers: Record<AgentEventName, Set<(event: AgentEvent) => void>> = {
    connected: new Set(),
    disconnected: new Set(),
    problem: new Set(),
  };

  add(event: AgentEventName, handler: (event: AgentEvent) => void): () => void {
    this.#handlers[event].add(handler);
    return () => void this.#handlers[event].delete(handler);
  }

  emit(event: AgentEventName, message: string, code: string | null = null): void {
    for (const handler of [...this.#handlers[event]]) handler({ event, message, code });
  }

  problem(error: unknown, what = ""): void {
    const message = describeError(error);
    this.emit("problem", what === "" ? message : `${what}: ${message}`, error instanceof SvcError ? error.code : null);
  }
}

/**
 * Returns the JSON text of a content.
 *
 * @throws {SvcError} `PAYLOAD_TOO_LARGE`, `CLI_USAGE` for a content that is not JSON
 */
export function payloadText(content: Content): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(typeof content === "string" ? { message: content } : content);
  } catch (cause) {
    throw new SvcError("CLI_USAGE", "The content of a message must be JSON: it has no cycle and no BigInt", { cause });
  }
  if (text === undefined) throw new SvcError("CLI_USAGE", "The content of a message must be a text or an object");
  const { length } = utf8Bytes(text);
  if (length <= LIMITS.payloadBytes) return text;
  const most = LIMITS.payloadBytes;
  throw new SvcError("PAYLOAD_TOO_LARGE", `The content has ${length} bytes as JSON, at most ${most} are sent`);
}

/** Returns the parts of a message that follow from a content and its options. @throws as `payloadText` */
export function messageParts(
  content: Content,
  { conversationId, requestId, onlyOnline = false }: SendOptions & { requestId: string },
): Pick<WaitedMessage, "members" | "payload"> {
  const members: WaitedMessage["members"] = {
    requestId,
    ...(conversationId === undefined ? {} : { conversationId }),
    ...(onlyOnline ? {} : { prefer: "respond-async", keep: true }),
  };
  return { members, payload: payloadText(content) };
}

export function messageOfLocal(message: LocalMessage): IncomingMessage {
  const { readAt: _readAt, mayBeRepeat: _mayBeRepeat, ...rest } = message;
  return rest;
}
