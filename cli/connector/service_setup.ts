/**
 * `svc connector service …`: an agent's connector as an autostart service (D-91). The service starts with the options and
 * environment values of the install command. Secrets go into `runtime.json`, which only its owner can read.
 */
import { join } from "node:path";
import { sleep } from "../../shared/clock.ts";
import { type AgentFolder, AgentStore } from "../agents/agent_store.ts";
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import type { PlatformId } from "../platforms/platform.ts";
import { chooseSystem, type Installed, installService, logCommand, uninstallService } from "../autostart/control.ts";
import type { Host } from "../autostart/autostart.ts";
import { ConnectorClient } from "./local_api/client.ts";
import { readConnectorFile } from "./local_api/discovery_file.ts";
import { proxyAddress } from "./link/proxy_address.ts";
import { emptyRuntimeFile, RUNTIME_FILE, runtimeSettings, runtimeTarget } from "./delivery/runtime_file.ts";
import type { StartOptions } from "./agent_connector.ts";
import type { Status } from "./status.ts";

/** Time for the connector in the service to answer. */
const UP_MS = 20_000;
const LOOK_EVERY_MS = 250;

export interface ServiceResult extends Installed {
  /** Status that the new connector reports. */
  status: Status;
}

export async function installConnector(
  ctx: Context,
  host: Host,
  own: readonly string[],
  agentName: string,
  options: StartOptions & { platform?: string | undefined },
): Promise<ServiceResult> {
  const folder = await new AgentStore(ctx).open(agentName);
  const system = chooseSystem(options.platform ?? "auto", ctx.os);
  const identity = folder.identity();
  // Fails here, before a service is installed that could not start.
  proxyAddress(ctx, options["proxy-ws-url"], options["allow-insecure"]);
  const settings = runtimeSettings(folder);
  const target = runtimeTarget(ctx, settings?.file ?? null, identity.framework, options, settings?.source);
  const token = options["hook-token"];
  if (token !== undefined) {
    const file = settings?.file ?? emptyRuntimeFile(target.platform);
    await folder.writeJson(RUNTIME_FILE, { ...file, webhookToken: token });
  }
  const before = readConnectorFile(folder)?.token;
  const command = [...own, "connector", "start", agentName, ...serviceArguments(ctx, options, target.platform)];
  const installed = await installService(host, system, { agentName, command, logPath: logPathOf(folder) });
  return { ...installed, status: await comeUp(ctx, folder, before) };
}

export async function uninstallConnector(ctx: Context, host: Host, agentName: string, platform = "auto") {
  const system = chooseSystem(platform, ctx.os);
  return { system, removed: await uninstallService(host, system, agentName) };
}

export async function connectorLogs(ctx: Context, agentName: string, platform: string, lines: number, follow: boolean) {
  const folder = await new AgentStore(ctx).open(agentName);
  return logCommand(chooseSystem(platform, ctx.os), agentName, logPathOf(folder), lines, follow);
}

function logPathOf({ path }: AgentFolder): string {
  return join(path, "connector.log");
}

/** The options of the service; values of the environment become options, because the service does not have it. */
function serviceArguments(ctx: Context, options: StartOptions, platform: PlatformId): string[] {
  const openClawUrl = platform === "openclaw" ? ctx.env("OPENCLAW_BASE_URL") : undefined;
  const given: [string, string | undefined][] = [
    ["config-dir", ctx.configDir],
    ["proxy-ws-url", options["proxy-ws-url"] ?? ctx.env("SVC_PROXY_WS_URL")],
    ["runtime-base-url", options["runtime-base-url"] ?? ctx.env("SVC_RUNTIME_BASE_URL")],
    ["openclaw-base-url", options["openclaw-base-url"] ?? openClawUrl],
    ["hook-path", options["hook-path"] ?? ctx.env("SVC_HOOK_PATH")],
    ["port", options.port],
    ["ca", ctx.authority?.path],
  ];
  const valued = given.flatMap(([name, value]) => value === undefined ? [] : [`--${name}`, value]);
  return options["allow-insecure"] ? [...valued, "--allow-insecure"] : valued;
}

/** Waits until the new connector answers and is no longer connecting. @throws {CliError} `CLI_SERVICE_FAILED` */
async function comeUp(ctx: Context, folder: AgentFolder, before: string | undefined): Promise<Status> {
  const end = ctx.clock.now() + UP_MS;
  let status: Status | null = null;
  while (ctx.clock.now() < end && (status === null || status.connection.state === "connecting")) {
    const client = await ConnectorClient.of(ctx, folder);
    if (client !== null && client.file.token !== before) status = await client.status().catch(() => null);
    if (status === null || status.connection.state === "connecting") await sleep(ctx.clock, LOOK_EVERY_MS);
  }
  if (status !== null) return status;
  throw new CliError("CLI_SERVICE_FAILED", "The service is installed, but its connector did not start", {
    fix: `svc connector service logs ${folder.name} shows why.`,
  });
}
