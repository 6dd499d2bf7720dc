/**
 * `svc mcp` (D-127): an MCP server for one agent on standard input and output. It answers before it has a connector, and
 * loads the MCP library after the console writes to standard error.
 */
import { settledWithin } from "../../shared/clock.ts";
import { chosenAgent } from "../agents/agent_choice.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { access } from "../connector/attach.ts";
import { runtimeSettings, runtimeTarget } from "../connector/delivery/runtime_file.ts";
import { ConnectorClient } from "../connector/local_api/client.ts";
import { findPeerEver, readPeers } from "../connector/peers.ts";
import type { Context } from "../context.ts";
import { describe } from "../errors.ts";
import { Output } from "../terminal/output.ts";
import { KeptConnector } from "./kept_connector.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";
import { McpAgent } from "./mcp_agent.ts";

/** The command line of `svc mcp`. */
export interface McpWanted {
  agent: string | undefined;
  isReadOnly: boolean;
  /** Aliases or DIDs of the only peers; `null`: all. */
  only: readonly string[] | null;
  isChannel: boolean;
  allowInsecure: boolean;
  /** Registers a function that ends the server. Returns a function that removes it. */
  onStop(stop: () => void): () => void;
}

/** Serves until standard input ends or the command is stopped. @throws {import("../errors.ts").CliError} */
export async function serveMcp(given: Context, wanted: McpWanted): Promise<void> {
  const ctx = withoutStdout(given);
  const { folder } = await chosenAgent(ctx, wanted.agent);
  consoleToStderr();
  const { name } = folder;
  warnOfUnknown(ctx, folder, wanted.only);
  const options = { "allow-insecure": wanted.allowInsecure };
  const isPush = await isPushPlatform(ctx, folder, options);
  if (isPush && wanted.isChannel) ctx.out.warn("The messages of this agent go to its runtime: --channel has no effect");
  await using connector = new KeptConnector(ctx.clock, name, () => access(ctx, folder, options));
  const mcp = new McpAgent({
    identity: { ...folder.identity(), name },
    connector,
    peers: () => readPeers(folder),
    clock: ctx.clock,
    random: ctx.random,
    isPush,
    isReadOnly: wanted.isReadOnly,
    only: wanted.only,
  });
  const stopped = new AbortController();
  const forget = wanted.onStop(() => stopped.abort());
  void connector.watch();
  const { serveMcpAgent } = await import("./stdio_server.ts");
  await serveMcpAgent(mcp, {
    version: ctx.version,
    isChannel: wanted.isChannel && !isPush,
    report: (error) => ctx.out.note(error.message),
    signal: stopped.signal,
  });
  forget();
}

/** Output of libraries must not come between the lines of the protocol. */
function consoleToStderr(): void {
  for (const method of ["log", "info", "debug"] as const) console[method] = console.error;
}

/** The context with a terminal that writes everything to standard error. */
function withoutStdout(ctx: Context): Context {
  const { stderr, stderrIsTerminal } = ctx.terminal;
  const stdout = (text: string) => {
    stderr(text);
    return true;
  };
  const terminal = { ...ctx.terminal, stdout, stdoutIsTerminal: stderrIsTerminal };
  return {
    ...ctx,
    configDir: ctx.configDir,
    terminal,
    out: new Output(terminal, ctx.clock, { json: false, colour: false }),
  };
}

function warnOfUnknown(ctx: Context, folder: AgentFolder, only: readonly string[] | null): void {
  if (only === null) return;
  const peers = readPeers(folder);
  const unknown = only.filter((name) => findPeerEver(peers, name) === null);
  if (unknown.length > 0) ctx.out.warn(`${folder.name} has no peer with the alias ${unknown.join(", ")}`);
}

/** Whether the messages go to a runtime: as the running connector says, else as the files say. */
async function isPushPlatform(
  ctx: Context,
  folder: AgentFolder,
  options: { "allow-insecure": boolean },
): Promise<boolean> {
  const settings = runtimeSettings(folder);
  const { framework } = folder.identity();
  const hosted = { ...options, isHosted: true };
  let isPush = runtimeTarget(ctx, settings?.file ?? null, framework, hosted, settings?.source) !== null;
  const running = async () => {
    const status = await (await ConnectorClient.of(ctx, folder))?.status();
    if (status !== undefined) isPush = status.runtime.platform !== "inbox";
  };
  const asked = running().catch((error) => ctx.out.warn(describe(error).cause));
  await settledWithin(ctx.clock, asked, LIMIT.platformMs);
  return isPush;
}
