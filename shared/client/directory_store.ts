/**
 * The folder of an agent, `agents/<name>/`, as the client library reads it in Deno and in Node. It rejects links,
 * because another user who can place one could choose which program gets this agent's messages.
 */
import { constants, type FileHandle, lstat, open, readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { tryParse } from "../protocol/json_text.ts";
import { isAgentName } from "../protocol/names.ts";
import { CONNECTOR_FILE, ConnectorFile } from "./agent_files.ts";
import { SvcError } from "./svc_error.ts";
import type { ClientSystem } from "./system.ts";

/** Maximum size of the discovery file in bytes. Without a bound, a damaged file could fill the memory. */
const MAX_BYTES = 64 * 1024;
const OTHERS_MAY_WRITE = 0o022;

export class AgentDirectory {
  private constructor(readonly path: string, readonly name: string) {}

  /**
   * Opens the folder of an agent.
   *
   * @throws {SvcError} `CLI_AGENT_UNKNOWN`, `CLI_FILE_UNSAFE`
   */
  static async open(system: ClientSystem, path: string): Promise<AgentDirectory> {
    const stat = await lstat(path).catch(() => null);
    if (stat === null) throw new SvcError("CLI_AGENT_UNKNOWN", `There is no agent at ${path}`);
    if (!stat.isDirectory()) throw unsafe(path, "is not a directory");
    if (system.uid !== null && stat.uid !== system.uid && stat.uid !== 0) throw unsafe(path, "belongs to another user");
    if (system.os !== "win32" && (stat.mode & OTHERS_MAY_WRITE) !== 0) throw unsafe(path, "is writable by other users");
    return new AgentDirectory(path, basename(path));
  }

  /** Returns the discovery file of the agent's connector, or `null` without a valid one. */
  async connectorFile(): Promise<ConnectorFile | null> {
    return ConnectorFile.safeParse(tryParse(await readPlain(join(this.path, CONNECTOR_FILE)))).data ?? null;
  }
}

/** Returns the names of the agents in a configuration directory, sorted. */
export async function agentNames(configDir: string): Promise<string[]> {
  const entries = await readdir(join(configDir, "agents"), { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory() && isAgentName(entry.name)).map(({ name }) => name).sort();
}

/**
 * Returns the text of a file, or `null` when it does not exist. It rejects links, devices and files over `MAX_BYTES`.
 *
 * @throws {SvcError} `CLI_FILE_UNSAFE`, `CLI_FILE_INVALID`
 */
async function readPlain(path: string): Promise<string | null> {
  const isLink = await lstat(path).then((stat) => stat.isSymbolicLink(), () => false);
  if (isLink) throw unsafe(path, "is a link");
  // Without O_NONBLOCK, opening a pipe would wait for a writer. Windows has neither flag, so each is optional.
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
  let handle: FileHandle;
  try {
    handle = await open(path, flags);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    if (code === "ELOOP") throw unsafe(path, "is a link");
    throw new SvcError("CLI_FILE_INVALID", `${path} cannot be read: ${reasonOf(error)}`);
  }
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) throw unsafe(path, "is not a plain file");
    if (stat.size > MAX_BYTES) throw new SvcError("CLI_FILE_INVALID", `${path} is larger than ${MAX_BYTES} bytes`);
    return new TextDecoder("utf-8", { fatal: true }).decode(await handle.readFile());
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError("CLI_FILE_INVALID", `${path} cannot be read as text`);
  } finally {
    await handle.close();
  }
}

function unsafe(path: string, what: string): SvcError {
  return new SvcError("CLI_FILE_UNSAFE", `${path} ${what}`);
}

/** Returns the system's reason without the path, because the message already contains it. */
function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/, \w+ '.*'$/s, "") : String(error);
}
