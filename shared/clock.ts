/** The system clock and all timers. Other code takes a `Clock` as a parameter, so that tests can move time. */

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** Stops a timer. It does nothing once the timer has fired. */
export type Cancel = () => void;

export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
  /** Milliseconds since a moment of this process. They never jump, unlike `now`, when someone sets the clock. */
  uptime(): number;
  /** Calls `fn` once, `ms` milliseconds from now or later, never earlier. */
  after(ms: number, fn: () => void): Cancel;
}

/** Longest wait that the platform's timers accept; a longer one would fire at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** The machine's clock. A pending timer keeps the process alive until it fires or is cancelled. */
export const systemClock: Clock = {
  now: () => Date.now(),
  uptime: () => performance.now(),
  after(ms, fn) {
    const left = ms - TIMER_MAX_MS;
    let cancel: Cancel = () => clearTimeout(timer);
    const timer = setTimeout(() => left > 0 ? cancel = systemClock.after(left, fn) : fn(), Math.min(ms, TIMER_MAX_MS));
    return () => cancel();
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

/**
 * Runs `work` after `waitMs()` milliseconds, and again as long after each run has ended, until the returned function is
 * called. `work` must never reject, because it would then not run again.
 */
export function repeat(clock: Pick<Clock, "after">, waitMs: () => number, work: () => Promise<void>): Cancel {
  let isOver = false, cancel: Cancel = () => {};
  const next = () => {
    if (!isOver) cancel = clock.after(waitMs(), () => void work().then(next));
  };
  next();
  return () => {
    isOver = true;
    cancel();
  };
}

/** Lets other work run. A long loop calls it, because it would otherwise block every request. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** Resolves when a promise is settled (true), or after `ms` (false). The promise itself goes on. */
export function settledWithin(clock: Pick<Clock, "after">, promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.after(ms, () => resolve(false));
    const finish = () => {
      cancel();
      resolve(true);
    };
    promise.then(finish, finish);
  });
}

/** Returns a function that tells how much of `ms` is left, even if someone sets the clock meanwhile. */
export function timeLeft(clock: Pick<Clock, "uptime">, ms: number): () => number {
  const end = clock.uptime() + ms;
  return () => Math.max(0, end - clock.uptime());
}
