/**
 * Handlers of pairs and peers. Pairing and receipts are passed on to the proxy, which checks the bodies (D-87). Aliases
 * and blocks are changed here, because a second writer of peers.json could undo the connector's changes (D-145).
 */
import * as z from "zod";
import { AgentDid } from "../../../shared/protocol/api/fields.ts";
import { PairingProfile, PairStartAnswer, PairStartBody } from "../../../shared/protocol/api/pairing.ts";
import { ReceiptList } from "../../../shared/protocol/api/receipts.ts";
import { mayPair, PAIRING_SERVERS } from "../../../shared/protocol/origins.ts";
import {
  isTicketOf,
  OWN_TICKET,
  parseTicket,
  TICKET_PREFIX,
  ticketInPaste,
  withPairSecret,
} from "../../../shared/protocol/ticket.ts";
import type { HttpResponse } from "../../../shared/client/http.ts";
import { isPairLeft, ProxyRefusal } from "../../link/proxy_caller.ts";
import { describeError } from "../../../shared/client/refusals.ts";
import type { Connector } from "../connector.ts";
import { readAllPeers } from "../../link/peer_pages.ts";
import { blockPeer, noPeer, peerIn, type Peers, removePeer, renamePeer, replacePeer } from "../peers/peers.ts";
import { type BodyInput, json, type LocalInput, type Members, passed, type QueryInput } from "./local_route.ts";
import { LocalError } from "../../local_errors.ts";
import type { LocalPeer, LocalPeers } from "../../../shared/client/local_shapes.ts";
import { listedPeers } from "../peers/peer_list.ts";
import { didEver, Peer } from "./inbox_handlers.ts";

/** Body of `POST /v1/pair/start`; the profile is the agent's own when it is absent. */
export const PairStart = PairStartBody.omit({ initiatorKey: true }).partial({ initiatorProfile: true }).extend({
  /** For a peer without a connector: it cannot prove its key, so it becomes a contact. */
  plain: z.boolean().optional(),
  /** The caller shows the ticket itself, so the terminal of the connector does not. */
  silent: z.boolean().optional(),
});

/** Body of `POST /v1/pair/confirm`; the profile is the agent's own when it is absent. */
export const PairConfirm = z.object({ ticket: z.string(), responderProfile: PairingProfile.optional() });

/** Body of `POST /v1/pair/remove`; `to` is an alias or a DID. */
export const PairRemove = z.object({ to: z.string().optional(), peerAgentDid: AgentDid.optional() });

/** Query of `GET /v1/receipts`; `to` is an alias or a DID. */
export const ReceiptsQuery = z.strictObject({
  requestId: z.string().optional(),
  to: z.string().optional(),
  recipientAgentDid: z.string().optional(),
});

export async function pairStart({ connector, body, onTicket }: BodyInput<typeof Members>): Promise<Response> {
  const { plain, silent, ...members } = body;
  const { pairing, options: { profile } } = connector;
  const secret = plain === true ? null : pairing.newSecret();
  const wanted = { initiatorProfile: profile, ...members };
  const initiatorKey = secret === null ? undefined : await pairing.proof("initiator", secret, wanted.initiatorProfile);
  const request = { method: "POST", target: "/pair/start", body: JSON.stringify({ ...wanted, initiatorKey }) } as const;
  const answer = await connector.proxy.ask(request, PairStartAnswer);
  const ticket = secret === null ? answer.ticket : withPairSecret(answer.ticket, secret);
  // The secret is on disk before the caller knows the ticket, so that a peer that confirms the ticket is pinned even
  // after a kill.
  if (secret !== null) connector.store.pairSecrets.add(secret, Date.parse(answer.expiresAt));
  connector.deps.emit("pair_ticket", { until: answer.expiresAt });
  if (silent !== true) onTicket?.(ticket, answer.expiresAt);
  return json({ ...answer, ticket });
}

export async function pairConfirm({ connector, body }: BodyInput<typeof Members>): Promise<Response> {
  const { origin } = connector.proxy.place;
  const pasted = typeof body.ticket === "string" ? ticketInPaste(body.ticket, origin) : { problem: "" };
  const wanted = { responderProfile: connector.options.profile, ...body };
  if ("problem" in pasted) {
    const code = "PROXY_PAIR_TICKET_NOT_FOUND";
    return await connector.proxy.post("/pair/confirm", plainTicket(wanted)).then(passed, (error) => {
      if (!(error instanceof ProxyRefusal) || error.code !== code) throw error;
      // The proxy got no ticket, so it cannot say what is wrong with the text.
      return json({ error: { code, message: pasted.problem } }, 404);
    });
  }
  const { ticket } = pasted;
  if (connector.pairing.isOwn(ticket)) {
    return json({ error: { code: "PROXY_PAIR_INVALID_BODY", message: OWN_TICKET } }, 400);
  }
  // Refused at once, because the confirmation would be tried again for a day.
  if (!isTicketOf(ticket, origin) && !mayPair(origin, ticket.origin)) {
    throw new LocalError("CONNECTOR_INVALID_BODY", `The ticket is from ${ticket.authority}. ${PAIRING_SERVERS}`);
  }
  return passed(await connector.pairing.confirm(ticket, wanted));
}

/**
 * Ends a pair at the agent's own proxy, and then at the peer's own server. A failure there is only reported, because
 * what is left there lets this agent write to the peer, but not the peer to this agent.
 *
 * @throws {import("../../link/proxy_caller.ts").ProxyRefusal} of the agent's own proxy
 */
async function endPair(
  { proxy, proxies, deps: { emit } }: Connector,
  peerAgentDid: unknown,
): Promise<HttpResponse> {
  const response = await proxy.post("/pair/remove", { peerAgentDid }), did = String(peerAgentDid);
  const host = proxies.hostOf(did);
  if (host === null) return response;
  try {
    await proxies.of(did).post("/pair/remove", { peerAgentDid });
  } catch (error) {
    const why = `${host} still has its half: ${describeError(error)}`;
    if (isPairLeft(error)) emit("pair_half_removed", { from: did, why });
  }
  return response;
}

export async function pairStatus({ connector, body }: BodyInput<typeof Members>): Promise<Response> {
  return passed(await connector.proxy.post("/pair/status", plainTicket(body)));
}

export async function pairPeers({ connector }: LocalInput): Promise<Response> {
  return json({ peers: await readAllPeers(connector.proxy, connector.options.agent.did) });
}

export async function pairRemove({ connector, body }: BodyInput<typeof Members>): Promise<Response> {
  const { to, peerAgentDid } = body;
  const did = typeof to === "string" ? await didEver(connector, to) : peerAgentDid;
  const response = await endPair(connector, did);
  await connector.peers.change((known) => removePeer(known, String(did)));
  await connector.updatePeers();
  return passed(response);
}

export async function receipts({ connector, query }: QueryInput<typeof ReceiptsQuery>): Promise<Response> {
  const { requestId = "", to, recipientAgentDid } = query;
  const toDid = to === undefined ? recipientAgentDid ?? "" : await didEver(connector, to);
  const wanted = new URLSearchParams({ requestId, recipientAgentDid: toDid });
  const target = `/v1/relay/delivery-receipts?${wanted}`;
  const { receipts } = await connector.proxies.of(toDid).ask({ method: "GET", target }, ReceiptList);
  return json({ receipts: await connector.sending.checked(receipts, { toDid, requestId }) });
}

/**
 * The members with a ticket in its plain form, because the proxy must not learn a pair secret. Of a text that is no
 * ticket only the prefix is left, because a ticket with other words around it has the secret too.
 */
function plainTicket({ ticket, ...members }: Record<string, unknown>): Record<string, unknown> {
  if (typeof ticket !== "string") return { ...members, ticket };
  return { ...members, ticket: parseTicket(ticket)?.plain ?? TICKET_PREFIX };
}

export const PeerRename = z.strictObject({
  peer: Peer,
  alias: Peer,
  /** The peer takes the place of the one with this alias, whose pair ends. */
  replaces: z.boolean().optional(),
});

export const PeerNamed = z.strictObject({ peer: Peer });

export async function listed({ connector }: LocalInput): Promise<Response> {
  const { peers, proxies, store: { history }, proxy, options: { agent } } = connector;
  const paired = await readAllPeers(proxy, agent.did);
  const present = new Set(paired.map(({ agentDid }) => agentDid));
  const hasEnded = Object.values(peers.all).some(({ did, gone }) => !gone && !present.has(did));
  // A peer that paired a moment ago has no alias yet, and would be missing in the list. The end of a pair is noticed
  // only when the proxy's list is read.
  if (hasEnded || paired.some(({ agentDid }) => peers.of(agentDid) === null)) await connector.updatePeers();
  const listed = listedPeers(peers.all, paired, (did) => history.lastAt(did)).map((peer): LocalPeer =>
    peer.proxy === undefined ? peer : { ...peer, proxyProblem: proxies.lastOf(peer.proxy)?.problem ?? null }
  );
  return json({ peers: listed } satisfies z.output<typeof LocalPeers>);
}

export async function renamed(
  { connector, body: { peer, alias, replaces } }: BodyInput<typeof PeerRename>,
): Promise<Response> {
  if (replaces !== true) return await changed(connector, peer, (peers, did) => renamePeer(peers, did, alias));
  const place = (peers: Peers, did: string) => replacePeer(peers, did, alias);
  const named = await didOf(connector, peer), before = peerIn(connector.peers.all, alias);
  // Tried before the old pair ends, because a rename that is refused afterwards could not bring that pair back.
  place(connector.peers.all, named);
  if (before !== null) await endPair(connector, before.agentDid);
  return await changed(connector, named, place);
}

export function blocks(isBlocked: boolean) {
  return ({ connector, body: { peer } }: BodyInput<typeof PeerNamed>): Promise<Response> =>
    changed(connector, peer, (peers, did) => blockPeer(peers, did, isBlocked));
}

async function changed(
  connector: Connector,
  named: string,
  change: (peers: Peers, did: string) => Peers,
): Promise<Response> {
  const { peers } = connector, did = await didOf(connector, named);
  await peers.change((all) => change(all, did));
  connector.version++;
  return json(peerIn(peers.all, did));
}

/** @throws {LocalError} `CONNECTOR_PEER_UNKNOWN` */
async function didOf(connector: Connector, named: string): Promise<string> {
  const { peers } = connector;
  // A peer that paired a moment ago is only in the list of the proxy.
  if (peerIn(peers.all, named) === null) await connector.updatePeers();
  const did = peerIn(peers.all, named)?.agentDid;
  if (did === undefined) throw noPeer(named, peers.all);
  return did;
}
