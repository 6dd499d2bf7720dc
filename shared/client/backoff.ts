/**
 * Waits before the next attempt of a connection and a receipt. They are random and begin at the loss, because a
 * thousand connectors would otherwise come back in the same second. Pure.
 */

/** With less, connectors that lost a proxy together come back together; with more, messages wait for longer. */
export const RECONNECT_FIRST_MAX_MS = 5_000;
/** With less, a proxy that refuses gets the next tries at once. */
const RECONNECT_START_MS = 2_000;
/** With more, and the 20 % at random, agents are away for over half a minute after the proxy is back. */
const RECONNECT_MAX_MS = 28_000;
/** With less, a proxy that refuses gets the receipt again at once. */
export const RECEIPT_FIRST_MS = 1_000;
/** With more, senders learn the outcome minutes after the proxy is back. */
export const RECEIPT_MAX_MS = 60_000;
/** The share by which a wait between connections varies at random. */
const JITTER = 0.2;

/**
 * Milliseconds before the next connection: first a random wait, so that connectors that lost a proxy together do not
 * reconnect together; then a wait that doubles with each failure.
 *
 * @param failures consecutive attempts without a link
 * @param chance 0 up to 1
 * @param firstMaxMs longest first wait, milliseconds
 */
export function reconnectWait(failures: number, chance: number, firstMaxMs = RECONNECT_FIRST_MAX_MS): number {
  if (failures <= 0) return Math.round(chance * firstMaxMs);
  const wait = doubled(RECONNECT_START_MS, failures - 1, RECONNECT_MAX_MS);
  return Math.round(wait * (1 + JITTER * (2 * chance - 1)));
}

/** Milliseconds before a receipt is sent again, after `attempts` attempts. */
export function receiptWait(attempts: number): number {
  return doubled(RECEIPT_FIRST_MS, attempts - 1, RECEIPT_MAX_MS);
}

/** Returns `first`, doubled so many times, at most `max`. */
export function doubled(first: number, times: number, max: number): number {
  return Math.min(max, first * 2 ** Math.max(0, times));
}
