/** What the commands on runtimes have in common: the agent they are about, and its runtime as it is known so far. */
import type { Context } from "../context.ts";
import { CliError } from "../errors.ts";
import { PLATFORM_IDS, type PlatformId } from "../platforms/platform.ts";
import { didYouMean } from "../suggest.ts";

export const FOR = {
  value: "platform",
  summary: `One of ${PLATFORM_IDS.join(", ")}`,
  complete: PLATFORM_IDS,
} as const;
export const WHICH_AGENT = {
  value: "name",
  summary: "The agent's name on this machine; may be left out when there is one",
  complete: "agents",
} as const;

/** @throws {CliError} `CLI_USAGE` */
export function parsePlatform(text: string): PlatformId {
  const id = PLATFORM_IDS.find((known) => known === text);
  if (id !== undefined) return id;
  const hint = didYouMean(text, PLATFORM_IDS) || ` The platforms are ${PLATFORM_IDS.join(", ")}.`;
  throw new CliError("CLI_USAGE", `There is no platform "${text}".${hint}`);
}

/** @throws {CliError} `CLI_USAGE` */
export function parsePort(text: string | undefined, what: string): number | undefined {
  if (text === undefined) return undefined;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : NaN;
  if (port >= 1 && port <= 65_535) return port;
  throw new CliError("CLI_USAGE", `${what} must be a number from 1 to 65535, not "${text}"`);
}

export interface ProviderOptions {
  for?: string | undefined;
  "agent-name"?: string | undefined;
  "platform-state-dir"?: string | undefined;
  "platform-base-url"?: string | undefined;
  "webhook-token"?: string | undefined;
  "connector-base-url"?: string | undefined;
  "connector-url"?: string | undefined;
}

/** An agent, what is known of its runtime, and its connector. */
export async function providerOf(ctx: Context, options: ProviderOptions) {
  const [{ connectorOf }, files, { Runtime, parseRuntimeUrl }, { PLATFORMS }, { thisMachine }] = await Promise.all([
    import("./connector.ts"),
    import("../connector/runtime_file.ts"),
    import("../connector/runtime.ts"),
    import("../platforms/table.ts"),
    import("../platforms/this_machine.ts"),
  ]);
  const given = options["connector-base-url"] ?? options["connector-url"];
  const first = await connectorOf(ctx, options["agent-name"]);
  const { folder } = first;
  const saved = files.readRuntimeFile(folder);
  const wanted = options.for === undefined ? null : parsePlatform(options.for);
  const file = wanted === null || saved?.platform === wanted ? saved : files.emptyRuntimeFile(wanted);
  // The token of the local API goes nowhere but to this machine.
  const asked = given ?? file?.connectorBaseUrl ?? undefined;
  const url = asked === undefined ? undefined : parseRuntimeUrl(asked, "--connector-base-url", false);
  const { client } = url === undefined ? first : await connectorOf(ctx, folder.name, url);
  const target = files.runtimeTarget(ctx, file, folder.identity().framework, {
    "runtime-base-url": options["platform-base-url"],
    "hook-token": options["webhook-token"],
    "allow-insecure": true,
  });
  const machine = thisMachine(ctx);
  const stateDir = options["platform-state-dir"] ?? file?.stateDir ?? null;
  const platform = PLATFORMS[target.platform];
  const runtime = new Runtime({ fetch: ctx.fetch, clock: ctx.clock, reach: ctx.reach }, platform, target);
  return { folder, file, client, target, machine, stateDir, platform, runtime };
}
