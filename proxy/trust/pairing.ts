/**
 * The rules of pairing: who may confirm a ticket, and who may use the pairing routes. Only participants learn the
 * status of a ticket, because it would name both agents to any agent that has seen the text. The ticket and both
 * directions of the pair change in one commit, because half a pair would let messages flow in one direction only.
 */
import type { Clock } from "../../shared/clock.ts";
import type { Kv } from "../../shared/server/kv.ts";
import type { Ownership } from "../../shared/protocol/api/services.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseTicket } from "../../shared/protocol/ticket.ts";
import type { AdmittedAgent } from "../caller.ts";
import { RegistryUnavailable } from "../registry_client.ts";
import type { PairRecord, TicketRecord } from "../schema/records.ts";
import { findTicket } from "./store.ts";

export interface OwnershipDeps {
  registry: { ownership(ownerDid: string, agentDid: string): Promise<Ownership> };
}

/**
 * Returns a ticket and its plain form, whose digest is its key.
 *
 * @throws {ServiceError} `PROXY_PAIR_TICKET_NOT_FOUND` also for a text that is not a ticket
 */
export async function knownTicket(
  { kv, clock }: { kv: Kv; clock: Clock },
  pasted: string,
): Promise<{ text: string; ticket: TicketRecord }> {
  const parsed = parseTicket(pasted);
  if (!parsed) throw new ServiceError("PROXY_PAIR_TICKET_NOT_FOUND");
  const { value } = await findTicket(kv, parsed.plain);
  return { text: parsed.plain, ticket: requireKnown(clock, value) };
}

/**
 * Returns a ticket that is still known.
 *
 * @throws {ServiceError} `PROXY_PAIR_TICKET_NOT_FOUND` for an unknown one, and for one that expired over a day ago
 */
export function requireKnown(clock: Clock, ticket: TicketRecord | null): TicketRecord {
  if (ticket && clock.now() < ticket.expiresAt + LIMITS.ticketKeptSeconds * 1000) return ticket;
  throw new ServiceError("PROXY_PAIR_TICKET_NOT_FOUND");
}

/**
 * Returns whether a known ticket is confirmed for the first time, or again with the same response. Refuses a ticket
 * that another agent confirmed, that expired, that is the responder's own, or that is reserved for another agent.
 *
 * @param pair of its initiator with the responder
 * @throws {ServiceError} `PROXY_PAIR_TICKET_ALREADY_CONFIRMED`, `PROXY_PAIR_TICKET_EXPIRED`, `PROXY_PAIR_INVALID_BODY`,
 *   `PROXY_PAIR_RESPONDER_FORBIDDEN`; `PROXY_PAIR_TICKET_NOT_FOUND` when its pair has ended
 */
export function checkConfirmation(
  clock: Clock,
  { confirmed, initiatorAgentDid, allowResponderAgentDid, expiresAt, id }: TicketRecord,
  pair: PairRecord | null,
  responderDid: string,
): "confirm" | "confirmed_before" {
  if (confirmed) {
    if (confirmed.responderAgentDid !== responderDid) throw new ServiceError("PROXY_PAIR_TICKET_ALREADY_CONFIRMED");
    // A later ticket may have paired the two. Without this check the answer would say that this ticket did.
    if (pair?.ticketId !== id) throw new ServiceError("PROXY_PAIR_TICKET_NOT_FOUND");
    return "confirmed_before";
  }
  if (clock.now() >= expiresAt) throw new ServiceError("PROXY_PAIR_TICKET_EXPIRED");
  if (initiatorAgentDid === responderDid) {
    throw new ServiceError("PROXY_PAIR_INVALID_BODY", { message: "An agent cannot confirm its own ticket" });
  }
  if (allowResponderAgentDid !== null && allowResponderAgentDid !== responderDid) {
    throw new ServiceError("PROXY_PAIR_RESPONDER_FORBIDDEN");
  }
  return "confirm";
}

/**
 * Checks that an agent may see the state of a known ticket.
 *
 * @throws {ServiceError} `PROXY_PAIR_TICKET_NOT_FOUND` for one that takes no part in it; `PROXY_PAIR_TICKET_EXPIRED`
 */
export function checkStatus(
  clock: Clock,
  { initiatorAgentDid, confirmed, expiresAt }: TicketRecord,
  agentDid: string,
): void {
  if (agentDid !== initiatorAgentDid && agentDid !== confirmed?.responderAgentDid) {
    throw new ServiceError("PROXY_PAIR_TICKET_NOT_FOUND");
  }
  if (!confirmed && clock.now() >= expiresAt) throw new ServiceError("PROXY_PAIR_TICKET_EXPIRED");
}

/**
 * Checks at the registry that an agent may pair: its owner owns it, and agent and session are active. The session
 * counts, because an owner who ends it ends this right too.
 *
 * @param message of the refusal, when the agent is not the caller
 * @throws {ServiceError} `PROXY_PAIR_OWNERSHIP_FORBIDDEN`, `PROXY_PAIR_OWNERSHIP_UNAVAILABLE`
 */
export async function requireOwnership(
  { registry }: OwnershipDeps,
  ownerDid: string,
  agentDid: string,
  message?: string,
): Promise<void> {
  try {
    const { ownsAgent, agentStatus, session } = await registry.ownership(ownerDid, agentDid);
    if (ownsAgent && agentStatus === "active" && session === "active") return;
  } catch (cause) {
    if (!(cause instanceof RegistryUnavailable)) throw cause;
    throw new ServiceError("PROXY_PAIR_OWNERSHIP_UNAVAILABLE", { cause, headers: { "Retry-After": "1" } });
  }
  throw new ServiceError("PROXY_PAIR_OWNERSHIP_FORBIDDEN", message === undefined ? {} : { message });
}

/** Checks the caller's agent, owner and session, unless its registry did so when it issued a visit token. */
export async function requireHome(
  deps: OwnershipDeps,
  { homeProxy, ownerDid, agentDid }: AdmittedAgent,
): Promise<void> {
  if (homeProxy === null) await requireOwnership(deps, ownerDid, agentDid);
}
