/**
 * Single-use nonces of signed requests (D-25). A nonce is reserved in memory while its request is judged, and made
 * durable by the claim that ends the judgement, which is also what tells of its use elsewhere or long ago. Never stored
 * before the proof has verified.
 */
import type { Clock } from "../clock.ts";
import { LIMITS } from "../protocol/limits.ts";
import { BoundedMap } from "./bounded_map.ts";
import { absent, type Update } from "./store/group_commit.ts";

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
  /** Ends the reservation, after the claim; a nonce that turned out to be used is remembered for a while. */
  release(fate: "used" | "replayed" | "unused"): void;
}

/** True when the record still refuses a request; a stepped-back clock does not revive the very same one. */
export function isReplay(record: NonceRecord, timestamp: number, now: number): boolean {
  return now < record.expiresAt || record.timestamp === timestamp;
}

/** When a record may be deleted, milliseconds since the Unix epoch: later than it refuses, for a clock that steps back. */
export function nonceEnd({ expiresAt }: NonceRecord): number {
  return expiresAt + LIMITS.nonceKeptSeconds * 1000;
}

/** Used nonces that are remembered: a replay of one costs nobody a commit. */
const REMEMBERED = 20_000;

/** Nonces by agent. */
export class Nonces {
  readonly #clock: Clock;
  readonly #keyOf: (agentDid: string, nonce: string) => Deno.KvKey;
  readonly #marginMs: number;
  readonly #held = new Set<string>();
  readonly #used = new BoundedMap<string, NonceRecord>(REMEMBERED);

  /** @param marginMs how much later than its end the store may delete a nonce, where the service itself does before */
  constructor(clock: Clock, keyOf: (agentDid: string, nonce: string) => Deno.KvKey, marginMs = 0) {
    this.#clock = clock;
    this.#keyOf = keyOf;
    this.#marginMs = marginMs;
  }

  /**
   * Reserves a nonce, or gives `null` when it is being used, or was and that is remembered here.
   *
   * @param timestamp unix seconds, as the request states them
   */
  reserve(agentDid: string, nonce: string, timestamp: number): Reservation | null {
    const name = `${agentDid} ${nonce}`;
    const now = this.#clock.now();
    const used = this.#used.get(name);
    if (this.#held.has(name) || (used && isReplay(used, timestamp, now))) return null;
    this.#held.add(name);
    const key = this.#keyOf(agentDid, nonce);
    const expiresAt = Math.max(
      (timestamp + LIMITS.nonceGraceSeconds) * 1000,
      now + LIMITS.nonceKeptSeconds * 1000,
    );
    const value: NonceRecord = { expiresAt, timestamp };
    const expireInMs = nonceEnd(value) - now + this.#marginMs;
    return {
      update: {
        key,
        seen: absent(key),
        uncached: true,
        next: (current) =>
          current && isReplay(current as NonceRecord, timestamp, now) ? { refuse: "replay" } : { value, expireInMs },
      },
      release: (fate) => {
        this.#held.delete(name);
        // Of a replay no more is known than that this very request was made before.
        if (fate !== "unused") this.#used.set(name, fate === "used" ? value : { expiresAt: 0, timestamp });
      },
    };
  }
}
