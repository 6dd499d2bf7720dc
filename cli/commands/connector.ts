/** `svc connector`: how to pair, how it is doing. What runs it is connector_start.ts, what keeps it running connector_service.ts. */
import { command } from "../command_line/command.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import { fields } from "../terminal/output.ts";

const WHICH = {
  summary: "The agent's name on this machine; may be left out when there is one",
  optional: true,
  complete: "agents",
} as const;

export const CONNECTOR_COMMANDS = [
  command({
    path: ["connector"],
    summary: "Show how to pair and send with a running connector, as lines to type",
    details: [
      "Pairing has no commands of its own: it goes through the local API of the connector that runs beside the agent.",
    ],
    args: { agentName: WHICH },
    options: {},
    examples: [{ run: "svc connector", purpose: "The curl lines for this machine's agent" }],
    async run(ctx, { args: { agentName } }) {
      const { folder, client } = await runningConnector(ctx, agentName);
      const { pairingLines } = await import("../connector/local_api/pairing_hint.ts");
      await client.status();
      const lines = pairingLines(folder, client.url);
      const { url, port } = client.file;
      ctx.out.result({
        agent: folder.name,
        url,
        port,
        lines: lines.filter((line) => line.startsWith(" ")).map((line) => line.trim()),
      }, lines);
    },
  }),
  command({
    path: ["connector", "status"],
    summary: "Show how a running connector is doing: link, runtime, inbox, dead letters, tokens",
    details: ["Ends with 1 when something is not as it should be."],
    args: { agentName: WHICH },
    options: {},
    examples: [{ run: "svc connector status", purpose: "Connected or not, and since when" }],
    async run(ctx, { args: { agentName } }) {
      const { folder, client } = await runningConnector(ctx, agentName);
      const status = await client.status();
      const { isConnectorHealthy, statusFields } = await import("../connector/status.ts");
      const well = isConnectorHealthy(status);
      ctx.out.result({ ...status, well }, [
        ctx.out.bold(`The connector of ${folder.name} is ${well ? "well" : "NOT well"}`),
        ...fields(statusFields(status)),
      ]);
      return well ? EXIT.done : EXIT.failed;
    },
  }),
];

/** An agent's folder, and the client of its connector where there is word of one. */
export async function connectorOf(ctx: Context, agentName: string | undefined, url?: string) {
  const [{ AgentStore }, { ConnectorClient }] = await Promise.all([
    import("../agents/agent_store.ts"),
    import("../connector/local_api/client.ts"),
  ]);
  const store = new AgentStore(ctx);
  const folder = await store.open(agentName ?? onlyOne((await store.names()).agents));
  return { store, folder, client: ConnectorClient.of(ctx, folder, url) };
}

/** The same of a connector that is there, as far as its files tell. @throws {CliError} `CLI_CONNECTOR_DOWN` */
async function runningConnector(ctx: Context, agentName: string | undefined) {
  const { folder, client } = await connectorOf(ctx, agentName);
  if (client !== null) return { folder, client };
  const { connectorDown } = await import("../connector/local_api/client.ts");
  throw connectorDown(folder.name);
}

function onlyOne(agents: readonly string[]): string {
  const [first, second] = agents;
  if (first === undefined) throw new CliError("CLI_AGENT_UNKNOWN", "There is no agent on this machine");
  if (second === undefined) return first;
  throw new CliError("CLI_USAGE", `There are several agents on this machine: name one of ${agents.join(", ")}`);
}
