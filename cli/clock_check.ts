/**
 * Compares the clock of this machine with the `Date` header of the services' responses, because a wrong clock makes
 * signed requests fail with errors that do not name the cause.
 */
import type { Clock } from "../shared/clock.ts";
import { LIMITS } from "../shared/protocol/limits.ts";
import { toIso } from "../shared/protocol/time.ts";

export class ClockCheck {
  #seen: { service: number; here: number } | null = null;

  constructor(private readonly clock: Clock) {}

  see(headers: Headers): void {
    const service = Date.parse(headers.get("Date") ?? "");
    if (!Number.isNaN(service)) this.#seen = { service, here: this.clock.now() };
  }

  /** The offset of the clock as text; `null` when it is within the allowed skew, or no response had a `Date`. */
  complaint(): string | null {
    if (this.#seen === null) return null;
    const { service, here } = this.#seen;
    const seconds = Math.round(Math.abs(here - service) / 1000);
    if (seconds <= LIMITS.timestampSkewSeconds) return null;
    const offset = `${Math.floor(seconds / 60)} min ${seconds % 60} s ${here > service ? "ahead" : "behind"}`;
    return `This machine's clock is ${offset}: it shows ${toIso(here)}, the service's ${toIso(service)}. ` +
      "Correct it; until then signed requests are refused";
  }
}
