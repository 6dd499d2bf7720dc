/**
 * ULIDs (D-02) and request ids (D-11).
 * Nothing here reads a clock or makes entropy: both are handed to the factory.
 */
import { monotonicFactory } from "ulid";

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
const REQUEST_ID = /^[A-Za-z0-9._:-]{8,128}$/;

/** True for 26 characters of upper-case Crockford base32 that fit 128 bits. */
export function isUlid(value: unknown): value is string {
  return typeof value === "string" && ULID.test(value);
}

/** True for a request id that a client may choose itself. */
export function isRequestId(value: unknown): value is string {
  return typeof value === "string" && REQUEST_ID.test(value);
}

/** Random bytes drawn together: one by one they cost more than the rest of a ULID. */
const DRAWN = 256;

/** Gives a fresh ULID with each call. */
export type NewId = () => string;

/**
 * Makes a source of ULIDs that ascend within the process, also within a millisecond and when the clock steps back.
 *
 * @param now milliseconds since the Unix epoch
 * @param bytes `n` random bytes
 */
export function ulidSource(now: () => number, bytes: (n: number) => Uint8Array): NewId {
  let drawn = bytes(DRAWN), used = 0;
  const next = monotonicFactory(() => {
    if (used === DRAWN) [drawn, used] = [bytes(DRAWN), 0];
    return (drawn[used++] ?? 0) / 256;
  });
  // The library takes 0 for "not given" and would read the real clock.
  return () => next(Math.max(1, now()));
}
