/**
 * Single-use nonces of signed requests (D-25). A nonce is reserved in memory while its request is checked. The claim of
 * the request stores it and detects earlier use, also on another instance. A nonce is stored only after its proof has
 * verified.
 */
import type { Clock } from "../clock.ts";
import { LIMITS } from "../protocol/limits.ts";
import { BoundedMap } from "../bounded_map.ts";
import { absent, type Update } from "./store/group_commit.ts";

/** Record of a used nonce. */
export interface NonceRecord {
  /** Milliseconds since the Unix epoch. */
  expiresAt: number;
  /** `X-Svc-Timestamp` of the request that used it, Unix seconds. */
  timestamp: number;
}

/** A nonce reserved for one request. */
export interface Reservation {
  /** Stores the nonce; refuses the claim with `"replay"` when it has been used before. */
  update: Update<"replay">;
  /** Ends the reservation after the claim. Used nonces are cached. */
  release(fate: "used" | "replayed" | "unused"): void;
}

/** Returns true when the record still rejects a request. A clock that steps back does not make a replay valid again. */
export function isReplay(record: NonceRecord, timestamp: number, now: number): boolean {
  return now < record.expiresAt || record.timestamp === timestamp;
}

/** Returns when a record may be deleted, milliseconds since the Unix epoch: later than it rejects, for a clock that steps back. */
export function nonceEnd({ expiresAt }: NonceRecord): number {
  return expiresAt + LIMITS.nonceKeptSeconds * 1000;
}

/** Most cached used nonces; a replay of a cached nonce needs no commit. */
const REMEMBERED = 20_000;

/** Nonces by agent. */
export class Nonces {
  readonly #clock: Clock;
  readonly #keyOf: (agentDid: string, nonce: string) => Deno.KvKey;
  readonly #marginMs: number;
  readonly #held = new Set<string>();
  readonly #used = new BoundedMap<string, NonceRecord>(REMEMBERED);

  /** @param marginMs time from the end of a nonce to its expiry in the store; the service deletes it earlier */
  constructor(clock: Clock, keyOf: (agentDid: string, nonce: string) => Deno.KvKey, marginMs = 0) {
    this.#clock = clock;
    this.#keyOf = keyOf;
    this.#marginMs = marginMs;
  }

  /**
   * Returns a reservation, or `null` when the nonce is in use or cached as used.
   *
   * @param timestamp Unix seconds, as in the request
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
        // A replay shows only that the same request was made before, not when its nonce ends.
        if (fate !== "unused") this.#used.set(name, fate === "used" ? value : { expiresAt: 0, timestamp });
      },
    };
  }
}
