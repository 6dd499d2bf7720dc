/**
 * Messages that wait for their answer (D-98): what they hold is bounded, over all and for each sender, however slow
 * their recipients are. A sender who holds too much is refused; nobody else notices.
 */
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Input } from "../../shared/server/http/route.ts";
import type { AdmittedAgent } from "../caller.ts";
import type { ProxyDeps } from "../deps.ts";

export class InFlightBudget {
  /** Bytes by sender. */
  readonly #bySender = new Map<string, number>();
  #total = 0;

  /** Bytes over all. */
  get total(): number {
    return this.#total;
  }

  /**
   * Counts a message; gives what ends the count.
   *
   * @throws {ServiceError} `PROXY_RELAY_UNAVAILABLE` when it is too much
   */
  take(sender: string, bytes: number): () => void {
    const ofSender = (this.#bySender.get(sender) ?? 0) + bytes;
    // What is small finds its place also when others hold everything.
    const isOver = this.#total + bytes > LIMITS.heldBytes && bytes > LIMITS.bodyFreeBytes;
    if (isOver || ofSender > LIMITS.heldPerSenderBytes) {
      throw new ServiceError("PROXY_RELAY_UNAVAILABLE", {
        message: "Too many large messages wait for their answer",
        headers: { "Retry-After": "1", Connection: "close" },
      });
    }
    this.#total += bytes;
    this.#bySender.set(sender, ofSender);
    return () => {
      this.#total -= bytes;
      const rest = (this.#bySender.get(sender) ?? 0) - bytes;
      if (rest === 0) this.#bySender.delete(sender);
      else this.#bySender.set(sender, rest);
    };
  }
}

type MessageInput = Input<undefined, undefined, undefined, AdmittedAgent | undefined>;

/** The handler of a message, which counts as held until it is answered. */
export function withInFlightBudget(
  handler: (deps: ProxyDeps, input: MessageInput) => Promise<Response>,
): (deps: ProxyDeps, input: MessageInput) => Promise<Response> {
  return async (deps, input) => {
    const { caller, exchange } = input;
    if (!caller) throw new ServiceError("PROXY_RELAY_AUTH_CONTEXT_MISSING");
    const release = deps.held.take(caller.agentDid, exchange.body.length);
    exchange.room?.release();
    try {
      return await handler(deps, input);
    } finally {
      release();
    }
  };
}
