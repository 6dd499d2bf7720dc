/**
 * Compares this machine's clock with the services', from the `Date` of their answers. A clock that is far off makes
 * signed requests fail for reasons that nobody guesses; so it is named.
 */
import type { Clock } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { toIso } from "../../shared/protocol/time.ts";

export class ClockCheck {
  readonly #clock: Clock;
  #seen: { service: number; here: number } | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Stores the time in the `Date` header of a service's response. */
  see(headers: Headers): void {
    const service = Date.parse(headers.get("Date") ?? "");
    if (!Number.isNaN(service)) this.#seen = { service, here: this.#clock.now() };
  }

  /** What is wrong with the clock; `null` when it is near enough, or no service told the time. */
  complaint(): string | null {
    if (this.#seen === null) return null;
    const { service, here } = this.#seen;
    const seconds = Math.round(Math.abs(here - service) / 1000);
    if (seconds <= LIMITS.timestampSkewSeconds) return null;
    const offset = `${Math.floor(seconds / 60)} min ${seconds % 60} s ${here > service ? "ahead" : "behind"}`;
    return `This machine's clock is ${offset}: it shows ${toIso(here)}, the service's ${toIso(service)}. ` +
      "Set it right; until then signed requests are refused";
  }
}
