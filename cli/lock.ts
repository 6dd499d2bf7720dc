/**
 * One process at a time: an advisory lock on a file that holds the pid of its owner. The system lets go of it when the
 * owner dies, however that happens; the file itself stays.
 */
import { type Clock, sleep } from "../shared/clock.ts";
import { utf8Bytes } from "../shared/protocol/base64url.ts";
import { CliError } from "./errors.ts";
import { readPrivate, reason } from "./files.ts";

const LOOK_EVERY_MS = 50;
/** Longer than anything that is done under a lock: a request takes 30 s at most, and a conflict is tried again. */
const WAIT_MS = 120_000;

/** What holding a lock needs from the world. */
export interface LockSeams {
  clock: Clock;
  pid: number;
}

/**
 * Runs `work` while holding the lock, after whoever holds it now.
 *
 * @param waiting called once when somebody else holds it
 * @throws {CliError} `CLI_BUSY` when the other does not let go, `CLI_FILE_UNSAFE` when the lock is no plain file
 */
export async function withLock<T>(
  seams: LockSeams,
  path: string,
  work: () => Promise<T>,
  waiting: () => void = () => {},
): Promise<T> {
  const file = await open(path);
  try {
    const began = seams.clock.now();
    for (let first = true; !(await file.tryLock(true)); first = false) {
      if (first) waiting();
      if (seams.clock.now() - began > WAIT_MS) throw new CliError("CLI_BUSY", `${holder(path)} does not finish`);
      await sleep(seams.clock, LOOK_EVERY_MS);
    }
    try {
      await file.truncate(0);
      await file.write(utf8Bytes(`${seams.pid}\n`));
      return await work();
    } finally {
      await file.unlock();
    }
  } finally {
    file.close();
  }
}

async function open(path: string): Promise<Deno.FsFile> {
  const isPlain = await Deno.lstat(path).then((stat) => stat.isFile, () => true);
  if (!isPlain) throw new CliError("CLI_FILE_UNSAFE", `${path} is not a plain file`);
  try {
    return await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
  } catch (error) {
    throw new CliError("CLI_SAVE_FAILED", `${path} could not be written: ${reason(error)}`, { cause: error });
  }
}

function holder(path: string): string {
  try {
    return `The svc process ${readPrivate(path, 32)?.trim()}`;
  } catch {
    return "Another svc process";
  }
}
