/**
 * Deadlines and errors of store calls. Every call has a deadline (D-216), and rejects with `StoreUnavailable` unless
 * its arguments are wrong.
 */
import type { CommitOptions, Kv, KvListIterator } from "../kv.ts";
import { type Cancel, type Clock, sleep, systemClock } from "../../clock.ts";

/** Deadline of a call. With more, a client gives up first (30 s); with less, a slow disk counts as a fault. */
export const STORE_CALL_MS = 10_000;
/**
 * Deadline of a call while the store is away. With more, the calls of a request would, one after the other, take longer
 * than its client waits.
 */
export const STORE_AWAY_CALL_MS = 1_000;
/**
 * Most calls that are open while the store is away. With more, each request of an outage leaves behind a call, which
 * holds memory until the store is back.
 */
export const OPEN_CALLS_MAX = 1_000;

/**
 * How long a call waits for a locked file, which a program that copies the running store locks for moments. With more,
 * a request waits longer than the copy takes.
 */
const LOCKED_FOR_MS = 2_000;
/** Pause between two attempts on a locked file. With less, the attempts slow down the program for which they wait. */
const LOCKED_LOOK_MS = 50;
/** Time until a call without an answer is made again. With less, a slow disk gets the work twice. */
const AGAIN_MS = 500;

/** The store failed or did not answer. Handlers answer with 503 and the code of their service. */
export class StoreUnavailable extends Error {
  override name = "StoreUnavailable";
  constructor(cause: unknown, message = "The store cannot be reached") {
    super(message, { cause });
  }
}

/** The store works, but too many others change the same records, or wait. Another attempt in a moment may succeed. */
export class StoreBusy extends StoreUnavailable {
  override name = "StoreBusy";
  constructor(cause: unknown) {
    super(cause, "Too many others change the same records");
  }
}

/**
 * Returns the message for a store that is busy or whose disk is full, because its caller would otherwise be told that it
 * cannot be reached, and its operator would look for another fault.
 */
export function reasonText(error: unknown): { message?: string } {
  if (error instanceof StoreBusy) return { message: error.message };
  return isDiskFull(error) ? { message: "The disk of the server is full, so its operator must free some space" } : {};
}

function isDiskFull(error: unknown): boolean {
  return error instanceof Error && (error.message === "database or disk is full" || isDiskFull(error.cause));
}

/** The store did not answer in time. The call must not be tried again at once, because it may still take effect. */
export class StoreLate extends StoreUnavailable {}

/**
 * Changes the calls of an open store. A failed call rejects with `StoreUnavailable`; a call with wrong arguments still
 * rejects with the error of Deno. A call without an answer rejects with `StoreLate` after 10 s, and may still take
 * effect later.
 *
 * Deno repeats a call for as long as the store is gone, so the calls of a request would each wait, one after the other.
 * Until the store answers again, more calls are therefore rejected after 1 s, or at once while 1,000 are open. After a
 * late write this holds only for writes, because a store may answer reads and yet commit nothing. A call that meets a
 * locked file had no effect, so it is tried again for two seconds, unless what it relies on has changed.
 *
 * While sockets send pings without an end, Deno can hold back the answer of a call for as long as they do, although it
 * answers later calls. So a read without an answer is made again once a later call has one, and a commit without one asks
 * for its mark, because every other request would otherwise wait for them.
 */
export function wrapStoreErrors(kv: Kv, clock: Clock = systemClock): void {
  const calls = new OpenCalls(clock);
  const guarded = <R>(kind: CallKind, call: () => Promise<R>, how: Guarding<R> = {}): Promise<R> => {
    const until = clock.now() + LOCKED_FOR_MS;
    const attempt = (): Promise<R> =>
      calls.run(kind, call, how.again).catch(async (error) => {
        if (error instanceof StoreUnavailable) throw error;
        // SQLite itself has waited for five seconds, except where waiting would not have helped it.
        if (isLocked(error) && clock.now() < until) {
          await sleep(clock, LOCKED_LOOK_MS);
          if (how.mayRepeat?.() === false) throw new StoreBusy(error);
          return await attempt();
        }
        throw isWrongCall(error) ? error : new StoreUnavailable(error);
      });
    return attempt();
  };
  const reading = <A extends unknown[], R>(read: (...args: A) => Promise<R>) => (...args: A) => {
    const call = () => read(...args);
    return guarded("read", call, { again: call });
  };
  const { list, atomic } = kv;
  const get = kv.get.bind(kv), getMany = kv.getMany.bind(kv);
  const set = kv.set.bind(kv), remove = kv.delete.bind(kv);
  kv.get = reading(get) as typeof kv.get;
  kv.getMany = reading(getMany) as typeof kv.getMany;
  kv.set = (...args) => guarded("write", () => set(...args));
  kv.delete = (key) => guarded("write", () => remove(key));
  kv.list = (selector, options) => {
    const entries = list.call(kv, selector, options);
    const next = entries.next.bind(entries);
    entries.next = () => guarded("read", next);
    return entries as KvListIterator<never>;
  };
  kv.atomic = () => {
    const operation = atomic.call(kv);
    const commit = operation.commit.bind(operation);
    operation.commit = (how) =>
      guarded("write", () => commit(how), {
        mayRepeat: how?.mayRepeat,
        async again() {
          const mark = how?.mark, found = mark && await get(mark.key);
          // The versionstamp of the mark is that of its commit.
          return mark && found?.value === mark.number ? { ok: true, versionstamp: found.versionstamp as string } : null;
        },
      });
    return operation;
  };
}

/** How Deno refuses arguments before it asks the store, and how a server of KV Connect refuses the number of checks. */
const REFUSALS = [
  /^(?:Value|Key|Total (?:key|mutation) size) too large/,
  /^key cannot be empty|^expected string, number, bigint|^expireIn must be/,
  /^Too many (?:checks|mutations)|: Too many checks included in atomic write\.$/,
];

/**
 * Tells whether this program is at fault. Only the message shows it, because a failing store throws `TypeError` too.
 */
function isWrongCall(error: unknown): boolean {
  return error instanceof Error && REFUSALS.some((refusal) => refusal.test(error.message));
}

/** Tells whether another program has locked the file, so that the call had no effect. */
function isLocked(error: unknown): boolean {
  return error instanceof TypeError && error.message === "database is locked";
}

type CallKind = "read" | "write";

interface Guarding<R> extends Pick<CommitOptions, "mayRepeat"> {
  /** Another way to the result while the answer is missing; `null` when it has none. */
  again?: () => Promise<R | null>;
}

/** The calls without an answer. Deno repeats a call over the network for as long as its server is gone. */
class OpenCalls {
  #open = 0;
  /**
   * True after a late read, until the store answers any call. `#writesAreLate` is the same for a late write, until an
   * answer to a write.
   */
  #readsAreLate = false;
  #writesAreLate = false;
  /** Numbers of the last call, and of the newest one that was answered. */
  #calls = 0;
  #newestAnswered = 0;

  constructor(private readonly clock: Clock) {}

  /**
   * Runs a call.
   *
   * @throws {StoreUnavailable} when it is late, or when too many calls are open while the store is away
   */
  async run<R>(kind: CallKind, call: () => Promise<R>, again: (() => Promise<R | null>) | undefined): Promise<R> {
    const isAway = this.#readsAreLate || kind === "write" && this.#writesAreLate;
    if (isAway && this.#open >= OPEN_CALLS_MAX) {
      throw new StoreUnavailable(new Error(`${this.#open} calls have no answer`));
    }
    let isOpen = true;
    const number = ++this.#calls;
    const closed = () => {
      isOpen = this.#readsAreLate = false;
      this.#newestAnswered = Math.max(this.#newestAnswered, number);
      if (kind === "write") this.#writesAreLate = false;
      this.#open--;
    };
    this.#open++;
    try {
      return await withDeadline(this.clock, isAway ? STORE_AWAY_CALL_MS : STORE_CALL_MS, () => {
        const result = Promise.try(call);
        result.then(closed, closed);
        return result;
        // A slow store answers in order, and would be slower still if it got each read twice.
      }, again && (async () => kind === "write" || this.#newestAnswered > number ? await again() : null));
    } catch (error) {
      if (isOpen && kind === "write") this.#writesAreLate = true;
      else if (isOpen) this.#readsAreLate = true;
      throw error;
    }
  }
}

/**
 * Runs a call that must settle within `ms` milliseconds. A late call is not cancelled.
 *
 * @param again another way to the result, tried after 0.5 s, 1.5 s and so on; `null` when it has none
 * @throws {StoreLate} when the call is late
 */
export function withDeadline<T>(
  clock: Clock,
  ms: number,
  run: () => Promise<T>,
  again?: () => Promise<T | null>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let cancel: Cancel;
    const wait = (left: number, step: number) => {
      cancel = clock.after(Math.min(left, step), () => {
        if (left <= step) return reject(new StoreLate(new Error(`No answer within ${ms} ms`)));
        wait(left - step, 2 * step);
        again?.().then((result) => {
          if (result === null) return;
          cancel();
          resolve(result);
        }).catch(() => {});
      });
    };
    wait(ms, again ? AGAIN_MS : ms);
    run().then((value) => {
      cancel();
      resolve(value);
    }, (error) => {
      cancel();
      reject(error);
    });
  });
}
