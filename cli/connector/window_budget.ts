/** How often something may happen in a sliding window: requests to a runtime, wake-ups of a model, questions. */
export class WindowBudget {
  #times: number[] = [];

  constructor(private readonly most: number, private readonly windowMs: number) {}

  /** Milliseconds until it may happen again; 0: now. */
  wait(now: number): number {
    // Times far in the future are dropped too, because they come from a clock that was set back and would block it.
    this.#times = this.#times.filter((time) => Math.abs(now - time) < this.windowMs);
    const oldest = this.#times[this.#times.length - this.most];
    return oldest === undefined ? 0 : oldest + this.windowMs - now;
  }

  /** Whether at most half of the window is used. */
  isHalfFree(now: number): boolean {
    return this.wait(now) === 0 && this.#times.length <= this.most / 2;
  }

  take(now: number): void {
    this.#times.push(now);
  }
}
