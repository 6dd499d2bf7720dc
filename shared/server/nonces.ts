/**
 * Single-use nonces of signed requests (D-25). A nonce is reserved in memory while its request is checked. The claim of
 * the request stores it and detects earlier use, also on another instance. A nonce is stored only after its proof has
 * verified, because a stranger could otherwise use up an agent's nonces. The registry stores each one in a record of
 * its own; the proxy in the record of its sender.
 */
import type { KvKey } from "./kv.ts";
import type { Clock } from "../clock.ts";
import { LIMITS } from "../protocol/limits.ts";
import { BoundedMap } from "../bounded_map.ts";
import { absent, type Update } from "./store/batch.ts";

export interface NonceRecord {
  /** Milliseconds since the Unix epoch. */
  expiresAt: number;
  /** `X-Svc-Timestamp` of the request that used it, Unix seconds. */
  timestamp: number;
}

export interface Reservation {
  nonce: string;
  record: NonceRecord;
  /** Time of the reservation, milliseconds since the Unix epoch. */
  now: number;
  /** Ends the reservation after the claim. Used nonces are cached. */
  release(fate: "used" | "replayed" | "unused"): void;
}

/**
 * Until when a nonce is refused, milliseconds since the Unix epoch. It counts from the later of timestamp and arrival,
 * because a request that is dated ahead is still fresh five minutes after its arrival.
 *
 * @param timestamp Unix seconds, as in the request
 */
export function rejectedUntil(timestamp: number, now: number): number {
  return Math.max((timestamp + LIMITS.nonceGraceSeconds) * 1000, now + LIMITS.nonceKeptSeconds * 1000);
}

/** Returns true when the record still rejects a request; with its timestamp always, because a clock may step back. */
export function isReplay(record: NonceRecord, timestamp: number, now: number): boolean {
  return now < record.expiresAt || record.timestamp === timestamp;
}

/** When a record may be deleted, milliseconds since the Unix epoch: late, because a clock may step back until then. */
export function nonceEnd({ expiresAt }: NonceRecord): number {
  return expiresAt + LIMITS.nonceKeptSeconds * 1000;
}

/** Most cached used nonces. With fewer, more replays cost the store a commit; with more, they take memory. */
const REMEMBERED = 20_000;

export class Nonces {
  readonly #held = new Set<string>();
  readonly #used = new BoundedMap<string, NonceRecord>(REMEMBERED);

  constructor(private readonly clock: Clock) {}

  /**
   * Returns a reservation, or `null` when the nonce is in use or cached as used.
   *
   * @param timestamp Unix seconds, as in the request
   */
  reserve(agentDid: string, nonce: string, timestamp: number): Reservation | null {
    const name = `${agentDid} ${nonce}`;
    const now = this.clock.now();
    const used = this.#used.get(name);
    if (this.#held.has(name) || (used && isReplay(used, timestamp, now))) return null;
    this.#held.add(name);
    const record: NonceRecord = { expiresAt: rejectedUntil(timestamp, now), timestamp };
    return {
      nonce,
      record,
      now,
      release: (fate) => {
        this.#held.delete(name);
        // A replay shows only that the same request was made before, not when its nonce ends.
        if (fate !== "unused") this.#used.set(name, fate === "used" ? record : { expiresAt: 0, timestamp });
      },
    };
  }
}

/** Returns the update that stores a nonce in its own record; refuses the claim with `"replay"` when it was used. */
export function nonceUpdate(key: KvKey, { record, now }: Reservation): Update<"replay"> {
  return {
    key,
    seen: absent(key),
    uncached: true,
    next: (current) =>
      current && isReplay(current as NonceRecord, record.timestamp, now)
        ? { refuse: "replay" }
        : { value: record, expireInMs: nonceEnd(record) - now },
  };
}
