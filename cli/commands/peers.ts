/** `svc peers …`: the agents that an agent is paired with, their names, and the end of a pair. */
import type { ChangedPeer, LocalPeer } from "../../shared/client/local_shapes.ts";
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { ALIAS, ALIAS_FORM } from "../connector/peers/aliases.ts";
import { peerColumns } from "../connector/peers/peer_columns.ts";
import type { Context } from "../context.ts";
import { CliError, EXIT } from "../errors.ts";
import type { Column } from "../terminal/tables.ts";
import { connectorOf } from "./connector/connector.ts";
import { connectorPeers, directPeers } from "../connector/peers/peer_list.ts";
import { changePeer, type PeerChange } from "../connector/peers/change_peers.ts";
import { peerIn, readPeers } from "../connector/peers/peers.ts";
import { isConfirmed } from "./admin/pages.ts";

const PEER = { peer: { summary: "Alias or DID of the peer, from svc peers", complete: "peers" } } as const;
const OPTIONS = { ...AGENT_OPTION, "allow-insecure": REGISTRY_OPTIONS["allow-insecure"] } as const;

export const COMMANDS = [
  command({
    path: ["peers"],
    summary: "List the agent's peers with their aliases",
    details: ["Asks the running connector, else the proxy. An alias is the name that svc send takes."],
    options: OPTIONS,
    examples: { "svc peers": "Show with whom the agent can exchange messages" },
    async run(ctx, { options }) {
      const { folder, client } = await connectorOf(ctx, options.agent);
      const peers = client === null ? await directPeers(ctx, folder) : await connectorPeers(client);
      const now = ctx.clock.now();
      const columns: Column<LocalPeer>[] = [
        ...peerColumns(now),
        { head: "PAIRED", isWide: true, of: ({ pairedAt }) => pairedAt },
        { head: "DID", isWide: true, of: ({ agentDid }) => agentDid },
      ];
      ctx.out.result(
        { agent: folder.name, peers },
        peers.length === 0 ? "No peers." : ctx.out.table(columns, peers),
      );
      const [first] = peers;
      if (first !== undefined) ctx.out.next(["send", first.alias, "Hello", "--agent", folder.name]);
      if (client === null) ctx.out.next(["connector", "start", folder.name], { when: "to pair and to receive" });
      else if (first === undefined) ctx.out.next(["connector", folder.name], { when: "to see how a program pairs" });
    },
  }),
  command({
    path: ["peers", "rename"],
    summary: "Give a peer another alias on this machine; the old one goes on working",
    details: [
      "An agent that did not prove a ticket of yours keeps contact- in front of its alias.",
      "When the machine of a peer is gone, its person makes a new agent and pairs with a new ticket. With --replaces the",
      "new agent gets the names of the old one, and the pair with the old one ends.",
    ],
    args: { ...PEER, alias: { summary: `New alias: ${ALIAS_FORM}` } },
    options: { ...OPTIONS, replaces: { summary: "The peer is the new agent of the one that has the alias now" } },
    examples: {
      "svc peers rename beta bob": "Call the peer beta bob from now on",
      "svc peers rename beta-2 beta --replaces": "Write to the new agent of beta from now on",
    },
    async run(ctx, { args: { peer, alias }, options }) {
      if (!ALIAS.test(alias)) throw new CliError("CLI_USAGE", `"${alias}" is not an alias: ${ALIAS_FORM}`);
      const { replaces } = options;
      const { agent, changed } = await changedPeer(ctx, peer, { kind: "rename", alias, replaces }, options);
      const renamed = `${changed.agentName} of ${changed.humanName} is called ${changed.alias} here.`;
      const text = `${renamed} ${replaces ? "The pair with the old agent has ended." : `${peer} goes on working.`}`;
      ctx.out.result({ agent, peer: changed }, text);
    },
  }),
  command({
    path: ["peers", "block"],
    summary: "Refuse the messages of a peer and send it nothing; the pair stays",
    args: PEER,
    options: OPTIONS,
    examples: { "svc peers block bob": "Take no further message of bob" },
    async run(ctx, { args: { peer }, options }) {
      const { agent, changed } = await changedPeer(ctx, peer, { kind: "block" }, options);
      const { alias } = changed;
      ctx.out.result(
        { agent, peer: changed },
        `${alias} is blocked: its messages are refused, and nothing is sent to it.`,
      );
      ctx.out.next(["peers", "unblock", alias, "--agent", agent], { when: "to end that" });
    },
  }),
  command({
    path: ["peers", "unblock"],
    summary: "Take the messages of a blocked peer again",
    args: PEER,
    options: OPTIONS,
    examples: { "svc peers unblock bob": "Exchange messages with bob again" },
    async run(ctx, { args: { peer }, options }) {
      const { agent, changed } = await changedPeer(ctx, peer, { kind: "unblock" }, options);
      ctx.out.result({ agent, peer: changed }, `${changed.alias} is not blocked: both can write to each other.`);
    },
  }),
  command({
    path: ["peers", "remove"],
    summary: "End the pair with a peer, in both directions",
    details: ["Only another ticket pairs the two again. Messages that were read stay."],
    args: PEER,
    options: { ...OPTIONS, yes: { summary: "Do not ask for confirmation" } },
    examples: { "svc peers remove bob": "End the pair with bob, after a question" },
    async run(ctx, { args: { peer }, options }) {
      const { folder, client } = await connectorOf(ctx, options.agent);
      const known = peerIn(readPeers(folder), peer);
      const whom = known === null ? peer : `${known.alias} of ${known.humanName}`;
      const question = `End the pair with ${whom}? Neither can write to the other.`;
      if (!await isConfirmed(ctx, options.yes, question)) return EXIT.failed;
      const removed = await changePeer(ctx, { folder, client }, peer, { kind: "remove" });
      ctx.out.result(
        { agent: folder.name, peer: removed },
        `The pair with ${removed.alias} of ${removed.humanName} has ended.`,
      );
    },
  }),
];

async function changedPeer(
  ctx: Context,
  peer: string,
  change: PeerChange,
  { agent }: { agent: string | undefined },
): Promise<{ agent: string; changed: ChangedPeer }> {
  const connector = await connectorOf(ctx, agent);
  return { agent: connector.folder.name, changed: await changePeer(ctx, connector, peer, change) };
}
