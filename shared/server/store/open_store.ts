/**
 * Opens the store: a file, memory, KV Connect, or the database of a deployment. It has the interface of Deno KV, but
 * each call has a deadline and rejects as store_errors.ts defines. The format of the store is checked elsewhere.
 */
import type { Kv } from "../kv.ts";
import { dirname } from "node:path";
import { type Clock, systemClock } from "../../clock.ts";
import type { NewId } from "../../protocol/ids.ts";
import { closeLocked } from "../../locked_file.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Random } from "../../random.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { processEnviron, StartRefused } from "../config_reader.ts";
import { WriteWatch } from "../write_watch.ts";
import { type DiskSpace, diskSpace, fileBytes } from "../machine.ts";
import { StoreUnavailable, wrapStoreErrors } from "./store_errors.ts";

/** The store is in use by another process, or cannot be opened. The message is for the operator. */
export class StoreRefused extends StartRefused {
  override name = "StoreRefused";
}

/** The disk of the store is full. */
class StoreFull extends StoreRefused {
  override readonly mayPass = true;
}

/**
 * Commits that run at a time over a network. With fewer, round trips limit the rate of messages; with more, the service
 * behind KV Connect answers later.
 */
export const COMMITS_IN_FLIGHT = 16;
/**
 * How long a message over a network relies on a record without a check. With more, a revocation takes effect later;
 * with 0, a message alone uses up the ten checks of a commit.
 */
export const RELIED_MS = 1_000;

export interface Store {
  kv: Kv;
  /** Where the store is, for messages: `at <path>`, or `attached to this deployment`. */
  place: string;
  /** Most checks of one commit. Deno KV rejects more, and KV Connect allows fewer. */
  maxChecks: number;
  /** Most commits that one group commit may run at a time; over a network it is more than one. */
  commitsInFlight: number;
  /**
   * How long a message relies on a record that its commit does not check, milliseconds; 0 without a network. Over a
   * network it is not 0, because a commit then has only ten checks, which a message alone would use up.
   */
  reliedMs: number;
  /** True unless the store is reached over a network: no other process has it open, and earlier ones have ended. */
  isExclusive: boolean;
  /** Sees the writes of a store that no other process has open; `null` for any other store. */
  writes: WriteWatch | null;
  /**
   * Tells whether the open file is no longer the one at its path. A second process may have opened the other file, so
   * what is written here is lost.
   */
  isReplaced(): Promise<boolean>;
  /** Returns the space of the disk with the file, or `null` without a file. */
  diskSpace(): DiskSpace | null;
  /** Returns the bytes of the file, including what SQLite has not moved into it yet, or `null` without a file. */
  bytes(): number | null;
  close(): void;
}

/** What code needs to read and write the records of a store. */
export interface StoreDeps {
  kv: Kv;
  clock: Clock;
  random: Random;
  newId: NewId;
  /** Counts commits. Absent outside a server. */
  metrics?: Metrics;
}

/**
 * Opens the store that `KV_URL` names: a file, `:memory:`, or an `http(s)` KV Connect address; with `null` the database
 * that is attached on Deno Deploy. It creates a missing file and its folder. `close()` releases the file's lock.
 * `clock` sets the timers for the deadlines of calls.
 *
 * @throws {StoreRefused} when another process holds the file, or when it cannot be opened
 */
export async function openStore(url: string | null, clock: Clock = systemClock): Promise<Store> {
  refuseMistake(url ?? "");
  if (url === null || /^https?:/.test(url)) {
    const place = url === null ? "attached to this deployment" : `at ${new URL(url).origin}`;
    const kv = await (url === null ? Deno.openKv() : Deno.openKv(url)).catch((cause) => {
      throw new StoreRefused(`Cannot open the store ${place}: ${cause instanceof Error ? cause.message : cause}`);
    });
    return toStore(kv, place, clock, { isExclusive: false });
  }
  if (url === ":memory:") {
    return toStore(await Deno.openKv(url), "in memory", clock, { isExclusive: true });
  }
  const lock = await lockedFile(url);
  try {
    return toStore(await Deno.openKv(url), `at ${url}`, clock, { isExclusive: true, file: { lock, path: url } });
  } catch (error) {
    lock.close();
    const why = error instanceof Error ? error.message : error;
    throw refusal(`Cannot open the store ${url}: ${why}`, diskSpace(dirname(url)));
  }
}

/** The space is asked, because SQLite reports only an I/O error when it opens a file. */
function refusal(why: string, space: DiskSpace | null): StoreRefused {
  if ((space?.freeBytes ?? Infinity) >= NEEDED_BYTES) return new StoreRefused(why);
  return new StoreFull(`${why}. The disk is full: free some space, then start again.`);
}

/** Turns the failure of an open store during a start into a refusal that names the store. Returns any other error. */
export function refusedByStore(error: unknown, store: Pick<Store, "place" | "diskSpace">): unknown {
  if (!(error instanceof StoreUnavailable)) return error;
  const why = error.cause instanceof Error ? error.cause.message : error.message;
  return refusal(`Cannot use the store ${store.place}: ${why}`, store.diskSpace());
}

/**
 * Refuses a text that names another place than its author meant: a URL of another kind and a text with a line end would
 * be the path of a new, empty store, and Deno panics at a token with a line end, as files of secrets often have.
 *
 * @throws {StoreRefused}
 */
function refuseMistake(url: string): void {
  const isUrl = /^[a-z]{2,}:\//i.test(url), isNetworked = /^https?:/.test(url);
  const refuse = (why: string) => new StoreRefused(`Cannot open the store: ${why}`);
  if (isUrl && !(/^https?:\/\//.test(url) && URL.canParse(url))) {
    throw refuse("KV_URL must be a path, :memory: or an http or https URL.");
  }
  if (/\p{Cc}/u.test(url)) throw refuse("KV_URL has a line end or another control character. Remove it.");
  // Deno does not use a password there, but writes the whole address to standard error when it cannot reach the store.
  if (isNetworked && (new URL(url).username || new URL(url).password)) {
    throw refuse("KV_URL has a user or a password. Remove it, and set DENO_KV_ACCESS_TOKEN.");
  }
  const token = isNetworked ? processEnviron("DENO_KV_ACCESS_TOKEN") : "";
  // Deno's own text would send the operator of a denokv to a web page of another service.
  if (token === undefined) throw refuse("DENO_KV_ACCESS_TOKEN is missing. Set it to the access token of that store.");
  if (/\p{Cc}/u.test(token)) {
    throw refuse("DENO_KV_ACCESS_TOKEN has a line end or another control character. Remove it.");
  }
}

/** Free bytes under which a store that cannot be opened is said to have no space: what SQLite writes at the start. */
const NEEDED_BYTES = 131_072;

function toStore(
  kv: Kv,
  place: string,
  clock: Clock,
  { isExclusive, file }: { isExclusive: boolean; file?: { lock: FileLock; path: string } },
): Store {
  const writes = isExclusive ? new WriteWatch(kv) : null;
  wrapStoreErrors(kv, clock);
  return {
    kv,
    place,
    writes,
    maxChecks: isExclusive ? LIMITS.commitChecks : LIMITS.commitChecksConnect,
    commitsInFlight: isExclusive ? 1 : COMMITS_IN_FLIGHT,
    reliedMs: isExclusive ? 0 : RELIED_MS,
    isExclusive,
    isReplaced: async () => await file?.lock.isReplaced() ?? false,
    diskSpace: () => file ? diskSpace(dirname(file.path)) : null,
    bytes: () => file ? fileBytes([file.path, `${file.path}-wal`]) : null,
    close() {
      kv.close();
      file?.lock.close();
    },
  };
}

/** Creates the folder of a file if needed, and locks the file. @throws {StoreRefused} */
async function lockedFile(url: string): Promise<FileLock> {
  try {
    await Deno.mkdir(dirname(url), { recursive: true, mode: 0o700 });
    return await lockFile(url);
  } catch (cause) {
    if (cause instanceof StoreRefused) throw cause;
    if (cause instanceof Deno.errors.AlreadyExists) throw new StoreRefused(`Cannot keep a store at ${url}: no folder`);
    throw new StoreRefused(`Cannot keep a store at ${url}: ${whyNot(url, cause)}`);
  }
}

function whyNot(url: string, cause: unknown): string {
  if (cause instanceof Deno.errors.NotCapable) {
    return "this process may not write there. Set KV_URL to a path where it may (with task dev: below .data), or start it " +
      "with permission to read and write that folder.";
  }
  if (cause instanceof Deno.errors.PermissionDenied) {
    const folder = quoted(dirname(url)), files = `${quoted(url)}*`;
    return "the user of this process may not read and write its files, or their folder. Let it, or set KV_URL to another " +
      `path. Files that root restored get the user of their folder with: chown --reference=${folder} ${files}`;
  }
  return `${(cause as Error).message}. Correct that, or set KV_URL to another path`;
}

/** Quotes a path for a shell. */
function quoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}

/** An open file and the path at which it was opened. */
interface LockedFile {
  path: string;
  file: Deno.FsFile;
  /** The file as the system knows it, regardless of its names. */
  identity: Deno.FileInfo;
}

interface FileLock {
  /** Tells whether the store, or the file that is locked in its place, is no longer the one at its path. */
  isReplaced(): Promise<boolean>;
  /** Ends the lock. Close the store first, because closing this file also ends SQLite's locks on the same file. */
  close(): void;
}

/**
 * Locks a store file, which is created if it is missing, and writes the PID into a file beside it. The operating system
 * releases the lock of a killed process. On Linux the store file itself is locked, so a second process gets in neither
 * through another name of the store nor after the file beside it was removed. On other systems a lock on the store
 * would lock out SQLite too, so the file with the PID is locked. The PID is only for the operator, because two
 * containers can both have PID 1.
 *
 * @throws {StoreRefused} when another process holds the lock
 */
async function lockFile(path: string): Promise<FileLock> {
  const store = await openPrivate(path);
  // The real path is used, because each name of the store must lead to the same PID file.
  const pid = await openPrivate(`${await Deno.realPath(path).catch(() => path)}.lock`);
  const isLinux = Deno.build.os === "linux";
  const close = () => [store, pid].forEach(({ file }) => closeLocked(file));
  if (!(isLinux ? store : pid).file.tryLockSync(true)) {
    close();
    const holder = (await Deno.readTextFile(pid.path)).trim();
    const who = holder === String(Deno.pid) ? `another process with PID ${holder}` : `process ${holder || "unknown"}`;
    throw new StoreRefused(
      `Cannot open the store ${path}: ${who} uses it. Stop that one, or set KV_URL to another path.`,
    );
  }
  pid.file.truncateSync(0);
  pid.file.writeSync(new TextEncoder().encode(`${Deno.pid}\n`));
  const watched = isLinux ? [store] : [store, pid];
  return { isReplaced: async () => (await Promise.all(watched.map(isAtItsPath))).includes(false), close };
}

/** Opens or creates a file that only its owner can read, because the store will contain the signing key. */
async function openPrivate(path: string): Promise<LockedFile> {
  const file = await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
  return { path, file, identity: await file.stat() };
}

async function isAtItsPath({ path, identity }: LockedFile): Promise<boolean> {
  try {
    const { dev, ino } = await Deno.stat(path);
    return dev === identity.dev && ino === identity.ino;
  } catch (error) {
    // A disk that does not answer is no sign that another file has taken the place of this one.
    return !(error instanceof Deno.errors.NotFound);
  }
}
