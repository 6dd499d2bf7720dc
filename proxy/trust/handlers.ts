/** HTTP handlers of pairing and peers. */
import type * as z from "zod";
import type { Environment } from "../../shared/protocol/api/meta.ts";
import type {
  PairAcceptAnswer,
  PairAcceptBody,
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
import { parseDid } from "../../shared/protocol/did.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { isForeignOrigin } from "../../shared/protocol/origins.ts";
import { formatTicket } from "../../shared/protocol/ticket.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { type Answer, type Input, json, noContent } from "../../shared/server/http/route.ts";
import { readAll } from "../../shared/server/store/batched_reads.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { AdmittedAgent } from "../caller.ts";
import type { OwnerBudgets } from "../owner_budgets.ts";
import {
  checkConfirmation,
  checkStatus,
  knownTicket,
  type OwnershipDeps,
  requireHome,
  requireKnown,
  requireOwnership,
} from "./pairing.ts";
import * as store from "./store.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { PairRecord, Seen } from "../schema/records.ts";

interface TrustDeps extends OwnershipDeps, store.PairStoreDeps, Pick<ServiceDeps, "random" | "newId"> {
  owners: OwnerBudgets;
  config: { proxyUrl: string; pairQuota: number; environment: Environment };
  /** Returns which instances run, because one that was killed has not recorded that its agents are offline. */
  leases: { aliveOf(instances: Iterable<string>): Promise<ReadonlySet<string>> };
  mailbox: { deadLetterFrom(sender: string, recipient: string): Promise<void> };
  policy: { acceptsAuthority(authority: string): boolean };
  forwarder: {
    tellPaired(agentDid: string, peerAgentDid: string, profile: PairingProfile, proxy?: string): Promise<void>;
  };
}

type Pairing<B extends z.ZodType> = Input<undefined, undefined, z.output<B>, AdmittedAgent>;

export async function pairStart(deps: TrustDeps, { body, caller }: Pairing<typeof PairStartBody>): Promise<Answer> {
  deps.owners.takePairing(caller.payers);
  await requireOwnership(deps, caller.ownerDid, caller.agentDid);
  const expiresAt = deps.clock.now() + body.ttlSeconds * 1000;
  const ticket = formatTicket(deps.config.proxyUrl, deps.random.bytes(16));
  const { initiatorProfile, initiatorKey, allowResponderAgentDid = null } = body;
  await store.createTicket(deps, ticket, {
    id: deps.newId(),
    initiatorAgentDid: caller.agentDid,
    initiatorOwnerDid: caller.ownerDid,
    initiatorProfile,
    ...initiatorKey && { initiatorKey },
    allowResponderAgentDid,
    expiresAt,
    confirmed: null,
  });
  const response: PairStartAnswer = {
    ticket,
    expiresAt: toIso(expiresAt),
    initiatorAgentDid: caller.agentDid,
    initiatorProfile,
  };
  return json(response);
}

export async function pairConfirm(
  deps: TrustDeps,
  { body, caller }: Pairing<typeof PairConfirmBody>,
): Promise<Answer> {
  const seen = await knownTicket(deps, body.ticket);
  const { initiatorOwnerDid, initiatorAgentDid, initiatorProfile } = seen.ticket;
  const proxy = caller.homeProxy ?? undefined;
  const pair = await deps.kv.get<PairRecord>(KEYS.pair(initiatorAgentDid, caller.agentDid));
  checkConfirmation(deps.clock, seen.ticket, pair.value, caller.agentDid);
  // No server can vouch for the key of another server's agent, so the connectors prove keys with the ticket's secret.
  if (caller.homeProxy !== null && !(seen.ticket.initiatorKey && body.responderKey)) {
    throw new ServiceError("PROXY_PAIR_INVALID_BODY", {
      message: "Agents of two servers prove their keys when they pair",
    });
  }
  // Asked before this change has its turn, because all other changes would otherwise wait for the registry.
  const gone = "The agent that created the ticket is not active, or its session has ended";
  const requireBoth = async () => {
    await requireHome(deps, caller);
    await requireOwnership(deps, initiatorOwnerDid, initiatorAgentDid, gone);
  };
  await requireBoth();
  const { ticket, isNew } = await deps.changes.run(async (draft) => {
    const records = await store.readConfirmation(draft, seen.text, initiatorAgentDid, caller.agentDid);
    const present = requireKnown(deps.clock, records.ticket.value);
    if (checkConfirmation(deps.clock, present, records.pair.value, caller.agentDid) === "confirmed_before") {
      return { ticket: present, isNew: false };
    }
    const { agentDid, ownerDid } = caller;
    const responder = {
      agentDid,
      ownerDid,
      profile: body.responderProfile,
      key: body.responderKey,
      proxy,
    };
    const limits = { now: deps.clock.now(), pairQuota: deps.config.pairQuota, reserve: deps.reserve };
    return { ticket: store.confirmTicket(draft, records, present, responder, limits), isNew: true };
  });
  if (!ticket.confirmed) throw new Error("A confirmed ticket holds no confirmation");
  const { responderAgentDid, responderProfile } = ticket.confirmed;
  if (isNew) {
    // Asked again, because an agent may have ended since the first answers. Without an answer the first ones count.
    await requireBoth().catch(async (error) => {
      if (!(error instanceof ServiceError) || error.code !== "PROXY_PAIR_OWNERSHIP_FORBIDDEN") return;
      if (pair.value === null) await store.removePair(deps, initiatorAgentDid, caller.agentDid);
      throw error;
    });
    await deps.forwarder.tellPaired(initiatorAgentDid, responderAgentDid, responderProfile, proxy);
  }
  const response: PairConfirmAnswer = {
    paired: true,
    initiatorAgentDid,
    initiatorProfile,
    responderAgentDid,
    responderProfile,
    ...ticket.initiatorKey && { initiatorKey: ticket.initiatorKey },
  };
  return json(response, 201);
}

/**
 * The second half of a pair with an agent of another server: lets that agent write to the caller. The other server
 * is not asked, because only the caller has to agree.
 */
export async function pairAccept(deps: TrustDeps, { body, caller }: Pairing<typeof PairAcceptBody>): Promise<Answer> {
  const { peerAgentDid, peerProxy, peerProfile, peerKey } = body, { environment, proxyUrl, pairQuota } = deps.config;
  deps.owners.takePairing(caller.payers);
  await requireOwnership(deps, caller.ownerDid, caller.agentDid);
  const authority = parseDid(peerAgentDid)?.authority ?? "";
  if (!isForeignOrigin(peerProxy, environment) || peerProxy === new URL(proxyUrl).origin) {
    throw new ServiceError("PROXY_PAIR_INVALID_BODY", { message: "peerProxy is not the origin of another server" });
  }
  if (!deps.policy.acceptsAuthority(authority)) {
    throw new ServiceError("PROXY_PAIR_RESPONDER_FORBIDDEN", {
      message: `This server takes no agents of ${authority}`,
    });
  }
  const { agentDid, ownerDid, identity: { name } } = caller, profile = { agentName: name, humanName: name };
  const peer = { agentDid: peerAgentDid, ownerDid: authority, profile: peerProfile, key: peerKey, proxy: peerProxy };
  const limits = { now: deps.clock.now(), pairQuota, reserve: deps.reserve };
  await store.acceptPeer(deps, { agentDid, ownerDid, profile }, peer, deps.newId(), limits);
  const response: PairAcceptAnswer = { paired: true, agentDid, peerAgentDid, peerProxy, peerProfile };
  return json(response, 201);
}

export async function pairStatus(deps: TrustDeps, { body, caller }: Pairing<typeof PairStatusBody>): Promise<Answer> {
  await requireOwnership(deps, caller.ownerDid, caller.agentDid);
  const { ticket } = await knownTicket(deps, body.ticket);
  checkStatus(deps.clock, ticket, caller.agentDid);
  const { initiatorAgentDid, initiatorProfile, expiresAt, confirmed } = ticket;
  // Without this check, an agent whose pair has ended would read that it may send.
  if (confirmed && !await store.arePaired(deps.kv, initiatorAgentDid, confirmed.responderAgentDid)) {
    throw new ServiceError("PROXY_PAIR_TICKET_NOT_FOUND");
  }
  const response: PairStatusAnswer = {
    status: confirmed ? "confirmed" : "pending",
    initiatorAgentDid,
    initiatorProfile,
    expiresAt: toIso(expiresAt),
    ...confirmed && {
      responderAgentDid: confirmed.responderAgentDid,
      responderProfile: confirmed.responderProfile,
      confirmedAt: toIso(confirmed.at),
      ...ticket.initiatorKey && { initiatorKey: ticket.initiatorKey },
      ...confirmed.responderKey && { responderKey: confirmed.responderKey },
    },
  };
  return json(response);
}

/** Peers in a list that cost as much as a request. With more, an owner's lists could hold a core. */
const PEERS_PER_REQUEST = 50;

export async function listPeers(
  deps: TrustDeps,
  { caller, query }: Input<undefined, z.output<typeof PeerListQuery>, undefined, AdmittedAgent>,
): Promise<Answer> {
  await requireOwnership(deps, caller.ownerDid, caller.agentDid);
  const { items: peers, nextCursor } = await store.listPeers(deps.kv, caller.agentDid, query);
  const cost = Math.floor(peers.length / PEERS_PER_REQUEST);
  // Counted as further requests of the owner, before the connections of the peers are read, which takes most of the time.
  if (cost > 0) deps.owners.takeRequest(caller.payers, "agent", 1, cost);
  const seen = await lastSeen(deps, peers.map(({ agentDid }) => agentDid));
  const response: PeerList = {
    peers: peers.map(({ agentDid, pair }, i) => ({
      agentDid,
      profile: pair.peerProfile,
      pairedAt: toIso(pair.pairedAt),
      ...pair.peerKey && { peerKey: pair.peerKey },
      ...pair.proxy === undefined ? seen[i] ?? NEVER_SEEN : { ...HIDDEN, proxy: pair.proxy },
    })),
    pagination: { limit: query.limit, nextCursor },
  };
  return json(response);
}

type LastSeen = Pick<PeerList["peers"][number], "online" | "lastSeenAt">;

/** Peers learn times only to the minute, because by the second they could tell when a person acts. */
const MINUTE_MS = 60_000;

const NEVER_SEEN: LastSeen = { online: false, lastSeenAt: null };
/** What peers learn of an agent that hides its connection, and of an agent of another server. */
const HIDDEN: LastSeen = { online: null, lastSeenAt: null };

/**
 * Returns what the peers of agents learn of their connections, in the order of the agents: whether each is connected,
 * and to the minute when it was last. Of an agent that hides it they learn neither.
 *
 * @throws {StoreUnavailable}
 */
async function lastSeen({ kv, clock, leases }: TrustDeps, agentDids: readonly string[]): Promise<LastSeen[]> {
  const found = (await readAll<Seen>(kv, agentDids.map((did) => KEYS.seen(did)))).map(({ value }) => value);
  const alive = await leases.aliveOf(found.flatMap((seen) => seen?.disconnectedAt === null ? [seen.instance] : []));
  return found.map((seen) => {
    if (seen === null) return NEVER_SEEN;
    if (seen.hidden) return HIDDEN;
    const { instance, disconnectedAt } = seen;
    const online = disconnectedAt === null && alive.has(instance);
    // An instance that was killed or stopped has not recorded the end. When the agent came would be read as its end.
    const at = online ? clock.now() : disconnectedAt;
    return { online, lastSeenAt: at === null ? null : toIso(Math.floor(at / MINUTE_MS) * MINUTE_MS) };
  });
}

export async function removePeer(deps: TrustDeps, { body, caller }: Pairing<typeof PairRemoveBody>): Promise<Answer> {
  await requireHome(deps, caller);
  const { agentDid } = caller, { peerAgentDid } = body;
  if (await store.removePair(deps, agentDid, peerAgentDid)) {
    // Their senders would otherwise be told that they wait until the recipient comes, which then never gets them.
    await deps.mailbox.deadLetterFrom(agentDid, peerAgentDid);
    await deps.mailbox.deadLetterFrom(peerAgentDid, agentDid);
  }
  return noContent();
}
