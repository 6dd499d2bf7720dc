/** Counts events by name, for what happens only some times in a minute. A minute of a name begins with its first event. */
import { BoundedMap } from "../../shared/bounded_map.ts";

const MINUTE_MS = 60_000;
/** Names that are counted at a time. Without a bound, invented senders would fill the memory. */
const COUNTED = 1_000;

export class MinuteCounts {
  readonly #counts = new BoundedMap<string, { since: number; count: number; before: number }>(COUNTED);

  /** Counts an event. Returns how many this minute has had, and how many the last one had. */
  add(name: string, now: number): { count: number; before: number } {
    const known = this.#counts.get(name);
    // A minute that begins in the future ends too, because it comes from a clock that was set back, and would suppress
    // receipts and reports until then.
    const isOver = known === undefined || Math.abs(now - known.since) >= MINUTE_MS;
    const minute = isOver ? { since: now, count: 1, before: known?.count ?? 0 } : { ...known, count: known.count + 1 };
    this.#counts.set(name, minute);
    return minute;
  }
}
