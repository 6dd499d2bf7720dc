/**
 * The rules of pairing (D-73 to D-77): what a ticket allows whom, and when.
 */
import { ServiceError } from "../../shared/protocol/errors.ts";
import type { ProxyDeps } from "../deps.ts";
import { RegistryUnavailable } from "../registry_client.ts";
import type { TicketRecord } from "./store.ts";

/** What becomes of a confirmation before ownership is asked: go on, or the same answer as before. */
export type ConfirmVerdict = "confirm" | "confirmed_before";

/**
 * Judges who confirms a known ticket: again, by another, expired, own, reserved for somebody else.
 *
 * @throws {ServiceError} `PROXY_PAIR_TICKET_ALREADY_CONFIRMED`, `PROXY_PAIR_TICKET_EXPIRED`, `PROXY_PAIR_INVALID_BODY`,
 * `PROXY_PAIR_RESPONDER_FORBIDDEN`
 */
export function judgeConfirmation(ticket: TicketRecord, responderDid: string, now: number): ConfirmVerdict {
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
 * Asks the registry whether an agent may pair: owned as it says, active, with a live session.
 *
 * @throws {ServiceError} `PROXY_PAIR_OWNERSHIP_FORBIDDEN`, `PROXY_PAIR_OWNERSHIP_UNAVAILABLE`
 */
export async function requireOwnership(deps: ProxyDeps, ownerDid: string, agentDid: string): Promise<void> {
  const { ownsAgent, agentStatus, session } = await ownership(deps, ownerDid, agentDid);
  if (!ownsAgent || agentStatus !== "active" || session !== "active") {
    throw new ServiceError("PROXY_PAIR_OWNERSHIP_FORBIDDEN");
  }
}

/** The initiator of a ticket must still be active when it is confirmed. */
export async function requireActive(deps: ProxyDeps, ownerDid: string, agentDid: string): Promise<void> {
  const { ownsAgent, agentStatus } = await ownership(deps, ownerDid, agentDid);
  if (!ownsAgent || agentStatus !== "active") {
    throw new ServiceError("PROXY_PAIR_OWNERSHIP_FORBIDDEN", {
      message: "The agent that made the ticket is not active",
    });
  }
}

async function ownership(deps: ProxyDeps, ownerDid: string, agentDid: string) {
  try {
    return await deps.registry.ownership(ownerDid, agentDid);
  } catch (cause) {
    if (!(cause instanceof RegistryUnavailable)) throw cause;
    throw new ServiceError("PROXY_PAIR_OWNERSHIP_UNAVAILABLE", { cause, headers: { "Retry-After": "1" } });
  }
}
