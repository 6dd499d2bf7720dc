/**
 * The clock for timestamps of requests: this machine's time, corrected by a service's time once that service has
 * refused a timestamp. Timers use the machine's clock.
 */
import { type Cancel, type Clock, DAY_MS } from "../../shared/clock.ts";

/**
 * A larger difference is not corrected, because a relay could otherwise make the machine sign requests that are dated
 * far ahead.
 */
const OFFSET_MAX_MS = DAY_MS;
/** `Date` headers have a resolution of 1 s; a smaller offset is ignored. */
const NOTICEABLE_MS = 2_000;

export class ServiceClock implements Clock {
  /** Milliseconds that are added to the machine's time; 0 until `adopt()`. */
  offsetMs = 0;
  /** Milliseconds from the machine's time to the service time that was last seen; `null` before. */
  seenMs: number | null = null;

  /** @param onRefused called when a service's time is too far off to be used */
  constructor(private readonly machine: Clock, private readonly onRefused: (offsetMs: number) => void = () => {}) {}

  now(): number {
    return this.machine.now() + this.offsetMs;
  }

  uptime(): number {
    return this.machine.uptime();
  }

  after(ms: number, fn: () => void): Cancel {
    return this.machine.after(ms, fn);
  }

  /** Stores a service's time, from the `Date` header of a response. */
  see(date: string | null): void {
    const time = Date.parse(date ?? "");
    if (!Number.isNaN(time)) this.seenMs = time - this.machine.now();
  }

  /** Uses the service time that was last seen, if it is at most a day off. Returns true when the offset changes. */
  adopt(): boolean {
    if (this.seenMs === null) return false;
    const wanted = Math.abs(this.seenMs) < NOTICEABLE_MS ? 0 : this.seenMs;
    if (Math.abs(wanted) > OFFSET_MAX_MS) {
      this.onRefused(wanted);
      return false;
    }
    if (Math.abs(wanted - this.offsetMs) < NOTICEABLE_MS) return false;
    this.offsetMs = wanted;
    return true;
  }
}
