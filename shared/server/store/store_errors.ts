/**
 * Deadlines and errors of store calls. Every call has a deadline (D-216) and rejects with `StoreUnavailable` unless its
 * arguments are wrong (D-220).
 */
import { type Clock, systemClock } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { isCommitRefusal, isRefusedByServer, isWrongKey, isWrongMutation } from "./store_arguments.ts";

/** The store failed or did not respond. Handlers respond with 503 and the code of their service. */
export class StoreUnavailable extends Error {
  override name = "StoreUnavailable";
  constructor(cause: unknown) {
    super("The store cannot be reached", { cause });
  }
}

/**
 * Wraps the calls of a store in place. A failed call rejects with `StoreUnavailable`; a call with wrong arguments still
 * rejects with a `TypeError`. A call without a response is rejected after 10 s and may still take effect later. Until the
 * store responds again, further calls are rejected after 1 s, or at once while 1,000 are open (D-270).
 */
export function wrapStoreErrors(kv: Deno.Kv, clock: Clock = systemClock): void {
  const calls = new OpenCalls(clock);
  const guard =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>, isWrong?: (...args: A) => boolean) =>
    (...args: A): Promise<R> =>
      calls.run(() => call(...args))
        .catch((error) => {
          if (error instanceof StoreUnavailable) throw error;
          if (isRefusedByServer(error)) throw new TypeError(error.message, { cause: error });
          const isDefect = error instanceof TypeError && (isWrong ? isWrong(...args) : isCommitRefusal(error));
          throw isDefect ? error : new StoreUnavailable(error);
        });
  const { list, atomic } = kv;
  kv.get = guard(kv.get.bind(kv), isWrongKey) as typeof kv.get;
  kv.getMany = guard(kv.getMany.bind(kv), (keys) => keys.some(isWrongKey)) as typeof kv.getMany;
  kv.set = guard(kv.set.bind(kv), (key, value, options) => isWrongMutation({ key, value, ...options }));
  kv.delete = guard(kv.delete.bind(kv), isWrongKey);
  kv.list = (selector, options) => {
    const entries = list.call(kv, selector, options);
    const keys = Object.values(selector).filter((key) => Array.isArray(key) && key.length > 0);
    entries.next = guard(entries.next.bind(entries), () => keys.some(isWrongKey));
    return entries as Deno.KvListIterator<never>;
  };
  kv.atomic = () => {
    const operation = atomic.call(kv);
    operation.commit = guard(operation.commit.bind(operation));
    return operation;
  };
}

/** The calls without a response. Deno repeats a call over the network for as long as its server is gone. */
class OpenCalls {
  readonly #clock: Clock;
  #open = 0;
  /** True from a call that is late until the store responds to any call. */
  #isAway = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs a call. @throws {StoreUnavailable} when it is late, or when too many are open while the store is away */
  async run<R>(call: () => Promise<R>): Promise<R> {
    if (this.#isAway && this.#open >= LIMITS.storeOpenCalls) {
      throw new StoreUnavailable(new Error(`${this.#open} calls have no answer`));
    }
    let isOpen = true;
    const closed = () => {
      isOpen = this.#isAway = false;
      this.#open--;
    };
    this.#open++;
    try {
      return await withDeadline(this.#clock, this.#isAway ? LIMITS.storeAwayCallMs : LIMITS.storeCallMs, () => {
        const result = Promise.try(call);
        result.then(closed, closed);
        return result;
      });
    } catch (error) {
      if (isOpen) this.#isAway = true;
      throw error;
    }
  }
}

/**
 * Runs a call that must settle within `ms` milliseconds. A late call is not cancelled.
 *
 * @throws {StoreUnavailable} when the call is late
 */
export function withDeadline<T>(clock: Clock, ms: number, run: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => {
      reject(new StoreUnavailable(new Error(`No answer within ${ms} ms`)));
    });
    run().then(resolve, reject).finally(cancel);
  });
}
