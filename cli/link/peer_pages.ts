/** Reads all pages of the agent's peers. */
import { PeerList } from "../../shared/protocol/api/pairing.ts";
import { parseDid } from "../../shared/protocol/did.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { UnreachableError } from "../../shared/client/errors.ts";
import type { ProxyCaller } from "./proxy_caller.ts";

export type Peer = PeerList["peers"][number];

/** At most 100,000 peers in pages of any length, because a faulty proxy could otherwise fill the memory. */
const MAX_PAGES = 200, MAX_PEERS = MAX_PAGES * LIMITS.peerListMax;

/**
 * Returns all peers of the agent `own`. Only the authority in a peer's DID says whether the peer lives at this proxy,
 * because a relay could otherwise name another place for a peer of its own server. A peer of another authority without
 * an address is left out, because nothing could be sent to it.
 *
 * @throws {import("./proxy_caller.ts").ProxyRefusal}
 * @throws {UnreachableError} when the proxy does not answer with a list of peers
 */
export async function readAllPeers(proxy: ProxyCaller, own: string): Promise<Peer[]> {
  const peers: Peer[] = [];
  let cursor: string | null = null;
  for (let pages = 0; pages < MAX_PAGES && peers.length < MAX_PEERS; pages++) {
    const query: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const target = `/pair/peers?limit=${LIMITS.peerListMax}${query}`;
    const page: PeerList = await proxy.ask({ method: "GET", target }, PeerList);
    for (const { proxy: at, ...peer } of page.peers) {
      if (authorityIn(peer.agentDid) === authorityIn(own)) peers.push(peer);
      else if (at !== undefined) peers.push({ ...peer, proxy: at });
    }
    cursor = page.pagination.nextCursor;
    if (cursor === null) return peers;
  }
  throw new UnreachableError(`${proxy.place.dialUrl} answered with a list of peers without an end`);
}

export function authorityIn(did: string): string | undefined {
  return parseDid(did)?.authority;
}
