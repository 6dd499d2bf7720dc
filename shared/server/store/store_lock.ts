/**
 * The lock that prevents two processes from using one store file. The operating system releases the lock of a killed
 * process. Isolates of one process (`deno serve --parallel`) share the file: they find each other over a
 * `BroadcastChannel`, which is limited to the process. A PID is not enough, because two containers can both have PID 1
 * (D-241).
 */
import type { Clock } from "../../clock.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { systemRandom } from "../../random.ts";
import { toBase64Url } from "../../protocol/base64url.ts";
import { StartRefused } from "../config_reader.ts";

/** The store is in use by another process, or cannot be opened. The message is for the operator. */
export class StoreRefused extends StartRefused {
  override name = "StoreRefused";
}

/** A lock that this process holds. */
export interface HeldLock {
  /** True for the isolate that holds the lock of the operating system. */
  isSole: boolean;
  unlock(): void;
}

const CHANNEL = "svc store lock";
/** Time between two questions; the holder may not be ready for the first. */
const ASK_AGAIN_MS = 100;

/** A question of an isolate, or the answer of the isolate that holds the lock. */
interface LockMessage {
  path: string;
  asker: string;
  isAnswer: boolean;
}

/**
 * Locks a file for this process and writes the PID into it.
 *
 * @throws {StoreRefused} when another process holds it
 */
export async function lockFile(clock: Clock, path: string): Promise<HeldLock> {
  const file = await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
  if (file.tryLockSync(true)) {
    const channel = answerSiblings(await Deno.realPath(path));
    file.truncateSync(0);
    file.writeSync(new TextEncoder().encode(`${Deno.pid}\n`));
    return {
      isSole: true,
      unlock() {
        channel.close();
        file.close();
      },
    };
  }
  file.close();
  const holder = (await Deno.readTextFile(path)).trim();
  if (holder === String(Deno.pid)) {
    const channel = new BroadcastChannel(CHANNEL);
    // It stays open with the lock: after an isolate has closed its only channel, Deno loses the messages of a channel
    // that is opened in the same turn, and its `postMessage` throws "expected i32".
    if (await isHeldBySibling(clock, await Deno.realPath(path), channel)) {
      return { isSole: false, unlock: () => channel.close() };
    }
    channel.close();
  }
  const who = holder === String(Deno.pid) ? `another process with PID ${holder}` : `process ${holder || "unknown"}`;
  throw new StoreRefused(
    `Cannot open the store ${path.slice(0, -".lock".length)}: ${who} uses it. ` +
      `Stop that one, or set KV_URL to another path.`,
  );
}

function answerSiblings(path: string): BroadcastChannel {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<LockMessage>) => {
    if (data.path === path && !data.isAnswer) channel.postMessage({ ...data, isAnswer: true });
  };
  return channel;
}

/** Returns true when another isolate of this process answers within 2 s that it holds the lock. */
async function isHeldBySibling(clock: Clock, path: string, channel: BroadcastChannel): Promise<boolean> {
  const asker = toBase64Url(systemRandom.bytes(16));
  const question: LockMessage = { path, asker, isAnswer: false };
  const { promise, resolve } = Promise.withResolvers<boolean>();
  channel.onmessage = ({ data }: MessageEvent<LockMessage>) => {
    if (data.isAnswer && data.asker === asker) resolve(true);
  };
  let cancelAgain = () => {};
  const ask = () => {
    channel.postMessage(question);
    cancelAgain = clock.after(ASK_AGAIN_MS, ask);
  };
  ask();
  const cancelLate = clock.after(LIMITS.siblingAnswerMs, () => resolve(false));
  try {
    return await promise;
  } finally {
    cancelAgain();
    cancelLate();
    channel.onmessage = null;
  }
}
