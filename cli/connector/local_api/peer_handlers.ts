/** Handlers that list the peers and change what this agent knows of them. The connector is the only writer of `peers.json` (D-145). */
import * as z from "zod";
import { AliasError, blockPeer, noPeer, peerIn, type Peers, renamePeer, replacePeer } from "../peers/peers.ts";
import type { Connector } from "../connector.ts";
import { apiErrorOf } from "../../../shared/client/http.ts";
import type { LocalPeers } from "../../../shared/client/local_shapes.ts";
import { readAllPeers } from "../../link/peer_pages.ts";
import { Conversations } from "../store/conversations.ts";
import { listedPeers } from "../peers/peer_list.ts";
import { endPairAt } from "./pairing_handlers.ts";
import { type BodyInput, json, LocalError, type LocalInput, passed } from "./local_route.ts";

const Named = z.string().min(1).max(256);

export const PeerRename = z.strictObject({
  peer: Named,
  alias: Named,
  /** The peer is the new agent of the one with this alias, whose pair ends. */
  replaces: z.boolean().optional(),
});

export const PeerNamed = z.strictObject({ peer: Named });

export async function listed({ connector }: LocalInput): Promise<Response> {
  const { peers, store: { database, sent }, proxy, options: { agent } } = connector;
  const read = await readAllPeers(proxy, agent.did);
  if ("refused" in read) return passed(read.refused);
  // A peer that paired a moment ago has its alias when it is shown.
  if (read.peers.some(({ agentDid }) => peers.of(agentDid) === null)) await connector.updatePeers();
  const conversations = new Conversations(database, sent);
  const listed = listedPeers(peers.all, read.peers, (did) => conversations.lastAt(did));
  return json({ peers: listed } satisfies z.output<typeof LocalPeers>);
}

export async function renamed(
  { connector, body: { peer, alias, replaces } }: BodyInput<typeof PeerRename>,
): Promise<Response> {
  if (replaces !== true) return await changed(connector, peer, (peers, did) => renamePeer(peers, did, alias));
  const place = (peers: Peers, did: string) => replacePeer(peers, did, alias);
  const named = await didOf(connector, peer), before = peerIn(connector.peers.all, alias);
  // Refused before the pair has ended, which cannot be undone.
  await withAliases(() => place(connector.peers.all, named));
  if (before !== null) {
    const response = await endPairAt(connector, before.agentDid);
    if (apiErrorOf(response) !== null) return passed(response);
  }
  return await changed(connector, named, place);
}

export function blocked({ connector, body: { peer } }: BodyInput<typeof PeerNamed>): Promise<Response> {
  return changed(connector, peer, (peers, did) => blockPeer(peers, did, true));
}

export function unblocked({ connector, body: { peer } }: BodyInput<typeof PeerNamed>): Promise<Response> {
  return changed(connector, peer, (peers, did) => blockPeer(peers, did, false));
}

async function changed(
  connector: Connector,
  named: string,
  change: (peers: Peers, did: string) => Peers,
): Promise<Response> {
  const { peers } = connector, did = await didOf(connector, named);
  await withAliases(() => peers.change((all) => change(all, did)));
  connector.version++;
  return json(peerIn(peers.all, did));
}

/** @throws {LocalError} `CONNECTOR_PEER_UNKNOWN` */
async function didOf(connector: Connector, named: string): Promise<string> {
  const { peers } = connector;
  // The list may have a peer that paired a moment ago.
  if (peerIn(peers.all, named) === null) await connector.updatePeers();
  const did = peerIn(peers.all, named)?.agentDid;
  if (did === undefined) throw new LocalError("CONNECTOR_PEER_UNKNOWN", noPeer(named, peers.all));
  return did;
}

/** @throws {LocalError} `CONNECTOR_ALIAS_TAKEN` */
async function withAliases(change: () => unknown): Promise<void> {
  try {
    await change();
  } catch (error) {
    if (error instanceof AliasError) throw new LocalError("CONNECTOR_ALIAS_TAKEN", error.message);
    throw error;
  }
}
