/**
 * The folder of an agent, `agents/<name>/`, for the client library: read and written with the functions that Deno and Node
 * share. Rejects links. Takes no lock, because Node has none (D-125).
 */
import { constants, type FileHandle, lstat, open, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import * as z from "zod";
import { AgentAuth } from "../../protocol/api/sessions.ts";
import { fromBase64Url, toBase64Url } from "../../protocol/base64url.ts";
import { keyPairFromSeed } from "../../protocol/ed25519.ts";
import { isAgentName } from "../../protocol/names.ts";
import { AGENT_FILES, CONNECTOR_FILE, ConnectorFile, Identity, PEERS_FILE, PEERS_FILE_BYTES } from "../agent_files.ts";
import type { StoredSession } from "../agent_credentials.ts";
import { parseServiceUrl } from "../service_url.ts";
import { REFRESH_MARKER, type RefreshFiles } from "../session_refresh.ts";
import { SvcError } from "./svc_error.ts";
import type { ClientSystem } from "./system.ts";

/** Maximum size of the other files in bytes. */
const MAX_BYTES = 64 * 1024;
const OTHERS_MAY_WRITE = 0o022;

const Aliases = z.record(z.string(), z.object({ did: z.string(), gone: z.literal(true).optional() }));
const Config = z.object({ proxyUrl: z.string().optional(), humanName: z.string().optional() });

/** Entries of `config.json` that an agent uses. */
export type AgentConfig = z.infer<typeof Config>;

export class AgentDirectory {
  private constructor(readonly path: string, readonly name: string, private readonly system: ClientSystem) {}

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
    return new AgentDirectory(path, basename(path), system);
  }

  /** Identity and tokens. @throws {SvcError} `CLI_FILE_INVALID`, `CLI_FILE_UNSAFE` */
  async session(): Promise<StoredSession> {
    const [identity, auth, ait, seedText] = await Promise.all([
      this.identity(),
      this.auth(),
      this.#text(AGENT_FILES.ait),
      this.#text(AGENT_FILES.seed),
    ]);
    const seed = fromBase64Url(seedText.trim());
    if (seed?.length !== 32) throw this.#damaged(AGENT_FILES.seed);
    const { privateKey } = await keyPairFromSeed(seed);
    return {
      identity: { did: identity.did, ait: ait.trim(), privateKey, accessToken: auth.accessToken },
      auth,
      aitExpiresAt: Date.parse(identity.expiresAt),
    };
  }

  identity(): Promise<Identity> {
    return this.#parsed(AGENT_FILES.identity, Identity);
  }

  auth(): Promise<AgentAuth> {
    return this.#parsed(AGENT_FILES.auth, AgentAuth);
  }

  /** The discovery file of the agent's connector; `null` without a valid one. */
  async connectorFile(): Promise<ConnectorFile | null> {
    const text = await this.#read(CONNECTOR_FILE, MAX_BYTES);
    try {
      return text === null ? null : ConnectorFile.parse(JSON.parse(text));
    } catch {
      return null;
    }
  }

  /** The DIDs of the peers by alias, without pairs that have ended. */
  async aliases(): Promise<ReadonlyMap<string, string>> {
    const text = await this.#read(PEERS_FILE, PEERS_FILE_BYTES);
    try {
      const peers = Aliases.parse(text === null ? {} : JSON.parse(text));
      return new Map(Object.entries(peers).filter(([, { gone }]) => !gone).map(([alias, { did }]) => [alias, did]));
    } catch {
      throw this.#damaged(PEERS_FILE);
    }
  }

  /** `config.json` of the configuration directory above; empty without one. */
  async config(): Promise<AgentConfig> {
    const path = join(dirname(dirname(this.path)), "config.json");
    const text = await readPlain(path, MAX_BYTES);
    try {
      const config = Config.parse(text === null ? {} : JSON.parse(text));
      if (config.proxyUrl === undefined || parseServiceUrl(config.proxyUrl) !== null) return config;
    } catch {
      // Reported below.
    }
    throw new SvcError("CLI_CONFIG_INVALID", `${path} cannot be used`);
  }

  /** The files of a refresh (D-83). */
  refreshFiles(): RefreshFiles {
    return {
      readMarker: async () => {
        try {
          return (await this.#read(REFRESH_MARKER, MAX_BYTES))?.trim() ?? null;
        } catch (error) {
          if (error instanceof SvcError && error.code === "CLI_FILE_INVALID") return "";
          throw error;
        }
      },
      writeMarker: (digest) => this.#write(REFRESH_MARKER, digest),
      removeMarker: async () => {
        await rm(join(this.path, REFRESH_MARKER), { force: true });
        await syncDirectory(this.path, this.system);
      },
      auth: () => this.auth(),
      save: (auth) => this.#write(AGENT_FILES.auth, JSON.stringify(auth, null, 2)),
    };
  }

  async #parsed<S extends z.ZodType>(file: string, schema: S): Promise<z.output<S>> {
    const text = await this.#text(file);
    try {
      return schema.parse(JSON.parse(text));
    } catch {
      throw this.#damaged(file);
    }
  }

  async #text(file: string): Promise<string> {
    const text = await this.#read(file, MAX_BYTES);
    if (text === null) throw new SvcError("CLI_FILE_INVALID", `${join(this.path, file)} is missing`);
    return text;
  }

  #read(file: string, maxBytes: number): Promise<string | null> {
    return readPlain(join(this.path, file), maxBytes);
  }

  /** Replaces a file atomically: temporary file, fsync, rename, fsync of the folder. */
  async #write(file: string, text: string): Promise<void> {
    const path = join(this.path, file);
    if (await isLink(path)) throw unsafe(path, "is a link");
    const temporary = join(this.path, `.svc-${toBase64Url(this.system.random.bytes(12))}.tmp`);
    try {
      const handle = await open(temporary, "wx", 0o600);
      try {
        await handle.writeFile(`${text}\n`);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(temporary, path);
      await syncDirectory(this.path, this.system);
    } catch (cause) {
      await rm(temporary, { force: true }).catch(() => {});
      throw new SvcError("CLI_SAVE_FAILED", `${path} could not be written: ${reasonOf(cause)}`, { cause });
    }
  }

  #damaged(file: string): SvcError {
    return new SvcError("CLI_FILE_INVALID", `${join(this.path, file)} is damaged`);
  }
}

/** The names of the agents in a configuration directory, sorted. */
export async function agentNames(configDir: string): Promise<string[]> {
  const entries = await readdir(join(configDir, "agents"), { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory() && isAgentName(entry.name)).map(({ name }) => name).sort();
}

/**
 * Returns the text of a file, or `null` when it does not exist. Rejects links, devices and files over `maxBytes`.
 *
 * @throws {SvcError} `CLI_FILE_UNSAFE`, `CLI_FILE_INVALID`
 */
async function readPlain(path: string, maxBytes: number): Promise<string | null> {
  if (await isLink(path)) throw unsafe(path, "is a link");
  // O_NONBLOCK: opening a pipe must not wait for a writer. Windows has neither flag.
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
    if (stat.size > maxBytes) throw new SvcError("CLI_FILE_INVALID", `${path} is larger than ${maxBytes} bytes`);
    return new TextDecoder("utf-8", { fatal: true }).decode(await handle.readFile());
  } catch (error) {
    if (error instanceof SvcError) throw error;
    throw new SvcError("CLI_FILE_INVALID", `${path} cannot be read as text`);
  } finally {
    await handle.close();
  }
}

async function isLink(path: string): Promise<boolean> {
  return await lstat(path).then((stat) => stat.isSymbolicLink(), () => false);
}

/** Syncs the entries of a directory to disk. Does nothing on Windows. */
async function syncDirectory(path: string, { os }: Pick<ClientSystem, "os">): Promise<void> {
  if (os === "win32") return;
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function unsafe(path: string, what: string): SvcError {
  return new SvcError("CLI_FILE_UNSAFE", `${path} ${what}`);
}

/** The system's reason without the path, which the message already contains. */
function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/, \w+ '.*'$/s, "") : String(error);
}
