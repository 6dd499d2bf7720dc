/**
 * Pairs and pairing tickets in the store. One commit confirms a ticket and creates the pair in both directions; of
 * concurrent responders one succeeds. Each change of a pair also changes the counts of both agents (D-215).
 */
import type * as z from "zod";
import { KEYS } from "../schema/kv_keys.ts";
import type { OpenTicket, PairCount, PairRecord, TicketRecord } from "../schema/records.ts";
import type { Clock } from "../../shared/clock.ts";
import type { Random } from "../../shared/random.ts";
import { knownCount, setCount } from "./pair_count.ts";
import type { PairingProfile, PeerListQuery } from "../../shared/protocol/api/pairing.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { digest } from "../../shared/server/crypto.ts";
import { type CommitAttempt, commitOptimistically } from "../../shared/server/store/optimistic_commit.ts";

export interface PairStoreDeps {
  kv: Deno.Kv;
  clock: Clock;
  random: Random;
}

const KEPT_MS = LIMITS.ticketKeptSeconds * 1000;

/** Returns whether the agent is in at least one confirmed pair. */
export async function hasAnyPair(kv: Deno.Kv, agentDid: string): Promise<boolean> {
  const first = await kv.list({ prefix: KEYS.pairs(agentDid) }, { limit: 1 }).next();
  return !first.done;
}

/** Returns whether the two agents are a confirmed pair. */
export async function arePaired(kv: Deno.Kv, agentDid: string, peerDid: string): Promise<boolean> {
  return agentDid !== peerDid && (await kv.get(KEYS.pair(agentDid, peerDid))).value !== null;
}

/** Returns one page of an agent's peers in order of DID. `nextCursor` is `null` on the last page. */
export async function listPeers(
  kv: Deno.Kv,
  agentDid: string,
  { limit, cursor }: z.output<typeof PeerListQuery>,
): Promise<{ peers: { agentDid: string; pair: PairRecord }[]; nextCursor: string | null }> {
  const prefix = KEYS.pairs(agentDid);
  const selector = cursor === undefined ? { prefix } : { prefix, start: KEYS.pair(agentDid, cursor) };
  // Two more than a page: the pair of the cursor, and one that shows that another page follows.
  const entries = await Array.fromAsync(kv.list<PairRecord>(selector, { limit: limit + 2, batchSize: limit + 2 }));
  const later = entries
    .map(({ key, value }) => ({ agentDid: String(key.at(-1)), pair: value }))
    .filter((peer) => peer.agentDid !== cursor);
  const peers = later.slice(0, limit);
  return { peers, nextCursor: later.length > limit ? peers.at(-1)?.agentDid ?? null : null };
}

/** Ends a pair in both directions. Writes nothing when there is no pair. */
export async function removePair(deps: PairStoreDeps, agentDid: string, peerDid: string): Promise<void> {
  if (!(await arePaired(deps.kv, agentDid, peerDid))) return;
  await commitOptimistically(deps, async () => {
    const { pair, counts } = await readBetween(deps.kv, agentDid, peerDid);
    if (pair.value === null) return { done: undefined };
    const operation = deps.kv.atomic().check(pair).delete(pair.key).delete(KEYS.pair(peerDid, agentDid));
    for (const count of counts) setCount(operation, count, count.value?.pairs == null ? null : count.value.pairs - 1);
    return { operation, result: undefined };
  });
}

/** Records about two agents: the pair as the first agent's record, and the pair counts of both. */
export interface Between {
  pair: Deno.KvEntryMaybe<PairRecord>;
  counts: [Deno.KvEntryMaybe<PairCount>, Deno.KvEntryMaybe<PairCount>];
}

export async function readBetween(kv: Deno.Kv, agentDid: string, peerDid: string): Promise<Between> {
  const [pair, own, theirs] = await kv.getMany<[PairRecord, PairCount, PairCount]>([
    KEYS.pair(agentDid, peerDid),
    KEYS.pairCount(agentDid),
    KEYS.pairCount(peerDid),
  ]);
  return { pair, counts: [own, theirs] };
}

/** Returns whether this ticket created the pair. A later pair of the same agents has another ticket (D-226). */
export function isPairOfTicket(pair: PairRecord | null, { id, confirmed }: TicketRecord): boolean {
  if (pair === null || confirmed === null) return false;
  return pair.ticketId === undefined ? pair.pairedAt === confirmed.at : pair.ticketId === id;
}

export async function findTicket(kv: Deno.Kv, ticket: string): Promise<Deno.KvEntryMaybe<TicketRecord>> {
  return await kv.get<TicketRecord>(KEYS.ticket(digest(ticket)));
}

/**
 * Stores a new ticket and adds it to the open tickets of its initiator.
 *
 * @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED` when the agent has 20 open ones
 */
export async function createTicket(deps: PairStoreDeps, ticket: string, record: TicketRecord): Promise<void> {
  await commitOptimistically(deps, async () => {
    const now = deps.clock.now();
    const entry = await deps.kv.get<OpenTicket[]>(KEYS.openTickets(record.initiatorAgentDid));
    const open = (entry.value ?? []).filter((other) => now < other.expiresAt);
    if (open.length >= LIMITS.openTickets) {
      const soonest = Math.min(...open.map((other) => other.expiresAt));
      throw new ServiceError("PROXY_RATE_LIMIT_EXCEEDED", {
        message: `The agent has ${LIMITS.openTickets} open tickets`,
        headers: { "Retry-After": String(Math.max(1, Math.ceil((soonest - now) / 1000))) },
      });
    }
    const key = KEYS.ticket(digest(ticket));
    const operation = deps.kv.atomic()
      .check(entry, { key, versionstamp: null })
      .set(entry.key, [...open, { id: record.id, expiresAt: record.expiresAt }], {
        expireIn: LIMITS.ticketTtlMaxSeconds * 1000,
      })
      .set(key, record, { expireIn: record.expiresAt - now + KEPT_MS });
    return { operation, result: undefined };
  });
}

/**
 * Returns the change that confirms a ticket: the ticket, both directions of the pair, both counts, and the open tickets
 * of the initiator.
 *
 * @throws {ServiceError} `QUOTA_EXCEEDED` when the pair is new and one of the agents has reached its quota
 */
export async function confirmTicket(
  deps: PairStoreDeps & { config: { pairQuota: number } },
  entry: Deno.KvEntry<TicketRecord>,
  responder: { agentDid: string; profile: PairingProfile },
  { pair, counts }: Between,
): Promise<CommitAttempt<TicketRecord>> {
  const now = deps.clock.now();
  const { initiatorAgentDid, initiatorProfile, expiresAt, id } = entry.value;
  const confirmed: TicketRecord = {
    ...entry.value,
    confirmed: { responderAgentDid: responder.agentDid, responderProfile: responder.profile, at: now },
  };
  const open = await deps.kv.get<OpenTicket[]>(KEYS.openTickets(initiatorAgentDid));
  const forward: PairRecord = { peerProfile: responder.profile, pairedAt: now, ticketId: id };
  const back: PairRecord = { peerProfile: initiatorProfile, pairedAt: now, ticketId: id };
  const operation = deps.kv.atomic();
  for (const [agentDid, count] of [[initiatorAgentDid, counts[0]], [responder.agentDid, counts[1]]] as const) {
    const { entry: known, pairs } = await knownCount(deps.kv, agentDid, count);
    if (pair.value === null && pairs >= deps.config.pairQuota) {
      throw new ServiceError("QUOTA_EXCEEDED", {
        message: `The agent ${agentDid} has ${pairs} pairs, at most ${deps.config.pairQuota} are allowed`,
      });
    }
    setCount(operation, known, pair.value === null ? pairs + 1 : pairs);
  }
  operation
    .check(entry, open, pair)
    .set(entry.key, confirmed, { expireIn: expiresAt - now + KEPT_MS })
    .set(KEYS.pair(initiatorAgentDid, responder.agentDid), forward)
    .set(KEYS.pair(responder.agentDid, initiatorAgentDid), back)
    .set(open.key, (open.value ?? []).filter((ticket) => ticket.id !== id), {
      expireIn: LIMITS.ticketTtlMaxSeconds * 1000,
    });
  return { operation, result: confirmed };
}
