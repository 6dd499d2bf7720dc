/** `svc peers …`: the agents that an agent is paired with, their names, and the end of a pair. */
import { ChangedPeer } from "../../shared/client/local_shapes.ts";
import { AGENT_OPTION, command, REGISTRY_OPTIONS } from "../command_line/command.ts";
import { ALIAS, ALIAS_FORM } from "../connector/peers/aliases.ts";
import { peerColumns } from "../connector/peers/peer_columns.ts";
import type { Context } from "../context.ts";
import { CliError, describeFor, EXIT } from "../errors.ts";
import { connectorOf } from "./connector/connector.ts";
import { connectorPeers, directPeers, peerOf, updatePeers } from "../connector/peers/peer_list.ts";
import {
  blockPeer,
  noPeer,
  peerIn,
  type Peers,
  presentPeers,
  readPeers,
  removePeer,
  renamePeer,
  replacePeer,
  writePeers,
} from "../connector/peers/peers.ts";
import { isConfirmed, YES } from "./confirm.ts";
import { call, type LocalCalls, post } from "../../shared/client/local_client.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { apiErrorOf } from "../../shared/client/http.ts";
import { sleep, timeLeft } from "../../shared/clock.ts";
import { ConnectorLockedError, lockConnector } from "../connector/connector_lock.ts";
import { isPairLeft } from "../link/proxy_caller.ts";
import { directProxy } from "../connector/file_credentials.ts";

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
      const listing = client === null ? directPeers(ctx, folder) : connectorPeers(client);
      const peers = await listing.catch((error) => showKnown(ctx, folder, error));
      if (peers === null) return EXIT.unreachable;
      ctx.out.list({ agent: folder.name, peers }, peers, "No peers.", peerColumns(ctx.clock.now(), client !== null));
      const [first] = peers;
      if (first !== undefined) ctx.out.next(["send", first.alias, "Hello", "--agent", folder.name]);
      if (client === null) {
        const when = first === undefined ? "to pair with another agent by pressing p" : "to pair and to receive";
        ctx.out.next(["connector", "start", folder.name], { when });
      } else if (first === undefined && ctx.stdinIsTerminal) {
        ctx.out.note(`To pair with another agent, press p where the connector of ${folder.name} runs.`);
      } else if (first === undefined) {
        ctx.out.next(["connector", folder.name], { when: "to see how a program pairs" });
      }
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
    options: { ...OPTIONS, replaces: { summary: "The peer takes the place of the one that has the alias now" } },
    examples: {
      "svc peers rename beta bob": "Call the peer beta bob from now on",
      "svc peers rename beta-2 beta --replaces": "Write to the new agent of beta from now on",
    },
    async run(ctx, { args: { peer, alias }, options }) {
      if (!ALIAS.test(alias)) throw new CliError("CLI_USAGE", `"${alias}" is not an alias: ${ALIAS_FORM}`);
      const { replaces } = options;
      const change = { kind: "rename", alias, replaces } as const;
      const { agent, changed, before } = await changePeer(ctx, options.agent, peer, change);
      const renamed = `${changed.agentName} of ${changed.humanName} is called ${changed.alias} here.`;
      const old = before === changed.alias ? "" : ` ${before} goes on working.`;
      const text = `${renamed}${replaces ? " The pair with the old agent has ended." : old}`;
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
      const { agent, changed } = await changePeer(ctx, options.agent, peer, { kind: "block" });
      const { alias } = changed;
      const text = `${alias} is blocked: its messages are refused, and nothing is sent to it.`;
      ctx.out.result({ agent, peer: changed }, text);
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
      const { agent, changed } = await changePeer(ctx, options.agent, peer, { kind: "unblock" });
      ctx.out.result({ agent, peer: changed }, `${changed.alias} is not blocked: both can write to each other.`);
    },
  }),
  command({
    path: ["peers", "remove"],
    summary: "End the pair with a peer, in both directions",
    details: ["Only another ticket pairs the two again. Messages received before stay."],
    args: PEER,
    options: { ...OPTIONS, yes: YES },
    examples: { "svc peers remove bob": "End the pair with bob, after a question" },
    async run(ctx, { args: { peer }, options }) {
      const { folder, client } = await connectorOf(ctx, options.agent);
      const known = peerIn(readPeers(folder), peer);
      // Looked up before the question, because a person would otherwise agree to the end of a pair that does not exist.
      const whom = known === null
        ? (await peerOf(ctx, { folder, client }, peer)).alias
        : `${known.alias} of ${known.humanName}`;
      const question = `End the pair with ${whom}? Neither can write to the other.`;
      if (!await isConfirmed(ctx, options.yes, question)) return EXIT.failed;
      const { agent, changed } = await changePeer(ctx, folder.name, peer, { kind: "remove" });
      const text = `The pair with ${changed.alias} of ${changed.humanName} has ended.`;
      ctx.out.result({ agent, peer: changed }, text);
    },
  }),
];

/**
 * Shows the peers that are saved on this machine, after the list of the server has failed.
 *
 * @throws the error of the list, unless a server cannot be reached and there are peers to show
 */
function showKnown(ctx: Context, folder: AgentFolder, error: unknown): null {
  const { code, cause, fix, exit } = describeFor(folder.name, error);
  const known = exit === EXIT.unreachable ? presentPeers(readPeers(folder)) : {};
  const peers = Object.keys(known).map((alias) => peerIn(known, alias) as ChangedPeer);
  if (peers.length === 0) throw error;
  ctx.out.warn(`Only the peers that are known here are shown: ${code}: ${cause}. ${fix}`);
  ctx.out.list({ agent: folder.name, peers }, peers, "No peers.", [
    { head: "PEER", of: ({ alias }) => alias },
    { head: "AGENT OF", of: ({ humanName }) => humanName },
    { head: "DID", isWide: true, of: ({ agentDid }) => agentDid },
  ]);
  return null;
}

/**
 * How long a change waits for the lock, and how often it looks. With less time, it fails while a connector starts, or
 * while another command changes a peer.
 */
const LOCK_MS = 20_000, LOCK_RETRY_MS = 100;

type PeerChange = { kind: "rename"; alias: string; replaces: boolean } | { kind: "block" | "unblock" | "remove" };

/**
 * Changes a peer and returns its new state, with the name of the agent and the alias that the peer had. The running
 * connector makes the change. Without one, this command takes the connector's lock, because two writers of `peers.json`
 * could lose a peer's key (D-145).
 *
 * @param named alias or DID
 * @throws {ApiError} `CONNECTOR_PEER_UNKNOWN`, `CONNECTOR_ALIAS_TAKEN`, or the refusal of the proxy
 */
async function changePeer(ctx: Context, agentName: string | undefined, named: string, change: PeerChange) {
  const left = timeLeft(ctx.clock, LOCK_MS);
  while (true) {
    const { folder, client } = await connectorOf(ctx, agentName);
    const before = peerIn(readPeers(folder), named)?.alias ?? named;
    try {
      const changed = client === null
        ? await changeHere(ctx, folder, named, change)
        : await changeThrough(client, folder, named, change);
      return { agent: folder.name, changed, before };
    } catch (error) {
      if (!(error instanceof ConnectorLockedError) || left() === 0) throw error;
      await sleep(ctx.clock, LOCK_RETRY_MS);
    }
  }
}

async function changeThrough(client: LocalCalls, folder: AgentFolder, named: string, change: PeerChange) {
  const { kind, ...members } = change;
  if (kind !== "remove") return await call(client, ChangedPeer, post(`/v1/peers/${kind}`, { peer: named, ...members }));
  const peers = readPeers(folder), peer = peerIn(peers, named);
  if (peer === null) throw noPeer(named, peers);
  const refused = apiErrorOf(await client.send(post("/v1/pair/remove", { peerAgentDid: peer.agentDid })));
  if (refused !== null) throw refused;
  return peer;
}

async function changeHere(ctx: Context, folder: AgentFolder, named: string, change: PeerChange): Promise<ChangedPeer> {
  using _lock = await lockConnector(folder, null);
  let peers = readPeers(folder);
  const ended = change.kind === "remove" ? named : change.kind === "rename" && change.replaces ? change.alias : null;
  if (peerIn(peers, named) === null || ended !== null) {
    using direct = await directProxy(ctx, folder);
    ctx.out.doing(`Calling ${direct.proxy.place.dialUrl}`);
    // The peer may be new, so that no connector of this agent has recorded it yet.
    if (peerIn(peers, named) === null) peers = (await updatePeers(direct.proxy, folder)).known;
    const { agentDid } = peerIn(peers, named) ?? {};
    if (agentDid === undefined) throw noPeer(named, peers);
    // Checks the change before the pair ends, because a refusal after that would come too late.
    changed(peers, agentDid, change);
    const { agentDid: peerAgentDid } = peerIn(peers, ended ?? "") ?? {};
    if (peerAgentDid !== undefined) {
      await direct.proxy.post("/pair/remove", { peerAgentDid });
      const { proxy } = Object.values(peers).find(({ did }) => did === peerAgentDid) ?? {};
      if (proxy !== undefined) {
        const isLeft = await direct.at(proxy).post("/pair/remove", { peerAgentDid }).then(() => false, isPairLeft);
        // Only a warning, because the part of the pair that stays at the other server only lets this agent write there.
        if (isLeft) ctx.out.warn(`${proxy} still has its half`);
      }
    }
  }
  const { agentDid } = peerIn(peers, named) as ChangedPeer;
  const next = changed(peers, agentDid, change);
  await writePeers(folder, next);
  return peerIn(next, agentDid) as ChangedPeer;
}

/** @throws {LocalError} `CONNECTOR_ALIAS_TAKEN` */
function changed(peers: Peers, did: string, change: PeerChange): Peers {
  if (change.kind === "rename") return (change.replaces ? replacePeer : renamePeer)(peers, did, change.alias);
  return change.kind === "remove" ? removePeer(peers, did) : blockPeer(peers, did, change.kind === "block");
}
