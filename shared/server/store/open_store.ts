/**
 * Opens the store: a file, memory, KV Connect or the database of a deployment. Callers use the interface of Deno KV;
 * its calls have deadlines and reject as store_errors.ts defines. Does not check the store's format.
 */
import { dirname } from "node:path";
import { type Clock, systemClock } from "../../clock.ts";
import type { NewId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Random } from "../../random.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { WriteWatch } from "../write_watch.ts";
import { wrapStoreErrors } from "./store_errors.ts";
import { lockFile, StoreRefused } from "./store_lock.ts";

export { StoreRefused } from "./store_lock.ts";

/** An open store. */
export interface Store {
  kv: Deno.Kv;
  /** Checks that one commit may hold; fewer over KV Connect (D-208). */
  maxChecks: number;
  /** Commits that one group commit may have in flight; several over a network (D-254). */
  commitsInFlight: number;
  /** How long a message relies on a record that its commit does not check, milliseconds; 0 without a network (D-255). */
  reliedMs: number;
  /** True unless the store is reached over the network: no other process has it open, and every earlier user has ended. */
  isExclusive: boolean;
  /** The writes of a store that no other process has open; else `null` (D-262). */
  writes: WriteWatch | null;
  close(): void;
}

/** What code that reads and writes records of a store needs (D-196). */
export interface StoreDeps {
  kv: Deno.Kv;
  clock: Clock;
  random: Random;
  newId: NewId;
  /** Counts commits; absent outside of a server. */
  metrics?: Metrics;
}

/**
 * Opens the store that `KV_URL` names: a file, `:memory:`, an `http(s)` KV Connect address, or with `null` the
 * database attached on Deno Deploy. Creates a missing file and its folder. `close()` releases the file's lock. The
 * deadlines of its calls are timers of `clock`.
 *
 * @throws {StoreRefused} when another process holds the file, or when it cannot be opened
 */
export async function openStore(url: string | null, clock: Clock = systemClock): Promise<Store> {
  if (url === null || /^https?:/.test(url)) {
    const kv = await (url === null ? Deno.openKv() : Deno.openKv(url)).catch((cause) => {
      const where = url === null ? "attached to this deployment" : `at ${new URL(url).origin}`;
      throw new StoreRefused(`Cannot open the store ${where}: ${cause instanceof Error ? cause.message : cause}`);
    });
    return toStore(kv, clock, LIMITS.commitChecksConnect, false, () => {});
  }
  if (url === ":memory:") return toStore(await Deno.openKv(url), clock, LIMITS.commitChecks, true, () => {});
  const unlock = await lockedFolder(url);
  try {
    await createPrivate(url);
    return toStore(await Deno.openKv(url), clock, LIMITS.commitChecks, true, unlock);
  } catch (error) {
    unlock();
    throw new StoreRefused(`Cannot open the store ${url}: ${error instanceof Error ? error.message : error}`);
  }
}

function toStore(kv: Deno.Kv, clock: Clock, maxChecks: number, isExclusive: boolean, unlock: () => void): Store {
  const writes = isExclusive ? new WriteWatch(kv) : null;
  wrapStoreErrors(kv, clock);
  return {
    kv,
    writes,
    maxChecks,
    commitsInFlight: isExclusive ? 1 : LIMITS.commitsInFlight,
    reliedMs: isExclusive ? 0 : LIMITS.reliedMs,
    isExclusive,
    close() {
      kv.close();
      unlock();
    },
  };
}

/** Creates the folder of a file if needed, and locks the file. Returns the release. @throws {StoreRefused} */
async function lockedFolder(url: string): Promise<() => void> {
  try {
    await Deno.mkdir(dirname(url), { recursive: true, mode: 0o700 });
    return await lockFile(`${url}.lock`);
  } catch (cause) {
    if (cause instanceof StoreRefused) throw cause;
    if (cause instanceof Deno.errors.AlreadyExists) throw new StoreRefused(`Cannot keep a store at ${url}: no folder`);
    const isForbidden = cause instanceof Deno.errors.NotCapable || cause instanceof Deno.errors.PermissionDenied;
    if (!isForbidden) throw new StoreRefused(`Cannot keep a store at ${url}: ${(cause as Error).message}`);
    throw new StoreRefused(
      `Cannot keep a store at ${url}: this process may not write there. Set KV_URL to a path where it may ` +
        `(deno task dev: below .data), or start it with permission to read and write that folder.`,
    );
  }
}

/** Creates the file readable by its owner only, before it holds an identity. */
async function createPrivate(path: string): Promise<void> {
  try {
    (await Deno.open(path, { write: true, createNew: true, mode: 0o600 })).close();
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}
