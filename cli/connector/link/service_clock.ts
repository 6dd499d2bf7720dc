/**
 * The clock that requests are dated by: this machine's, and once a service complained, put right by what the service
 * itself said it was (D-89). Timers are the machine's.
 */
import type { Cancel, Clock } from "../../../shared/clock.ts";

/** `Date` headers have seconds; less than this is no offset. */
const NOTICEABLE_MS = 2_000;

export class ServiceClock implements Clock {
  readonly #machine: Clock;
  #offsetMs = 0;
  #seenMs: number | null = null;

  constructor(machine: Clock) {
    this.#machine = machine;
  }

  now(): number {
    return this.#machine.now() + this.#offsetMs;
  }

  after(ms: number, fn: () => void): Cancel {
    return this.#machine.after(ms, fn);
  }

  /** What is added to the machine's time; 0 unless a service complained. */
  get offsetMs(): number {
    return this.#offsetMs;
  }

  /** Notes a service's time, the `Date` header of an answer. */
  see(date: string | null): void {
    const time = Date.parse(date ?? "");
    if (!Number.isNaN(time)) this.#seenMs = time - this.#machine.now();
  }

  /** Takes over the time that was last seen; true when that changes anything. */
  adopt(): boolean {
    if (this.#seenMs === null) return false;
    const wanted = Math.abs(this.#seenMs) < NOTICEABLE_MS ? 0 : this.#seenMs;
    if (Math.abs(wanted - this.#offsetMs) < NOTICEABLE_MS) return false;
    this.#offsetMs = wanted;
    return true;
  }
}
