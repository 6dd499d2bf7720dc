/** Waits before the next attempt of a connection (D-89), a hand-over (D-88) and a receipt. Pure. */
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";

/** Waits between connections (D-89): milliseconds, and the share by which a wait varies at random. */
const RECONNECT = { firstMaxMs: 5_000, startMs: 2_000, maxMs: 28_000, jitter: 0.2 } as const;

/**
 * Milliseconds before the next connection: first a random wait, so that connectors that lost a proxy together do not
 * reconnect together; then a wait that doubles with each failure.
 *
 * @param failures consecutive attempts without a link
 * @param chance 0 up to 1
 */
export function reconnectWait(failures: number, chance: number): number {
  if (failures <= 0) return Math.round(chance * RECONNECT.firstMaxMs);
  const wait = doubled(RECONNECT.startMs, failures - 1, RECONNECT.maxMs);
  return Math.round(wait * (1 + RECONNECT.jitter * (2 * chance - 1)));
}

/** Milliseconds before the next attempt at a message, after `attempts` attempts. */
export function handoverWait(attempts: number): number {
  return attempts < LIMIT.quickAttempts
    ? doubled(LIMIT.quickFirstMs, attempts - 1, LIMIT.quickMaxMs)
    : doubled(LIMIT.slowFirstMs, attempts - LIMIT.quickAttempts, LIMIT.slowMaxMs);
}

/** Milliseconds before a receipt is sent again, after `attempts` attempts. */
export function receiptWait(attempts: number): number {
  return doubled(LIMIT.receiptFirstMs, attempts - 1, LIMIT.receiptMaxMs);
}

function doubled(first: number, times: number, max: number): number {
  return Math.min(max, first * 2 ** Math.max(0, times));
}
