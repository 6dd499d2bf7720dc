/**
 * Runs the handler of a program over messages: at most four at once, one per conversation, in order of arrival (D-125).
 * Pauses while there is no handler.
 */
import { CLIENT_LIMITS } from "../limits.ts";
import type { IncomingMessage, MessageHandler } from "./agent_api.ts";

export class HandlerLanes {
  /** Messages by lane; the first one of a busy lane is being handled. */
  readonly #lanes = new Map<string, IncomingMessage[]>();
  readonly #busy = new Map<string, Promise<void>>();
  #handler: MessageHandler | null = null;

  /** @param work handles one message with the program's handler; does not reject */
  constructor(private readonly work: (message: IncomingMessage, handler: MessageHandler) => Promise<void>) {}

  /** Messages that wait or are being handled. */
  get size(): number {
    let size = 0;
    for (const lane of this.#lanes.values()) size += lane.length;
    return size;
  }

  /** The handler of the program; `null`: none. */
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

  /** Ends the handler. Returns the messages that no handler has begun, and when those that run have ended. */
  stop(): { left: IncomingMessage[]; ended: Promise<unknown> } {
    this.#handler = null;
    const left = [...this.#lanes].flatMap(([lane, messages]) => messages.slice(this.#busy.has(lane) ? 1 : 0));
    return { left, ended: Promise.all(this.#busy.values()) };
  }

  #pump(): void {
    for (const lane of this.#lanes.keys()) {
      if (this.#handler === null || this.#busy.size >= CLIENT_LIMITS.handlersAtOnce) return;
      if (!this.#busy.has(lane)) this.#busy.set(lane, this.#run(lane, this.#handler));
    }
  }

  async #run(lane: string, handler: MessageHandler): Promise<void> {
    const messages = this.#lanes.get(lane) ?? [];
    const [message] = messages;
    // The lane is busy before the handler runs, which may add messages.
    await Promise.resolve();
    if (message) await this.work(message, handler);
    messages.shift();
    this.#busy.delete(lane);
    this.#lanes.delete(lane);
    // At the end, so that each lane gets its turn.
    if (messages.length > 0) this.#lanes.set(lane, messages);
    this.#pump();
  }
}

function laneOf({ from, conversationId }: IncomingMessage): string {
  return conversationId === null ? from.agentDid : `${from.agentDid} ${conversationId}`;
}
