/** Waits before the next attempt of a connection (D-89), a hand-over (D-88) and a receipt. Pure. */
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";

/**
 * Milliseconds before the next connection: first 0 to 5 s at random, so that connectors that lost a proxy together do not
 * reconnect together; then 2 s doubling to 28 s, ± 20 %.
 *
 * @param failures consecutive attempts without a link
 * @param chance 0 up to 1
 */
export function reconnectWait(failures: number, chance: number): number {
  if (failures <= 0) return Math.round(chance * LIMIT.reconnectFirstMs);
  const wait = doubled(LIMIT.reconnectMs, failures - 1, LIMIT.reconnectMaxMs);
  return Math.round(wait * (1 + LIMIT.reconnectJitter * (2 * chance - 1)));
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
