/**
 * Reads the agent's peers from the proxy, all pages (D-215). A refusal is returned unchanged: the local API passes it on.
 */
import { PeerList } from "../protocol/api/pairing.ts";
import { LIMITS } from "../protocol/limits.ts";
import { apiErrorOf, type HttpResponse } from "./http.ts";
import { UnreachableError } from "./errors.ts";
import type { ProxyCaller } from "./proxy_caller.ts";

export type Peer = PeerList["peers"][number];

/** A proxy of the previous version sends all peers at once, without `pagination`. */
const ONE_PAGE = { pagination: { limit: LIMITS.peerListMax, nextCursor: null } };

/** At most 100,000 peers, so that a faulty proxy cannot cause an endless loop. */
const MAX_PAGES = 200;

/** All peers of the agent. @throws {UnreachableError} when the proxy does not answer with a list of peers */
export async function readAllPeers(
  proxy: Pick<ProxyCaller, "call" | "place">,
): Promise<{ peers: Peer[] } | { refused: HttpResponse }> {
  const peers: Peer[] = [];
  let cursor: string | null = null;
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const query: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const response = await proxy.call({ method: "GET", target: `/pair/peers?limit=${LIMITS.peerListMax}${query}` });
    if (apiErrorOf(response) !== null) return { refused: response };
    const page = pageOf(jsonOf(response.text));
    if (page === null) break;
    for (const peer of page.peers) peers.push(peer);
    cursor = page.pagination.nextCursor;
    if (cursor === null) return { peers };
  }
  throw new UnreachableError(`${proxy.place.dialUrl} answered with something that is not a list of peers`);
}

/** A page of peers, also one without `pagination`; `null` for any other value. */
export function pageOf(value: unknown): PeerList | null {
  return PeerList.safeParse({ ...ONE_PAGE, ...Object(value) }).data ?? null;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
