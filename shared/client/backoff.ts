/** Waits before the next attempt of a connection (D-89) and a receipt. Pure. */
import { CLIENT_LIMITS as LIMIT } from "./limits.ts";

/** The share by which a wait between connections varies at random (D-89). */
const JITTER = 0.2;

/**
 * Milliseconds before the next connection: first a random wait, so that connectors that lost a proxy together do not
 * reconnect together; then a wait that doubles with each failure.
 *
 * @param failures consecutive attempts without a link
 * @param chance 0 up to 1
 */
export function reconnectWait(failures: number, chance: number): number {
  if (failures <= 0) return Math.round(chance * LIMIT.reconnectFirstMaxMs);
  const wait = doubled(LIMIT.reconnectStartMs, failures - 1, LIMIT.reconnectMaxMs);
  return Math.round(wait * (1 + JITTER * (2 * chance - 1)));
}

/** Milliseconds before a receipt is sent again, after `attempts` attempts. */
export function receiptWait(attempts: number): number {
  return doubled(LIMIT.receiptFirstMs, attempts - 1, LIMIT.receiptMaxMs);
}

/** Returns `first`, doubled so many times, at most `max`. */
export function doubled(first: number, times: number, max: number): number {
  return Math.min(max, first * 2 ** Math.max(0, times));
}
