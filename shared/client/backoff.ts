/** Waits that double with each failed attempt. Pure. The waits of a connector's link are in cli/link/reconnect.ts. */

/** With less, a proxy that refuses gets a receipt, or a refresh, again at once. */
export const RETRY_FIRST_MS = 1_000;
/** With more, senders learn the outcome minutes after the proxy is back. */
export const RETRY_MAX_MS = 60_000;

/** Milliseconds before a request is sent again after `attempts` attempts; `askedMs`: what the answer asked for. */
export function retryWait(attempts: number, askedMs = 0): number {
  return Math.max(doubled(RETRY_FIRST_MS, attempts - 1, RETRY_MAX_MS), Math.min(askedMs, RETRY_MAX_MS));
}

/** Returns `first`, doubled so many times, at most `max`. */
export function doubled(first: number, times: number, max: number): number {
  return Math.min(max, first * 2 ** Math.max(0, times));
}
