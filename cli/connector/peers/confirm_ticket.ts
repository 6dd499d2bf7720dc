/**
 * Confirms a ticket: at the proxy of the agent that made it, and for a ticket of another server also at this agent's
 * own proxy, so that the two may write to each other (D-280). All steps are repeated until they are done: after a lost
 * answer, after a kill, and while one of the two servers is away.
 */
import { PairConfirmAnswer, PairingProfile } from "../../../shared/protocol/api/pairing.ts";
import { isTicketOf, parseTicket, type Ticket } from "../../../shared/protocol/ticket.ts";
import { apiErrorOf, type HttpResponse } from "../../../shared/client/http.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import { authorityIn } from "../../link/peer_pages.ts";
import { answerOf, type ProxyCaller } from "../../link/proxy_caller.ts";
import type { Clock } from "../../../shared/clock.ts";
import type { PeerProxies } from "../../link/peer_proxies.ts";
import type { EmitEvent } from "../events.ts";
import type { Pairing } from "./pairing.ts";
import type { PeerBook } from "./peer_book.ts";
import { removePeer } from "./peers.ts";
import type { PairConfirmation, PairConfirmations } from "../store/pairing_rows.ts";

interface ConfirmingConnector {
  options: { agent: { did: string }; proxy: { origin: string } };
  deps: { clock: Clock; emit: EmitEvent };
  store: { pairConfirmations: PairConfirmations };
  pairing: Pairing;
  peers: PeerBook;
  proxy: ProxyCaller;
  proxies: PeerProxies;
  readonly isOver: boolean;
  updatePeers(): Promise<unknown>;
}

/** The result of a confirmation: the proxy's answer, or that the agent of the ticket did not prove its key. */
export type Confirmed = HttpResponse | "key_mismatch";

/**
 * @param members of the request: a profile, and what the caller adds
 * @throws {UnreachableError} when a server does not answer; the confirmation is tried again for a day
 */
export async function confirmTicket(
  connector: ConfirmingConnector,
  ticket: Ticket,
  members: Record<string, unknown>,
): Promise<Confirmed> {
  const { deps: { clock }, store: { pairConfirmations: rows } } = connector;
  const { data: profile } = PairingProfile.safeParse(members.responderProfile);
  if (ticket.pairSecret !== null && profile !== undefined) rows.begin(ticket.ticket, profile, clock.now());
  const confirmed = await runSteps(connector, ticket, members);
  const isLater = typeof confirmed !== "string" && isPassing(confirmed);
  if (!isLater) rows.end(ticket.ticket);
  return confirmed;
}

/** Continues the confirmations that an earlier run, or a server that did not answer, left open. Never rejects. */
export async function resumeConfirmations(connector: ConfirmingConnector): Promise<void> {
  const { deps: { clock, emit }, store: { pairConfirmations: rows } } = connector;
  // A confirmation in progress would otherwise run twice, and one person would get two results.
  if (connector.pairing.isConfirming) return;
  try {
    for (const row of rows.all()) await resume(connector, row, clock.now() >= row.until);
  } catch (error) {
    if (!connector.isOver) emit("store_failed", { why: describeError(error) });
  }
}

async function resume(connector: ConfirmingConnector, row: PairConfirmation, isOver: boolean): Promise<void> {
  const { deps: { emit }, store: { pairConfirmations: rows } } = connector;
  const ticket = parseTicket(row.ticket);
  try {
    if (ticket !== null && !isOver) {
      const confirm = () => confirmTicket(connector, ticket, { responderProfile: row.profile });
      const confirmed = await connector.pairing.confirming(confirm);
      // Without the event, a person who was told that the confirmation goes on would wait for a pair that never comes.
      if (confirmed === "key_mismatch") emit("pair_failed", { why: "the agent of the ticket did not prove its key" });
      else if (apiErrorOf(confirmed) !== null) {
        emit(isPassing(confirmed) ? "pair_waits" : "pair_failed", { why: describeError(apiErrorOf(confirmed)) });
      }
      return;
    }
    if (ticket !== null && row.half !== null) await endHalf(connector, proxyOf(connector, ticket), row.half);
    rows.end(row.ticket);
  } catch (error) {
    emit("pair_waits", { why: describeError(error) });
    if (isOver) rows.end(row.ticket);
  }
}

/** A refusal that may pass: the next try can succeed. */
function isPassing(response: HttpResponse): boolean {
  return response.status === 429 || response.status >= 500;
}

function isElsewhere(connector: ConfirmingConnector, ticket: Ticket): boolean {
  return !isTicketOf(ticket, connector.options.proxy.origin);
}

function proxyOf(connector: ConfirmingConnector, ticket: Ticket): ProxyCaller {
  return isElsewhere(connector, ticket) ? connector.proxies.at(ticket.origin) : connector.proxy;
}

async function runSteps(
  connector: ConfirmingConnector,
  ticket: Ticket,
  members: Record<string, unknown>,
): Promise<Confirmed> {
  const { pairing, peers, options: { agent }, store: { pairConfirmations: rows } } = connector;
  const { pairSecret: secret, plain } = ticket, elsewhere = isElsewhere(connector, ticket);
  // Without a secret nothing proves the key: neither of two servers can vouch for an agent of the other.
  if (elsewhere && secret === null) return "key_mismatch";
  const proxy = proxyOf(connector, ticket);
  const responderKey = secret === null ? undefined : await pairing.proof("responder", secret, members.responderProfile);
  const response = await proxy.post("/pair/confirm", { ...members, ticket: plain, responderKey });
  if (apiErrorOf(response) !== null) return response;
  if (secret === null) {
    await connector.updatePeers();
    return response;
  }
  const answer = answerOf(response, PairConfirmAnswer, proxy.place);
  const { initiatorAgentDid: did, initiatorProfile: profile, initiatorKey: key } = answer;
  const wasPeer = peers.of(did) !== null;
  const isOfTicket = (authorityIn(did) !== authorityIn(agent.did)) === elsewhere;
  const peer = { did, profile, proxy: elsewhere ? ticket.origin : undefined };
  if (!isOfTicket || !await pairing.pinInitiator(secret, peer, key)) {
    // An earlier peer keeps its pair, because a relay could otherwise end a good pair with a false answer.
    if (!wasPeer) await endPair(connector, proxy, did);
    return "key_mismatch";
  }
  if (elsewhere) {
    rows.halfDone(ticket.ticket, did);
    const accepted = await connector.proxy.post("/pair/accept", {
      peerAgentDid: did,
      peerProxy: ticket.origin,
      peerProfile: profile,
      peerKey: key,
    });
    if (apiErrorOf(accepted) !== null) {
      if (!isPassing(accepted)) await endHalf(connector, proxy, did);
      return accepted;
    }
  }
  await connector.updatePeers();
  return response;
}

/** Ends a pair that a relay may have made up, and takes no message of that agent without another ticket. */
async function endPair(connector: ConfirmingConnector, proxy: ProxyCaller, did: string): Promise<void> {
  await proxy.post("/pair/remove", { peerAgentDid: did });
  await connector.updatePeers();
  await connector.peers.change((known) => removePeer(known, did));
}

/** Ends the half of a pair that is at another server, because the other half cannot be made. */
async function endHalf(connector: ConfirmingConnector, proxy: ProxyCaller, did: string): Promise<void> {
  const { emit } = connector.deps;
  await connector.peers.change((known) => removePeer(known, did));
  const removed = await proxy.post("/pair/remove", { peerAgentDid: did }).catch(() => null);
  const isLeft = removed === null || apiErrorOf(removed) !== null && removed.status !== 401;
  const { host } = new URL(proxy.place.origin);
  emit("pair_half_removed", { from: did, why: isLeft ? `${host} still has its half` : `${host} has ended it too` });
}
