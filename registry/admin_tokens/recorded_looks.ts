/**
 * Which API keys got an admin token lately. A look at the relay is recorded once an hour for each key, because an
 * overview that is repeated every 5 s would otherwise fill the audit log with 17,280 events a day that change nothing.
 */
import { BoundedMap } from "../../shared/bounded_map.ts";
import type { Clock } from "../../shared/clock.ts";

const RECORDED_EVERY_MS = 3_600_000;
/** A key that is forgotten is recorded once more than needed. */
const REMEMBERED_MAX = 10_000;

export class Looks {
  /** When each key was recorded, milliseconds since the Unix epoch. */
  readonly #recorded = new BoundedMap<string, number>(REMEMBERED_MAX);

  constructor(private readonly clock: Clock) {}

  /** Calls `write` unless the key was recorded less than an hour ago. @throws the error of `write`, and forgets the key */
  async record(keyId: string, write: () => Promise<void>): Promise<void> {
    const now = this.clock.now();
    const last = this.#recorded.get(keyId);
    if (last !== undefined && Math.abs(now - last) < RECORDED_EVERY_MS) return;
    this.#recorded.set(keyId, now);
    try {
      await write();
    } catch (error) {
      this.#recorded.delete(keyId);
      throw error;
    }
  }
}
