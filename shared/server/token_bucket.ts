/** Limits a rate over time. The caller passes the time. */

/**
 * Seconds whose share may be taken at once. A server that was late gets everything that arrived meanwhile in one
 * moment, so with less it would take its own delay for a burst of the sender.
 */
const BURST_SECONDS = 10;

export class TokenBucket {
  #left: number;
  #at = -Infinity;

  /**
   * @param perSecond how much may be taken in a second, in any unit
   * @param burstSeconds how many seconds' share may be taken at once
   */
  constructor(private readonly perSecond: number, private readonly burstSeconds = BURST_SECONDS) {
    this.#left = perSecond * burstSeconds;
  }

  /** Milliseconds from the last `take` until this amount can be taken. */
  waitMs(amount: number): number {
    return Math.max(0, (amount - this.#left) / this.perSecond * 1000);
  }

  /** Takes an amount at `now`, in milliseconds. If less is left, it returns false and takes nothing. */
  take(amount: number, now: number): boolean {
    // A clock that was set back gives nothing and takes nothing away.
    if (now > this.#at) {
      const gained = Math.min(this.burstSeconds, (now - this.#at) / 1000) * this.perSecond;
      this.#left = Math.min(this.perSecond * this.burstSeconds, this.#left + gained);
    }
    this.#at = now;
    if (this.#left < amount) return false;
    this.#left -= amount;
    return true;
  }
}
