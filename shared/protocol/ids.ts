/**
 * ULIDs, whose order by time makes lists and cursors cheap, and request IDs, which follow a request through both
 * services and into the receipt. ULIDs rise within a process even when the clock is set back, because a list by ID
 * would otherwise miss entries.
 */
import { encodeTime, monotonicFactory } from "ulid";

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
const REQUEST_ID = /^[A-Za-z0-9._:-]{8,128}$/;

/** The form of a request ID in words. */
export const REQUEST_ID_FORM = "8 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'";

/** Tells whether a value is 26 characters of upper-case Crockford base32 that fit into 128 bits. */
export function isUlid(value: unknown): value is string {
  return typeof value === "string" && ULID.test(value);
}

/** Tells whether a value has the form of `REQUEST_ID_FORM`. Clients may choose their request IDs. */
export function isRequestId(value: unknown): value is string {
  return typeof value === "string" && REQUEST_ID.test(value);
}

/** Returns the smallest ULID of a time, which is given in milliseconds since the Unix epoch. */
export function firstUlidOf(ms: number): string {
  return encodeTime(Math.max(0, ms), 10) + "0".repeat(16);
}

/** Random bytes that are drawn at once, because drawing single bytes would cost more than the rest of a ULID. */
const DRAWN = 256;

export type NewId = () => string;

/**
 * Returns a source of ULIDs that rise within the process, even within a millisecond and when the clock is set back.
 *
 * @param now milliseconds since the Unix epoch
 * @param bytes returns `n` random bytes
 */
export function ulidSource(now: () => number, bytes: (n: number) => Uint8Array): NewId {
  let drawn = bytes(DRAWN), used = 0;
  const next = monotonicFactory(() => {
    if (used === DRAWN) [drawn, used] = [bytes(DRAWN), 0];
    return (drawn[used++] ?? 0) / 256;
  });
  // The time is at least 1, because for 0 the library would read the system clock.
  return () => next(Math.max(1, now()));
}
