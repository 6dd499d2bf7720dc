/** Waits that double with each failed attempt. The waits of a connector's link are in cli/link/reconnect.ts. */

/** First wait before a repetition. With less, a proxy that refuses gets the same receipt or refresh again at once. */
export const RETRY_FIRST_MS = 1_000;
/** Longest wait before a repetition. With more, senders learn the outcome minutes after the proxy is back. */
export const RETRY_MAX_MS = 60_000;

/** Returns the milliseconds to wait after `attempts` failures. `askedMs` is the wait that the last answer asked for. */
export function retryWait(attempts: number, askedMs = 0): number {
  return Math.max(doubled(RETRY_FIRST_MS, attempts - 1, RETRY_MAX_MS), Math.min(askedMs, RETRY_MAX_MS));
}

/** Returns `first` doubled `times` times, but at most `max`. */
export function doubled(first: number, times: number, max: number): number {
  return Math.min(max, first * 2 ** Math.max(0, times));
}
