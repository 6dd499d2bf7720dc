/**
 * The agents on this machine. `agents/<name>/` holds an agent's key, tokens and identity; `agents/.<name>.pending/`
 * holds the same files while the agent is created. Each file is checked when it is read. Nothing here uses the network.
 */
import { join } from "node:path";
import { AGENT_FILES, Identity } from "../../shared/client/agent_files.ts";
import { AgentAuth } from "../../shared/protocol/api/sessions.ts";
import { fromBase64Url } from "../../shared/protocol/base64url.ts";
import { type KeyPair, keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { AGENT_NAME_RULE, isAgentName } from "../../shared/protocol/names.ts";
import type { Context } from "../context.ts";
import { ensureConfigDir } from "../files/config_dir.ts";
import { CliError } from "../errors.ts";
import {
  checkDirectory,
  ensureDirectory,
  kindOf,
  PrivateFolder,
  removeLeftovers,
  saveFailed,
  syncDirectory,
} from "../files/private_files.ts";
import { withLock } from "../files/lock.ts";
import { didYouMean } from "../../shared/did_you_mean.ts";
import { isAgentDid, parseDid } from "../../shared/protocol/did.ts";
import { isUlid } from "../../shared/protocol/ids.ts";
import type { InputPlace } from "../command_line/command.ts";
import { wholeId } from "../command_line/numbers.ts";
import { idEnd } from "../terminal/tables.ts";

const LOCK_FILE = "agent.lock";
const OTHER_FOLDER = "--config-dir or SVC_CONFIG_DIR names another folder.";

/** The folder of an agent: `agents/<name>/`, or the pending one. */
export class AgentFolder extends PrivateFolder {
  constructor(ctx: Context, path: string, readonly name: string) {
    super(ctx, path);
  }

  /** The folder of settings for all agents on this machine. */
  get shared(): PrivateFolder {
    return new PrivateFolder(this.ctx, this.ctx.configDir);
  }

  identity(): Identity {
    // svc agent reissue and svc agent delete <name> read this file too, so the usual advice would fail.
    const fix = "Restore it from a backup. Without one, run svc agent list to see the agent's ID, then " +
      "svc agent delete <id>, and remove its folder.";
    return this.#present(AGENT_FILES.identity, this.readJson(AGENT_FILES.identity, Identity, { fix }), fix);
  }

  auth(): AgentAuth {
    return this.#present(AGENT_FILES.auth, this.readJson(AGENT_FILES.auth, AgentAuth));
  }

  ait(): string {
    return this.#present(AGENT_FILES.ait, this.read(AGENT_FILES.ait)).trim();
  }

  /** Returns the key pair; `null` when the key is missing or incomplete. */
  async keysIfAny(): Promise<KeyPair | null> {
    const seed = fromBase64Url((this.read(AGENT_FILES.seed) ?? "").trim());
    return seed?.length === 32 ? await keyPairFromSeed(seed) : null;
  }

  async keys(): Promise<KeyPair> {
    const keys = await this.keysIfAny();
    if (keys === null) throw new CliError("CLI_FILE_INVALID", `${join(this.path, AGENT_FILES.seed)} is damaged`);
    return keys;
  }

  #present<T>(file: string, content: T | null, fix?: string): T {
    if (content === null) throw new CliError("CLI_FILE_INVALID", `${join(this.path, file)} is missing`, { fix });
    return content;
  }
}

/** Returns the result of `read`, or `other` when a file is damaged, or is missing although the agent needs it. */
export async function unlessDamaged<T, O>(read: () => T | Promise<T>, other: O): Promise<T | O> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof CliError && error.code === "CLI_FILE_INVALID") return other;
    throw error;
  }
}

export class AgentStore {
  readonly #folder: string;

  constructor(private readonly ctx: Context) {
    this.#folder = join(ctx.configDir, "agents");
  }

  /** Returns the folder of an existing agent. @throws {CliError} `CLI_AGENT_UNKNOWN`, `CLI_FILE_UNSAFE` */
  async open(name: string): Promise<AgentFolder> {
    const path = this.#pathOf(name);
    const kind = await kindOf(path);
    if (kind === "none") throw await this.#unknown(name);
    const owners = await ensureConfigDir(this.ctx);
    await checkDirectory(this.#folder, owners);
    await checkDirectory(path, owners);
    return new AgentFolder(this.ctx, path, name);
  }

  /** Refuses a name that is not valid, or is taken here. @throws {CliError} `CLI_USAGE`, `CLI_AGENT_EXISTS` */
  async refuseExisting(name: string): Promise<void> {
    const path = this.#pathOf(name);
    if (await kindOf(path) !== "none") throw new CliError("CLI_AGENT_EXISTS", `${path} exists already`);
  }

  /** Renames the pending folder to the agent's folder, whose path it returns. From then on the agent exists here. */
  async finish({ path, name }: AgentFolder, held: Disposable): Promise<string> {
    const final = this.#pathOf(name);
    this.#letGo(held);
    try {
      await Deno.rename(path, final);
      await syncDirectory(this.#folder);
    } catch (error) {
      throw saveFailed(final, "created", error);
    }
    return final;
  }

  async discard({ path, name }: AgentFolder, held: Disposable): Promise<void> {
    const deleted = join(this.#folder, `.${requireAgentName(name)}.deleted`);
    this.#letGo(held);
    try {
      // One rename takes the agent away, because a kill while its files are removed would otherwise leave half an
      // agent. #finishDeletions removes the files that a kill leaves.
      await Deno.remove(deleted, { recursive: true }).catch(() => {});
      await Deno.rename(path, deleted);
      await syncDirectory(this.#folder);
      await Deno.remove(deleted, { recursive: true });
    } catch (error) {
      // The folder is missing when another process has just finished this deletion.
      if (!(error instanceof Deno.errors.NotFound)) throw saveFailed(path, "removed", error);
    }
  }

  /** Removes what a killed deletion left, because it holds the key and the messages of an agent that is deleted. */
  async #finishDeletions(): Promise<void> {
    // Nothing is removed behind a link, because it could lead to the files of another program.
    const folder = await Deno.lstat(this.#folder).catch(() => null);
    if (folder?.isDirectory !== true) return;
    for await (const { name, isDirectory } of Deno.readDir(this.#folder)) {
      const isDeleted = isDirectory && name.startsWith(".") && name.endsWith(".deleted");
      // What cannot be removed now is tried again by the next command, so that this one still works.
      if (isDeleted) await Deno.remove(join(this.#folder, name), { recursive: true }).catch(() => {});
    }
  }

  /**
   * Runs `work` while no other process works on this agent.
   *
   * @throws {CliError} `CLI_AGENT_UNKNOWN` when the agent does not exist here, or no longer
   */
  async lock<T>(name: string, work: (folder: AgentFolder, held: Disposable) => Promise<T>): Promise<T> {
    return await this.#locked(name, async () => (await this.open(name)).path, work);
  }

  /**
   * Runs `work` on the pending folder of an agent while no other process works on it. `isNew` is true when no earlier
   * run has left files in the folder.
   *
   * @throws {CliError} `CLI_AGENT_EXISTS`
   */
  async lockPending<T>(
    name: string,
    work: (folder: AgentFolder, isNew: boolean, held: Disposable) => Promise<T>,
  ): Promise<T> {
    const place = async () => {
      await this.refuseExisting(name);
      const owners = await ensureConfigDir(this.ctx);
      await ensureDirectory(this.#folder, owners);
      const path = join(this.#folder, `.${requireAgentName(name)}.pending`);
      await ensureDirectory(path, owners);
      return path;
    };
    return await this.#locked(name, place, async (folder, held) => {
      const files = await Array.fromAsync(Deno.readDir(folder.path), (entry) => entry.name);
      const isNew = files.every((file) => file === LOCK_FILE);
      try {
        // Checked again, because another process may have completed the agent between the first check and the lock.
        await this.refuseExisting(name);
      } catch (error) {
        if (isNew) await this.discard(folder, held);
        throw error;
      }
      return await work(folder, isNew, held);
    });
  }

  async #locked<T>(
    name: string,
    place: () => Promise<string>,
    work: (folder: AgentFolder, held: Disposable) => Promise<T>,
  ): Promise<T> {
    let path = "";
    const lockPath = async () => join(path = await place(), LOCK_FILE);
    return await withLock(this.ctx, lockPath, async (held) => {
      await removeLeftovers(path, this.ctx.clock.now());
      await this.#finishDeletions();
      return await work(new AgentFolder(this.ctx, path, name), held);
    }, () => this.ctx.out.doing(`Waiting for another svc process that uses ${name}`));
  }

  /** Releases the lock early on Windows, because Windows cannot rename a folder that contains an open file. */
  #letGo(held: Disposable): void {
    if (this.ctx.os === "windows") held[Symbol.dispose]();
  }

  async names(): Promise<{ agents: string[]; pending: string[] }> {
    const agents: string[] = [], pending: string[] = [];
    try {
      await this.#finishDeletions();
      for await (const { name, isDirectory } of Deno.readDir(this.#folder)) {
        const half = /^\.(.+)\.pending$/.exec(name)?.[1];
        if (isDirectory && isAgentName(name)) agents.push(name);
        if (isDirectory && isAgentName(half)) pending.push(half);
      }
    } catch (error) {
      // A file in place of the folder counts as no agents, so that other commands run. Creating an agent reports it.
      if (!(error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory)) throw error;
    }
    return { agents: agents.sort(), pending: pending.sort() };
  }

  /** What `read` finds in the folder of each agent, by name. */
  async each<T>(read: (folder: AgentFolder) => T): Promise<Map<string, T>> {
    const found = new Map<string, T>();
    for (const name of (await this.names()).agents) {
      try {
        found.set(name, read(await this.open(name)));
      } catch (error) {
        // Skips the agent, because one damaged file would otherwise make commands about the other agents fail.
        if (!(error instanceof CliError)) throw error;
      }
    }
    return found;
  }

  #pathOf(name: string): string {
    return join(this.#folder, requireAgentName(name));
  }

  async #unknown(name: string): Promise<CliError> {
    const { agents, pending } = await this.names();
    const isHalf = pending.includes(name);
    const hint = isHalf ? " It was not created completely." : didYouMean(name, agents);
    const { configDir } = this.ctx;
    return new CliError("CLI_AGENT_UNKNOWN", `There is no agent ${name} in ${configDir}.${hint}`, {
      // Named, because a person who has set the variable long ago would look for the mistake in the command line.
      details: [this.ctx.env("SVC_AGENT") === name ? "SVC_AGENT names it." : OTHER_FOLDER],
      fix: isHalf ? `Resume with: svc agent create ${name}` : undefined,
    });
  }
}

/** Returns the name if it is valid. @throws {CliError} `CLI_USAGE` */
export function requireAgentName(text: string): string {
  if (isAgentName(text)) return text;
  throw new CliError("CLI_USAGE", `"${text}" is not an agent name: ${AGENT_NAME_RULE}`);
}

/** Checks all words of a command line that name an agent. @throws {CliError} `CLI_USAGE` */
export function checkAgentWords(places: readonly InputPlace[]): void {
  for (const { name, spec, values } of places) {
    const mayBeId = "orId" in spec && spec.orId === true;
    for (const word of [values[name]].flat()) {
      const isId = (word: string) => isUlid(word) || isAgentDid(word) || idEnd(word) !== null;
      if (typeof word === "string" && !(mayBeId && isId(word))) requireAgentName(word);
    }
  }
}

export interface AgentReference {
  id: string;
  /** Name on this machine; `null` for an agent of another machine. */
  localName: string | null;
  /** How messages name it. The end of an ID is shown with the name, because a person could have copied a wrong one. */
  shown: string;
}

/**
 * Returns an agent by its name here, its ID or its DID, or by the end of its ID, as `svc agent list` shows it. `owned`
 * is called only for such an end, because it costs requests.
 *
 * @throws {CliError} `CLI_AGENT_UNKNOWN`, `CLI_AMBIGUOUS`, `CLI_USAGE`, `CLI_FILE_INVALID`
 */
export async function findAgent(
  ctx: Context,
  text: string,
  owned: () => Promise<readonly { id: string; name: string }[]>,
): Promise<AgentReference> {
  const store = new AgentStore(ctx);
  const did = parseDid(text), end = idEnd(text);
  let id = did?.kind === "agent" ? did.id : isUlid(text) ? text : null, shown = text;
  const { agents } = await store.names();
  if (id === null && end !== null && !agents.includes(text)) {
    const known = await owned();
    // A name that is no end stays a name, so that the error says which agents are here.
    if (!isAgentName(text) || known.some(({ id }) => id.endsWith(end))) {
      const kind = { what: "an agent ID", named: "agent", list: "svc agent list" };
      id = await wholeId(text, () => Promise.resolve(known), kind);
      shown = `${known.find((agent) => agent.id === id)?.name} (${id})`;
    }
  }
  if (id !== null && !agents.includes(text)) {
    const here = [...await store.each((folder) => folder.identity().did)].find(([, did]) => parseDid(did)?.id === id);
    return { id, localName: here?.[0] ?? null, shown };
  }
  const { did: own } = (await store.open(text)).identity();
  return { id: parseDid(own)?.id ?? "", localName: text, shown };
}

/** How a person without an agent gets one. Without the second half, a person without an account would get an error. */
export const FIRST_AGENT = "svc agent create my-agent; without an account, paste the link of an invite into svc join -";

/**
 * Returns the named agent, else that of `SVC_AGENT`, else the only agent on this machine.
 *
 * @throws {CliError} `CLI_AGENT_UNKNOWN`; `CLI_USAGE` when there are several agents and none is named
 */
export async function chosenAgent(ctx: Context, named: string | undefined): Promise<AgentFolder> {
  const store = new AgentStore(ctx);
  return await store.open(named ?? ctx.env("SVC_AGENT") ?? onlyOne((await store.names()).agents, ctx));
}

function onlyOne(agents: readonly string[], ctx: Context): string {
  const [first, second] = agents;
  if (first === undefined) {
    throw new CliError("CLI_AGENT_UNKNOWN", `There is no agent in ${ctx.configDir}`, {
      details: [OTHER_FOLDER],
      fix: `Create one with ${FIRST_AGENT}.`,
    });
  }
  if (second === undefined) return first;
  throw new CliError("CLI_USAGE", `There are several agents on this machine. Name one of ${agents.join(", ")}`, {
    fix: `Name it as --help shows, or set SVC_AGENT=${first}.`,
  });
}
