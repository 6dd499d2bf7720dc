/** The agent's peers with their aliases for commands: from the running connector, else from the proxy. */
import type { AgentFolder } from "../../agents/agent_store.ts";
import type { Context } from "../../context.ts";
import { directProxy } from "../file_credentials.ts";
import { call, get, type LocalCalls } from "../../../shared/client/local_client.ts";
import { type LocalPeer, LocalPeers } from "../../../shared/client/local_shapes.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { type Peer, readAllPeers } from "../../link/peer_pages.ts";
import type { ProxyCaller } from "../../link/proxy_caller.ts";
import { aliasesOf, findPeer, mergePeers, noPeer, type Peers, readPeers } from "./peers.ts";

export async function connectorPeers(connector: LocalCalls): Promise<LocalPeer[]> {
  return (await call(connector, LocalPeers, get("/v1/peers"))).peers;
}

/** The peers that the proxy reports to the agent. @throws {import("../../errors.ts").ApiError} */
export async function directPeers(ctx: Context, folder: AgentFolder): Promise<LocalPeer[]> {
  using direct = await directProxy(ctx, folder);
  ctx.out.doing(`Calling ${direct.proxy.place.dialUrl}`);
  const { known, peers } = await updatePeers(direct.proxy, folder);
  // The times of the last messages are in the database of the connector, which does not run, so none is shown.
  return listedPeers(known, peers, () => null);
}

/**
 * Reads the peers from the proxy. Saves nothing: only the holder of the connector lock writes `peers.json`, because two
 * writers could lose the key of a peer.
 *
 * @throws {import("../../errors.ts").ApiError} when the proxy refuses
 */
export async function updatePeers(
  proxy: ProxyCaller,
  folder: AgentFolder,
): Promise<{ known: Peers; peers: readonly Peer[] }> {
  const peers = await readAllPeers(proxy, folder.identity().did);
  return { known: mergePeers(readPeers(folder), { peers }), peers };
}

/**
 * Finds a peer by alias or DID: in `peers.json`, else as `svc peers` does.
 * @throws {LocalError} `CONNECTOR_PEER_UNKNOWN`
 */
export async function peerOf(
  ctx: Context,
  { folder, client }: { folder: AgentFolder; client: LocalCalls | null },
  named: string,
): Promise<{ alias: string; did: string }> {
  const known = readPeers(folder);
  const did = findPeer(known, named);
  const alias = did === null ? undefined : aliasesOf(known).get(did);
  if (did !== null && alias !== undefined && !known[alias]?.gone) return { alias, did };
  const peers = client === null ? await directPeers(ctx, folder) : await connectorPeers(client);
  const found = peers.find((peer) => peer.alias === named || peer.agentDid === named);
  if (found === undefined) throw noPeer(named, readPeers(folder));
  return { alias: found.alias, did: found.agentDid };
}

/**
 * The peers of the proxy's list by alias, without those that this agent has removed.
 *
 * @param lastMessageAt milliseconds; `null` when no message is stored
 */
export function listedPeers(
  known: Peers,
  peers: readonly Peer[],
  lastMessageAt: (did: string) => number | null,
): LocalPeer[] {
  const rows = new Map(Object.entries(known).map(([alias, row]) => [row.did, { alias, ...row }]));
  const listed = peers.flatMap(({ agentDid, pairedAt, online, lastSeenAt }): LocalPeer[] => {
    const row = rows.get(agentDid);
    if (row === undefined || row.removed) return [];
    const { alias, agentName, humanName, blocked = false, key = null, how = null, since = null, proxy } = row;
    const peer = { alias, agentDid, agentName, humanName, blocked, pairedAt, key, how, since, online, lastSeenAt };
    const last = lastMessageAt(agentDid);
    return [{ ...peer, lastMessageAt: last === null ? null : toIso(last), ...proxy !== undefined && { proxy } }];
  });
  return listed.sort((a, b) => a.alias < b.alias ? -1 : 1);
}
