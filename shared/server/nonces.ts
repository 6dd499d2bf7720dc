/**
 * Single-use nonces of signed requests (D-25). A nonce is reserved in memory while its request is judged, and made
 * durable by the claim that ends the judgement. Never stored before the proof has verified.
 */
import type { Clock } from "../clock.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Update } from "./group_commit.ts";
import type { Reads } from "./reads.ts";

/** A nonce on record. */
export interface NonceRecord {
  /** Milliseconds since the Unix epoch. */
  expiresAt: number;
  /** `X-Svc-Timestamp` of the request that used it, unix seconds. */
  timestamp: number;
}

/** A nonce held for one request. */
export interface Reservation {
  /** Makes it durable; refuses the claim with `"replay"` when it was used before. */
  update: Update<"replay">;
  /** Ends the reservation in memory, after the claim. */
  release(): void;
}

/** True when the record still refuses a request; a stepped-back clock does not revive the very same one. */
export function refusesNonce(record: NonceRecord, timestamp: number, now: number): boolean {
  return now < record.expiresAt || record.timestamp === timestamp;
}

/** Nonces by agent. */
export class Nonces {
  readonly #reads: Reads;
  readonly #clock: Clock;
  readonly #keyOf: (agentDid: string, nonce: string) => Deno.KvKey;
  readonly #held = new Set<string>();

  constructor(reads: Reads, clock: Clock, keyOf: (agentDid: string, nonce: string) => Deno.KvKey) {
    this.#reads = reads;
    this.#clock = clock;
    this.#keyOf = keyOf;
  }

  /**
   * Reserves a nonce, or gives `null` when it was used or is being used.
   *
   * @param timestamp unix seconds, as the request states them
   */
  async reserve(agentDid: string, nonce: string, timestamp: number): Promise<Reservation | null> {
    const held = `${agentDid} ${nonce}`;
    if (this.#held.has(held)) return null;
    this.#held.add(held);
    try {
      const key = this.#keyOf(agentDid, nonce);
      const now = this.#clock.now();
      const seen = await this.#reads.get<NonceRecord>(key);
      if (seen.value && refusesNonce(seen.value, timestamp, now)) {
        this.#held.delete(held);
        return null;
      }
      const expiresAt = Math.max(
        (timestamp + LIMITS.nonceGraceSeconds) * 1000,
        now + LIMITS.nonceKeptSeconds * 1000,
      );
      const value: NonceRecord = { expiresAt, timestamp };
      const expireInMs = expiresAt - now + LIMITS.nonceKeptSeconds * 1000;
      const update: Update<"replay"> = {
        key,
        seen,
        next: (current) =>
          current && refusesNonce(current as NonceRecord, timestamp, now)
            ? { refuse: "replay" }
            : { value, expireInMs },
      };
      return { update, release: () => this.#held.delete(held) };
    } catch (error) {
      this.#held.delete(held);
      throw error;
    }
  }
}
