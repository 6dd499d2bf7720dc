/**
 * The agent's peers by alias (D-93), in `peers.json`, from the proxy's list. An alias stays with its DID permanently: after
 * the end of a pair it never leads to another agent (D-121).
 */
import * as z from "zod";
import { PEERS_FILE, PEERS_FILE_BYTES } from "../../shared/client/agent_files.ts";
import { isAgentDid } from "../../shared/protocol/did.ts";
import type { AgentFolder } from "../agents/agent_store.ts";
import { CliError } from "../errors.ts";
import { CONNECTOR_LIMITS } from "./limits.ts";
import type { Peer } from "../../shared/client/peer_pages.ts";

const PeersFile = z.record(
  z.string(),
  z.object({
    did: z.string().refine(isAgentDid),
    agentName: z.string(),
    humanName: z.string(),
    /** The pair has ended. */
    gone: z.literal(true).optional(),
    /** Position among the pairs that have ended; the newest has the largest. */
    endOrder: z.int().positive().optional(),
  }),
);
/** Alias → peer. */
export type Peers = z.infer<typeof PeersFile>;

/** Words that a reader could take for something else than a peer; they get the prefix `peer-`. */
const RESERVED: ReadonlySet<string> = new Set(["user", "system", "assistant", "human", "admin", "svc"]);

function isReserved(alias: string): boolean {
  return RESERVED.has(alias.toLowerCase());
}

/** DID → alias, also of pairs that have ended. */
export function aliasesOf(peers: Peers): Map<string, string> {
  return new Map(Object.entries(peers).map(([alias, { did }]) => [did, alias]));
}

/** DID → alias for texts; empty when `peers.json` is damaged, because a command works without names. */
export function shownAliases(folder: AgentFolder): Map<string, string> {
  try {
    return aliasesOf(readPeers(folder));
  } catch (error) {
    if (error instanceof CliError) return new Map();
    throw error;
  }
}

/**
 * The peers with their aliases. A known peer keeps its alias; one that is not in the list is gone. Of those, the ones that
 * ended last are kept.
 */
export function mergePeers(known: Peers, { peers }: { peers: readonly Peer[] }): Peers {
  const kept = Object.fromEntries(Object.entries(known).filter(([alias]) => !isReserved(alias)));
  const aliasOf = aliasesOf(kept);
  const present = new Set(peers.map(({ agentDid }) => agentDid));
  const merged = endedPairs(Object.entries(kept).filter(([, { did }]) => !present.has(did)));
  const taken = new Set(merged.map(([alias]) => alias));
  const add = (alias: string, { agentDid: did, profile }: Peer) => {
    taken.add(alias);
    merged.push([alias, { did, ...profile }]);
  };
  const oldest = [...peers].sort((a, b) => a.pairedAt < b.pairedAt ? -1 : 1);
  for (const peer of oldest) {
    const alias = aliasOf.get(peer.agentDid);
    if (alias !== undefined) add(alias, peer);
  }
  const numbers = new Map<string, number>();
  for (const peer of oldest) {
    if (!aliasOf.has(peer.agentDid)) add(freeAlias(peer.profile.agentName, taken, numbers), peer);
  }
  return Object.fromEntries(merged.sort(([a], [b]) => a < b ? -1 : 1));
}

/** Marks pairs as ended, in the order of their ends, and keeps the newest. */
function endedPairs(pairs: readonly [string, Peers[string]][]): [string, Peers[string]][] {
  // An entry of an earlier version has no position: it is the oldest.
  const orderOf = ({ gone, endOrder = 0 }: Peers[string]) => gone ? endOrder : null;
  const next = pairs.reduce((last, [, peer]) => Math.max(last, orderOf(peer) ?? 0), 0) + 1;
  return [...pairs].sort(([, a], [, b]) => (orderOf(b) ?? next) - (orderOf(a) ?? next))
    .slice(0, CONNECTOR_LIMITS.endedPairs)
    .map(([alias, peer]) => [alias, { ...peer, gone: true, endOrder: orderOf(peer) ?? next }]);
}

/**
 * The agent's name as one word, with a number appended when another peer has the word.
 *
 * @param numbers the number to try next for each word, so that many peers with one name stay linear
 */
function freeAlias(agentName: string, taken: ReadonlySet<string>, numbers: Map<string, number>): string {
  const name = /[A-Za-z0-9](?:.*[A-Za-z0-9])?/.exec(agentName.replace(/[^A-Za-z0-9._-]+/g, "-"))?.[0] ?? "peer";
  const word = isReserved(name) ? `peer-${name}` : name;
  for (let n = numbers.get(word) ?? 1;; n++) {
    const alias = n === 1 ? word : `${word}-${n}`;
    if (taken.has(alias)) continue;
    numbers.set(word, n + 1);
    return alias;
  }
}

/** @throws {CliError} `CLI_FILE_INVALID` */
export function readPeers(folder: AgentFolder): Peers {
  const text = folder.read(PEERS_FILE, PEERS_FILE_BYTES);
  if (text === null) return {};
  try {
    return PeersFile.parse(JSON.parse(text));
  } catch {
    throw new CliError(
      "CLI_FILE_INVALID",
      `${folder.path}/${PEERS_FILE} is damaged; remove it and the connector writes it again`,
    );
  }
}

/** Writes the peers, with the size bound of the reader (D-241). @throws {CliError} `CLI_SAVE_FAILED` */
export async function writePeers(folder: AgentFolder, peers: Peers): Promise<void> {
  await folder.writeJson(PEERS_FILE, peers, PEERS_FILE_BYTES);
}

/** The peers whose pair has not ended. */
export function presentPeers(peers: Peers): Peers {
  return Object.fromEntries(Object.entries(peers).filter(([, { gone }]) => !gone));
}

/** The DID of a peer, from a DID or an alias; `null` when no peer has the alias, or not any longer. */
export function findPeer(peers: Peers, to: string): string | null {
  const did = findPeerEver(peers, to);
  return did !== to && peers[to]?.gone ? null : did;
}

/** The same, also for an alias whose pair has ended: its messages can still be read. */
export function findPeerEver(peers: Peers, to: string): string | null {
  if (isAgentDid(to)) return to;
  return Object.hasOwn(peers, to) ? peers[to]?.did ?? null : null;
}
