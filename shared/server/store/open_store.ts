/**
 * Opens the store and names its failures. The store is Deno KV itself: nothing here hides its interface. Every call has
 * a deadline (D-216), and everything that a call rejects with is `StoreUnavailable` unless its arguments are wrong
 * (D-220). Also optimistic changes, and the shortening of key parts that users choose.
 */
import { dirname } from "node:path";
import { type Clock, sleep, systemClock } from "../../clock.ts";
import { fraction, type Random, systemRandom } from "../../random.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { digest } from "../crypto.ts";
import { isCommitRefusal, isWrongKey, isWrongMutation } from "../store_arguments.ts";
import { lockFile, StoreRefused } from "../store_lock.ts";

export { StoreRefused } from "../store_lock.ts";

/** Waits up to about two seconds for a lock. */
const LOCKED_TRIES = 64;

/** The store did not answer. Answered as 503, with the code that fits the place. */
export class StoreUnavailable extends Error {
  override name = "StoreUnavailable";
  constructor(cause: unknown) {
    super("The store cannot be reached", { cause });
  }
}

/** An open store. */
export interface Store {
  kv: Deno.Kv;
  /** Checks that one commit may hold: fewer over KV Connect. */
  maxChecks: number;
  /** True for a file that nobody else has open: whoever used it before is gone. */
  isExclusive: boolean;
  close(): void;
}

/**
 * Opens the store that `KV_URL` names: a file, `:memory:`, an `http(s)` KV Connect address, or with `null` the
 * database attached on Deno Deploy.
 *
 * @throws {StoreRefused} when another process holds the file
 */
export async function openStore(url: string | null): Promise<Store> {
  if (url === null || /^https?:/.test(url)) {
    const kv = await (url === null ? Deno.openKv() : Deno.openKv(url)).catch((cause) => {
      const where = url === null ? "attached to this deployment" : `at ${new URL(url).origin}`;
      throw new StoreRefused(`Cannot open the store ${where}: ${cause instanceof Error ? cause.message : cause}`);
    });
    return toStore(kv, LIMITS.commitChecksConnect, false, () => {});
  }
  if (url === ":memory:") return toStore(await Deno.openKv(url), LIMITS.commitChecks, true, () => {});
  try {
    await Deno.mkdir(dirname(url), { recursive: true, mode: 0o700 });
  } catch (cause) {
    if (cause instanceof Deno.errors.AlreadyExists) throw new StoreRefused(`Cannot keep a store at ${url}: no folder`);
    if (!(cause instanceof Deno.errors.NotCapable || cause instanceof Deno.errors.PermissionDenied)) throw cause;
    throw new StoreRefused(
      `Cannot keep a store at ${url}: this process may not write there. Set KV_URL to a path where it may ` +
        `(deno task dev: below .data), or start it with leave to read and write that folder.`,
    );
  }
  const { isSole: isExclusive, unlock } = await lockFile(systemClock, `${url}.lock`);
  try {
    await createPrivate(url);
    const deps = { clock: systemClock, random: systemRandom };
    return toStore(await retryWhileLocked(deps, () => Deno.openKv(url)), LIMITS.commitChecks, isExclusive, unlock);
  } catch (error) {
    unlock();
    throw new StoreRefused(`Cannot open the store ${url}: ${error instanceof Error ? error.message : error}`);
  }
}

function toStore(kv: Deno.Kv, maxChecks: number, isExclusive: boolean, unlock: () => void): Store {
  wrapStoreErrors(kv);
  return {
    kv,
    maxChecks,
    isExclusive,
    close() {
      kv.close();
      unlock();
    },
  };
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

/**
 * Runs a call that must settle within `ms` milliseconds. A late call cannot be cancelled: it goes on, and `isOver` stops
 * it from being repeated.
 *
 * @throws {StoreUnavailable} when it is late
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

/** One try of an optimistic change: the operation to commit, and what the change results in. */
export interface CommitAttempt<T> {
  operation: Deno.AtomicOperation;
  result: T;
}

/**
 * Repeats a change until its commit meets no other: read, judge, commit, at most ten times, with a pause that grows.
 *
 * @param attempt reads anew and judges; what it throws ends the change
 * @throws {StoreUnavailable} when the records stay contended
 */
export async function commitOptimistically<T>(
  deps: { clock: Clock; random: Random },
  attempt: () => CommitAttempt<T> | Promise<CommitAttempt<T>>,
): Promise<T> {
  for (let tries = 1; tries <= LIMITS.commitRetries; tries++) {
    if (tries > 2) await sleep(deps.clock, fraction(deps.random) * 2 ** tries);
    const { operation, result } = await attempt();
    if ((await operation.commit()).ok) return result;
  }
  throw new StoreUnavailable(new Error("The records stayed contended"));
}

/** Calls again while another isolate holds the file's lock. */
async function retryWhileLocked<R>(
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

/** A key part made from a text that a user chose: fixed length, no meaning of its own. */
export function hashKeyPart(text: string): string {
  return digest(text);
}

/** The file holds identities: nobody but the owner reads it, from its first byte on. */
async function createPrivate(path: string): Promise<void> {
  try {
    (await Deno.open(path, { write: true, createNew: true, mode: 0o600 })).close();
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}
