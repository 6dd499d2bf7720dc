/**
 * `svc mcp install`, and `svc mcp`, which offers the agent as tools to a program that runs a model, on standard input
 * and output. It answers before it has a connector, because clients give up early. It redirects the console to standard
 * error before it loads the MCP library, because other output would break the protocol.
 */
import { resolve } from "node:path";
import { AGENT_ARG, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { oneOf, parseNames } from "../command_line/numbers.ts";
import { CliError, describe } from "../errors.ts";
import { HOST_IDS, SCOPES, WAKES } from "../hosts/table.ts";
import { fields, Output } from "../terminal/output.ts";
import { type AgentFolder, chosenAgent } from "../agents/agent_store.ts";
import { ownCommand } from "../own_command.ts";
import { settledWithin } from "../../shared/clock.ts";
import { connectorOf, keptAccess } from "../connector/attach.ts";
import { runtimeSettings, runtimeTarget } from "../connector/runtime/runtime_file.ts";
import { pairingCommand, readConnectorFile } from "../connector/local_api/discovery_file.ts";
import { findPeerEver, readPeers } from "../connector/peers/peers.ts";
import { reportDefects } from "../connector/defects.ts";
import { statusOf } from "../connector/status.ts";
import type { Context } from "../context.ts";
import { McpAgent } from "../mcp/mcp_agent.ts";
import { runProgram } from "../platforms/local_machine.ts";
import { CONNECTOR_LIMITS } from "../connector/limits.ts";
import { stopSignal } from "../terminal/interrupt.ts";

/**
 * Time in which a connector says which platform it uses. With more, a host that limits the start gives up; with less, a
 * busy connector cannot answer.
 */
const PLATFORM_MS = 500;

/** Time for the program that puts a message into the queue of Codex. */
const PROGRAM_MS = 10_000;

export const COMMANDS = [
  command({
    path: ["mcp", "install"],
    summary: "Give a coding agent the tools of an agent: writes its configuration file",
    details: [
      "Only the agent's entry changes in that file; a copy of the old file is kept for --undo. Safe to run again.",
      "The entry holds no secret. For a host that is not in the list, add by hand what --print shows.",
    ],
    args: { agent: AGENT_ARG },
    options: {
      for: { value: "host", summary: `One of ${HOST_IDS.join(", ")}`, required: true, complete: HOST_IDS },
      scope: { value: "scope", summary: "user: every project; project: this folder (default user)", complete: SCOPES },
      name: { value: "key-name", summary: "Name of the entry in the host's file (default: svc-<agent>)" },
      wake: {
        value: "way",
        summary: "Wake the model when a message arrives: auto, inbox (Claude Code, Codex) or hook (Claude Code)",
        complete: WAKES,
      },
      "read-only": { summary: "Only tools that change nothing: none sends, pairs or marks a message read" },
      peers: { value: "aliases", summary: "Only these peers, separated by commas" },
      print: { summary: "Show the file and the entry, and write nothing" },
      undo: { summary: "Remove the entry, if it is the one that svc wrote" },
    },
    examples: {
      "svc mcp install --for claude-code --wake auto": "Use the only agent of this machine in Claude Code",
      "svc mcp install alpha --for cursor --peers beta": "Let Cursor talk with beta only",
      "svc mcp install alpha --for codex --undo": "Remove the entry from Codex",
    },
    async run(ctx, { args, options }) {
      const host = oneOf(HOST_IDS, options.for, "host");
      const scope = oneOf(SCOPES, options.scope ?? "user", "scope");
      const wake = options.wake === undefined ? undefined : oneOf(WAKES, options.wake, "way of --wake");
      const only = parseNames(options.peers, "--peers", CONNECTOR_LIMITS.sendersAtOnce);
      if (options.print && options.undo) throw new CliError("CLI_USAGE", "--print and --undo exclude each other");
      const { installEntry, isOnPath, planEntry, recordedEntries, removeInstalled } = await import(
        "../hosts/install.ts"
      );
      const folder = await chosenAgent(ctx, args.agent);
      const agent = folder.name;
      if (only !== null && !options.undo) warnOfUnknown(ctx, folder, only);
      const wish = {
        host,
        scope,
        name: options.name,
        wake,
        readOnly: options["read-only"],
        peers: options.peers,
        // To wake Codex, `svc mcp` starts a program of Codex, which the permissions of `connector` do not allow.
        own: scope === "project" ? ["svc"] : ownCommand(host === "codex" && wake !== undefined ? "svc" : "connector"),
        project: resolve(ctx.cwd ?? "."),
      };
      const work = options.print ? planEntry : options.undo ? removeInstalled : installEntry;
      const { hostName, name, command, args: words, files, messages, then, unhooked } = await work(ctx, folder, wish);
      const [entry, hook = null] = files;
      if (scope === "project" && !options.undo && !await isOnPath(ctx, "svc")) {
        ctx.out.warn("PATH has no command svc, which the entry of a project starts");
      }
      if (host === "codex" && wake !== undefined && !options.undo && !await isOnPath(ctx, "codex")) {
        ctx.out.warn(
          "PATH has no command codex, without which no message wakes its model: npm install -g @openai/codex",
        );
      }
      const data = { agent, host, scope, name, command, args: words, path: entry.path, changed: entry.changed };
      const of = hook && { path: hook.path, changed: hook.changed };
      if (options.print) {
        const parts = files.map(({ path, fragment }) => ({ path, text: fragment }));
        const lines = parts.flatMap(({ path, text }, i) => [...i > 0 ? [""] : [], `${path}:`, ...text.split("\n")]);
        return ctx.out.result({ ...data, files: parts }, lines);
      }
      for (const { path, place } of recordedEntries(ctx, folder)) {
        const other = place.split(".").at(-1) ?? "";
        if (path !== entry.path || other === name) continue;
        // It may be wanted, with other switches, but the model of a person who gave a new name would see each tool twice.
        ctx.out.warn(`${hostName} also has the tools of ${agent} as ${other}`);
        const words = ["mcp", "install", agent, "--for", host, "--scope", scope, "--name", other, "--undo"];
        ctx.out.next(words, { when: `to remove ${other}` });
      }
      const changed = files.filter((file) => file.changed).map(({ path }) => path);
      if (options.undo) {
        const text = changed.length === 0 ? "There is nothing to undo." : ctx.out.bold(`Removed: ${name}.`);
        return ctx.out.result({ ...data, hook: of }, [text, ...changed.map((path) => `  from  ${path}`)]);
      }
      if (messages.platform !== "inbox") {
        const change = `svc install --for inbox --agent-name ${agent}`;
        const problem = `Messages for ${agent} go to ${messages.platform}, and the tools cannot read them`;
        ctx.out.warn(`${problem}; to change that: ${change}`);
      }
      ctx.out.result({ ...data, hook: of, platform: messages.platform }, [
        ctx.out.bold(`${hostName} has the tools of ${agent} as ${name}.`),
        ...fields([["file", entry.path], ["hook", hook?.path], ["changed", changed.join(", ") || "nothing"]]),
      ]);
      if (messages.isNew) {
        ctx.out.note(`Messages for ${agent} stay in its connector until they are read: the platform is inbox now.`);
      }
      if (unhooked !== null) ctx.out.note(`The hook in ${unhooked} is removed, because the inbox wakes the model now.`);
      ctx.out.note(then);
    },
  }),
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
    // Runs until standard input ends or the command is stopped.
    async run(given, { args, options }) {
      const ctx = withoutStdout(given);
      const only = parseNames(options.peers, "--peers", CONNECTOR_LIMITS.sendersAtOnce);
      const folder = await chosenAgent(ctx, args.agent);
      // On standard output, a line of a library would break the protocol.
      for (const method of ["log", "info", "debug"] as const) console[method] = console.error;
      const { name } = folder;
      if (only !== null) warnOfUnknown(ctx, folder, only);
      const isPush = await isPushPlatform(ctx, folder);
      if (isPush && options.channel) {
        ctx.out.warn("The messages of this agent go to its runtime: --channel has no effect");
      }
      await using connector = keptAccess(ctx, folder);
      const mcp = new McpAgent({
        // Read for each use, because an agent that is deleted and made again has another identity.
        get identity() {
          return { ...folder.identity(), name };
        },
        connector,
        peers: () => readPeers(folder),
        pairingCommand: (action, body) => {
          const url = readConnectorFile(folder)?.url;
          return url === undefined ? null : pairingCommand(folder, url, action, body);
        },
        named: (text) => given.out.withHere(text.replaceAll("<name>", name)),
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
        const run = async (program: string, args: string[]) =>
          (await runProgram(ctx.clock, program, args, PROGRAM_MS))?.code ?? null;
        const wayOf = () => inbox ?? (mcp.codexThread === null ? null : codexQueue(mcp.codexThread, run));
        void wakeModel(mcp, wayOf, AbortSignal.any([stopped.signal, ended.signal]));
      }
      const { serveMcpAgent } = await import("../mcp/stdio_server.ts");
      // It runs the connector unless another program does, so an exception could print a secret of it.
      const defects = reportDefects((_, fields) => ctx.out.note(String(fields?.why)));
      const served = serveMcpAgent(mcp, {
        version: ctx.version,
        isChannel: options.channel && !isPush,
        report: (error) => ctx.out.note(error.message),
        signal: stopped.signal,
      });
      await Promise.race([served, defects.exception]).finally(defects.end);
      ended.abort();
    },
  }),
];

/** The context with a terminal that writes everything to standard error. */
function withoutStdout(ctx: Context): Context {
  const { stderr, stderrIsTerminal } = ctx.terminal;
  const stdout = (text: string) => {
    stderr(text);
    return true;
  };
  const terminal = { ...ctx.terminal, stdout, stdoutIsTerminal: stderrIsTerminal };
  return { ...ctx, terminal, out: new Output(terminal, ctx.clock, { json: false, colour: false }) };
}

function warnOfUnknown(ctx: Context, folder: AgentFolder, only: readonly string[]): void {
  const peers = readPeers(folder);
  const unknown = only.filter((name) => findPeerEver(peers, name) === null);
  if (unknown.length > 0) ctx.out.warn(`${folder.name} has no peer with the alias ${unknown.join(", ")}`);
}

/** Whether the messages go to a runtime. The running connector says so; without its answer, the files do. */
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
