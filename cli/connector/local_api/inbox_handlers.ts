/** Handlers of the routes that read messages (D-117): the inbox, one message, taking messages, and the sent ones. */
import * as z from "zod";
import type { InboxRead } from "../../../shared/client/local_shapes.ts";
import { CliError } from "../../errors.ts";
import type { Connector } from "../connector.ts";
import { type Change, type Question, TooManyWaitsError, type WaitingCall } from "../delivery/waits.ts";
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
  if (connector.inbox.delivery === "push") throw new LocalError("CONNECTOR_RUNTIME_PUSHES");
  const { unread, conversation: conversationId, after, newest, limit, wait } = query;
  const fromDids = query.from && await Promise.all(query.from.map((peer) => didEver(connector, peer)));
  const look = () => {
    const page = connector.inbox.list({ unread, fromDids, conversationId, after, newest, limit });
    return page.messages.length === 0 ? null : page;
  };
  const isAffected = (change: Change) => {
    if (change.kind !== "stored") return change.kind === "read" && !unread;
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
  const found = connector.inbox.one(params.id);
  if (found === null) throw new LocalError("CONNECTOR_MESSAGE_UNKNOWN");
  return jsonText(messageJson(found, peerNames(connector)));
}

export function read({ connector, body }: LocalInput<undefined, undefined, z.output<typeof InboxRead>>): Response {
  const read = connector.inbox.markRead(body.ids, connector.deps.clock.now());
  connector.waits.changed({ kind: "read" });
  return json({ read });
}

export async function sent(
  { connector, query }: LocalInput<undefined, z.output<typeof SentQuery>, undefined>,
): Promise<Response> {
  const { to, before, limit } = query;
  const toDid = to === undefined ? undefined : await didEver(connector, to);
  const { messages, more } = connector.sent.list({ toDid, before, limit });
  const names = peerNames(connector);
  return json({ messages: messages.map((message) => sentEntry(message, names)), more });
}

/** The DID of a peer, from an alias or a DID. @throws {LocalError} `CONNECTOR_PEER_UNKNOWN` */
export async function didOf(connector: Connector, to: string): Promise<string> {
  return known(to, await connector.findPeer(to));
}

/** The same, also for a peer whose pair has ended: its messages can still be read. */
export async function didEver(connector: Connector, to: string): Promise<string> {
  return known(to, findPeerEver(connector.deps.peers.read(), to) ?? await connector.findPeer(to));
}

function known(to: string, did: string | null): string {
  if (did === null) throw new LocalError("CONNECTOR_PEER_UNKNOWN", `No peer has the alias "${to}"`);
  return did;
}

/** The names of the peers; none when `peers.json` is damaged, because a message can be shown without them. */
export function peerNames({ deps }: Connector): PeerNames {
  try {
    return new PeerNames(deps.peers.read());
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return new PeerNames({});
  }
}

/** A waiting call. @throws {LocalError} `CONNECTOR_BUSY` */
export function beginWait({ waits }: Connector, question?: Question): WaitingCall {
  try {
    return waits.begin(question);
  } catch (error) {
    if (!(error instanceof TooManyWaitsError)) throw error;
    throw new LocalError("CONNECTOR_BUSY", undefined, 1);
  }
}
