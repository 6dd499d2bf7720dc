/**
 * `svc mcp`: an MCP server for one agent on standard input and output. It answers before it has a connector, because
 * clients give up early, and loads the MCP library after the console writes to standard error.
 */
import { settledWithin } from "../../shared/clock.ts";
import { chosenAgent } from "../agents/agent_reference.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { thisHost } from "../autostart/this_host.ts";
import { connectorOf, keptAccess } from "../connector/attach.ts";
import { runtimeSettings, runtimeTarget } from "../connector/runtime/runtime_file.ts";
import { readConnectorFile } from "../connector/local_api/discovery_file.ts";
import { pairingCommand } from "../connector/local_api/pairing_hint.ts";
import { findPeerEver, readPeers } from "../connector/peers.ts";
import { statusOf } from "../connector/status.ts";
import type { Context } from "../context.ts";
import { describe } from "../errors.ts";
import { Output } from "../terminal/output.ts";
import { McpAgent } from "./mcp_agent.ts";

/** With more, a host that measures the start gives up; with less, a busy connector is not asked. */
const PLATFORM_MS = 500;

/** Time for the program that puts a message into the queue of Codex. */
const PROGRAM_MS = 10_000;

/** The command line of `svc mcp`. */
export interface McpWanted {
  agent: string | undefined;
  isReadOnly: boolean;
  /** Aliases or DIDs of the only peers; `null`: all. */
  only: readonly string[] | null;
  isChannel: boolean;
  /** Wake the model of the program that runs the server. */
  isWaking: boolean;
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
  await using connector = keptAccess(ctx, folder, options);
  const mcp = new McpAgent({
    identity: { ...folder.identity(), name },
    connector,
    peers: () => readPeers(folder),
    pairingCommand: (action, body) => {
      const url = readConnectorFile(folder)?.url;
      return url === undefined ? null : pairingCommand(folder, url, action, body);
    },
    clock: ctx.clock,
    random: ctx.random,
    isPush,
    isReadOnly: wanted.isReadOnly,
    only: wanted.only,
  });
  const stopped = new AbortController();
  const forget = wanted.onStop(() => stopped.abort());
  if (wanted.isWaking && !isPush) {
    const { claudeInbox, codexQueue, wakeModel } = await import("./wake.ts");
    const inbox = claudeInbox(ctx);
    const run = async (program: string, args: string[]) => {
      const host = thisHost(ctx);
      let code: number | null = null;
      await settledWithin(ctx.clock, host.run(program, args).then((ran) => code = ran?.code ?? null), PROGRAM_MS);
      return code;
    };
    const wayOf = () => inbox ?? (mcp.codexThread === null ? null : codexQueue(mcp.codexThread, run));
    void wakeModel(mcp, wayOf, stopped.signal);
  }
  const { serveMcpAgent } = await import("./stdio_server.ts");
  await serveMcpAgent(mcp, {
    version: ctx.version,
    isChannel: wanted.isChannel && !isPush,
    report: (error) => ctx.out.note(error.message),
    signal: stopped.signal,
  });
  stopped.abort();
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
  let isPush = runtimeTarget(ctx, settings?.file ?? null, framework, options, settings?.source) !== null;
  const running = async () => {
    const client = await connectorOf(ctx, folder);
    if (client !== null) isPush = (await statusOf(client)).runtime.platform !== "inbox";
  };
  const asked = running().catch((error) => ctx.out.warn(describe(error).cause));
  await settledWithin(ctx.clock, asked, PLATFORM_MS);
  return isPush;
}
