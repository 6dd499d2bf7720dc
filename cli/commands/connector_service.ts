/** `svc connector service …`: the connector as a service of the system. */
import { command } from "../command_line/command.ts";
import { CliError, EXIT } from "../errors.ts";
import { fields } from "../terminal/output.ts";
import { CONNECTOR_OPTIONS } from "./connector_start.ts";

const AGENT = { agentName: { summary: "The agent's name on this machine", complete: "agents" } } as const;
const PLATFORM = {
  platform: {
    value: "system",
    summary: "auto, launchd or systemd; auto unless given",
    complete: ["auto", "launchd", "systemd"],
  },
} as const;

export const CONNECTOR_SERVICE_COMMANDS = [
  command({
    path: ["connector", "service", "install"],
    summary: "Let the system run an agent's connector: from login on, and again whenever it ends",
    details: ["Written without secrets: a hook token goes into the agent's runtime.json. Safe to run again."],
    args: AGENT,
    options: { ...CONNECTOR_OPTIONS, ...PLATFORM },
    examples: [{ run: "svc connector service install alpha", purpose: "As svc connector start alpha, for good" }],
    async run(ctx, { args: { agentName }, options }) {
      const [{ installConnector }, { ownCommand, thisHost }] = await Promise.all([
        import("../connector/service_setup.ts"),
        import("../autostart/this_host.ts"),
      ]);
      ctx.out.doing("Waiting for the connector to come up");
      const { system, name, path, notes, status } = await installConnector(
        ctx,
        thisHost(ctx),
        ownCommand(),
        agentName,
        options,
      );
      const { state, problem } = status.connection;
      ctx.out.result({ agent: agentName, system, name, path, notes, connection: state, pid: status.pid }, [
        ctx.out.bold(`The connector of ${agentName} is up, as the ${system} service ${name}.`),
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
    summary: "Stop the service of an agent's connector and remove it; safe to run again",
    args: AGENT,
    options: PLATFORM,
    examples: [{ run: "svc connector service uninstall alpha", purpose: "Nothing starts by itself any more" }],
    async run(ctx, { args: { agentName }, options: { platform } }) {
      const [{ uninstallConnector }, { thisHost }, { requireAgentName }] = await Promise.all([
        import("../connector/service_setup.ts"),
        import("../autostart/this_host.ts"),
        import("../agents/agent_name.ts"),
      ]);
      const { system, removed } = await uninstallConnector(ctx, thisHost(ctx), requireAgentName(agentName), platform);
      const what = removed ? "is removed" : "was not there";
      ctx.out.result({ agent: agentName, system, removed }, `The ${system} service of ${agentName} ${what}.`);
    },
  }),
  command({
    path: ["connector", "service", "logs"],
    summary: "Show what the service of an agent's connector prints",
    args: AGENT,
    options: {
      ...PLATFORM,
      lines: { value: "count", summary: "So many of the last lines; 100 unless given" },
      follow: { summary: "Go on showing what comes" },
    },
    examples: [{ run: "svc connector service logs alpha --follow", purpose: "One JSON line an event, as they happen" }],
    async run(ctx, { args: { agentName }, options: { platform = "auto", lines = "100", follow } }) {
      if (!/^[1-9]\d{0,5}$/.test(lines)) throw new CliError("CLI_USAGE", `--lines must be a number, not "${lines}"`);
      const { connectorLogs } = await import("../connector/service_setup.ts");
      const { program, args } = await connectorLogs(ctx, agentName, platform, Number(lines), follow);
      const stdout = ctx.out.json ? "piped" : "inherit";
      let child: Deno.ChildProcess;
      try {
        child = new Deno.Command(program, { args, stdin: "null", stdout, stderr: "inherit" }).spawn();
      } catch (cause) {
        throw new CliError("CLI_SERVICE_FAILED", `${program}, which has what it prints, is not here`, {
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
