/**
 * Sends stored items to the proxy until it has them: receipts and replies of the runtime. Decides when and how many at a
 * time; a subclass sends and stores.
 */
import type { Cancel, Clock } from "../../../shared/clock.ts";
import { CLIENT_LIMITS } from "../../../shared/client/limits.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import type { EmitEvent } from "../events.ts";

/** The items that wait; times are milliseconds since the Unix epoch. */
export interface SendingQueue<T> {
  /** The items that are due, in their order. `latest`: a later time comes from a clock that was set back and is due. */
  due(now: number, latest: number): T[];
  /** Time when the next item is due; `null` when none waits. */
  nextAt(): number | null;
  makeAllDue(now: number): void;
}

interface LoopDeps<T> {
  clock: Clock;
  tell: EmitEvent;
  queue: SendingQueue<T>;
  /** Items that are sent at a time. */
  atOnce: number;
}

export abstract class SendingLoop<T> {
  readonly #deps: LoopDeps<T>;
  #cancel: Cancel = () => {};
  #sending: Promise<void> | null = null;
  #again = false;
  #stopped = false;

  constructor(deps: LoopDeps<T>) {
    this.#deps = deps;
  }

  /** Sends an item and stores the result. Returns the milliseconds to wait before the next item; 0: none. */
  protected abstract send(item: T): Promise<number>;

  /** Called before each run. */
  protected prepare(): void {}

  /** Sends the items that are due, and schedules the next run. */
  wake(): void {
    this.#cancel();
    if (this.#stopped) return;
    if (this.#sending) {
      this.#again = true;
      return;
    }
    this.#sending = this.#sendDue().catch((error) => {
      this.#deps.tell("store_failed", { why: describeError(error) });
      return CLIENT_LIMITS.receiptFirstMs;
    }).then((leastWait) => {
      this.#sending = null;
      this.#later(leastWait);
    });
  }

  /** Makes every item due and sends them, after the proxy has come back. */
  sendAllNow(): void {
    const { queue, clock, tell } = this.#deps;
    try {
      queue.makeAllDue(clock.now());
    } catch (error) {
      tell("store_failed", { why: describeError(error) });
    }
    this.wake();
  }

  /** Sends for up to `ms`, then stops. The rest is sent after the next start. */
  async stop(ms: number): Promise<void> {
    const patience = Promise.withResolvers<void>();
    const cancel = this.#deps.clock.after(ms, patience.resolve);
    this.wake();
    await Promise.race([this.#sending, patience.promise]);
    this.#stopped = true;
    cancel();
    this.#cancel();
  }

  #later(leastWait: number): void {
    if (this.#stopped) return;
    if (this.#again && leastWait === 0) {
      this.#again = false;
      return this.wake();
    }
    this.#again = false;
    const { clock, queue } = this.#deps;
    const next = queue.nextAt();
    if (next === null) return;
    const wait = Math.min(Math.max(next - clock.now(), leastWait), CLIENT_LIMITS.receiptMaxMs);
    this.#cancel = clock.after(wait, () => this.wake());
  }

  /** @returns milliseconds to wait before the next request, when the proxy does not answer or asks for a pause */
  async #sendDue(): Promise<number> {
    const { clock, queue, atOnce } = this.#deps;
    this.prepare();
    while (!this.#stopped) {
      const now = clock.now();
      const due = queue.due(now, now + CLIENT_LIMITS.receiptMaxMs);
      if (due.length === 0) return 0;
      for (let i = 0; i < due.length && !this.#stopped; i += atOnce) {
        const waits = await Promise.all(due.slice(i, i + atOnce).map((item) => this.send(item)));
        const wait = Math.max(...waits);
        if (wait > 0) return wait;
      }
    }
    return 0;
  }
}
