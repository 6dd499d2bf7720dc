/** Handlers that pass a request on to the proxy: pairing, peers and receipts (D-87). The proxy checks the bodies. */
import * as z from "zod";
import { AgentDid } from "../../../shared/protocol/api/fields.ts";
import { PairingProfile } from "../../../shared/protocol/api/pairing.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { apiErrorOf, type HttpResponse } from "../../../shared/client/http.ts";
import type { Connector } from "../connector.ts";
import { readAllPeers } from "../../../shared/client/peer_pages.ts";
import { json, LocalError, type LocalInput, passed } from "./local_route.ts";

type Passing = LocalInput<undefined, undefined, undefined>;

/** Body of `POST /v1/pair/start`; the profile is the agent's own when it is absent. */
export const PairStart = z.object({
  ttlSeconds: z.int().min(1).max(LIMITS.ticketTtlMaxSeconds).default(LIMITS.ticketTtlSeconds),
  allowResponderAgentDid: AgentDid.optional(),
  initiatorProfile: PairingProfile.optional(),
});

/** Body of `POST /v1/pair/confirm`; the profile is the agent's own when it is absent. */
export const PairConfirm = z.object({ ticket: z.string(), responderProfile: PairingProfile.optional() });

/** Body of `POST /v1/pair/remove`; `to` is an alias or a DID. */
export const PairRemove = z.object({ to: z.string().optional(), peerAgentDid: AgentDid.optional() });

/** Response of `GET /v1/pair/peers`, all peers. */
export const PairPeers = z.object({
  peers: z.array(z.object({ agentDid: AgentDid, profile: PairingProfile, pairedAt: z.iso.datetime() })),
});

/** Query of `GET /v1/receipts`; `to` is an alias or a DID. */
export const ReceiptsQuery = z.strictObject({
  requestId: z.string().optional(),
  to: z.string().optional(),
  recipientAgentDid: z.string().optional(),
});

const Members = z.record(z.string(), z.unknown());

export async function pairStart({ connector, text, onTicket }: Passing): Promise<Response> {
  const wanted = { initiatorProfile: connector.options.profile, ...membersOf(text) };
  const response = await ask(connector, "POST", "/pair/start", JSON.stringify(wanted));
  if (apiErrorOf(response) === null) {
    const { ticket, expiresAt } = JSON.parse(response.text) as { ticket: string; expiresAt: string };
    connector.deps.tell("pair_ticket", { until: expiresAt });
    onTicket(ticket, expiresAt);
  }
  return passed(response);
}

export async function pairConfirm({ connector, text }: Passing): Promise<Response> {
  const wanted = { responderProfile: connector.options.profile, ...membersOf(text) };
  const response = await ask(connector, "POST", "/pair/confirm", JSON.stringify(wanted));
  if (apiErrorOf(response) === null) await connector.updatePeers();
  return passed(response);
}

export async function pairStatus({ connector, text }: Passing): Promise<Response> {
  return passed(await ask(connector, "POST", "/pair/status", text));
}

export async function pairPeers({ connector }: Passing): Promise<Response> {
  const read = await readAllPeers(connector.proxy);
  return "refused" in read ? passed(read.refused) : json(read);
}

export async function pairRemove({ connector, text }: Passing): Promise<Response> {
  const { to, ...rest } = membersOf(text);
  const named = typeof to === "string" ? await connector.findPeer(to) : null;
  const wanted = named === null ? rest : { ...rest, peerAgentDid: named };
  const response = await ask(connector, "POST", "/pair/remove", JSON.stringify(wanted));
  if (apiErrorOf(response) === null) await connector.updatePeers();
  return passed(response);
}

export async function receipts(
  { connector, query }: LocalInput<undefined, z.output<typeof ReceiptsQuery>, undefined>,
): Promise<Response> {
  const { requestId = "", to, recipientAgentDid } = query;
  const recipient = to === undefined ? recipientAgentDid : await connector.findPeer(to);
  const wanted = new URLSearchParams({ requestId, recipientAgentDid: recipient ?? to ?? "" });
  return passed(await ask(connector, "GET", `/v1/relay/delivery-receipts?${wanted}`));
}

function membersOf(text: string): Record<string, unknown> {
  const members = Members.safeParse(JSON.parse(text));
  if (!members.success) throw new LocalError("CONNECTOR_INVALID_BODY", "Invalid body: it must be an object");
  return members.data;
}

function ask(connector: Connector, method: "GET" | "POST", target: string, body?: string): Promise<HttpResponse> {
  return connector.proxy.call({ method, target, ...(body === undefined ? {} : { body }) });
}
