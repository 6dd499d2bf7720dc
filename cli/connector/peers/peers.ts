/**
 * The agent's peers by alias, in `peers.json`, made from the proxy's list. An alias stays with its DID, even after the
 * peer has got another name or its pair has ended, because a person who types the alias would otherwise write to a
 * stranger. Only `endedPairs` and `pinContact` free an alias.
 */
import * as z from "zod";
import { PEERS_FILE, PEERS_FILE_BYTES } from "../../../shared/client/agent_files.ts";
import { DAY_MS } from "../../../shared/clock.ts";
import { didYouMean } from "../../../shared/did_you_mean.ts";
import { isAgentDid } from "../../../shared/protocol/did.ts";
import { tryParse } from "../../../shared/protocol/json_text.ts";
import { isOrigin } from "../../../shared/protocol/origins.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { isPublicKey } from "../../../shared/protocol/ed25519.ts";
import type { AgentFolder } from "../../agents/agent_store.ts";
import { ALIAS, ALIAS_FORM, CONTACT, extended, folded, foldedNames, freeAlias, RESERVED, wordOf } from "./aliases.ts";
import { CliError } from "../../errors.ts";
import { LocalError } from "../../local_errors.ts";
import type { Peer } from "../../link/peer_pages.ts";
import type { Pin } from "../check_proof.ts";
import type { ChangedPeer } from "../../../shared/client/local_shapes.ts";

/** Peers that a list can make known. With more, the file would be too large to write, and each change would be lost. */
export const LISTED_PAIRS = 10_000;
/** The newest ended pairs whose aliases are kept. With more, the file would be too large to be read at each command. */
const ENDED_PAIRS = 5_000;

const PeersFile = z.record(
  z.string(),
  z.object({
    did: z.string().refine(isAgentDid),
    agentName: z.string(),
    humanName: z.string(),
    gone: z.literal(true).optional(),
    /** Position among the pairs that have ended; the newest has the largest. */
    endOrder: z.int().positive().optional(),
    /**
     * The peer's public key, once it is known. It stays even if a server names another one, because a server could name
     * its own (D-145).
     */
    key: z.string().refine(isPublicKey).optional(),
    /** Whether a ticket proved the key, or registry and proxy named it with the first message. */
    how: z.enum(["ticket", "contact"]).optional(),
    since: z.string().optional(),
    /** When the registry was last seen to have signed another key for it. */
    otherKeyAt: z.string().optional(),
    /**
     * This agent has ended the pair. Only a ticket begins it again, because a relay could otherwise bring the removed
     * peer back.
     */
    removed: z.literal(true).optional(),
    /** This agent takes no message from the peer and sends it none, but the pair stays. */
    blocked: z.literal(true).optional(),
    /** Origin of its home proxy, for a peer of another server. */
    proxy: z.string().max(150).refine(isOrigin).optional(),
    /**
     * Aliases that the peer had before. They stay its own, because a person who types one could otherwise reach another
     * agent.
     */
    former: z.array(z.string()).optional(),
  }),
);
type PairedPeer = Pick<Peer, "agentDid" | "profile" | "pairedAt" | "proxy">;

/** Alias → peer. */
export type Peers = z.infer<typeof PeersFile>;
type KnownPeer = Peers[string];
export type PinnedPeer = Pick<KnownPeer, "did" | "agentName" | "humanName" | "proxy">;

function withPeer(peers: Peers, did: string, change: (peer: KnownPeer) => KnownPeer): Peers {
  return Object.fromEntries(
    Object.entries(peers).map(([alias, peer]) => [alias, peer.did === did ? change(peer) : peer]),
  );
}

function byAlias(rows: Iterable<readonly [string, KnownPeer]>): Peers {
  return Object.fromEntries([...rows].sort(([a], [b]) => a < b ? -1 : 1));
}

/** DID → alias, also of pairs that have ended. */
export function aliasesOf(peers: Peers): Map<string, string> {
  return new Map(Object.entries(peers).map(([alias, { did }]) => [did, alias]));
}

/** DID → alias, for texts; none when `peers.json` is damaged. */
export function shownAliases(folder: AgentFolder): Map<string, string> {
  return aliasesOf(peersIfAny(folder));
}

/** Returns the host of a peer's server by the peer's DID; `null` for a peer at the agent's own server. */
export function hostsOfPeers(folder: AgentFolder): (did: string) => string | null {
  const origins = new Map(Object.values(peersIfAny(folder)).map(({ did, proxy }) => [did, proxy]));
  return (did) => {
    const origin = origins.get(did);
    return origin === undefined ? null : new URL(origin).host;
  };
}

/** The peers; none when `peers.json` is damaged, because a command that names a DID works without it. */
function peersIfAny(folder: AgentFolder): Peers {
  try {
    return readPeers(folder);
  } catch (error) {
    if (error instanceof CliError) return {};
    throw error;
  }
}

/**
 * Joins the known peers with the proxy's list. A known peer keeps its alias, and one that is not in the list is marked
 * as gone. While there is room, the peers that went last are kept, and the oldest of the new peers are added.
 */
export function mergePeers(known: Peers, { peers }: { peers: readonly PairedPeer[] }): Peers {
  const aliasOf = aliasesOf(known);
  const present = new Set(peers.map(({ agentDid }) => agentDid));
  const merged = endedPairs(Object.entries(known).filter(([, { did }]) => !present.has(did)));
  const taken = new Set(merged.flatMap(foldedNames));
  const add = (alias: string, { agentDid: did, profile, proxy }: PairedPeer) => {
    const { gone: _gone, endOrder: _endOrder, proxy: _proxy, ...kept } = known[alias] ?? {};
    for (const name of foldedNames([alias, kept])) taken.add(name);
    // The names of a ticket peer are those that its proof covers, because the proxy could show another person's.
    const { agentName, humanName } = known[alias]?.how === "ticket" ? known[alias] : profile;
    merged.push([alias, { ...kept, did, agentName, humanName, ...proxy !== undefined && { proxy } }]);
  };
  const oldest = [...peers].sort((a, b) => a.pairedAt < b.pairedAt ? -1 : 1);
  for (const peer of oldest) {
    const alias = aliasOf.get(peer.agentDid);
    if (alias !== undefined) add(alias, peer);
  }
  const numbers = new Map<string, number>();
  // All contacts get the prefix, because a relay could list an agent of its own under a name that a person expects.
  const strangers = oldest.filter(({ agentDid }) => !aliasOf.has(agentDid));
  for (const peer of strangers.slice(0, Math.max(0, LISTED_PAIRS - (oldest.length - strangers.length)))) {
    add(freeAlias(wordOf(peer.profile.agentName, peer.agentDid, peer), taken, numbers, CONTACT), peer);
  }
  return byAlias(merged);
}

/**
 * Returns the peers after a ticket has proven the key of one. A key that an earlier ticket proved stays. The key of a
 * contact is replaced, and its alias loses the prefix.
 */
export function pinTicket(
  peers: Peers,
  { did, agentName, humanName, proxy }: PinnedPeer,
  key: string,
  since: string,
): Peers {
  const known = aliasesOf(peers).get(did);
  const { [known ?? ""]: before, ...others } = peers;
  if (before?.how === "ticket" && before.key !== key) return peers;
  const taken = new Set(Object.entries(others).flatMap(foldedNames));
  const isContact = known?.startsWith(CONTACT) ?? false;
  // A name that the person has given to the contact is used in place of the one that the agent gives itself.
  const wanted = isContact && before?.former !== undefined ? known?.slice(CONTACT.length) : undefined;
  const alias = known !== undefined && !isContact
    ? known
    : freeAlias(wanted ?? wordOf(agentName, did, { proxy }), taken, new Map());
  const former = [...before?.former ?? [], ...known === undefined || known === alias ? [] : [known]];
  const pinned: KnownPeer = {
    ...before?.blocked && { blocked: true },
    ...former.length > 0 && { former },
    did,
    agentName,
    humanName,
    ...proxy !== undefined && { proxy },
    key,
    how: "ticket",
    since: before?.how === "ticket" ? before.since : since,
  };
  return byAlias([...Object.entries(others), [alias, pinned]]);
}

/**
 * How long another key of a peer is shown, also after a restart, because it means that a registry signs two keys for
 * one agent.
 */
const OTHER_KEY_MS = 7 * DAY_MS;

/** Returns the peers after the registry was seen to have signed another key for one of them (D-145). */
export function noteOtherKey(peers: Peers, did: string, at: string): Peers {
  return withPeer(peers, did, (peer) => ({ ...peer, otherKeyAt: at }));
}

/** Aliases of the peers for which the registry has lately signed another key, without removed ones. */
export function peersWithOtherKey(peers: Peers, now: number): string[] {
  return Object.entries(peers).flatMap(([alias, { otherKeyAt, removed }]) =>
    otherKeyAt === undefined || removed || now - Date.parse(otherKeyAt) >= OTHER_KEY_MS ? [] : [alias]
  );
}

export function removePeer(peers: Peers, did: string): Peers {
  return withPeer(peers, did, (peer) => ({ ...peer, removed: true }));
}

/** What is known of a peer's key; `null` when it is not known. */
export function pinOf(peer: Pick<Peers[string], "key" | "how" | "since"> | null): Pin | null {
  const { key, how, since } = peer ?? {};
  if (key === undefined || how === undefined) return null;
  const isTicket = how === "ticket" && since !== undefined;
  return { key, how, ...isTicket && { ticketAt: unixSeconds(Date.parse(since)) } };
}

/**
 * Returns the peers with the key of a contact, which its first proven message has shown. When there is no room, the
 * contact whose pair ended first is dropped. Without such a contact the result is `null`, because any other peer whose
 * key is forgotten could come back with another key.
 */
export function pinContact(peers: Peers, did: string, key: string, since: string): Peers | null {
  const pinned = Object.entries(peers).filter(([, peer]) => peer.key !== undefined && peer.did !== did);
  const [first] = pinned.filter(([, { how, gone, removed }]) => how === "contact" && gone && !removed)
    .sort(([, a], [, b]) => (a.endOrder ?? 0) - (b.endOrder ?? 0));
  if (pinned.length >= PINS && first === undefined) return null;
  const { [pinned.length >= PINS ? first?.[0] ?? "" : ""]: _dropped, ...kept } = peers;
  return withPeer(kept, did, (peer) => peer.key === undefined ? { ...peer, key, how: "contact", since } : peer);
}

/** With more keys the file of the peers would become too large to be read at each command. */
export const PINS = 10_000;

export function blockPeer(peers: Peers, did: string, isBlocked: boolean): Peers {
  return withPeer(peers, did, ({ blocked: _before, ...peer }) => isBlocked ? { ...peer, blocked: true } : peer);
}

/** Former aliases of a peer. With more, renaming again and again would make the file too large to be read. */
const FORMER_ALIASES = 8;

function aliasError(message: string): LocalError {
  return new LocalError("CONNECTOR_ALIAS_TAKEN", message);
}

/**
 * Returns the peers after one of them has got another alias. Its old alias stays its own. A contact keeps the prefix,
 * because it would otherwise look like a peer whose ticket proved its key.
 *
 * @throws {LocalError} `CONNECTOR_ALIAS_TAKEN`
 */
export function renamePeer(peers: Peers, did: string, wanted: string): Peers {
  const present = aliasesOf(peers).get(did) ?? "";
  const { [present]: peer, ...others } = peers;
  if (peer === undefined) return peers;
  const isContact = present.startsWith(CONTACT);
  const name = isContact && wanted.startsWith(CONTACT) ? wanted.slice(CONTACT.length) : wanted;
  if (!ALIAS.test(name)) throw aliasError(`"${wanted}" is not an alias: ${ALIAS_FORM}`);
  if (RESERVED.has(folded(name))) throw aliasError(`"${wanted}" could be taken for a person or a program`);
  if (name.startsWith(CONTACT)) throw aliasError(`An alias that begins with ${CONTACT} is for a contact`);
  const alias = isContact ? CONTACT + name : name;
  if (alias === present) return peers;
  const like = Object.entries(others).find((other) => foldedNames(other).includes(folded(alias)))?.[0];
  if (like !== undefined) throw aliasError(`"${alias}" is, or looks like, a name of the peer ${like}`);
  const former = [...(peer.former ?? []).filter((known) => known !== alias), present];
  if (former.length > FORMER_ALIASES) throw tooManyNames(present);
  return byAlias([...Object.entries(others), [alias, { ...peer, former }]]);
}

/**
 * Returns the peers after one of them has taken the place of another, as the new agent of a person whose machine is
 * gone (D-145). It gets the names of the other, which is removed and called `<alias>-old`, so that its messages can
 * still be read.
 *
 * @param wanted a name of the other
 * @throws {LocalError} `CONNECTOR_ALIAS_TAKEN` also for a contact, because a relay could list one under any name
 */
export function replacePeer(peers: Peers, did: string, wanted: string): Peers {
  const present = aliasesOf(peers).get(did) ?? "", alias = presentAlias(peers, wanted) ?? "";
  const { [present]: peer, [alias]: before, ...others } = peers;
  if (before === undefined) throw aliasError(`No peer is called "${wanted}"`);
  if (peer === undefined || alias === present) throw aliasError(`The peer has the alias "${wanted}" already`);
  if (peer.how !== "ticket" || peer.gone || peer.removed) {
    throw aliasError(`${present} has not paired by a ticket of yours, so it cannot take the place of ${alias}`);
  }
  if (alias.startsWith(CONTACT)) throw aliasError(`${alias} is a contact; svc peers remove ends its pair`);
  const { former: names = [], ...ended } = before;
  const former = [...names, present, ...peer.former ?? []];
  if (former.length > FORMER_ALIASES) throw tooManyNames(present);
  const taken = new Set([...Object.entries(others).flatMap(foldedNames), ...[alias, ...former].map(folded)]);
  const left = freeAlias(extended(alias, "-old"), taken, new Map());
  return byAlias([...Object.entries(others), [alias, { ...peer, former }], [left, { ...ended, removed: true }]]);
}

/**
 * Returns the alias of the peer whose place a new one may take; `null` for none. The new agent calls itself by that
 * alias, the persons of the two have the same name, and tickets have proved both keys. The person is asked, because an
 * agent can give itself any name.
 */
export function perhapsReplaced(peers: Peers, did: string): string | null {
  const present = aliasesOf(peers).get(did) ?? "", peer = peers[present];
  if (peer?.how !== "ticket") return null;
  const alias = presentAlias(peers, peer.agentName) ?? present, other = peers[alias];
  return alias === present || other?.how !== "ticket" || other.humanName !== peer.humanName ? null : alias;
}

function tooManyNames(alias: string): LocalError {
  return aliasError(
    `${alias} has had ${FORMER_ALIASES} other names, which stay its own: only one of those can be its name again`,
  );
}

/**
 * Marks pairs as ended, in the order of their ends, and keeps the newest. What a ticket proved, and what this agent
 * removed or blocked, always stays, because a relay could otherwise push it out with pairs that it invents.
 */
function endedPairs(pairs: readonly [string, KnownPeer][]): (readonly [string, KnownPeer])[] {
  const next = pairs.reduce((last, [, { endOrder = 0 }]) => Math.max(last, endOrder), 0) + 1;
  return pairs.map(([alias, { endOrder = next, ...peer }]) => [alias, { ...peer, gone: true, endOrder }] as const)
    .toSorted(([, a], [, b]) => b.endOrder - a.endOrder)
    .filter(([, { how, removed, blocked }], i) => i < ENDED_PAIRS || how === "ticket" || removed || blocked);
}

/** The file that was read last, because a tool reads it several times for one call, and checking it takes long. */
let lastRead: { text: string; peers: Peers } | null = null;

/** @throws {CliError} `CLI_FILE_INVALID` */
export function readPeers(folder: AgentFolder): Peers {
  const text = folder.read(PEERS_FILE, PEERS_FILE_BYTES);
  if (text === null) return {};
  if (text === lastRead?.text) return lastRead.peers;
  const { data: peers, success } = PeersFile.safeParse(tryParse(text));
  if (!success) {
    const fix = "Restore it from a copy. It has the keys of the peers: without it each of them must be paired again.";
    throw new CliError("CLI_FILE_INVALID", `${folder.path}/${PEERS_FILE} is damaged`, { fix });
  }
  lastRead = { text, peers };
  return peers;
}

/**
 * Writes the peers, with the size bound of the reader, because a file that is too large to be read would stop the
 * connector.
 *
 * @throws {CliError} `CLI_SAVE_FAILED`
 */
export async function writePeers(folder: AgentFolder, peers: Peers): Promise<void> {
  await folder.writeJson(PEERS_FILE, peers, PEERS_FILE_BYTES);
}

export function presentPeers(peers: Peers): Peers {
  return Object.fromEntries(Object.entries(peers).filter(([, { gone, removed }]) => !gone && !removed));
}

export function endedPeers(peers: Peers): Peers {
  return Object.fromEntries(Object.entries(peers).filter(([, { gone, removed }]) => gone || removed));
}

/** The DID of a peer, from a DID or an alias; `null` when no present peer has the alias. */
export function findPeer(peers: Peers, to: string): string | null {
  if (isAgentDid(to)) return to;
  const peer = peers[presentAlias(peers, to) ?? ""];
  return peer === undefined || peer.gone || peer.removed ? null : peer.did;
}

/** The DID of a peer, also for an alias whose pair has ended, because its messages can still be read. */
export function findPeerEver(peers: Peers, to: string): string | null {
  return isAgentDid(to) ? to : peers[presentAlias(peers, to) ?? ""]?.did ?? null;
}

/** The DIDs of peers, from DIDs and aliases. An alias of no peer is left out. */
export function findPeersEver(peers: Peers, names: readonly string[]): string[] {
  return names.map((name) => findPeerEver(peers, name)).filter((did) => did !== null);
}

/** The alias that a peer has now, from one that it has or had; `null` for no peer. */
function presentAlias(peers: Peers, alias: string): string | null {
  if (Object.hasOwn(peers, alias)) return alias;
  return Object.entries(peers).find(([, { former }]) => former?.includes(alias))?.[0] ?? null;
}

/** The peer with an alias or DID; `null` for another name. */
export function peerIn(peers: Peers, named: string): ChangedPeer | null {
  const did = findPeerEver(peers, named);
  const alias = did === null ? undefined : aliasesOf(peers).get(did);
  const peer = peers[alias ?? ""];
  if (alias === undefined || peer === undefined) return null;
  const { agentName, humanName, blocked = false } = peer;
  return { alias, agentDid: peer.did, agentName, humanName, blocked };
}

/** The error for a peer that is not there. It says that its pair has ended, or which contact or similar alias there is. */
export function noPeer(named: string, peers: Peers): LocalError {
  const ended = peerIn(endedPeers(peers), named);
  if (ended !== null) return new LocalError("CONNECTOR_PEER_UNKNOWN", `The pair with ${ended.alias} has ended`);
  const present = Object.keys(presentPeers(peers));
  const contact = present.find((alias) => folded(alias) === folded(CONTACT + named));
  // All are named, because of a name that agents of several servers have, letters alone would suggest none.
  const abroad = present.filter((alias) => folded(alias).startsWith(`${folded(named)}@`));
  const similar = abroad.length > 0 ? ` Did you mean ${abroad.join(" or ")}?` : didYouMean(named, present);
  // A relay that takes the proof of a ticket away leaves only a contact, and its person would look for a typing error.
  const hint = contact === undefined ? similar : ` ${contact} did not prove your ticket.`;
  const what = named.startsWith("did:") ? "DID" : "alias";
  return new LocalError("CONNECTOR_PEER_UNKNOWN", `No peer has the ${what} "${named}".${hint}`);
}
