/**
 * Deadlines and errors of store calls. Every call has a deadline (D-216) and rejects with `StoreUnavailable` unless its
 * arguments are wrong (D-220). Calls are retried while another isolate holds the file's lock.
 */
import { type Clock, sleep, systemClock } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { fraction, type Random, systemRandom } from "../../random.ts";
import { isCommitRefusal, isWrongKey, isWrongMutation } from "./store_arguments.ts";

/** About 2 s of waiting for a lock. */
const LOCKED_TRIES = 64;

/** The store failed or did not respond. Handlers respond with 503 and the code of their service. */
export class StoreUnavailable extends Error {
  override name = "StoreUnavailable";
  constructor(cause: unknown) {
    super("The store cannot be reached", { cause });
  }
}

/**
 * Wraps the calls of a store in place. A failed call rejects with `StoreUnavailable`; a call with wrong arguments still
 * rejects with a `TypeError`. A call without a response is rejected after 10 s and may still take effect later. A call
 * that fails with "database is locked" has changed nothing and is retried.
 */
export function wrapStoreErrors(kv: Deno.Kv, deps = { clock: systemClock, random: systemRandom }): void {
  const guard =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>, isWrong?: (...args: A) => boolean) =>
    (...args: A): Promise<R> =>
      withDeadline(deps.clock, LIMITS.storeCallMs, (isOver) => retryWhileLocked(deps, () => call(...args), isOver))
        .catch((error) => {
          if (error instanceof StoreUnavailable) throw error;
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

/** Retries a call while another isolate holds the file's lock, at most 64 times. Rejects with the error of the call. */
export async function retryWhileLocked<R>(
  deps: { clock: Clock; random: Random },
  call: () => Promise<R>,
  isOver = () => false,
): Promise<R> {
  for (let tries = 1;; tries++) {
    try {
      return await call();
    } catch (error) {
      if (!isLocked(error) || tries >= LOCKED_TRIES || isOver()) throw error;
      await sleep(deps.clock, fraction(deps.random) * Math.min(2 ** tries, 64));
    }
  }
}

function isLocked(error: unknown): boolean {
  return error instanceof Error && /database (?:table )?is locked/.test(error.message);
}

/**
 * Runs a call that must settle within `ms` milliseconds. A late call is not cancelled; `isOver` then returns true, so
 * that the call is not repeated.
 *
 * @throws {StoreUnavailable} when the call is late
 */
export function withDeadline<T>(clock: Clock, ms: number, run: (isOver: () => boolean) => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    let over = false;
    const cancel = clock.after(ms, () => {
      over = true;
      reject(new StoreUnavailable(new Error(`No answer within ${ms} ms`)));
    });
    run(() => over).then(resolve, reject).finally(cancel);
  });
}
