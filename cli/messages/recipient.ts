/** Finds the recipient of a message when no connector runs. */
import { isAgentDid } from "../../shared/protocol/did.ts";
import type { ProxyCaller } from "../link/proxy_caller.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { findPeer, peerUnknown, readPeers } from "../connector/peers.ts";

/**
 * Returns the DID of a peer, from a DID or an alias. Reads the peers from the proxy when the alias is unknown.
 *
 * @throws {import("../../shared/client/errors.ts").ApiError} `CONNECTOR_PEER_UNKNOWN`, as a connector answers
 */
export async function recipientOf(proxy: ProxyCaller, folder: AgentFolder, peer: string): Promise<string> {
  // A DID needs no file, so a damaged peers.json does not matter.
  const known = isAgentDid(peer) ? peer : findPeer(readPeers(folder), peer);
  if (known !== null) return known;
  const { updatePeers } = await import("../connector/peer_list.ts");
  const found = findPeer((await updatePeers(proxy, folder)).known, peer);
  if (found !== null) return found;
  throw peerUnknown(peer);
}
