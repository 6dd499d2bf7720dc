/** Finds the recipient of a message when no connector runs. */
import type { ProxyCaller } from "../link/proxy_caller.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { aliasesOf, findPeer, type Peers, peerUnknown, readPeers, sealKey } from "../connector/peers.ts";

/** The recipient of a message. */
export interface Recipient {
  did: string;
  /** The key to which its payload is sealed; `null` for a contact. */
  key: string | null;
  /** Origin of its home proxy, for a peer of another server. */
  proxy: string | undefined;
}

/**
 * Returns a peer, from a DID or an alias. Reads the peers from the proxy when the alias is unknown.
 *
 * @throws {import("../../shared/client/errors.ts").ApiError} `CONNECTOR_PEER_UNKNOWN`, as a connector answers
 * @throws {import("../errors.ts").CliError} `CLI_FILE_INVALID`: without the keys a message would leave unsealed
 */
export async function recipientOf(proxy: ProxyCaller, folder: AgentFolder, peer: string): Promise<Recipient> {
  const known = readPeers(folder);
  const did = findPeer(known, peer);
  if (did !== null) return withKey(known, did);
  const { updatePeers } = await import("../connector/peer_list.ts");
  const { known: listed } = await updatePeers(proxy, folder);
  const found = findPeer(listed, peer);
  if (found !== null) return withKey(listed, found);
  throw peerUnknown(peer);
}

function withKey(peers: Peers, did: string): Recipient {
  const peer = peers[aliasesOf(peers).get(did) ?? ""];
  return { did, key: sealKey(peer), proxy: peer?.proxy };
}
