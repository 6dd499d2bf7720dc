/** Waits that double with each failed attempt, and those of receipts. Pure. The waits of the link: cli/link/reconnect.ts. */

/** With less, a proxy that refuses gets the receipt again at once. */
export const RECEIPT_FIRST_MS = 1_000;
/** With more, senders learn the outcome minutes after the proxy is back. */
export const RECEIPT_MAX_MS = 60_000;

/** Milliseconds before a receipt is sent again, after `attempts` attempts. */
export function receiptWait(attempts: number): number {
  return doubled(RECEIPT_FIRST_MS, attempts - 1, RECEIPT_MAX_MS);
}

/** Returns `first`, doubled so many times, at most `max`. */
export function doubled(first: number, times: number, max: number): number {
  return Math.min(max, first * 2 ** Math.max(0, times));
}
