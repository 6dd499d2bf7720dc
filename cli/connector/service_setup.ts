/**
 * `svc connector service …`: the connector of one agent, or of all, as an autostart service. The service starts with
 * the options and environment values of the install command. Secrets go into `runtime.json`, which only its owner can
 * read.
 */
import { sleep } from "../../shared/clock.ts";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import { readConfig } from "../account/config_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { PushPlatformId } from "../platforms/platform.ts";
import { chooseSystem, type Host, logPathOf, Service } from "../autostart/control.ts";
import { ensureConfigDir } from "../files/config_dir.ts";
import { profileOf } from "../files/profile.ts";
import { connectorOf } from "./attach.ts";
import { readConnectorFile } from "./local_api/discovery_file.ts";
import { wantedPort } from "./local_api/port.ts";
import { proxyAddress } from "./file_credentials.ts";
import {
  confirmChange,
  emptyRuntimeFile,
  parseReplies,
  RUNTIME_FILE,
  runtimeSettings,
  runtimeTarget,
} from "./runtime/runtime_file.ts";
import { refuseOptionsOfOne, runtimeOfOne, type StartOptions } from "./start_options.ts";
import { type Status, statusOf } from "./status.ts";

const UP_MS = 20_000;
const LOOK_EVERY_MS = 250;

export async function installConnector(
  ctx: Context,
  host: Host,
  own: readonly string[],
  agentName: string,
  options: StartOptions & { platform?: string | undefined },
) {
  const store = new AgentStore(ctx), folder = await store.open(agentName);
  // Checked here too, because the service would otherwise be installed and could not start.
  await wantedPort(store, folder, options.port);
  const identity = folder.identity();
  const place = await ownService(ctx, host, agentName, options.platform);
  requireProxy(ctx, options);
  const settings = runtimeSettings(folder);
  const target = runtimeTarget(ctx, settings?.file ?? null, identity.framework, options, settings?.source);
  await confirmChange(ctx, folder, target, options.yes === true);
  const token = options["hook-token"];
  if (token !== undefined && target !== null) {
    const file = settings?.file ?? emptyRuntimeFile(target.platform);
    await folder.writeJson(RUNTIME_FILE, { ...file, webhookToken: token, chosen: undefined });
  }
  const { agents: [installed], ...service } = await install(ctx, place, [folder], [
    ...[...own, "connector", "start", agentName],
    ...commonArguments(ctx, options),
    ...valued([["port", options.port]]),
    ...target === null ? readerArguments(options) : runtimeArguments(ctx, options, target.platform),
  ]);
  return { ...service, status: installed?.status as Status };
}

/**
 * Installs a service and waits for its connectors. Returns each agent with the status that its connector reports;
 * `null` without an answer.
 * @throws {CliError} `CLI_SERVICE_FAILED` when none of them answers
 */
async function install(
  ctx: Context,
  service: Service,
  folders: readonly AgentFolder[],
  command: readonly string[],
) {
  const before = new Map(folders.map((folder) => [folder, readConnectorFile(folder)?.token]));
  const logPath = logPathOf((service.agentName === null ? null : folders[0])?.path ?? ctx.configDir);
  const { system, name, path } = service, notes = await service.install({ command, logPath });
  // A timer ends the wait, because a clock that is set back would put off a deadline.
  let isLate = false;
  const cancel = ctx.clock.after(UP_MS, () => isLate = true);
  const agents = await Promise.all(folders.map(async (folder) => {
    return { agent: folder.name, status: await newStatus(ctx, folder, before.get(folder), () => isLate) };
  })).finally(cancel);
  if (folders.length > 0 && agents.every(({ status }) => status === null)) {
    throw new CliError("CLI_SERVICE_FAILED", "The service is installed, but its connector did not start", {
      fix: `svc connector service logs ${service.agentName ?? "--all"} shows why.`,
    });
  }
  return { system, name, path, notes, agents };
}

export async function installFleet(
  ctx: Context,
  host: Host,
  own: readonly string[],
  options: StartOptions & { platform?: string | undefined },
) {
  refuseOptionsOfOne(ctx, options);
  // The service does not have the environment of this command, so it would run without the token.
  if (ctx.env("SVC_HOOK_TOKEN") !== undefined) throw runtimeOfOne("SVC_HOOK_TOKEN", "the service of several agents");
  const place = await ownService(ctx, host, null, options.platform);
  requireProxy(ctx, options);
  await ensureConfigDir(ctx);
  const command = [
    ...own,
    "connector",
    "start",
    "--all",
    ...commonArguments(ctx, options),
    ...readerArguments(options),
  ];
  const folders = await new AgentStore(ctx).each((folder) => folder);
  return await install(ctx, place, [...folders.values()], command);
}

/**
 * Refuses a service that could not start. Also refuses a service that would call another proxy than this command does,
 * because it does not get the variables of this command.
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL`
 */
function requireProxy(ctx: Context, options: StartOptions): void {
  const { origin } = proxyAddress(ctx, options["proxy-ws-url"]);
  if (ctx.env("SVC_PROXY_URL") === undefined || readConfig(ctx)?.proxyUrl === origin) return;
  throw new CliError("CLI_USAGE", "SVC_PROXY_URL cannot be used for a service", {
    fix: `svc config set proxyUrl ${origin}`,
  });
}

/** The service of an agent, `null` for all of them. @throws as `Service.requireOwn` */
export async function ownService(ctx: Context, host: Host, agentName: string | null, platform = "auto") {
  const service = new Service(host, chooseSystem(platform, ctx.os), agentName, profileOf(ctx));
  await service.requireOwn(ctx.configDir);
  return service;
}

/**
 * The options of every service. Values of the environment become options, because the service has another environment.
 */
function commonArguments(ctx: Context, options: StartOptions): string[] {
  const words = valued([
    ["config-dir", ctx.configDir],
    ["exec", options.exec],
    ["proxy-ws-url", options["proxy-ws-url"] ?? ctx.env("SVC_PROXY_WS_URL")],
    ["ca", ctx.authority?.isSaved ? undefined : ctx.authority?.path],
  ]);
  const isStrict = options.strict || ctx.env("SVC_STRICT") === "1";
  const isHidden = options.hidden || ctx.env("SVC_HIDDEN") === "1";
  return [
    ...words,
    ...isStrict ? ["--strict"] : [],
    ...isHidden ? ["--hidden"] : [],
    ...ctx.allowInsecure ? ["--allow-insecure"] : [],
  ];
}

/** Options about messages for a service without a runtime in its command line. `svc install` may choose one later. */
function readerArguments({ replies, inbox }: StartOptions): string[] {
  return [...valued([["replies", parseReplies(replies)]]), ...inbox ? ["--inbox"] : []];
}

function runtimeArguments(ctx: Context, options: StartOptions, platform: PushPlatformId): string[] {
  const openClawUrl = platform === "openclaw" ? ctx.env("OPENCLAW_BASE_URL") : undefined;
  const words = valued([
    ["runtime-base-url", options["runtime-base-url"] ?? ctx.env("SVC_RUNTIME_BASE_URL")],
    ["openclaw-base-url", options["openclaw-base-url"] ?? openClawUrl],
    ["hook-path", options["hook-path"] ?? ctx.env("SVC_HOOK_PATH")],
    ["replies", options.replies],
  ]);
  // The command that installs has asked the person already, and the service cannot ask when it restarts.
  return words.length === 0 ? words : [...words, "--yes"];
}

function valued(given: readonly [name: string, value: string | undefined][]): string[] {
  return given.flatMap(([name, value]) => value === undefined ? [] : [`--${name}`, value]);
}

/**
 * Waits until the new connector answers and is no longer connecting. `null` when none answers in time.
 *
 * @param before token of the connector that ran before
 */
async function newStatus(
  ctx: Context,
  folder: AgentFolder,
  before: string | undefined,
  isLate: () => boolean,
): Promise<Status | null> {
  let status: Status | null = null;
  while (!isLate()) {
    const client = await connectorOf(ctx, folder);
    const isNew = client !== null && readConnectorFile(folder)?.token !== before;
    if (isNew) status = await statusOf(client).catch(() => null);
    if (status !== null && status.connection.state !== "connecting") break;
    await sleep(ctx.clock, LOOK_EVERY_MS);
  }
  return status;
}
