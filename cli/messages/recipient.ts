/** The recipient of a message that a command sends when no connector runs. */
import type { ProxyCaller } from "../link/proxy_caller.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { aliasesOf, findPeer, noPeer, type Peers, peerUnknown, readPeers } from "../connector/peers/peers.ts";

export interface Recipient {
  did: string;
  /** Origin of its home proxy, for a peer of another server. */
  proxy: string | undefined;
}

/**
 * Returns a peer, from a DID or an alias. Reads the peers from the proxy when the alias is unknown.
 *
 * @throws {import("../../shared/client/errors.ts").ApiError} `CONNECTOR_PEER_UNKNOWN`, as a connector answers
 * @throws {import("../errors.ts").CliError} `CLI_FILE_INVALID`
 */
export async function recipientOf(proxy: ProxyCaller, folder: AgentFolder, peer: string): Promise<Recipient> {
  const known = readPeers(folder);
  const did = findPeer(known, peer);
  if (did !== null) return withProxy(known, did);
  const { updatePeers } = await import("../connector/peers/peer_list.ts");
  const { known: listed } = await updatePeers(proxy, folder);
  const found = findPeer(listed, peer);
  if (found !== null) return withProxy(listed, found);
  throw peerUnknown(noPeer(peer, listed));
}

function withProxy(peers: Peers, did: string): Recipient {
  return { did, proxy: peers[aliasesOf(peers).get(did) ?? ""]?.proxy };
}
