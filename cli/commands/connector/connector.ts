/** `svc connector` with its `start`, `status` and `open`. In connector_service.ts it is installed as a service. */
import { AGENT_ARG, command } from "../../command_line/command.ts";
import { elsewhere } from "../../command_line/parse.ts";
import type { Context } from "../../context.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { nearest } from "../../../shared/did_you_mean.ts";
import { CliError, EXIT } from "../../errors.ts";
import { fields } from "../../terminal/output.ts";
import { isConnectorHealthy, statusFields, statusOf } from "../../connector/status.ts";
import { LocalDown } from "../../../shared/client/errors.ts";
import { curlLines, readConnectorFile } from "../../connector/local_api/discovery_file.ts";
import { call, post } from "../../../shared/client/local_client.ts";
import { PageCode } from "../../../shared/client/local_shapes.ts";
import { openPage, pageLines } from "../../files/open_page.ts";
import { AgentStore, chosenAgent } from "../../agents/agent_store.ts";
import type { StartOptions } from "../../connector/start_options.ts";
import { NOTIFY } from "../../files/profile.ts";
import * as attach from "../../connector/attach.ts";

const CODE_MIN = LIMITS.pageCodeMs / 60_000;

/** Shared with `inbox --follow`. */
export const EXEC_OPTION = {
  exec: {
    value: "program",
    summary: "Program to run when messages arrive, an absolute path; its environment names them, without their texts",
  },
} as const;

/** Options for proxy and runtime, shared with `connector service install`. */
export const CONNECTOR_OPTIONS = {
  "proxy-ws-url": {
    value: "url",
    summary: "Proxy WebSocket URL, ws or wss (default: from the configuration)",
    env: "SVC_PROXY_WS_URL",
  },
  "runtime-base-url": {
    value: "url",
    summary: "Runtime URL (default: set by svc install; for a runtime without one http://127.0.0.1:18789)",
    env: "SVC_RUNTIME_BASE_URL",
  },
  "openclaw-base-url": { value: "url", summary: "Alias of --runtime-base-url", env: "OPENCLAW_BASE_URL" },
  "hook-path": {
    value: "path",
    summary: "Path at which the runtime accepts messages (default: the platform's, else /hooks/agent)",
    env: "SVC_HOOK_PATH",
  },
  "hook-token": { value: "token", summary: "Token that the runtime requires", env: "SVC_HOOK_TOKEN", secret: true },
  replies: {
    value: "when",
    summary: "Send the runtime's answers back to peers: auto (default; on for nanobot and a2a), on or off",
    complete: ["auto", "on", "off"],
  },
  inbox: { summary: "Without a runtime, saved for later starts: the agent reads its messages (default)" },
  port: {
    value: "port",
    summary: "Local API port, saved for later starts (default: the agent's own, which its first start chooses)",
  },
  ...EXEC_OPTION,
  strict: { summary: "Refuse contacts, in both directions: only peers that proved a ticket (SVC_STRICT=1)" },
  hidden: { summary: "Tell no peer whether the agent is connected", env: "SVC_HIDDEN" },
  "allow-insecure": { summary: "Allow plain ws to another machine and a runtime on another machine" },
} as const;

/** Answers the question before unread messages go to a runtime. Commands that change a platform share it. */
export const YES = { yes: { summary: "Hand unread messages to a runtime without a question" } } as const;

const [, USUAL] = NOTIFY;
/** Options of the view on a terminal, shared with `inbox --follow`. */
export const VIEW_OPTIONS = {
  notify: {
    value: "how",
    summary: `Tell of new messages on a terminal: ${NOTIFY.join(", ")} (default: that of the profile, else ${USUAL})`,
    env: "SVC_NOTIFY",
    complete: NOTIFY,
  },
  keys: { summary: "Use keys on a terminal also where svc cannot see whether it is in the foreground" },
} as const;

/** The switch for all agents, shared with `connector service`. */
export const ALL_OPTION = { all: { summary: "All agents on this machine, including new ones" } } as const;

export const COMMANDS = [
  command({
    path: ["connector"],
    summary: "Print curl commands for a program that uses a running connector",
    details: [
      "No command only pairs: a person presses keys in svc connector start, and a program uses these lines.",
      "People send and read messages with svc send, svc inbox and svc reply.",
    ],
    args: { agentName: AGENT_ARG },
    examples: { "svc connector": "Print the curl commands for this machine's agent" },
    async run(ctx, { args: { agentName } }) {
      const { folder, client } = await runningConnector(ctx, agentName).catch((error) => {
        throw orCommand(error, agentName);
      });
      await statusOf(client);
      const file = readConnectorFile(folder);
      if (file === null) throw new LocalDown(folder.name, "has ended");
      const { url, port } = file;
      const lines = curlLines(folder, url);
      ctx.out.result({ agent: folder.name, url, port, lines: lines.map(([, words]) => words.join(" ")) }, [
        ...lines.flatMap(([what, words]) => [what, ...ctx.out.shellLines(words)]),
        "People use svc peers, svc send, svc inbox and svc reply for messages.",
      ]);
    },
  }),
  command({
    path: ["connector", "status"],
    summary: "Show connector status: link, runtime, inbox, dead letters, tokens",
    details: ["Exits with 1 if the connector is unhealthy."],
    args: { agentName: AGENT_ARG },
    examples: { "svc connector status": "Show whether it is connected, and since when" },
    async run(ctx, { args: { agentName } }) {
      const { folder, client } = await runningConnector(ctx, agentName);
      const status = await statusOf(client);
      const healthy = isConnectorHealthy(status);
      ctx.out.result({ ...status, agent: folder.name, did: status.agent.did, healthy }, [
        ctx.out.bold(`The connector of ${folder.name} is ${healthy ? "healthy" : "UNHEALTHY"}`),
        ...fields(statusFields(status)).map((line) => ctx.out.withTimes(line)),
      ]);
      if (status.deadLetters > 0) {
        ctx.out.next(["dead-letters", "--agent", folder.name], { when: "to see what it gave up on" });
      }
      return healthy ? EXIT.done : EXIT.failed;
    },
  }),
  command({
    path: ["connector", "open"],
    summary: "Open the web page of a running connector: read, answer, pair",
    details: [`The address works once, for ${CODE_MIN} min, on this machine only. Without a browser it is printed.`],
    args: { agentName: AGENT_ARG },
    options: { print: { summary: "Print the address instead of opening a browser" } },
    examples: { "svc connector open": "Read and answer messages in a browser" },
    async run(ctx, { args: { agentName }, options }) {
      const { folder, client } = await runningConnector(ctx, agentName);
      const code = await call(client, PageCode, post("/v1/page-codes", {}));
      ctx.out.result(code, options.print || ctx.out.json ? pageLines(code) : await openPage(ctx, folder, code));
    },
  }),
  command({
    path: ["connector", "start"],
    summary: "Run the connector of one or more agents until it is stopped",
    details: [
      "Messages are stored before they are acknowledged, then delivered to the agent's runtime; each ends in a receipt.",
      "On a terminal it shows events and status, and takes keys; ? lists them. Otherwise it prints each event as JSON.",
      "Several agents run in one process; a failure ends the connector of one agent, which is started again later.",
    ],
    args: {
      agentName: {
        ...AGENT_ARG,
        summary: "Agent names on this machine; optional if there is only one agent",
        repeat: true,
      },
    },
    options: {
      ...CONNECTOR_OPTIONS,
      save: { summary: "Save the runtime options for later starts" },
      yes: { summary: "Do not ask: start all agents, and hand unread messages to a runtime" },
      ...VIEW_OPTIONS,
      ...ALL_OPTION,
    },
    examples: {
      "svc connector start alpha": "Use the runtime from svc install",
      "svc connector start alpha --runtime-base-url http://127.0.0.1:9000 --hook-path /in": "Use any HTTP listener",
      "svc connector start alpha --inbox": "Keep the messages until svc inbox reads them",
      "svc connector start --all": "Run the connectors of all agents, each with its own runtime.json",
    },
    async run(ctx, { args: { agentName: names }, options }) {
      const chosen = await chosenAgents(ctx, names, options.all, "Start", options.yes);
      return await runConnectors(ctx, chosen, options);
    },
  }),
];

/** Words that a mistyped one may stand for: those of `svc connector`, and those of `svc connector service`. */
const WORDS = ["start", "status", "open", "service"], SERVICE_WORDS = ["install", "uninstall", "logs"];

/**
 * Adds the command that a mistyped word resembles to the error about an unknown agent, because svc reads the word in
 * `svc connector strat` as the name of an agent.
 */
function orCommand(error: unknown, word: string | undefined): unknown {
  if (!(error instanceof CliError) || error.code !== "CLI_AGENT_UNKNOWN" || word === undefined) return error;
  const fix = elsewhere(`connector ${word}`);
  if (fix !== undefined) return new CliError(error.code, error.message, { fix });
  const near = nearest(word, [...WORDS, ...SERVICE_WORDS]);
  if (near === null) return error;
  const meant = SERVICE_WORDS.includes(near) ? `service ${near}` : near;
  return new CliError(error.code, `Did you mean svc connector ${meant}? ${error.message}`, {
    fix: "Run svc agent list to see your agents.",
  });
}

/** Returns an agent's folder and the client of its connector, `null` when none runs. */
export async function connectorOf(ctx: Context, agentName: string | undefined) {
  const folder = await chosenAgent(ctx, agentName), client = await attach.connectorOf(ctx, folder);
  // One that does not answer is waited for, and without these words for 45 s the command would seem to hang.
  if (client !== null) ctx.out.doing(`Waiting for the connector of ${folder.name}`);
  return { folder, client };
}

/** Returns folder and client of a running connector. @throws {import("../../../shared/client/errors.ts").LocalDown} */
export async function runningConnector(ctx: Context, agentName: string | undefined) {
  const { folder, client } = await connectorOf(ctx, agentName);
  if (client !== null) return { folder, client };
  throw new LocalDown(folder.name, "does not run");
}

/** Runs connectors until they are stopped, and then tells a person how to go on. Returns the exit code. */
export async function runConnectors(
  ctx: Context,
  chosen: readonly string[] | "all",
  options: StartOptions,
): Promise<number> {
  const { startConnectors } = await import("../../connector/start.ts");
  const code = await startConnectors(ctx, chosen, options);
  const again = ["connector", "start", ...chosen === "all" ? ["--all"] : chosen];
  if (ctx.terminal.stderrIsTerminal) ctx.out.next(again, { when: "to go on; messages wait meanwhile" });
  return code;
}

/**
 * Returns the agents that a command is about: those named, else that of `SVC_AGENT`, else the only one of this machine,
 * else all of them if the person says so.
 *
 * @param isAgreed the person has answered the question with `--yes`
 * @throws {CliError} `CLI_USAGE` for names with `--all`, and without an answer; `CLI_AGENT_UNKNOWN` without any agent
 */
export async function chosenAgents(
  ctx: Context,
  names: readonly string[],
  all: boolean,
  what: string,
  isAgreed = false,
): Promise<readonly string[] | "all"> {
  if (all && names.length > 0) throw new CliError("CLI_USAGE", "Give either an agent name or --all");
  if (all) return "all";
  if (names.length > 0) return [...new Set(names)];
  const { agents } = await new AgentStore(ctx).names();
  const hasSeveral = agents.length > 1 && ctx.env("SVC_AGENT") === undefined;
  if (hasSeveral && isAgreed) return agents;
  const canAsk = hasSeveral && ctx.confirm !== null && !ctx.out.json;
  if (!canAsk || !await ctx.confirm?.(`Several agents: ${agents.join(", ")}. ${what} all of them?`, true)) {
    return [(await chosenAgent(ctx, undefined)).name];
  }
  return agents;
}
