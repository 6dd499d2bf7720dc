/**
 * Counts over the store, for admins and metrics. All callers share one count, and counting takes about a hundredth of
 * the time, because a large store would otherwise be read all the time just for people who look.
 */
import type { Kv, KvEntry, KvKey } from "../kv.ts";
import { type Clock, yieldToEventLoop } from "../../clock.ts";

/** How long a count is used at least. With more, an overview is old; with less, each look of an admin counts again. */
const FRESH_MS = 10_000;
/**
 * A count is used for this many times as long as it took: after one second, for 100 s. With less, counting takes a
 * larger part of the time.
 */
const REST_TIMES = 100;
/** How long a count is used at most. With more, a stall of the store for 8 s would leave the numbers 13 minutes old. */
const REST_MAX_MS = 300_000;
/** Records of one part. With more, requests wait for the count; with less, the count takes much longer. */
const READ_TOGETHER = 500;
/** Most records of a count. With more, a count takes seconds and is minutes old. A count that stops here says so. */
export const COUNTED_MAX = 100_000;

export class SharedCount<T> {
  #last: Promise<T> | null = null;
  #endedAt = 0;
  /** How long the last count is used; `null` while a count is under way. */
  #restMs: number | null = null;

  constructor(private readonly clock: Clock, private readonly count: () => Promise<T>) {}

  /**
   * Returns the last count if it is new enough, or else a new one.
   *
   * @throws the error of the count; the next call counts again
   */
  current(): Promise<T> {
    const now = this.clock.now();
    const isOver = this.#restMs !== null && Math.abs(now - this.#endedAt) >= this.#restMs;
    if (this.#last !== null && !isOver) return this.#last;
    this.#restMs = null;
    return this.#last = this.#counted(now);
  }

  async #counted(beganAt: number): Promise<T> {
    try {
      const found = await this.count();
      this.#endedAt = this.clock.now();
      this.#restMs = Math.min(Math.max(FRESH_MS, (this.#endedAt - beganAt) * REST_TIMES), REST_MAX_MS);
      return found;
    } catch (error) {
      this.#last = null;
      throw error;
    }
  }
}

/**
 * Visits the records below a prefix, at most 100,000, in parts with a turn of the event loop between them.
 *
 * @returns false when there are more
 * @throws {StoreUnavailable}
 */
export async function visitAll<V>(
  kv: Kv,
  prefix: KvKey,
  visit: (entry: KvEntry<V>) => void,
): Promise<boolean> {
  let read = 0;
  for await (const entry of kv.list<V>({ prefix }, { batchSize: READ_TOGETHER })) {
    if (read === COUNTED_MAX) return false;
    visit(entry);
    if (++read % READ_TOGETHER === 0) await yieldToEventLoop();
  }
  return true;
}
