/**
 * An advisory lock that one process holds at a time. The lock file stays, with the pid of its last holder in it. The
 * system releases the lock when the holder ends for any reason. A file that is not such a lock is refused and never
 * changed, because it may be the data of another program.
 */
import { join } from "node:path";
import { sleep } from "../../shared/clock.ts";
import { closeLocked } from "../../shared/locked_file.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { ensureConfigDir } from "./config_dir.ts";
import { isSame, readPrivate, saveFailed } from "./private_files.ts";

const LOOK_EVERY_MS = 50;
/**
 * Longer than the usual work under a lock, which is some requests of at most 30 s each. With less, a second process
 * would give up while the first still works.
 */
const WAIT_MS = 120_000;
/** Content of a lock file: empty, or a pid. */
const CONTENT = /^(?:\d{1,20}\n?)?$/;
const MAX_CONTENT_BYTES = 32;
/** How often a lock file may be replaced while it is opened. Without a bound, a faulty program would hold up svc. */
const MAX_OPENS = 100;

/**
 * Waits for the lock and runs `work` while holding it. Disposing `held` releases the lock before the work ends.
 *
 * @param place returns the path of the lock file; called again when the file was removed or moved during the wait
 * @param waiting called once when another process holds the lock
 * @param waitMs how long to wait for it; 0: not at all
 * @throws {CliError} `CLI_BUSY` when another process does not release it, `CLI_FILE_UNSAFE` when the file is not a lock
 */
export async function withLock<T>(
  deps: Pick<Context, "clock" | "pid">,
  place: () => string | Promise<string>,
  work: (held: Disposable) => Promise<T>,
  waiting: () => void = () => {},
  waitMs = WAIT_MS,
): Promise<T> {
  let announced = false;
  // The wait is counted and not read from the clock, because a clock that is set back would lengthen it.
  let waited = 0;
  for (let opens = 1;; opens++) {
    const path = await place();
    if (opens > MAX_OPENS) throw new CliError("CLI_BUSY", `${path} keeps being replaced`);
    const file = await openLock(path);
    if (file === null) continue;
    using held = new DisposableStack();
    held.adopt(file, closeLocked);
    while (!(await file.tryLock(true))) {
      if (!announced) waiting();
      announced = true;
      if (waited >= waitMs) throw new CliError("CLI_BUSY", `${holder(path)} does not finish`);
      await sleep(deps.clock, LOOK_EVERY_MS);
      waited += LOOK_EVERY_MS;
    }
    if (!await isSameFile(path, file)) continue;
    await writePid(path, file, deps.pid);
    return await work(held);
  }
}

/** Runs `work` while no other process changes the files of the configuration directory. Creates it if needed. */
export async function withConfigLock<T>(ctx: Context, work: () => Promise<T>): Promise<T> {
  await ensureConfigDir(ctx);
  return await withLock(ctx, () => join(ctx.configDir, ".config.lock"), work);
}

/** Runs `work` while no other join makes an account here, because the key of one account would replace the other's. */
export async function withAccountLock<T>(ctx: Context, work: () => Promise<T>): Promise<T> {
  await ensureConfigDir(ctx);
  const waiting = () => ctx.out.doing("Waiting for another svc join in the same folder");
  return await withLock(ctx, () => join(ctx.configDir, ".account.lock"), work, waiting);
}

/**
 * Runs `work` while no other svc changes files of other programs, such as hosts and runtimes, because two changes at
 * once could lose one of them. The lock is in the folder of all profiles, because their agents share these files.
 */
export async function withHostsLock<T>(ctx: Context, work: () => Promise<T>): Promise<T> {
  await ensureConfigDir(ctx);
  const waiting = () => ctx.out.doing("Waiting for another svc process that changes files of other programs");
  return await withLock(ctx, () => join(ctx.baseDir, "hosts.lock"), work, waiting);
}

/** Opens or creates a lock file. Returns `null` when another process removed it at the same moment. */
async function openLock(path: string): Promise<Deno.FsFile | null> {
  try {
    return await Deno.open(path, { read: true, write: true, createNew: true, mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw saveFailed(path, "written", error);
  }
  const stat = await Deno.lstat(path).catch(() => null);
  if (stat === null) return null;
  if (!stat.isFile) throw new CliError("CLI_FILE_UNSAFE", `${path} is not a plain file`);
  if (stat.size > MAX_CONTENT_BYTES || (stat.nlink ?? 1) > 1) throw notALock(path);
  let file: Deno.FsFile;
  try {
    file = await Deno.open(path, { read: true, write: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw saveFailed(path, "written", error);
  }
  // Deno has no O_NOFOLLOW. If the open file is not the one that lstat saw, the path leads through a link.
  if (await isSameFile(path, file)) return file;
  file.close();
  return null;
}

/** Returns true when the path still names the open file, and does not lead through a link. */
async function isSameFile(path: string, file: Deno.FsFile): Promise<boolean> {
  const [there, open] = await Promise.all([Deno.lstat(path).catch(() => null), file.stat()]);
  return there?.isFile === true && isSame(there, open);
}

async function writePid(path: string, file: Deno.FsFile, pid: number): Promise<void> {
  const buffer = new Uint8Array(MAX_CONTENT_BYTES + 1);
  const length = await file.read(buffer) ?? 0;
  const isLock = length <= MAX_CONTENT_BYTES && CONTENT.test(new TextDecoder().decode(buffer.subarray(0, length)));
  if (!isLock) throw notALock(path);
  await file.truncate(0);
  await file.seek(0, Deno.SeekMode.Start);
  await file.write(utf8Bytes(`${pid}\n`));
}

function notALock(path: string): CliError {
  return new CliError("CLI_FILE_UNSAFE", `${path} is not a lock file of svc`);
}

function holder(path: string): string {
  try {
    return `The svc process ${readPrivate(path, MAX_CONTENT_BYTES)?.trim()}`;
  } catch {
    return "Another svc process";
  }
}
