/**
 * Pairs and pairing tickets in the store. One commit confirms a ticket and creates the pair in both directions, so of
 * concurrent responders one succeeds. Each change of a pair also changes the counts of both agents.
 */
import type * as z from "zod";
import type { Kv, KvEntryMaybe } from "../../shared/server/kv.ts";
import { rateRefusal } from "../owner_budgets.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { OpenTicket, PairCount, PairRecord, TicketRecord } from "../schema/records.ts";
import type { PairingProfile, PairKey, PeerListQuery } from "../../shared/protocol/api/pairing.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { digest } from "../../shared/server/crypto.ts";
import type { Changes, Draft } from "../../shared/server/store/changes.ts";
import { aboveCursor, type Page, readPage } from "../../shared/server/store/pages.ts";
import { diskRefusal, type StoreReserve } from "../../shared/server/store/store_reserve.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

export interface PairStoreDeps extends Pick<ServiceDeps, "kv" | "clock"> {
  /** Changes of tickets and pairs take turns, because agents that confirm an agent's tickets at once would conflict. */
  changes: Changes;
  reserve: Pick<StoreReserve, "hasRoom">;
}

/** Bytes that a ticket, or a pair in both directions, takes in the store. */
const RECORD_BYTES = 1_600;

const KEPT_MS = LIMITS.ticketKeptSeconds * 1000;

/** Returns the pair of an agent with the first of its peers, or `null` when it has none. */
export async function firstPair(kv: Kv, agentDid: string): Promise<PairRecord | null> {
  const { value: first } = await kv.list<PairRecord>({ prefix: KEYS.pairs(agentDid) }, { limit: 1 }).next();
  return first?.value ?? null;
}

export async function arePaired(kv: Kv, agentDid: string, peerDid: string): Promise<boolean> {
  return agentDid !== peerDid && (await kv.get(KEYS.pair(agentDid, peerDid))).value !== null;
}

interface Peer {
  agentDid: string;
  pair: PairRecord;
}

/** Returns one page of an agent's peers in order of DID. */
export async function listPeers(
  kv: Kv,
  agentDid: string,
  { limit, cursor }: z.output<typeof PeerListQuery>,
): Promise<Page<Peer>> {
  return await readPage<PairRecord, Peer>(
    kv,
    aboveCursor(KEYS.pairs(agentDid), cursor),
    { limit, reverse: false },
    (entries) => entries.map(({ key, value }) => ({ agentDid: String(key.at(-1)), pair: value })),
  );
}

/** Records where the peer of an agent lives now. Writes nothing when that is known, or without a pair. */
export async function setPeerProxy(
  { kv, changes }: Pick<PairStoreDeps, "kv" | "changes">,
  agentDid: string,
  peerDid: string,
  proxy: string,
): Promise<void> {
  const key = KEYS.pair(agentDid, peerDid), isNews = (pair: PairRecord | null) => pair !== null && pair.proxy !== proxy;
  if (!isNews((await kv.get<PairRecord>(key)).value)) return;
  await changes.run(async (draft) => {
    const { value } = await draft.get<PairRecord>(key);
    if (value !== null && isNews(value)) draft.set(key, { ...value, proxy } satisfies PairRecord);
  });
}

/** Ends a pair in both directions. Returns false, and writes nothing, when there is no pair. */
export async function removePair(
  { kv, changes }: Pick<PairStoreDeps, "kv" | "changes">,
  agentDid: string,
  peerDid: string,
): Promise<boolean> {
  // Read first, because a request without a pair would otherwise take the turn of others.
  const isPair = await arePaired(kv, agentDid, peerDid);
  if (isPair) await endPair(changes, agentDid, peerDid);
  return isPair;
}

export async function endPair(changes: Changes, agentDid: string, peerDid: string): Promise<void> {
  await changes.run(async (draft) => {
    const { pair, back, counts } = await readBetween(draft, agentDid, peerDid);
    if (pair.value === null) return;
    for (const { key } of [pair, back]) draft.delete(key);
    for (const count of counts) writeCount(draft, count, pairsOf(count) - 1);
  });
}

/** Records about two agents: the pair in both directions, and the pair counts of both. */
interface Between {
  pair: KvEntryMaybe<PairRecord>;
  back: KvEntryMaybe<PairRecord>;
  counts: [KvEntryMaybe<PairCount>, KvEntryMaybe<PairCount>];
}

async function readBetween(draft: Draft, agentDid: string, peerDid: string): Promise<Between> {
  const [pair, back, own, theirs] = await Promise.all([
    draft.get<PairRecord>(KEYS.pair(agentDid, peerDid)),
    draft.get<PairRecord>(KEYS.pair(peerDid, agentDid)),
    draft.get<PairCount>(KEYS.pairCount(agentDid)),
    draft.get<PairCount>(KEYS.pairCount(peerDid)),
  ]);
  return { pair, back, counts: [own, theirs] };
}

function pairsOf(count: KvEntryMaybe<PairCount>): number {
  return count.value?.pairs ?? 0;
}

function writeCount(draft: Draft, { key }: KvEntryMaybe<PairCount>, pairs: number): void {
  if (pairs > 0) draft.set(key, { pairs } satisfies PairCount);
  else draft.delete(key);
}

export async function findTicket(kv: Kv, ticket: string): Promise<KvEntryMaybe<TicketRecord>> {
  return await kv.get<TicketRecord>(KEYS.ticket(digest(ticket)));
}

/**
 * Stores a new ticket and adds it to the open tickets of its initiator.
 *
 * @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED` when the agent has 20 open ones, `SERVICE_UNAVAILABLE` when the ticket
 *   would use the disk's reserve
 */
export async function createTicket(
  { changes, clock, reserve }: Pick<PairStoreDeps, "changes" | "clock" | "reserve">,
  ticket: string,
  record: TicketRecord,
): Promise<void> {
  await changes.run(async (draft) => {
    const now = clock.now();
    const [entry, own] = await Promise.all([
      draft.get<OpenTicket[]>(KEYS.openTickets(record.initiatorAgentDid)),
      draft.get<TicketRecord>(KEYS.ticket(digest(ticket))),
    ]);
    const open = (entry.value ?? []).filter((other) => now < other.expiresAt);
    if (open.length >= LIMITS.openTickets) {
      const soonest = Math.min(...open.map((other) => other.expiresAt));
      throw rateRefusal(soonest - now, `The agent has ${LIMITS.openTickets} open tickets`);
    }
    if (!reserve.hasRoom(RECORD_BYTES)) throw diskRefusal("tickets");
    draft.set(entry.key, [...open, { id: record.id, expiresAt: record.expiresAt }], {
      expireIn: LIMITS.ticketTtlMaxSeconds * 1000,
    });
    draft.set(own.key, record, { expireIn: record.expiresAt - now + KEPT_MS });
  });
}

/** The records that a confirmation reads and writes. `pair` is the initiator's. */
interface ConfirmationRecords extends Between {
  ticket: KvEntryMaybe<TicketRecord>;
  open: KvEntryMaybe<OpenTicket[]>;
}

export async function readConfirmation(
  draft: Draft,
  ticket: string,
  initiatorDid: string,
  responderDid: string,
): Promise<ConfirmationRecords> {
  // All are read at once, because the changes behind this one wait for its reads.
  const [entry, open, between] = await Promise.all([
    draft.get<TicketRecord>(KEYS.ticket(digest(ticket))),
    draft.get<OpenTicket[]>(KEYS.openTickets(initiatorDid)),
    readBetween(draft, initiatorDid, responderDid),
  ]);
  return { ticket: entry, open, ...between };
}

/** One of the two agents of a pair. */
interface Side {
  agentDid: string;
  ownerDid: string;
  profile: PairingProfile;
  key?: PairKey | undefined;
  /** Origin of its home proxy; absent for this one. */
  proxy?: string | undefined;
}

interface PairLimits extends Pick<PairStoreDeps, "reserve"> {
  now: number;
  pairQuota: number;
}

/**
 * Writes both directions of a pair and both counts. The first side is the one whose record is `pair`.
 *
 * @throws {ServiceError} `QUOTA_EXCEEDED` when the pair is new and an agent of this server has reached its quota,
 *   `SERVICE_UNAVAILABLE` when a new pair would use the disk's reserve
 */
function writePair(
  draft: Draft,
  { pair, back, counts }: Between,
  [one, other]: readonly [Side, Side],
  ticketId: string,
  { now, pairQuota, reserve }: PairLimits,
): void {
  const newPairs = pair.value === null ? 1 : 0;
  if (newPairs > 0 && !reserve.hasRoom(RECORD_BYTES)) throw diskRefusal("pairs");
  for (const [{ agentDid, proxy }, count] of [[one, counts[0]], [other, counts[1]]] as const) {
    const pairs = pairsOf(count);
    // An agent of another server has no quota here, because people here could use it up without asking that agent, and
    // keep it from every other pair.
    if (newPairs > 0 && proxy === undefined && pairs >= pairQuota) {
      throw new ServiceError("QUOTA_EXCEEDED", {
        message: `The agent ${agentDid} has ${pairs} pairs, at most ${pairQuota} are allowed`,
      });
    }
  }
  for (const count of counts) writeCount(draft, count, pairsOf(count) + newPairs);
  for (const [{ key }, peer] of [[pair, other], [back, one]] as const) {
    const record: PairRecord = {
      peerProfile: peer.profile,
      peerOwnerDid: peer.ownerDid,
      ...peer.key && { peerKey: peer.key },
      ...peer.proxy !== undefined && { proxy: peer.proxy },
      pairedAt: now,
      ticketId,
    };
    draft.set(key, record);
  }
}

/**
 * Lets `peer`, an agent of another server, write to `own`, which has asked for it. Writes nothing when the pair already
 * has these values.
 *
 * @throws {ServiceError} `QUOTA_EXCEEDED`, `SERVICE_UNAVAILABLE`, as `writePair`
 */
export async function acceptPeer(
  { changes }: Pick<PairStoreDeps, "changes">,
  own: Side,
  peer: Side & { proxy: string },
  ticketId: string,
  limits: PairLimits,
): Promise<void> {
  await changes.run(async (draft) => {
    const between = await readBetween(draft, own.agentDid, peer.agentDid), { value } = between.pair;
    const isKnown = value?.proxy === peer.proxy && value.peerKey?.mac === peer.key?.mac &&
      value.peerKey?.publicKey === peer.key?.publicKey && value.peerProfile.agentName === peer.profile.agentName &&
      value.peerProfile.humanName === peer.profile.humanName;
    if (!isKnown) writePair(draft, between, [own, peer], ticketId, limits);
  });
}

/**
 * Confirms a ticket: writes the ticket, both directions of the pair, both counts, and the open tickets of the
 * initiator. Returns the confirmed ticket.
 *
 * @throws {ServiceError} `QUOTA_EXCEEDED`, `SERVICE_UNAVAILABLE`, as `writePair`
 */
export function confirmTicket(
  draft: Draft,
  { ticket: { key }, open, ...between }: ConfirmationRecords,
  ticket: TicketRecord,
  responder: Side,
  limits: PairLimits,
): TicketRecord {
  const { initiatorAgentDid, initiatorOwnerDid, initiatorProfile, initiatorKey, expiresAt, id } = ticket,
    { now } = limits;
  const initiator = {
    agentDid: initiatorAgentDid,
    ownerDid: initiatorOwnerDid,
    profile: initiatorProfile,
    key: initiatorKey,
  };
  writePair(draft, between, [initiator, responder], id, limits);
  const confirmed: TicketRecord = {
    ...ticket,
    confirmed: {
      responderAgentDid: responder.agentDid,
      responderProfile: responder.profile,
      ...responder.key && { responderKey: responder.key },
      at: now,
    },
  };
  draft.set(key, confirmed, { expireIn: expiresAt - now + KEPT_MS });
  draft.set(open.key, (open.value ?? []).filter((other) => other.id !== id), {
    expireIn: LIMITS.ticketTtlMaxSeconds * 1000,
  });
  return confirmed;
}
