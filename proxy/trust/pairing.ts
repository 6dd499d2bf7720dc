/**
 * The rules of pairing (D-73 to D-77): what a ticket allows whom, and when.
 */
import type { Ownership } from "../../shared/protocol/api/services.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { RegistryUnavailable } from "../registry_client.ts";
import type { TicketRecord } from "../schema/records.ts";

export interface OwnershipDeps {
  registry: { ownership(ownerDid: string, agentDid: string): Promise<Ownership> };
}

/** What becomes of a confirmation before ownership is asked: go on, or the same answer as before. */
export type ConfirmResult = "confirm" | "confirmed_before";

/**
 * Judges who confirms a known ticket: again, by another, expired, own, reserved for somebody else.
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
 * Asks the registry whether an agent may use the pairing routes: owned as its AIT says, active, with an active session
 * (D-225).
 *
 * @throws {ServiceError} `PROXY_PAIR_OWNERSHIP_FORBIDDEN`, `PROXY_PAIR_OWNERSHIP_UNAVAILABLE`
 */
export async function requireOwnership(deps: OwnershipDeps, ownerDid: string, agentDid: string): Promise<void> {
  if (await mayPair(deps, ownerDid, agentDid)) return;
  throw new ServiceError("PROXY_PAIR_OWNERSHIP_FORBIDDEN");
}

/**
 * The same for the initiator of a ticket, at its confirmation.
 *
 * @throws {ServiceError} `PROXY_PAIR_OWNERSHIP_FORBIDDEN`, `PROXY_PAIR_OWNERSHIP_UNAVAILABLE`
 */
export async function requireInitiator(deps: OwnershipDeps, ownerDid: string, agentDid: string): Promise<void> {
  if (await mayPair(deps, ownerDid, agentDid)) return;
  throw new ServiceError("PROXY_PAIR_OWNERSHIP_FORBIDDEN", {
    message: "The agent that made the ticket is not active, or its session has ended",
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
