/**
 * Pairs and pairing tickets in the store. A ticket becomes a pair, in both directions, in one commit; of many
 * responders at once one wins.
 */
import type { Profile } from "../../shared/protocol/api/pairing.ts";
import { digest } from "../../shared/server/crypto.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { type Attempt, optimistically } from "../../shared/server/kv.ts";
import { ringTrustBell } from "../../shared/server/bell.ts";
import type { ProxyDeps } from "../deps.ts";
import { KEYS } from "../keys.ts";

/** One direction of a pair, as its owner sees the peer; time is milliseconds since the Unix epoch. */
export interface PairRecord {
  peerProfile: Profile;
  pairedAt: number;
}

/** A ticket as stored, under the digest of its text; times are milliseconds since the Unix epoch. */
export interface TicketRecord {
  id: string;
  initiatorAgentDid: string;
  initiatorOwnerDid: string;
  initiatorProfile: Profile;
  allowResponderAgentDid: string | null;
  expiresAt: number;
  confirmed: { responderAgentDid: string; responderProfile: Profile; at: number } | null;
}

/** An open ticket of an agent, for its limit. */
export interface OpenTicket {
  id: string;
  expiresAt: number;
}

const KEPT_MS = LIMITS.ticketKeptSeconds * 1000;

/** True when the agent is in at least one confirmed pair. */
export async function hasAnyPair(kv: Deno.Kv, agentDid: string): Promise<boolean> {
  const first = await kv.list({ prefix: KEYS.pairs(agentDid) }, { limit: 1 }).next();
  return !first.done;
}

/** True when the two agents are a confirmed pair. */
export async function arePaired(kv: Deno.Kv, agentDid: string, peerDid: string): Promise<boolean> {
  return agentDid !== peerDid && (await kv.get(KEYS.pair(agentDid, peerDid))).value !== null;
}

/** The peers of an agent. */
export async function listPeers(kv: Deno.Kv, agentDid: string): Promise<{ agentDid: string; pair: PairRecord }[]> {
  const entries = await Array.fromAsync(kv.list<PairRecord>({ prefix: KEYS.pairs(agentDid) }));
  return entries.map(({ key, value }) => ({ agentDid: String(key.at(-1)), pair: value }));
}

/** Ends a pair, both ways; nothing happens when there is none. */
export async function removePair(deps: ProxyDeps, agentDid: string, peerDid: string): Promise<void> {
  const operation = deps.kv.atomic().delete(KEYS.pair(agentDid, peerDid)).delete(KEYS.pair(peerDid, agentDid));
  await ringTrustBell(operation, deps.newId, [agentDid, peerDid], "pair").commit();
}

export async function findTicket(deps: ProxyDeps, ticket: string): Promise<Deno.KvEntryMaybe<TicketRecord>> {
  return await deps.kv.get<TicketRecord>(KEYS.ticket(digest(ticket)));
}

/**
 * Stores a new ticket.
 *
 * @throws {ServiceError} `PROXY_RATE_LIMIT_EXCEEDED` when the agent has 20 open ones
 */
export async function createTicket(deps: ProxyDeps, ticket: string, record: TicketRecord): Promise<void> {
  await optimistically(deps, async () => {
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

/** The change that confirms a ticket: the ticket, both directions of the pair, and the initiator's open tickets. */
export async function confirmTicket(
  deps: ProxyDeps,
  entry: Deno.KvEntry<TicketRecord>,
  responder: { agentDid: string; profile: Profile },
): Promise<Attempt<TicketRecord>> {
  const now = deps.clock.now();
  const { initiatorAgentDid, initiatorProfile, expiresAt, id } = entry.value;
  const confirmed: TicketRecord = {
    ...entry.value,
    confirmed: { responderAgentDid: responder.agentDid, responderProfile: responder.profile, at: now },
  };
  const open = await deps.kv.get<OpenTicket[]>(KEYS.openTickets(initiatorAgentDid));
  const forward: PairRecord = { peerProfile: responder.profile, pairedAt: now };
  const back: PairRecord = { peerProfile: initiatorProfile, pairedAt: now };
  const operation = deps.kv.atomic()
    .check(entry, open)
    .set(entry.key, confirmed, { expireIn: expiresAt - now + KEPT_MS })
    .set(KEYS.pair(initiatorAgentDid, responder.agentDid), forward)
    .set(KEYS.pair(responder.agentDid, initiatorAgentDid), back)
    .set(open.key, (open.value ?? []).filter((ticket) => ticket.id !== id), {
      expireIn: LIMITS.ticketTtlMaxSeconds * 1000,
    });
  return { operation, result: confirmed };
}
