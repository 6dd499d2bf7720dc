/** HTTP handlers of pairing and peers (D-73 to D-77). */
import type * as z from "zod";
import type {
  PairConfirmAnswer,
  PairConfirmBody,
  PairingProfile,
  PairRemoveBody,
  PairStartAnswer,
  PairStartBody,
  PairStatusAnswer,
  PairStatusBody,
  PeerList,
  PeerListQuery,
} from "../../shared/protocol/api/pairing.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import type { NewId } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { formatTicket, parseTicket } from "../../shared/protocol/ticket.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { commitOptimistically } from "../../shared/server/store/optimistic_commit.ts";
import { type Answer, type Input, json, noContent } from "../../shared/server/http/route.ts";
import type { AdmittedAgent } from "../caller.ts";
import { checkConfirmation, type OwnershipDeps, requireInitiator, requireOwnership } from "./pairing.ts";
import * as store from "./store.ts";
import type { TicketRecord } from "../schema/records.ts";

interface TrustDeps extends OwnershipDeps, store.PairStoreDeps {
  newId: NewId;
  config: { proxyUrl: string; pairQuota: number };
  dispatch: { tellPaired(agentDid: string, peerAgentDid: string, profile: PairingProfile): Promise<void> };
}

type Pairing<B extends z.ZodType> = Input<undefined, undefined, z.output<B>, AdmittedAgent>;

export async function pairStart(deps: TrustDeps, { body, caller }: Pairing<typeof PairStartBody>): Promise<Answer> {
  await requireOwnership(deps, caller.ownerDid, caller.agentDid);
  // The ticket contains its expiry in whole seconds.
  const exp = Math.floor(deps.clock.now() / 1000) + body.ttlSeconds;
  const id = deps.newId();
  const ticket = formatTicket({ iss: deps.config.proxyUrl, id, exp }, deps.random.bytes(24));
  const { initiatorProfile, allowResponderAgentDid = null } = body;
  await store.createTicket(deps, ticket, {
    id,
    initiatorAgentDid: caller.agentDid,
    initiatorOwnerDid: caller.ownerDid,
    initiatorProfile,
    allowResponderAgentDid,
    expiresAt: exp * 1000,
    confirmed: null,
  });
  const response: PairStartAnswer = {
    ticket,
    expiresAt: toIso(exp * 1000),
    initiatorAgentDid: caller.agentDid,
    initiatorProfile,
  };
  return json(response);
}

export async function pairConfirm(
  deps: TrustDeps,
  { body, caller }: Pairing<typeof PairConfirmBody>,
): Promise<Answer> {
  const { ticket, isNew } = await commitOptimistically(deps, async () => {
    const entry = await knownTicket(deps, body.ticket);
    const { initiatorOwnerDid, initiatorAgentDid } = entry.value;
    const confirmation = checkConfirmation(entry.value, caller.agentDid, deps.clock.now());
    const between = await store.readBetween(deps.kv, initiatorAgentDid, caller.agentDid);
    if (confirmation === "confirmed_before" && !store.isPairOfTicket(between.pair.value, entry.value)) {
      throw new ServiceError("PROXY_PAIR_TICKET_NOT_FOUND");
    }
    await requireOwnership(deps, caller.ownerDid, caller.agentDid);
    await requireInitiator(deps, initiatorOwnerDid, initiatorAgentDid);
    if (confirmation === "confirmed_before") return { done: { ticket: entry.value, isNew: false } };
    const responder = { agentDid: caller.agentDid, profile: body.responderProfile };
    const { operation, result } = await store.confirmTicket(deps, entry, responder, between);
    return { operation, result: { ticket: result, isNew: true } };
  });
  if (!ticket.confirmed) throw new Error("A confirmed ticket holds no confirmation");
  const { initiatorAgentDid, initiatorProfile } = ticket;
  const { responderAgentDid, responderProfile } = ticket.confirmed;
  if (isNew) await deps.dispatch.tellPaired(initiatorAgentDid, responderAgentDid, responderProfile);
  const response: PairConfirmAnswer = {
    paired: true,
    initiatorAgentDid,
    initiatorProfile,
    responderAgentDid,
    responderProfile,
  };
  return json(response, 201);
}

export async function pairStatus(deps: TrustDeps, { body, caller }: Pairing<typeof PairStatusBody>): Promise<Answer> {
  await requireOwnership(deps, caller.ownerDid, caller.agentDid);
  const { value: ticket } = await knownTicket(deps, body.ticket);
  const { initiatorAgentDid, initiatorProfile, expiresAt, confirmed } = ticket;
  if (caller.agentDid !== initiatorAgentDid && caller.agentDid !== confirmed?.responderAgentDid) {
    throw new ServiceError("PROXY_PAIR_TICKET_NOT_FOUND");
  }
  if (!confirmed && deps.clock.now() >= expiresAt) throw new ServiceError("PROXY_PAIR_TICKET_EXPIRED");
  const response: PairStatusAnswer = {
    status: confirmed ? "confirmed" : "pending",
    initiatorAgentDid,
    initiatorProfile,
    expiresAt: toIso(expiresAt),
    ...(confirmed
      ? {
        responderAgentDid: confirmed.responderAgentDid,
        responderProfile: confirmed.responderProfile,
        confirmedAt: toIso(confirmed.at),
      }
      : {}),
  };
  return json(response);
}

export async function listPeers(
  deps: TrustDeps,
  { caller, query }: Input<undefined, z.output<typeof PeerListQuery>, undefined, AdmittedAgent>,
): Promise<Answer> {
  await requireOwnership(deps, caller.ownerDid, caller.agentDid);
  const { peers, nextCursor } = await store.listPeers(deps.kv, caller.agentDid, query);
  const response: PeerList = {
    peers: peers.map(({ agentDid, pair }) => ({
      agentDid,
      profile: pair.peerProfile,
      pairedAt: toIso(pair.pairedAt),
    })),
    pagination: { limit: query.limit, nextCursor },
  };
  return json(response);
}

export async function removePeer(deps: TrustDeps, { body, caller }: Pairing<typeof PairRemoveBody>): Promise<Answer> {
  await requireOwnership(deps, caller.ownerDid, caller.agentDid);
  await store.removePair(deps, caller.agentDid, body.peerAgentDid);
  return noContent();
}

/**
 * Returns the record of a ticket.
 *
 * @throws {ServiceError} `PROXY_PAIR_TICKET_NOT_FOUND` for an unknown ticket, a text that is not a ticket, and a ticket
 * that expired more than a day ago
 */
async function knownTicket(deps: TrustDeps, pasted: string): Promise<Deno.KvEntry<TicketRecord>> {
  const parsed = parseTicket(pasted);
  const entry = parsed && await store.findTicket(deps.kv, parsed.ticket);
  if (!entry?.value || deps.clock.now() >= entry.value.expiresAt + LIMITS.ticketKeptSeconds * 1000) {
    throw new ServiceError("PROXY_PAIR_TICKET_NOT_FOUND");
  }
  return entry as Deno.KvEntry<TicketRecord>;
}
