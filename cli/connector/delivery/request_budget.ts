/** Requests in a sliding window: how many are left, and when the next one may be made. In memory; the time is a parameter. */
export class RequestBudget {
  readonly #most: number;
  readonly #windowMs: number;
  #times: number[] = [];

  constructor(most: number, windowMs: number) {
    this.#most = most;
    this.#windowMs = windowMs;
  }

  /** Milliseconds until a request may be made; 0: now. */
  wait(now: number): number {
    // A later time comes from a clock that was set back.
    this.#times = this.#times.filter((time) => time <= now && now - time < this.#windowMs);
    const oldest = this.#times[this.#times.length - this.#most];
    return oldest === undefined ? 0 : oldest + this.#windowMs - now;
  }

  /** Counts a request. */
  take(now: number): void {
    this.#times.push(now);
  }
}
