/** How long to wait before the next try: of a connection (D-89), a handover (D-88), a receipt. Pure. */
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";

/**
 * Milliseconds before the next connection: 0 to 5 s at random first, so that those who lost a proxy together do not come
 * back together; then 2 s doubling to 28 s, give or take a fifth.
 *
 * @param failures tries in a row that did not bring a link
 * @param chance 0 up to 1
 */
export function reconnectWait(failures: number, chance: number): number {
  if (failures <= 0) return Math.round(chance * LIMIT.reconnectFirstMs);
  const wait = doubled(LIMIT.reconnectMs, failures - 1, LIMIT.reconnectMaxMs);
  return Math.round(wait * (1 + LIMIT.reconnectJitter * (2 * chance - 1)));
}

/** Milliseconds before the next attempt at a message that was tried `attempts` times. */
export function handoverWait(attempts: number): number {
  return attempts < LIMIT.quickAttempts
    ? doubled(LIMIT.quickFirstMs, attempts - 1, LIMIT.quickMaxMs)
    : doubled(LIMIT.slowFirstMs, attempts - LIMIT.quickAttempts, LIMIT.slowMaxMs);
}

/** Milliseconds before a receipt that was tried `attempts` times is sent again. */
export function receiptWait(attempts: number): number {
  return doubled(LIMIT.receiptFirstMs, attempts - 1, LIMIT.receiptMaxMs);
}

function doubled(first: number, times: number, max: number): number {
  return Math.min(max, first * 2 ** Math.max(0, times));
}
