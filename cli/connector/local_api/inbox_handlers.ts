/**
 * Handlers of the routes that read messages: the inbox, one message, taking messages, and the sent ones. Of two
 * readers of a message one gets its ID from `read`, so that only one acts on it.
 */
import { settledWithin } from "../../../shared/clock.ts";
import * as z from "zod";
import type { InboxRead } from "../../../shared/client/local_shapes.ts";
import type { Connector } from "../connector.ts";
import type { Change, SentKey } from "../store/received_rows.ts";
import { TooManyWaitsError, type WaitingCall } from "../waits.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { findPeerEver } from "../peers.ts";
import {
  json,
  jsonText,
  laterJsonText,
  LocalError,
  type LocalInput,
  wholeNumber,
  wholeNumberOr,
} from "./local_route.ts";
import { inboxPageJson, messageJson, PeerNames, sentEntry } from "./message_json.ts";

const Peer = z.string().min(1).max(256);
const MAX_ID = Number.MAX_SAFE_INTEGER;

const Flag = (usual: boolean) =>
  z.preprocess((text) => ({ true: true, false: false })[String(text)] ?? text, z.boolean().default(usual));
/** Aliases and DIDs have no comma. */
const Senders = z.string().min(1).max(LIMIT.sendersAtOnce * 257).transform((list) => list.split(","))
  .pipe(z.array(Peer).max(LIMIT.sendersAtOnce));

/** Query of `GET /v1/inbox`; `from` is one or more aliases or DIDs, separated by commas. */
export const InboxQuery = z.strictObject({
  unread: Flag(true),
  from: Senders.optional(),
  conversation: z.string().min(1).max(128).optional(),
  after: wholeNumberOr(0, 0, MAX_ID),
  newest: Flag(false),
  limit: wholeNumberOr(LIMIT.pageMessages, 1, LIMIT.pageMessagesMax),
  wait: wholeNumberOr(0, 0, LIMIT.waitMaxMs / 1000),
});

/** Path of `GET /v1/inbox/:id`. */
export const MessageId = z.strictObject({ id: wholeNumber(1, MAX_ID) });

/** Query of `GET /v1/sent`; `to` is an alias or a DID. */
export const SentQuery = z.strictObject({
  to: Peer.optional(),
  before: wholeNumber(1, MAX_ID).optional(),
  limit: wholeNumberOr(LIMIT.pageMessages, 1, LIMIT.pageMessagesMax),
});

export async function inbox(
  { connector, query }: LocalInput<undefined, z.output<typeof InboxQuery>, undefined>,
): Promise<Response> {
  if (connector.store.received.delivery === "push") throw new LocalError("CONNECTOR_RUNTIME_PUSHES");
  const { unread, conversation: conversationId, after, newest, limit, wait } = query;
  const fromDids = query.from && await Promise.all(query.from.map((peer) => didEver(connector, peer)));
  const look = () => {
    const freeAt = connector.deps.clock.now();
    const page = connector.store.received.list({ unread, fromDids, conversationId, after, newest, limit, freeAt });
    return page.messages.length === 0 ? null : page;
  };
  const isAffected = (change: Change) => {
    if (change.kind !== "arrived") return change.kind === "taken" && !unread;
    const { message } = change;
    return unread && message.seq > after && (fromDids?.includes(message.fromDid) ?? true) &&
      message.conversationId === (conversationId ?? message.conversationId);
  };
  const written = (page: ReturnType<typeof look>) =>
    inboxPageJson(page?.messages ?? [], page?.more ?? false, peerNames(connector));
  const page = look();
  if (page !== null || wait === 0) return jsonText(written(page));
  const waiting = beginWait(connector);
  return laterJsonText(
    connector,
    waiting,
    async (signal) => written(await waiting.until(look, isAffected, wait * 1000, signal)),
  );
}

export function message(
  { connector, params }: LocalInput<z.output<typeof MessageId>, undefined, undefined>,
): Response {
  const found = connector.store.received.one(params.id);
  if (found === null) throw new LocalError("CONNECTOR_MESSAGE_UNKNOWN");
  return jsonText(messageJson(found, peerNames(connector)));
}

/** Marks messages read, or holds them for a program that is going to show them, or releases such ones (D-395). */
export function read({ connector, body }: LocalInput<undefined, undefined, z.output<typeof InboxRead>>): Response {
  const { ids, lease, leaseId } = body;
  if (lease === undefined) {
    return json({ read: connector.store.received.markRead(ids, connector.deps.clock.now(), leaseId) });
  }
  const id = leaseId ?? connector.newId();
  return json({
    read: lease === 0 ? connector.store.received.release(ids, id) : connector.lease(ids, id, lease),
    leaseId: id,
  });
}

export async function sent(
  { connector, query }: LocalInput<undefined, z.output<typeof SentQuery>, undefined>,
): Promise<Response> {
  const { to, before, limit } = query;
  const toDid = to === undefined ? undefined : await didEver(connector, to);
  await settledWithin(connector.deps.clock, connector.sending.refresh(), LIMIT.receiptLookupTimeoutMs);
  const { sent } = connector.store;
  const { messages, more } = sent.list({ toDid, before, limit });
  const names = peerNames(connector);
  return json({ messages: messages.map((message) => sentEntry(message, sent.payloadOf(message), names)), more });
}

/** The DID of a peer, from an alias or a DID. @throws {LocalError} `CONNECTOR_PEER_UNKNOWN` */
export async function didOf(connector: Connector, to: string): Promise<string> {
  return known(to, await connector.findPeer(to));
}

/** The same, also for a peer whose pair has ended: its messages can still be read. */
export async function didEver(connector: Connector, to: string): Promise<string> {
  return known(to, findPeerEver(connector.peers.all, to) ?? await connector.findPeer(to));
}

function known(to: string, did: string | null): string {
  if (did === null) throw new LocalError("CONNECTOR_PEER_UNKNOWN", `No peer has the alias "${to}"`);
  return did;
}

/** The names of the peers. */
export function peerNames({ peers }: Connector): PeerNames {
  return new PeerNames(peers.all);
}

/** A waiting call. @throws {LocalError} `CONNECTOR_BUSY` */
export function beginWait({ waits }: Connector, question?: SentKey): WaitingCall {
  try {
    return waits.begin(question);
  } catch (error) {
    if (!(error instanceof TooManyWaitsError)) throw error;
    throw new LocalError("CONNECTOR_BUSY", undefined, 1);
  }
}
