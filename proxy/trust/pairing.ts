/**
 * The rules of pairing: who may confirm a ticket, and who may use the pairing routes. Only participants learn
 * that a ticket exists, because a stranger could otherwise tell a used one from an invented one. The ticket and both
 * directions of the pair change in one commit, because half a pair would let messages flow in one direction.
 */
import type { Ownership } from "../../shared/protocol/api/services.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { RegistryUnavailable } from "../registry_client.ts";
import type { TicketRecord } from "../schema/records.ts";

export interface OwnershipDeps {
  registry: { ownership(ownerDid: string, agentDid: string): Promise<Ownership> };
}

/** Result of the checks before ownership: a new confirmation, or a repetition that gets the same response. */
export type ConfirmResult = "confirm" | "confirmed_before";

/**
 * Returns whether a known ticket is confirmed for the first time or again. Refuses a ticket that another agent confirmed,
 * that expired, that is the responder's own, or that is reserved for another agent.
 *
 * @throws {ServiceError} `PROXY_PAIR_TICKET_ALREADY_CONFIRMED`, `PROXY_PAIR_TICKET_EXPIRED`, `PROXY_PAIR_INVALID_BODY`,
 * `PROXY_PAIR_RESPONDER_FORBIDDEN`
 */
export function checkConfirmation(ticket: TicketRecord, responderDid: string, now: number): ConfirmResult {
  if (ticket.confirmed) {
    if (ticket.confirmed.responderAgentDid === responderDid) return "confirmed_before";
    throw new ServiceError("PROXY_PAIR_TICKET_ALREADY_CONFIRMED");
  }
  if (now >= ticket.expiresAt) throw new ServiceError("PROXY_PAIR_TICKET_EXPIRED");
  if (ticket.initiatorAgentDid === responderDid) {
    throw new ServiceError("PROXY_PAIR_INVALID_BODY", { message: "An agent cannot confirm its own ticket" });
  }
  if (ticket.allowResponderAgentDid !== null && ticket.allowResponderAgentDid !== responderDid) {
    throw new ServiceError("PROXY_PAIR_RESPONDER_FORBIDDEN");
  }
  return "confirm";
}

/**
 * Checks at the registry that an agent may pair: its owner owns it, and the agent and its session are active, because an owner
 * who ends a session ends these rights with it.
 *
 * @param message for another agent than the caller
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
