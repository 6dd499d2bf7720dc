/** Allows one connector per agent, with a file lock that the system releases when the owning process ends. */
import { join } from "node:path";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { CliError } from "../errors.ts";
import { readPrivate, reason } from "../files/private_files.ts";

/** Another process runs the agent's connector; `CLI_BUSY`. */
export class ConnectorLockedError extends CliError {
  override name = "ConnectorLockedError";

  constructor(agentName: string, readonly pid: string) {
    super("CLI_BUSY", `A connector of ${agentName} is already running as process ${pid}`, {
      fix: "Stop that process, or use the connector that is running.",
    });
  }
}

/**
 * Takes the lock; disposing the result releases it.
 *
 * @throws {ConnectorLockedError} when another connector has it
 * @throws {CliError} `CLI_FILE_UNSAFE`, `CLI_SAVE_FAILED`
 */
export async function lockConnector(folder: AgentFolder, pid: number): Promise<Disposable> {
  const path = join(folder.path, "connector.lock");
  const isPlain = await Deno.lstat(path).then((stat) => stat.isFile, () => true);
  if (!isPlain) throw new CliError("CLI_FILE_UNSAFE", `${path} is not a plain file`);
  let file: Deno.FsFile;
  try {
    file = await Deno.open(path, { read: true, write: true, create: true, mode: 0o600 });
  } catch (error) {
    throw new CliError("CLI_SAVE_FAILED", `${path} could not be written: ${reason(error)}`, { cause: error });
  }
  if (!await file.tryLock(true)) {
    file.close();
    throw new ConnectorLockedError(folder.name, readPrivate(path, 32)?.trim() || "unknown");
  }
  await file.truncate(0);
  await file.write(utf8Bytes(`${pid}\n`));
  return { [Symbol.dispose]: () => file.close() };
}
