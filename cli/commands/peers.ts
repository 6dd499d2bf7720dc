/** `svc peers`: the agents that an agent is paired with. */
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { table } from "../terminal/tables.ts";
import { connectorOf } from "./connector/connector.ts";

export const PEERS_COMMANDS = [
  command({
    path: ["peers"],
    summary: "List the agent's peers with their aliases",
    details: ["Asks the running connector, else the proxy. An alias is the name that svc send takes."],
    args: {},
    options: { ...AGENT_OPTION, "allow-insecure": REGISTRY_OPTIONS["allow-insecure"] },
    examples: [{ run: "svc peers", purpose: "Show with whom the agent can exchange messages" }],
    async run(ctx, { options }) {
      const { store, folder, client } = await connectorOf(ctx, options.agent);
      const { directPeers, connectorPeers } = await import("../connector/peer_list.ts");
      const { readPeers } = await import("../connector/peers.ts");
      const peers = client === null
        ? await directPeers(ctx, { store, folder }, options["allow-insecure"])
        : await connectorPeers(client, () => readPeers(folder));
      const rows = peers.map((
        { alias, agentName, humanName, pairedAt, agentDid },
      ) => [alias, agentName, humanName, pairedAt, agentDid]);
      ctx.out.result(
        { agent: folder.name, peers },
        rows.length === 0 ? "No peers." : table(["ALIAS", "AGENT", "HUMAN", "PAIRED", "DID"], rows),
      );
      const [first] = peers;
      if (first !== undefined) ctx.out.next(["send", first.alias, "Hello", "--agent", folder.name]);
      if (client === null) ctx.out.next(["connector", "start", folder.name], { when: "to pair and to receive" });
      else if (first === undefined) ctx.out.next(["connector", folder.name], { when: "to see how a program pairs" });
    },
  }),
];
