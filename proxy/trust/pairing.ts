/**
 * The rules of pairing (D-74): who may confirm a ticket, and who may use the pairing routes. Only participants learn
 * that a ticket exists, because a stranger could otherwise tell a used one from an invented one.
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
 * Checks at the registry that an agent may use the pairing routes: the owner in its AIT owns it, and the agent and
 * its session are active, because an owner who ends a session ends these rights with it.
 *
 * @throws {ServiceError} `PROXY_PAIR_OWNERSHIP_FORBIDDEN`, `PROXY_PAIR_OWNERSHIP_UNAVAILABLE`
 */
export async function requireOwnership(deps: OwnershipDeps, ownerDid: string, agentDid: string): Promise<void> {
  if (await mayPair(deps, ownerDid, agentDid)) return;
  throw new ServiceError("PROXY_PAIR_OWNERSHIP_FORBIDDEN");
}

/**
 * Makes the same check for the initiator of a ticket when the ticket is confirmed.
 *
 * @throws {ServiceError} `PROXY_PAIR_OWNERSHIP_FORBIDDEN`, `PROXY_PAIR_OWNERSHIP_UNAVAILABLE`
 */
export async function requireInitiator(deps: OwnershipDeps, ownerDid: string, agentDid: string): Promise<void> {
  if (await mayPair(deps, ownerDid, agentDid)) return;
  throw new ServiceError("PROXY_PAIR_OWNERSHIP_FORBIDDEN", {
    message: "The agent that created the ticket is not active, or its session has ended",
  });
}

async function mayPair(deps: OwnershipDeps, ownerDid: string, agentDid: string): Promise<boolean> {
  try {
    const { ownsAgent, agentStatus, session } = await deps.registry.ownership(ownerDid, agentDid);
    return ownsAgent && agentStatus === "active" && session === "active";
  } catch (cause) {
    if (!(cause instanceof RegistryUnavailable)) throw cause;
    throw new ServiceError("PROXY_PAIR_OWNERSHIP_UNAVAILABLE", { cause, headers: { "Retry-After": "1" } });
  }
}
