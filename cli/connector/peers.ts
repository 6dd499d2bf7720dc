/**
 * The agent's peers by alias (D-93): `peers.json`, filled from the proxy's list. An alias, once given, stays with its
 * agent; a peer that is gone loses it.
 */
import * as z from "zod";
import { isAgentDid } from "../../shared/protocol/did.ts";
import type { AgentFolder } from "../agent_store.ts";
import { CliError } from "../errors.ts";
import type { Peer } from "./peer_pages.ts";

export const PEERS_FILE = "peers.json";

const PeersFile = z.record(
  z.string(),
  z.object({ did: z.string().refine(isAgentDid), agentName: z.string(), humanName: z.string() }),
);
/** Alias → peer. */
export type Peers = z.infer<typeof PeersFile>;

/** The peers with their aliases, old ones kept. */
export function mergePeers(known: Peers, { peers }: { peers: readonly Peer[] }): Peers {
  const aliasOf = new Map(Object.entries(known).map(([alias, { did }]) => [did, alias]));
  const taken = new Set<string>();
  const merged: [string, Peers[string]][] = [];
  const add = (alias: string, { agentDid: did, profile }: Peer) => {
    taken.add(alias);
    merged.push([alias, { did, ...profile }]);
  };
  const oldest = [...peers].sort((a, b) => a.pairedAt < b.pairedAt ? -1 : 1);
  for (const peer of oldest) {
    const alias = aliasOf.get(peer.agentDid);
    if (alias !== undefined) add(alias, peer);
  }
  for (const peer of oldest) {
    if (!aliasOf.has(peer.agentDid)) add(freeAlias(peer.profile.agentName, taken), peer);
  }
  return Object.fromEntries(merged.sort(([a], [b]) => a < b ? -1 : 1));
}

/** The agent's name as one word; a number behind it when another peer has that. */
function freeAlias(agentName: string, taken: ReadonlySet<string>): string {
  const word = /[A-Za-z0-9](?:.*[A-Za-z0-9])?/.exec(agentName.replace(/[^A-Za-z0-9._-]+/g, "-"))?.[0] ?? "peer";
  for (let n = 1;; n++) {
    const alias = n === 1 ? word : `${word}-${n}`;
    if (!taken.has(alias)) return alias;
  }
}

/** @throws {CliError} `CLI_FILE_INVALID` */
export function readPeers(folder: AgentFolder): Peers {
  const text = folder.read(PEERS_FILE);
  if (text === null) return {};
  try {
    return PeersFile.parse(JSON.parse(text));
  } catch {
    throw new CliError("CLI_FILE_INVALID", `${folder.path}/${PEERS_FILE} is damaged; remove it, it is made anew`);
  }
}

/** Whom a person means: a DID, or an alias; `null` when nobody has it. */
export function findPeer(peers: Peers, to: string): string | null {
  if (isAgentDid(to)) return to;
  return Object.hasOwn(peers, to) ? peers[to]?.did ?? null : null;
}
