/** `svc connector service …`: the connector as a systemd or launchd service. */
import { command } from "../command_line/command.ts";
import { CliError, EXIT } from "../errors.ts";
import { fields } from "../terminal/output.ts";
import { CONNECTOR_OPTIONS } from "./connector_start.ts";

const AGENT = { agentName: { summary: "Agent name on this machine", complete: "agents" } } as const;
const PLATFORM = {
  platform: {
    value: "system",
    summary: "Service manager: auto, launchd or systemd (default auto)",
    complete: ["auto", "launchd", "systemd"],
  },
} as const;

export const CONNECTOR_SERVICE_COMMANDS = [
  command({
    path: ["connector", "service", "install"],
    summary: "Install the connector as a service that starts at login and restarts on exit",
    details: [
      "The service file holds no secrets: a hook token is saved in the agent's runtime.json. Safe to run again.",
    ],
    args: AGENT,
    options: { ...CONNECTOR_OPTIONS, ...PLATFORM },
    examples: [{ run: "svc connector service install alpha", purpose: "Run the connector of alpha permanently" }],
    async run(ctx, { args: { agentName }, options }) {
      const [{ installConnector }, { ownCommand, thisHost }] = await Promise.all([
        import("../connector/service_setup.ts"),
        import("../autostart/this_host.ts"),
      ]);
      ctx.out.doing("Waiting for the connector to start");
      const { system, name, path, notes, status } = await installConnector(
        ctx,
        thisHost(ctx),
        ownCommand(),
        agentName,
        options,
      );
      const { state, problem } = status.connection;
      ctx.out.result({ agent: agentName, system, name, path, notes, connection: state, pid: status.pid }, [
        ctx.out.bold(`The connector of ${agentName} is running as the ${system} service ${name}.`),
        ...fields([["file", path], ["connection", problem === null ? state : `${state}: ${problem}`], [
          "pid",
          status.pid,
        ]]),
        ...notes,
      ]);
    },
  }),
  command({
    path: ["connector", "service", "uninstall"],
    summary: "Stop and remove the service of an agent's connector; safe to run again",
    args: AGENT,
    options: PLATFORM,
    examples: [{ run: "svc connector service uninstall alpha", purpose: "Stop the connector from starting at login" }],
    async run(ctx, { args: { agentName }, options: { platform } }) {
      const [{ uninstallConnector }, { thisHost }, { requireAgentName }] = await Promise.all([
        import("../connector/service_setup.ts"),
        import("../autostart/this_host.ts"),
        import("../agents/agent_name.ts"),
      ]);
      const { system, removed } = await uninstallConnector(ctx, thisHost(ctx), requireAgentName(agentName), platform);
      const what = removed ? "is removed" : "does not exist";
      ctx.out.result({ agent: agentName, system, removed }, `The ${system} service of ${agentName} ${what}.`);
    },
  }),
  command({
    path: ["connector", "service", "logs"],
    summary: "Show the log of an agent's connector service",
    args: AGENT,
    options: {
      ...PLATFORM,
      lines: { value: "count", summary: "Number of recent lines (default 100)" },
      follow: { summary: "Follow the log" },
    },
    examples: [{
      run: "svc connector service logs alpha --follow",
      purpose: "Print each event as one JSON line as it happens",
    }],
    async run(ctx, { args: { agentName }, options: { platform = "auto", lines = "100", follow } }) {
      if (!/^[1-9]\d{0,5}$/.test(lines)) throw new CliError("CLI_USAGE", `--lines must be a number, not "${lines}"`);
      const { connectorLogs } = await import("../connector/service_setup.ts");
      const { program, args } = await connectorLogs(ctx, agentName, platform, Number(lines), follow);
      const stdout = ctx.out.json ? "piped" : "inherit";
      let child: Deno.ChildProcess;
      try {
        child = new Deno.Command(program, { args, stdin: "null", stdout, stderr: "inherit" }).spawn();
      } catch (cause) {
        throw new CliError("CLI_SERVICE_FAILED", `${program}, which holds the log, is not installed`, {
          cause,
          fix: "",
        });
      }
      if (!ctx.out.json) return (await child.status).success ? EXIT.done : EXIT.failed;
      const { success, stdout: printed } = await child.output();
      ctx.out.result({ lines: new TextDecoder().decode(printed).split("\n").filter((line) => line !== "") }, "");
      return success ? EXIT.done : EXIT.failed;
    },
  }),
];
