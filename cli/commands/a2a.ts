/** `svc a2a …`: gives an A2A client on this machine one address for each peer (D-135). */
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { chosenAgent } from "../agents/agent_store.ts";
import { CliError } from "../errors.ts";
import { fields } from "../terminal/output.ts";
import { timeCell } from "../terminal/tables.ts";
import { connectorOf } from "./connector/connector.ts";
import { addPeer, listPeers, removePeer } from "../connector/local_api/a2a/peer_setup.ts";
import { peerOf } from "../connector/peers/peer_list.ts";

const PEER = { peer: { summary: "Alias or DID of a peer", complete: "peers" } } as const;

export const COMMANDS = [
  command({
    path: ["a2a", "add"],
    summary: "Give a peer a local A2A address; prints the address and its token once",
    details: [
      "A program that speaks A2A 1.0 sends to the peer there, and gets the peer's reply as the result. The token is good",
      "for this peer only. Add a peer again for a new token. Address and token work while the connector runs.",
    ],
    args: PEER,
    options: {
      ...AGENT_OPTION,
      for: { value: "program", summary: "Write the address into the settings of openclaw", complete: ["openclaw"] },
      "platform-state-dir": { value: "dir", summary: "State directory of OpenClaw", complete: "files" },
      "allow-insecure": REGISTRY_OPTIONS["allow-insecure"],
    },
    examples: {
      "svc a2a add beta": "Print an address and a token for messages to beta",
      "svc a2a add beta --for openclaw": "OpenClaw reaches beta as a2a:svc-beta",
    },
    async run(ctx, { args, options }) {
      const program = options.for;
      if (program !== undefined && program !== "openclaw") {
        throw new CliError("CLI_USAGE", `--for takes openclaw, not "${program}"`);
      }
      const connector = await connectorOf(ctx, options.agent), { folder } = connector;
      const peer = await peerOf(ctx, connector, args.peer);
      const stateDir = options["platform-state-dir"] ?? null;
      const added = await addPeer(ctx, connector, peer, program !== undefined, stateDir);
      const { url, card, token, changed, target } = added;
      ctx.out.result({ agent: folder.name, peer: peer.alias, agentDid: peer.did, url, card, token, changed, target }, [
        ctx.out.bold(`A2A clients on this machine reach ${peer.alias} at ${url}`),
        ...fields([
          ["token", token],
          ["card", card],
          ["changed", changed ?? undefined],
          ["OpenClaw", target === null ? undefined : `sends to ${target}`],
        ]),
        "The token is shown once. It is good for messages to this peer and for nothing else.",
      ]);
      if (connector.client === null) ctx.out.next(["connector", "start", folder.name]);
    },
  }),
  command({
    path: ["a2a", "list"],
    summary: "List the peers with a local A2A address",
    options: AGENT_OPTION,
    examples: { "svc a2a list": "Show each address and when it was added" },
    async run(ctx, { options }) {
      const folder = await chosenAgent(ctx, options.agent);
      const peers = listPeers(folder);
      ctx.out.result(
        { agent: folder.name, peers },
        peers.length === 0 ? "No peer has an A2A address." : ctx.out.table([
          { head: "ALIAS", of: ({ alias }) => alias },
          { head: "ADDRESS", rank: 1, of: ({ url }) => url },
          { head: "ADDED", rank: 2, of: ({ addedAt }) => timeCell(addedAt, ctx.clock.now()) },
          { head: "DID", isWide: true, of: ({ agentDid }) => agentDid },
        ], peers),
      );
    },
  }),
  command({
    path: ["a2a", "remove"],
    summary: "Remove the local A2A address of a peer; its token stops working at once",
    args: PEER,
    options: AGENT_OPTION,
    examples: { "svc a2a remove beta": "End the token of beta's address" },
    async run(ctx, { args, options }) {
      const folder = await chosenAgent(ctx, options.agent);
      const { alias, did } = await removePeer(ctx, folder, args.peer);
      ctx.out.result({ agent: folder.name, peer: alias, agentDid: did }, `${alias} has no A2A address any longer.`);
    },
  }),
];
