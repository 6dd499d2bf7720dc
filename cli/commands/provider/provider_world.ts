/** Shared parts of the runtime commands: the agent that a command concerns, and its saved runtime settings. */
import { join } from "node:path";
import type { Context } from "../../context.ts";
import { type Machine, PLATFORM_IDS, type PlatformId, type RuntimeTarget } from "../../platforms/platform.ts";
import { oneOf } from "../../command_line/numbers.ts";
import { type AgentFolder, AgentStore, unlessDamaged } from "../../agents/agent_store.ts";
import { endOf } from "../../agents/lifecycle.ts";
import { PrivateFolder } from "../../files/private_files.ts";
import { connectorOf } from "../../connector/attach.ts";
import { readConnectorFile } from "../../connector/local_api/discovery_file.ts";
import { parseHookToken, parseRuntimeUrl, Runtime } from "../../connector/runtime/runtime.ts";
import { PLATFORMS } from "../../platforms/table.ts";
import { thisMachine } from "../../platforms/local_machine.ts";
import { connect } from "../../account/registry_access.ts";
import * as files from "../../connector/runtime/runtime_file.ts";

export const FOR = {
  value: "platform",
  summary: `One of ${PLATFORM_IDS.join(", ")}`,
  complete: PLATFORM_IDS,
} as const;
export const CONNECTOR_URL = {
  value: "url",
  summary: "Local API URL of the connector (default: from its discovery file)",
} as const;
export const STATE_DIR = { value: "dir", summary: "State directory of the runtime", complete: "files" } as const;
export const WHICH_AGENT = {
  value: "name",
  summary: "Only this agent of this machine (default: every agent)",
  complete: "agents",
} as const;

/** @throws {CliError} `CLI_USAGE` */
export function parsePlatform(text: string): PlatformId {
  return oneOf(PLATFORM_IDS, text, "platform", "The platforms are");
}

interface ProviderOptions {
  for?: string | undefined;
  "agent-name"?: string | undefined;
  "platform-state-dir"?: string | undefined;
  "platform-base-url"?: string | undefined;
  "webhook-token"?: string | undefined;
  "connector-base-url"?: string | undefined;
  "connector-url"?: string | undefined;
}

/** The agent that a runtime command concerns, and the folder of its runtime settings. */
interface ProviderPlace {
  /** The named agent, else the only agent on this machine; `null` when there are none or several. */
  folder: AgentFolder | null;
  agents: readonly string[];
  /** The folder of the settings: the agent's own when it is named, else the shared one. */
  settings: PrivateFolder;
}

/** @throws {CliError} `CLI_AGENT_UNKNOWN` when the named agent does not exist on this machine */
export async function placeOf(ctx: Context, agentName: string | undefined): Promise<ProviderPlace> {
  const store = new AgentStore(ctx), { agents } = await store.names();
  const name = agentName ?? (agents.length === 1 ? agents[0] : undefined);
  const folder = name === undefined ? null : await store.open(name);
  const isOwn = agentName !== undefined && folder !== null;
  return { folder, agents, settings: isOwn ? folder : new PrivateFolder(ctx, ctx.configDir) };
}

/**
 * Prepares the agents for new settings, before these are saved: asks about the unread messages of each agent that will
 * use them, and removes the platform that svc itself had chosen for such an agent.
 *
 * @throws {CliError} `CLI_PLATFORM_CHANGE`
 */
export async function agreeToChange(
  ctx: Context,
  { agents, settings }: ProviderPlace,
  target: RuntimeTarget | null,
  isAgreed: boolean,
): Promise<void> {
  if (target === null) return;
  const store = new AgentStore(ctx);
  const folders = await Promise.all(agents.map((name) => store.open(name)));
  const changed = folders.filter((folder) => {
    const own = files.readRuntimeFileIn(folder);
    return folder.path === settings.path ||
      settings.path === ctx.configDir && (own === null || own.chosen === "default");
  });
  for (const folder of changed) await files.confirmChange(ctx, folder, target, isAgreed);
  for (const folder of changed) await files.forgetDefault(folder);
}

/** Warns about agents whose own settings override the shared ones. */
export async function warnOfOwnSettings(ctx: Context, { agents, settings }: ProviderPlace): Promise<void> {
  if (settings.path !== ctx.configDir) return;
  const store = new AgentStore(ctx);
  for (const name of agents) {
    if (files.readRuntimeFileIn(await store.open(name)) === null) continue;
    ctx.out.warn(`${name} has its own settings, which override these; change them with --agent-name ${name}`);
  }
}

/**
 * Returns the saved settings of a runtime, the client of its agent's connector, and what the checks of `provider doctor`
 * ask. `folder` is `null` without an agent, `runtime` on the platform `inbox`, `clientUrl` (the address of the
 * connector's local API) without a connector, and `stateDir` unless an option or the runtime file gives the state
 * directory of the runtime. `ended` asks the registry whether it lets the agent in, and throws when it does not answer.
 */
export async function providerOf(ctx: Context, options: ProviderOptions, folder: AgentFolder | null) {
  const given = options["connector-base-url"] ?? options["connector-url"];
  const shared = new PrivateFolder(ctx, ctx.configDir);
  const own = folder && files.runtimeSettings(folder);
  const saved = own?.file ?? files.readRuntimeFileIn(shared);
  const savedIn = own?.source === "agent" && folder !== null ? folder.path : shared.path;
  const wanted = options.for === undefined ? null : parsePlatform(options.for);
  const isSaved = saved !== null && (wanted === null || saved.platform === wanted);
  const machine = thisMachine(ctx), givenDir = options["platform-state-dir"];
  const file = isSaved ? saved : wanted === null ? null : await foundSettings(machine, wanted, givenDir ?? null);
  // An address of another machine is refused, because the local API token is sent there.
  const asked = given ?? file?.connectorBaseUrl ?? undefined;
  const url = asked === undefined ? undefined : parseRuntimeUrl(asked, "--connector-base-url");
  const client = folder && await connectorOf(ctx, folder, url);
  const anywhere = { env: ctx.env, allowInsecure: true };
  // Damaged files of the agent are a result of the checks, and do not hide those of the other agents.
  const framework = folder === null ? undefined : await unlessDamaged(() => folder.identity().framework, undefined);
  const runtimeUrl = options["platform-base-url"], token = options["webhook-token"];
  // Checked here too, because a refusal would otherwise name options that these commands do not have.
  if (runtimeUrl !== undefined) parseRuntimeUrl(runtimeUrl, "--platform-base-url", { allowInsecure: true });
  if (token !== undefined) parseHookToken(token, "--webhook-token");
  const target = files.runtimeTarget(anywhere, file, framework, {
    "runtime-base-url": runtimeUrl,
    "hook-token": token,
  });
  const stateDir = givenDir ?? file?.stateDir ?? null;
  const runtimeAt = (at: RuntimeTarget) => new Runtime(ctx, PLATFORMS[at.platform], at);
  const runtime = target && runtimeAt(target);
  const platform = PLATFORMS[target?.platform ?? "inbox"];
  const source = isSaved ? join(savedIn, files.RUNTIME_FILE) : wanted === null ? "the default" : "--for";
  const clientUrl = url ?? (folder && readConnectorFile(folder)?.url) ?? null;
  const ended = async (of: AgentFolder) => await endOf(connect(ctx, {}, of.identity().registryUrl).registry, of);
  return { folder, file, source, client, clientUrl, machine, stateDir, platform, runtime, runtimeAt, ended };
}

/**
 * Returns the settings of a platform that is named but not saved: the address at which it is found on this machine. With
 * the default one, a set-up would move a runtime that has another port or path.
 */
async function foundSettings(machine: Machine, id: PlatformId, stateDir: string | null): Promise<files.RuntimeFile> {
  const file = files.emptyRuntimeFile(id), platform = PLATFORMS[id];
  if (platform.id === "inbox") return file;
  const { baseUrl = null, hookPath = null } = await platform.detect(machine, stateDir);
  return { ...file, baseUrl, hookPath };
}

export type Provider = Awaited<ReturnType<typeof providerOf>>;
