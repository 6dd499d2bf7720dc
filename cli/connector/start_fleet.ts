/**
 * `svc connector start` with several agents (D-123): runs their connectors in this process and shows them, until a signal
 * stops them or all named agents have failed.
 */
import { join } from "node:path";
import { AGENT_FILES } from "../../shared/client/agent_files.ts";
import { AgentStore } from "../agents/agent_store.ts";
import type { Context } from "../context.ts";
import { EXIT } from "../errors.ts";
import { type RunningConnector, startAgentConnector } from "./agent_connector.ts";
import { viewOf } from "./console_view.ts";
import { reportDefects } from "./defects.ts";
import { Fleet } from "./fleet.ts";
import { proxyAddress } from "./link/proxy_address.ts";
import { ticketLines } from "./local_api/pairing_hint.ts";
import type { StartDeps } from "./start.ts";
import { refuseOptionsOfOne, type StartOptions } from "./start_options.ts";
import { fleetLine } from "./status.ts";

/**
 * Runs the connectors of these agents, or of every agent on this machine. Returns the exit code.
 *
 * @throws {import("../errors.ts").CliError} `CLI_USAGE` for an option of one agent, `CLI_AGENT_UNKNOWN`
 * @throws the first failure when all named agents have failed
 */
export async function startFleet(
  ctx: Context,
  wanted: readonly string[] | "all",
  options: StartOptions,
  { onStop }: Pick<StartDeps, "onStop">,
): Promise<number> {
  refuseOptionsOfOne(ctx, options);
  const store = new AgentStore(ctx);
  // Mistakes in the command line or the configuration end the command; later failures end one agent.
  for (const name of wanted === "all" ? [] : wanted) await store.open(name);
  proxyAddress(ctx, options["proxy-ws-url"], options["allow-insecure"]);
  const view = viewOf({
    clock: ctx.clock,
    terminal: ctx.terminal,
    json: ctx.out.json,
    line: () => lineOf(fleet),
  });
  const fleet = new Fleet<RunningConnector>({
    clock: ctx.clock,
    names: async () => wanted === "all" ? (await store.names()).agents : wanted,
    start: (agent) =>
      startAgentConnector(ctx, agent, options, {
        tell: (event, fields) => view.event(event, { agent, ...fields }),
        onTicket: (ticket, until) =>
          void ticketLines(ticket, until).then((lines) => view.show([`Ticket of ${agent}:`, ...lines])),
      }),
    filesOf: (agent) => identityFiles(store, agent),
    tell: (agent, event, fields) => view.event(event, agent === null ? fields : { agent, ...fields }),
    endsWithAgents: wanted !== "all",
  });
  const forget = onStop(() => fleet.stop());
  const endReports = reportDefects((event, fields) => view.event(event, fields));
  try {
    const failure = await fleet.run();
    if (failure !== null) throw failure;
    return EXIT.done;
  } finally {
    forget();
    endReports();
    view.stop();
  }
}

function lineOf(fleet: Fleet<RunningConnector>): string {
  const { agents, running } = fleet.status();
  return fleetLine(agents, running.flatMap(({ connector }) => connector.isOver ? [] : [connector.status()]));
}

/** A text that changes when a file of the agent's identity changes. */
async function identityFiles(store: AgentStore, name: string): Promise<string> {
  const { path } = await store.open(name).catch(() => ({ path: null }));
  if (path === null) return "";
  const stats = await Promise.all(
    Object.values(AGENT_FILES).map((file) => Deno.lstat(join(path, file)).catch(() => null)),
  );
  return stats.map((stat) => stat && `${stat.ino} ${stat.size} ${stat.mtime?.getTime()}`).join(", ");
}
