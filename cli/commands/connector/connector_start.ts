/** `svc connector start`: runs a connector in the foreground. */
import { command } from "../../command_line/command.ts";
import { CliError } from "../../errors.ts";
import { onStop } from "../../terminal/interrupt.ts";

/** Options for proxy and runtime, shared with `connector service install`. */
export const CONNECTOR_OPTIONS = {
  "proxy-ws-url": {
    value: "url",
    summary: "Proxy WebSocket URL, ws or wss (default: from the configuration)",
    env: "SVC_PROXY_WS_URL",
  },
  "runtime-base-url": {
    value: "url",
    summary: "Runtime URL (default: set by svc install, else http://127.0.0.1:18789)",
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
    summary: "Send the runtime's answers back to the peers: auto, on or off (default auto: on for nanobot)",
    complete: ["auto", "on", "off"],
  },
  inbox: { summary: "Without a runtime: keep the messages until svc inbox or a program reads them" },
  port: {
    value: "port",
    summary: "Local API port, saved for later starts (default: the agent's own, from 19400)",
  },
  "allow-insecure": { summary: "Allow plain ws to another machine and a runtime on another machine" },
} as const;

/** The switch for all agents, shared with `connector service`. */
export const ALL_OPTION = { all: { summary: "All agents on this machine, including new ones" } } as const;

export const CONNECTOR_START_COMMANDS = [
  command({
    path: ["connector", "start"],
    summary: "Run the connector of one or more agents until it is stopped",
    details: [
      "Messages are stored before they are acknowledged, then delivered to the agent's runtime; each ends in a receipt.",
      "On a terminal it shows events and status, and takes keys; ? lists them. Otherwise it prints each event as JSON.",
      "Several agents run in one process; a failure ends the connector of one agent, which is started again later.",
    ],
    args: { agentName: { summary: "Agent name on this machine", complete: "agents", optional: true, repeat: true } },
    options: {
      ...CONNECTOR_OPTIONS,
      save: { summary: "Save the runtime options for later starts" },
      keys: { summary: "Use keys on a terminal also where svc cannot see whether it is in the foreground" },
      ...ALL_OPTION,
    },
    examples: [
      { run: "svc connector start alpha", purpose: "Use the runtime from svc install" },
      {
        run: "svc connector start alpha --runtime-base-url http://127.0.0.1:9000 --hook-path /in",
        purpose: "Use any HTTP listener",
      },
      { run: "svc connector start alpha --inbox", purpose: "Keep the messages until svc inbox reads them" },
      { run: "svc connector start --all", purpose: "Run the connectors of all agents, each with its own runtime.json" },
    ],
    async run(ctx, { args: { agentName: names }, options }) {
      const [first] = checkAgents(names, options.all);
      const deps = { onStop: (stop: () => void) => onStop(ctx, stop) };
      if (first === undefined || new Set(names).size > 1) {
        const { startFleet } = await import("../../connector/start_fleet.ts");
        return await startFleet(ctx, options.all ? "all" : [...new Set(names)], options, deps);
      }
      const [{ startConnector }, received] = await Promise.all([
        import("../../connector/start.ts"),
        import("../../messages/received.ts"),
      ]);
      return await startConnector(ctx, first, options, {
        ...deps,
        messageLines: (response) =>
          received.parsePage(first, response).messages.map((message) =>
            received.messageLines(message, ctx.out.columns)
          ),
      });
    },
  }),
];

/** Returns the names if either they or `--all` are given. @throws {CliError} `CLI_USAGE` */
export function checkAgents(names: readonly string[], all: boolean): readonly string[] {
  if (all === names.length > 0) throw new CliError("CLI_USAGE", "Give either an agent name or --all");
  return names;
}
