/**
 * Bounds the bytes of messages that wait for their result: in total, for one owner, and for one sender. A message over
 * a bound is refused, except a small one over the total. The owner has a bound too, because a person with twenty
 * senders could otherwise hold the whole total, and the messages of other people would be refused.
 */
import type { AdmittedAgent } from "../caller.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { ByteBudget } from "../../shared/server/byte_budget.ts";

/** Bytes of all messages. With more, messages to slow recipients would take the memory of the process. */
export const HELD_BYTES = 33_554_432;
/** Bytes of the messages of one sender. With more, it would take the room of the other agents of its owner. */
export const HELD_PER_SENDER_BYTES = 2_097_152;

/** Bytes of the messages of one owner: a quarter of all, so that three such owners leave room for a fourth. */
const PER_OWNER_BYTES = HELD_BYTES / 4;

export class InFlightBudget {
  readonly #owners = new ByteBudget({ total: HELD_BYTES, perParty: PER_OWNER_BYTES });
  readonly #senders = new ByteBudget({ total: Infinity, perParty: HELD_PER_SENDER_BYTES });

  /** Bytes that are held, over all senders. */
  get total(): number {
    return this.#owners.used;
  }

  /**
   * Counts a message. Returns an idempotent function that ends the count.
   *
   * @throws {ServiceError} `PROXY_RELAY_UNAVAILABLE` when the messages of the owner, the sender, or all, are too large
   */
  take({ holder, agentDid }: Pick<AdmittedAgent, "holder" | "agentDid">, bytes: number): () => void {
    // A small message ignores the total, because large messages of others would otherwise stop it.
    const ofOwner = this.#owners.take(holder, bytes, { ignoreTotal: bytes <= LIMITS.bodyFreeBytes });
    const ofSender = ofOwner && this.#senders.take(agentDid, bytes);
    if (ofSender) {
      return () => {
        ofOwner();
        ofSender();
      };
    }
    ofOwner?.();
    throw new ServiceError("PROXY_RELAY_UNAVAILABLE", {
      message: "Too many large messages wait for their answer",
      headers: { "Retry-After": "1", Connection: "close" },
    });
  }
}
