/**
 * Nonces of signed requests, each of which may be used only once (D-25). The commit of a request stores its nonce and
 * detects an earlier use, even on another instance. It is stored only after the proof has verified, because a stranger
 * could otherwise use up an agent's nonces. The registry stores each nonce in a record of its own, the proxy stores it in
 * the record of its sender.
 */
import type { KvKey } from "./kv.ts";
import { LIMITS } from "../protocol/limits.ts";
import { absent, type Update } from "./store/batch.ts";

export interface NonceRecord {
  /** Milliseconds since the Unix epoch. */
  expiresAt: number;
  /** `X-Svc-Timestamp` of the request that used it, Unix seconds. */
  timestamp: number;
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
 * Returns when a record may be deleted, milliseconds since the Unix epoch. That is later than its end, because a clock
 * may be set back until then.
 */
export function nonceEnd({ expiresAt }: NonceRecord): number {
  return expiresAt + LIMITS.nonceKeptSeconds * 1000;
}

/**
 * Returns the update that uses up a nonce. It refuses with `"replay"` until the end of the nonce's record. A request with
 * the timestamp of that record is refused even later, because the clock may have been set back.
 *
 * @param timestamp Unix seconds, as in the request
 */
export function nonceUpdate(key: KvKey, timestamp: number, now: number): Update<"replay"> {
  const record: NonceRecord = { expiresAt: rejectedUntil(timestamp, now), timestamp };
  return {
    key,
    seen: absent(key),
    uncached: true,
    next: (current) => {
      const used = current as NonceRecord | null;
      const isReplay = used !== null && (now < used.expiresAt || used.timestamp === timestamp);
      return isReplay ? { refuse: "replay" } : { value: record, expireInMs: nonceEnd(record) - now };
    },
  };
}
