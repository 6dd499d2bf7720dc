/** Peers of an agent, as tickets and the proxy name them. */
import { type Peers, pinTicket } from "../../../cli/connector/peers/peers.ts";

export const didOf = (n: number) => `did:svc:localhost:agent:01KHYQ5H00${String(n).padStart(16, "0")}`;
/** A point of the curve, as `peers.json` needs it. */
export const KEY = "_3hFEQL6ZT81S56lHq00M5bXvbFwlLMZ7l2Jb94CuyA";
export const AT = "2026-02-21T00:00:00.000Z";

/** Peers with one more, whose ticket proved its key. */
export const ofTicket = (peers: Peers, n: number, agentName: string, humanName = "h") =>
  pinTicket(peers, { did: didOf(n), agentName, humanName }, KEY, AT);

/** Peers whose tickets proved their keys, one for each name. */
export const ofTickets = (...names: readonly string[]) =>
  names.reduce<Peers>((peers, agentName, n) => ofTicket(peers, n, agentName), {});
