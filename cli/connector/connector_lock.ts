/** Allows one connector per agent, with a file lock that the system releases when the owning process ends. */
import { join } from "node:path";
import { yieldToEventLoop } from "../../shared/clock.ts";
import { closeLocked } from "../../shared/locked_file.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { CliError, NOT_YOURS } from "../errors.ts";
import { readPrivate, reason, saveFailed } from "../files/private_files.ts";

const LOCK_FILE = "connector.lock";

export class ConnectorLockedError extends CliError {
  override name = "ConnectorLockedError";

  /** @param pid of the connector that has the lock; `null`: a command has it, which ends by itself */
  constructor(agentName: string, readonly pid: string | null, hasRuntime = false) {
    const held = pid === null
      ? `Another command changes ${agentName} now`
      : `The connector of ${agentName} runs already (pid ${pid}). New settings need a new start`;
    super("CLI_BUSY", held, {
      fix: pid === null
        ? "Run the command again when the other one has ended."
        : hasRuntime
        ? `To see it: svc connector status ${agentName}`
        : `To talk here: svc inbox --follow --agent ${agentName}`,
    });
  }
}

/**
 * How often a start tries to take the lock while commands look at it or hold it; each try takes a millisecond or more.
 * With fewer, the start would fail.
 */
const MAX_TRIES = 1_000;

/**
 * Takes the lock; disposing the result releases it.
 *
 * @param pid of the connector; `null`: of a command that holds the lock for a moment, while connectors wait
 * @param hasRuntime the agent's messages go to a runtime, so `svc inbox` would only refuse
 * @throws {ConnectorLockedError} when another connector has it
 * @throws {CliError} `CLI_FILE_UNSAFE`, `CLI_SAVE_FAILED`
 */
export async function lockConnector(
  folder: AgentFolder,
  pid: number | null,
  hasRuntime = false,
): Promise<Disposable> {
  const path = await lockPath(folder);
  const file = await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 }).catch((error) => {
    throw saveFailed(path, "written", error);
  });
  // A file that stays open keeps its lock, so after a failure below the agent would be locked without a connector.
  using owned = new DisposableStack();
  owned.adopt(file, closeLocked);
  for (let tries = 1; !await file.tryLock(true); tries++) {
    const holder = await isHeld(file) ? lockHolder(folder) : null;
    if (holder !== null || tries >= MAX_TRIES) {
      throw new ConnectorLockedError(folder.name, holder, hasRuntime);
    }
    await yieldToEventLoop();
  }
  try {
    // Emptied synchronously, because a process that finds the lock taken could otherwise read the ID of an earlier
    // holder.
    file.truncateSync(0);
    if (pid !== null) await file.write(utf8Bytes(`${pid}\n`));
  } catch (error) {
    throw saveFailed(path, "written", error);
  }
  return owned.move();
}

/**
 * Returns true while any process, even this one, holds the agent's connector lock. Does not keep a connector from
 * starting.
 *
 * @throws {CliError} `CLI_FILE_UNSAFE`
 */
export async function isConnectorLocked(folder: Pick<AgentFolder, "path">): Promise<boolean> {
  const path = await lockPath(folder);
  using file = await Deno.open(path, { read: true }).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return null;
    const fix = error instanceof Deno.errors.PermissionDenied ? NOT_YOURS : undefined;
    throw new CliError("CLI_FILE_UNSAFE", `${path} could not be read: ${reason(error)}`, { cause: error, fix });
  });
  return file !== null && await isHeld(file);
}

/** The process ID in the lock file; `null` when there is none. Valid only while the lock is held. */
export function lockHolder(folder: Pick<AgentFolder, "path">): string | null {
  return readPrivate(join(folder.path, LOCK_FILE), 32)?.trim() || null;
}

/**
 * Whether a connector has its exclusive lock. Processes that ask take a shared one, so they do not disturb each other.
 */
async function isHeld(file: Deno.FsFile): Promise<boolean> {
  if (!await file.tryLock(false)) return true;
  await file.unlock();
  return false;
}

async function lockPath({ path: folder }: Pick<AgentFolder, "path">): Promise<string> {
  const path = join(folder, LOCK_FILE);
  const isPlain = await Deno.lstat(path).then((stat) => stat.isFile, () => true);
  if (!isPlain) throw new CliError("CLI_FILE_UNSAFE", `${path} is not a plain file`);
  return path;
}
