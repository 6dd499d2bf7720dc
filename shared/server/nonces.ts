/**
 * Nonces of signed requests, each of which may be used only once (D-25). A nonce is reserved in memory while its
 * request is checked. The commit of the request stores it and detects an earlier use, even on another instance. It is
 * stored only after the proof has verified, because a stranger could otherwise use up an agent's nonces. The registry
 * stores each nonce in a record of its own, the proxy stores it in the record of its sender.
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
  /** Ends the reservation after the commit. A nonce that was used is remembered. */
  release(fate: "used" | "replayed" | "unused"): void;
}

/**
 * Returns until when a nonce is refused, milliseconds since the Unix epoch. It counts from the timestamp or the
 * arrival, whichever is later, because a request that is dated ahead is still fresh five minutes after its arrival.
 *
 * @param timestamp Unix seconds, as in the request
 */
export function rejectedUntil(timestamp: number, now: number): number {
  return Math.max((timestamp + LIMITS.nonceGraceSeconds) * 1000, now + LIMITS.nonceKeptSeconds * 1000);
}

/**
 * Tells whether the record still rejects a request. It always rejects one with the same timestamp, because the clock
 * may have been set back.
 */
export function isReplay(record: NonceRecord, timestamp: number, now: number): boolean {
  return now < record.expiresAt || record.timestamp === timestamp;
}

/**
 * Returns when a record may be deleted, milliseconds since the Unix epoch. That is later than its end, because a clock
 * may be set back until then.
 */
export function nonceEnd({ expiresAt }: NonceRecord): number {
  return expiresAt + LIMITS.nonceKeptSeconds * 1000;
}

/** Most used nonces that are remembered. With fewer, more replays cost a commit; with more, they take memory. */
const REMEMBERED = 20_000;

export class Nonces {
  readonly #held = new Set<string>();
  readonly #used = new BoundedMap<string, NonceRecord>(REMEMBERED);

  constructor(private readonly clock: Clock) {}

  /**
   * Returns a reservation, or `null` when the nonce is in use or is remembered as used.
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
        // A replay shows only that the same request was made before, but not when its nonce ends.
        if (fate !== "unused") this.#used.set(name, fate === "used" ? record : { expiresAt: 0, timestamp });
      },
    };
  }
}

/** Returns the update that stores a nonce in its own record. It refuses with `"replay"` if the nonce was used. */
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
