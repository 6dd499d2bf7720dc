/** `svc connector service …`: the connector of one agent, or of all, as a systemd or launchd service. */
import { AgentStore } from "../../agents/agent_store.ts";
import { command } from "../../command_line/command.ts";
import type { Context } from "../../context.ts";
import { CliError, EXIT } from "../../errors.ts";
import { fields } from "../../terminal/output.ts";
import { ALL_OPTION, chosenAgents, CONNECTOR_OPTIONS, YES } from "./connector.ts";
import { installConnector, installFleet, ownService } from "../../connector/service_setup.ts";
import { logPathOf, SYSTEMS, thisHost } from "../../autostart/control.ts";
import { ownCommand } from "../../own_command.ts";
import { checkProgram } from "../../connector/exec.ts";

const AGENT = { agentName: { summary: "Agent name on this machine", complete: "agents", optional: true } } as const;
const PLATFORM = {
  platform: {
    value: "system",
    summary: "Service manager: auto, launchd or systemd (default auto)",
    complete: SYSTEMS,
  },
} as const;

export const COMMANDS = [
  command({
    path: ["connector", "service", "install"],
    summary: "Install the connector as a service that starts at login and restarts on exit",
    details: [
      "The service file holds no secrets: a hook token is saved in the agent's runtime.json. Safe to run again.",
    ],
    args: AGENT,
    options: { ...CONNECTOR_OPTIONS, ...YES, ...PLATFORM, ...ALL_OPTION },
    examples: {
      "svc connector service install alpha": "Run the connector of alpha permanently",
      "svc connector service install --all": "Run the connectors of all agents in one service",
    },
    async run(ctx, { args: { agentName: given }, options }) {
      const agentName = await serviceAgent(ctx, given, options.all, "Install the service for");
      if (options.exec !== undefined) await checkProgram(options.exec);
      const own = ownCommand("connector", options.exec);
      ctx.out.doing("Waiting for the connector to start");
      if (agentName === null) {
        const { agents, ...service } = await installFleet(ctx, thisHost(ctx), own, options);
        const states = agents.map(({ agent, status }) => ({ agent, connection: status?.connection.state ?? null }));
        ctx.out.result({ agents: states, ...service }, [
          ctx.out.bold(`The connectors of all agents run as the ${service.system} service ${service.name}.`),
          ...fields([
            ["file", service.path],
            ...states.map(({ agent, connection }) => [agent, connection ?? "does not answer yet"] as const),
          ]),
          ...service.notes,
        ]);
        return;
      }
      const installed = await installConnector(ctx, thisHost(ctx), own, agentName, options);
      const { system, name, path, notes, status } = installed, { state, problem } = status.connection;
      ctx.out.result({ agent: agentName, system, name, path, notes, connection: state, pid: status.pid }, [
        ctx.out.bold(`The connector of ${agentName} is running as the ${system} service ${name}.`),
        ...fields([
          ["file", path],
          ["connection", problem === null ? state : `${state}: ${problem}`],
          ["pid", status.pid],
        ]),
        ...notes,
      ]);
    },
  }),
  command({
    path: ["connector", "service", "uninstall"],
    summary: "Stop and remove the service of an agent's connector; safe to run again",
    args: AGENT,
    options: { ...PLATFORM, ...ALL_OPTION },
    examples: { "svc connector service uninstall alpha": "Stop the connector from starting at login" },
    async run(ctx, { args: { agentName: given }, options: { platform, all } }) {
      const agentName = await serviceAgent(ctx, given, all, "Remove the service of");
      const service = await ownService(ctx, thisHost(ctx), agentName, platform), { system } = service;
      const removed = await service.uninstall((text) => ctx.out.warn(text));
      const text = `${serviceOf(agentName, system)} ${removed ? "is removed" : "does not exist"}.`;
      ctx.out.result({ agent: agentName, system, removed }, text);
    },
  }),
  command({
    path: ["connector", "service", "logs"],
    summary: "Show the log of an agent's connector service",
    args: AGENT,
    options: {
      ...PLATFORM,
      ...ALL_OPTION,
      lines: { value: "count", summary: "Number of recent lines (default 100)" },
      follow: { summary: "Follow the log" },
    },
    examples: { "svc connector service logs alpha --follow": "Print each event as one JSON line as it happens" },
    async run(ctx, { args: { agentName: given }, options: { platform, lines = "100", follow, all } }) {
      const agentName = await serviceAgent(ctx, given, all, "Show the log of");
      if (!/^[1-9]\d{0,5}$/.test(lines)) throw new CliError("CLI_USAGE", `--lines must be a number, not "${lines}"`);
      const folder = agentName === null ? null : await new AgentStore(ctx).open(agentName);
      const service = await ownService(ctx, thisHost(ctx), agentName, platform);
      if (!await service.isOf(ctx.configDir)) {
        return ctx.out.result({ lines: [] }, `${serviceOf(agentName, service.system)} does not exist.`);
      }
      const { program, args } = service.logCommand(logPathOf(folder?.path ?? ctx.configDir), Number(lines), follow);
      const stdout = ctx.out.json ? "piped" : "inherit";
      let child: Deno.ChildProcess;
      try {
        child = new Deno.Command(program, { args, stdin: "null", stdout, stderr: "inherit" }).spawn();
      } catch (cause) {
        const problem = `${program}, which holds the log, is not installed`;
        throw new CliError("CLI_SERVICE_FAILED", problem, { cause, fix: "" });
      }
      if (!ctx.out.json) return (await child.status).success ? EXIT.done : EXIT.failed;
      if (follow) return await printEach(ctx, child);
      const { success, stdout: printed } = await child.output();
      ctx.out.result({ lines: new TextDecoder().decode(printed).split("\n").filter((line) => line !== "") }, "");
      return success ? EXIT.done : EXIT.failed;
    },
  }),
];

/** Prints each line when it comes, because a log that is followed has no end. Returns the exit code. */
async function printEach(ctx: Context, child: Deno.ChildProcess): Promise<number> {
  let rest = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    if (lines.every((line) => ctx.out.jsonLine(JSON.stringify({ line })))) continue;
    try {
      child.kill();
    } catch {
      // A program that has ended already cannot be killed.
    }
    return EXIT.done;
  }
  return (await child.status).success ? EXIT.done : EXIT.failed;
}

function serviceOf(agentName: string | null, system: string): string {
  return `The ${system} service of ${agentName ?? "all agents"}`;
}

/** The agent whose service is meant; `null` for the service of all agents. @throws {CliError} as `chosenAgents` */
async function serviceAgent(
  ctx: Context,
  named: string | undefined,
  all: boolean,
  what: string,
): Promise<string | null> {
  const chosen = await chosenAgents(ctx, named === undefined ? [] : [named], all, what);
  const [name = null, second] = chosen;
  return chosen === "all" || second !== undefined ? null : name;
}
