/**
 * The only clock and the only timers. Everything else gets a `Clock` handed in, so that tests can move time.
 */

/** Stops a timer; does nothing once it has fired. */
export type Cancel = () => void;

/** Time as the services see it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Calls `fn` once after `ms` milliseconds. */
  after(ms: number, fn: () => void): Cancel;
}

/** The machine's clock. Its timers do not keep a finished program alive only when cancelled. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, fn) {
    const timer = setTimeout(fn, ms);
    return () => clearTimeout(timer);
  },
};

/** Resolves after `ms` milliseconds, or at once when `signal` aborts. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = () => {
      cancel();
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const cancel = clock.after(ms, finish);
    signal?.addEventListener("abort", finish);
  });
}

/** Lets everybody else have a turn, in the middle of work that would hold them up too long in one go. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
