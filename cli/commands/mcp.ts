/**
 * `svc mcp`: the agent as tools for a program that runs a model, on standard input and output. It answers before it has a
 * connector, because clients give up early. It redirects the console to standard error before it loads the MCP library,
 * because other output would break the protocol.
 */
import { settledWithin } from "../../shared/clock.ts";
import { type AgentFolder, chosenAgent } from "../agents/agent_store.ts";
import { thisHost } from "../autostart/control.ts";
import { connectorOf, keptAccess } from "../connector/attach.ts";
import { runtimeSettings, runtimeTarget } from "../connector/runtime/runtime_file.ts";
import { readConnectorFile } from "../connector/local_api/discovery_file.ts";
import { pairingCommand } from "../connector/local_api/curl_lines.ts";
import { findPeerEver, readPeers } from "../connector/peers/peers.ts";
import { statusOf } from "../connector/status.ts";
import type { Context } from "../context.ts";
import { CliError, describe } from "../errors.ts";
import { Output } from "../terminal/output.ts";
import { McpAgent } from "../mcp/mcp_agent.ts";
import { AGENT_ARG, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { stopSignal } from "../terminal/interrupt.ts";

/** With more, a host that measures the start gives up; with less, a busy connector is not asked. */
const PLATFORM_MS = 500;

/** Time for the program that puts a message into the queue of Codex. */
const PROGRAM_MS = 10_000;

export const COMMANDS = [
  command({
    path: ["mcp"],
    summary: "Serve an agent's messages as MCP tools on standard input and output",
    details: [
      "A program that runs a model starts this command and reads its output. Runs the agent's connector unless one runs.",
      "Sending and reading need no further approval here; pairing asks the person through that program.",
    ],
    args: { agent: AGENT_ARG },
    options: {
      "read-only": { summary: "Offer only tools that change nothing: none sends, pairs or marks a message read" },
      peers: { value: "names", summary: "Show the model only these peers: aliases or DIDs, separated by commas" },
      channel: { summary: "Announce new messages to Claude Code as a channel (preview)" },
      "wake-model": {
        summary: "Wake the model when a message arrives: through the inbox of Claude Code, the queue of Codex",
      },
      "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
    },
    examples: {
      "svc mcp alpha": "What the configuration of such a program runs",
      "svc mcp alpha --peers beta --read-only": "Let a model only read what beta has written",
    },
    run: (ctx, { args: { agent }, options }) => serveMcp(withoutStdout(ctx), agent, options),
  }),
];

/** @throws {CliError} `CLI_USAGE` */
function peerNames(list: string): string[] {
  const names = list.split(",").map((name) => name.trim());
  const { sendersAtOnce } = CONNECTOR_LIMITS;
  if (names.length <= sendersAtOnce && names.every((name) => name !== "")) return names;
  throw new CliError("CLI_USAGE", `--peers takes 1 to ${sendersAtOnce} names, separated by commas`);
}

interface McpOptions {
  "read-only": boolean;
  peers: string | undefined;
  channel: boolean;
  "wake-model": boolean;
}

/** Serves until standard input ends or the command is stopped. @throws {CliError} */
async function serveMcp(ctx: Context, agentName: string | undefined, options: McpOptions): Promise<void> {
  const only = options.peers === undefined ? null : peerNames(options.peers);
  const folder = await chosenAgent(ctx, agentName);
  consoleToStderr();
  const { name } = folder;
  warnOfUnknown(ctx, folder, only);
  const isPush = await isPushPlatform(ctx, folder);
  if (isPush && options.channel) ctx.out.warn("The messages of this agent go to its runtime: --channel has no effect");
  await using connector = keptAccess(ctx, folder);
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
    isReadOnly: options["read-only"],
    only,
  });
  using stopped = stopSignal(ctx);
  const ended = new AbortController();
  if (options["wake-model"] && !isPush) {
    const { claudeInbox, codexQueue, wakeModel } = await import("../mcp/wake.ts");
    const inbox = claudeInbox(ctx);
    const run = async (program: string, args: string[]) => {
      let code: number | null = null;
      await settledWithin(
        ctx.clock,
        thisHost(ctx).run(program, args).then((ran) => code = ran?.code ?? null),
        PROGRAM_MS,
      );
      return code;
    };
    const wayOf = () => inbox ?? (mcp.codexThread === null ? null : codexQueue(mcp.codexThread, run));
    void wakeModel(mcp, wayOf, AbortSignal.any([stopped.signal, ended.signal]));
  }
  const { serveMcpAgent } = await import("../mcp/stdio_server.ts");
  await serveMcpAgent(mcp, {
    version: ctx.version,
    isChannel: options.channel && !isPush,
    report: (error) => ctx.out.note(error.message),
    signal: stopped.signal,
  });
  ended.abort();
}

/** Sends output of libraries to standard error, because between the lines of the protocol it would break them. */
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
async function isPushPlatform(ctx: Context, folder: AgentFolder): Promise<boolean> {
  const settings = runtimeSettings(folder);
  const { framework } = folder.identity();
  let isPush = runtimeTarget(ctx, settings?.file ?? null, framework, {}, settings?.source) !== null;
  const running = async () => {
    const client = await connectorOf(ctx, folder);
    if (client !== null) isPush = (await statusOf(client)).runtime.platform !== "inbox";
  };
  const asked = running().catch((error) => ctx.out.warn(describe(error).cause));
  await settledWithin(ctx.clock, asked, PLATFORM_MS);
  return isPush;
}
