/**
 * Bounds the bytes of messages that wait for their result, in total and per sender (D-98), regardless of how slow their
 * recipients are. A sender that holds too much is refused; other senders are not affected.
 */
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ByteBudget } from "../../shared/server/byte_budget.ts";
import type { Answer, Input } from "../../shared/server/http/route.ts";
import type { AdmittedAgent } from "../caller.ts";

export class InFlightBudget {
  readonly #budget = new ByteBudget({ total: LIMITS.heldBytes, perParty: LIMITS.heldPerSenderBytes });

  /** Bytes that are held, over all senders. */
  get total(): number {
    return this.#budget.used;
  }

  /**
   * Counts a message. Returns the function that ends the count, which is idempotent.
   *
   * @throws {ServiceError} `PROXY_RELAY_UNAVAILABLE` when the messages of the sender, or of all senders, are too large
   */
  take(sender: string, bytes: number): () => void {
    // A small message is accepted even when large ones use up the total.
    const release = this.#budget.take(sender, bytes, { ignoreTotal: bytes <= LIMITS.bodyFreeBytes });
    if (release) return release;
    throw new ServiceError("PROXY_RELAY_UNAVAILABLE", {
      message: "Too many large messages wait for their answer",
      headers: { "Retry-After": "1", Connection: "close" },
    });
  }
}

type MessageInput = Input<undefined, undefined, undefined, AdmittedAgent | undefined>;

/** Returns the handler with each message counted as held until its response. */
export function withInFlightBudget<D>(
  handler: (deps: D, input: MessageInput) => Promise<Answer>,
): (deps: D & { held: InFlightBudget }, input: MessageInput) => Promise<Answer> {
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
