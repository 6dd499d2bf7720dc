/**
 * Runs a handler when one key of the store changes. It uses a watch, and a poll every 2 s in case the watch missed a
 * change. Runs never overlap, because two runs would handle one change twice.
 */
import type { Kv, KvKey } from "../kv.ts";
import { type Clock, repeat } from "../../clock.ts";
import type { Log } from "../log.ts";

/** Time between two polls. With more, a missed change is seen later; with less, idle instances read all the time. */
export const LOOK_MS = 2_000;

interface WatchedKeyOptions {
  key: KvKey;
  /** Reads what has changed. If it fails, the error is logged and the next run reads the same again. */
  handler: () => Promise<void>;
  /**
   * Gets each value as soon as the watch reports it. The first value of a watch is left out, because a watch that
   * begins again reports a value that was handled before.
   */
  onValue?: (value: unknown) => void;
  /** Names of the log events for a failed run and a failed watch. */
  failureEvents: { poll: string; watch: string };
}

export class WatchedKey {
  #running: Promise<void> | null = null;
  #reader: ReadableStreamDefaultReader<unknown> | null = null;
  #cancelPoll = () => {};
  /** True after `stop()`. A handler that still runs must have no effect, because what it acts on has stopped too. */
  isStopped = false;

  constructor(
    private readonly deps: { kv: Kv; clock: Clock; log: Log },
    private readonly options: WatchedKeyOptions,
  ) {}

  /** Starts the watch and the polls. A watch that has ended starts again at the next poll. */
  start(): void {
    void this.#watch();
    this.#cancelPoll = repeat(this.deps.clock, () => LOOK_MS, async () => {
      await this.poll();
      if (!this.isStopped && !this.#reader) void this.#watch();
    });
  }

  stop(): void {
    this.isStopped = true;
    this.#cancelPoll();
    this.#reader?.cancel().catch(() => {});
  }

  /** Runs the handler, or waits for the run that is under way. Never rejects. */
  poll(): Promise<void> {
    this.#running ??= this.options.handler()
      .catch((cause) => this.deps.log("warn", this.options.failureEvents.poll, { cause }))
      .finally(() => this.#running = null);
    return this.#running;
  }

  /**
   * Runs the handler after a known change. A run that is under way may already have read past the change, so another
   * run follows it. All callers that wait share that run.
   */
  async onChange(): Promise<void> {
    await this.#running;
    await this.poll();
  }

  async #watch(): Promise<void> {
    const { kv, log } = this.deps, { key, onValue, failureEvents } = this.options;
    try {
      const reader = this.#reader = kv.watch([key]).getReader();
      let isFirst = true;
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        const [changed] = read.value;
        if (changed?.versionstamp && !isFirst) onValue?.(changed.value);
        isFirst = false;
        void this.onChange();
      }
    } catch (cause) {
      if (!this.isStopped) log("warn", failureEvents.watch, { cause });
    } finally {
      this.#reader = null;
    }
  }
}
