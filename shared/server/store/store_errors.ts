/** Names the failures of the store, and repeats a call while another isolate holds the file's lock. */
import { type Clock, sleep, systemClock } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { fraction, type Random, systemRandom } from "../../random.ts";
import { withDeadline } from "./open_store.ts";
import { isCommitRefusal, isWrongKey, isWrongMutation } from "./store_arguments.ts";

/** Waits up to about two seconds for a lock. */
const LOCKED_TRIES = 64;

/** The store did not answer. Answered as 503, with the code that fits the place. */
export class StoreUnavailable extends Error {
  override name = "StoreUnavailable";
  constructor(cause: unknown) {
    super("The store cannot be reached", { cause });
  }
}

/**
 * Makes every failed call of the store reject with `StoreUnavailable`; a call with wrong arguments stays a `TypeError`.
 * A call without an answer is rejected after 10 s; it may still take effect later. A file that another isolate of this
 * process is just writing to is waited for: the store answers "database is locked" at once, and has then done nothing.
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

/** Calls again while another isolate holds the file's lock. */
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
