/**
 * Changes the agent's peers for a command: through the connector that runs, else under its lock, because only the holder of
 * that lock writes `peers.json`: of two writers one would lose the key of a peer (D-145).
 */
import { ApiError } from "../../../shared/client/errors.ts";
import { call, type LocalCalls, post } from "../../../shared/client/local_client.ts";
import { ChangedPeer } from "../../../shared/client/local_shapes.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import type { Context } from "../../context.ts";
import { apiErrorOf } from "../../../shared/client/http.ts";
import { lockConnector } from "../connector_lock.ts";
import { directProxy } from "../file_credentials.ts";
import { updatePeers } from "./peer_list.ts";
import {
  AliasError,
  blockPeer,
  noPeer,
  peerIn,
  type Peers,
  peerUnknown,
  readPeers,
  removePeer,
  renamePeer,
  replacePeer,
  writePeers,
} from "./peers.ts";

export type PeerChange = { kind: "rename"; alias: string; replaces: boolean } | {
  kind: "block" | "unblock" | "remove";
};

/**
 * Changes a peer, and returns it as it is then.
 *
 * @param named alias or DID
 * @throws {ApiError} `CONNECTOR_PEER_UNKNOWN`, `CONNECTOR_ALIAS_TAKEN`, or the refusal of the proxy
 */
export async function changePeer(
  ctx: Context,
  { folder, client }: { folder: AgentFolder; client: LocalCalls | null },
  named: string,
  change: PeerChange,
): Promise<ChangedPeer> {
  if (client === null) return await changeHere(ctx, folder, named, change);
  const { kind, ...members } = change;
  if (kind !== "remove") return await call(client, ChangedPeer, post(`/v1/peers/${kind}`, { peer: named, ...members }));
  const peers = readPeers(folder), peer = peerIn(peers, named);
  if (peer === null) throw peerUnknown(noPeer(named, peers));
  const refused = apiErrorOf(await client.send(post("/v1/pair/remove", { peerAgentDid: peer.agentDid })));
  if (refused !== null) throw refused;
  return peer;
}

async function changeHere(
  ctx: Context,
  folder: AgentFolder,
  named: string,
  change: PeerChange,
): Promise<ChangedPeer> {
  using _lock = await lockConnector(folder, ctx.pid);
  let peers = readPeers(folder);
  const ended = change.kind === "remove" ? named : change.kind === "rename" && change.replaces ? change.alias : null;
  if (peerIn(peers, named) === null || ended !== null) {
    using direct = await directProxy(ctx, folder);
    ctx.out.doing(`Calling ${direct.proxy.place.dialUrl}`);
    // A peer that no connector of this agent has seen yet.
    if (peerIn(peers, named) === null) peers = (await updatePeers(direct.proxy, folder)).known;
    const { agentDid } = peerIn(peers, named) ?? {};
    if (agentDid === undefined) throw peerUnknown(noPeer(named, peers));
    // Refused before the pair has ended.
    changed(peers, agentDid, change);
    const { agentDid: peerAgentDid } = peerIn(peers, ended ?? "") ?? {};
    if (peerAgentDid !== undefined) {
      const request = { method: "POST", target: "/pair/remove", body: JSON.stringify({ peerAgentDid }) } as const;
      await direct.proxy.ask(request);
      const { proxy } = Object.values(peers).find(({ did }) => did === peerAgentDid) ?? {};
      // The half at its server only lets this agent write there.
      if (proxy !== undefined) {
        await direct.at(proxy).call(request).catch(() => ctx.out.warn(`${proxy} still has its half`));
      }
    }
  }
  const { agentDid } = peerIn(peers, named) as ChangedPeer;
  const next = changed(peers, agentDid, change);
  await writePeers(folder, next);
  return peerIn(next, agentDid) as ChangedPeer;
}

/** @throws {ApiError} `CONNECTOR_ALIAS_TAKEN`, as a connector answers it */
function changed(peers: Peers, did: string, change: PeerChange): Peers {
  try {
    switch (change.kind) {
      case "rename":
        return (change.replaces ? replacePeer : renamePeer)(peers, did, change.alias);
      case "remove":
        return removePeer(peers, did);
      default:
        return blockPeer(peers, did, change.kind === "block");
    }
  } catch (error) {
    if (!(error instanceof AliasError)) throw error;
    throw new ApiError(409, "CONNECTOR_ALIAS_TAKEN", error.message, null);
  }
}
