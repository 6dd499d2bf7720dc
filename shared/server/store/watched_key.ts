/**
 * Runs a handler when one key of the store changes: by a watch, and by a poll every 2 s in case the watch missed a
 * change. Runs never overlap, because two runs would handle one change twice. Does not know what the key means.
 */
import type { Kv, KvKey } from "../kv.ts";
import type { Clock } from "../../clock.ts";
import type { Log } from "../log.ts";

/** With more, a change that the watch missed is seen later; with less, idle instances read all the time. */
export const LOOK_MS = 2_000;

interface WatchedKeyOptions {
  key: KvKey;
  /** Reads what has changed. An error is logged, and the next run reads the same again. */
  handler: () => Promise<void>;
  /**
   * Gets each value as soon as the watch reports the value, but not the first one of a watch, because a watch that
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
  /** True after `stop()`: a handler that still runs has no more effect, because what it acts on has stopped too. */
  isStopped = false;

  constructor(
    private readonly deps: { kv: Kv; clock: Clock; log: Log },
    private readonly options: WatchedKeyOptions,
  ) {}

  /** Starts the watch and the polls. A watch that has ended starts again at the next poll. */
  start(): void {
    void this.#watch();
    this.#pollLater();
  }

  stop(): void {
    this.isStopped = true;
    this.#cancelPoll();
    this.#reader?.cancel().catch(() => {});
  }

  /** Runs the handler, or joins the run in progress. Never rejects. */
  poll(): Promise<void> {
    this.#running ??= this.options.handler()
      .catch((cause) => this.deps.log("warn", this.options.failureEvents.poll, { cause }))
      .finally(() => this.#running = null);
    return this.#running;
  }

  /**
   * Runs the handler after a known change. A run in progress may already have read past the change, so another run
   * follows, which all callers that wait share.
   */
  async onChange(): Promise<void> {
    await this.#running;
    await this.poll();
  }

  #pollLater(): void {
    this.#cancelPoll = this.deps.clock.after(LOOK_MS, async () => {
      await this.poll();
      if (this.isStopped) return;
      if (!this.#reader) void this.#watch();
      this.#pollLater();
    });
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
