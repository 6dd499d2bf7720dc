/**
 * Handlers of the routes that read messages: the inbox, one message, taking messages, the sent ones, the dead letters
 * and the log. If two programs mark one message read, `read` gives its ID to one of them, so that only one acts on it.
 */
import * as z from "zod";
import { settledWithin } from "../../../shared/clock.ts";
import type { Forgotten, InboxRead, SentEntry, SentPage } from "../../../shared/client/local_shapes.ts";
import type { Connector } from "../connector.ts";
import type { Change, InboxMessage, SentKey } from "../store/received_rows.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { findPeer, findPeerEver, noPeer } from "../peers/peers.ts";
import {
  type BodyInput,
  digits,
  json,
  jsonText,
  laterJsonText,
  type LocalInput,
  type QueryInput,
} from "./local_route.ts";
import { LocalError } from "../../local_errors.ts";
import { messageJson, sentEntry, textOf, writtenJson } from "./message_json.ts";
import { isAgentDid } from "../../../shared/protocol/did.ts";
import type { Content, Place } from "../store/history.ts";

export const Peer = z.string().min(1).max(256);
const MAX_ID = Number.MAX_SAFE_INTEGER;
const PageLimit = digits(z.int().min(1).max(LIMIT.pageMessagesMax).default(LIMIT.pageMessages));

const Flag = (usual: boolean) =>
  z.preprocess((text) => ({ true: true, false: false })[String(text)] ?? text, z.boolean().default(usual));
/** Aliases and DIDs, separated by commas, which neither contains. */
const Senders = z.string().min(1).max(LIMIT.sendersAtOnce * 257).transform((list) => list.split(","))
  .pipe(z.array(Peer).max(LIMIT.sendersAtOnce));

/**
 * Query of `GET /v1/inbox`. `from` is one or more aliases or DIDs, separated by commas, and so is `except`, whose
 * messages are left out. `held` also lists the messages that a program holds, for a caller that only shows them (D-395).
 */
export const InboxQuery = z.strictObject({
  unread: Flag(true),
  from: Senders.optional(),
  except: Senders.optional(),
  conversation: z.string().min(1).max(128).optional(),
  after: digits(z.int().min(0).max(MAX_ID).default(0)),
  newest: Flag(false),
  held: Flag(false),
  limit: PageLimit,
  wait: digits(z.int().min(0).max(LIMIT.waitMaxMs / 1000).default(0)),
});

export const MessageId = z.strictObject({ id: digits(z.int().min(1).max(MAX_ID)) });

/** Query of `GET /v1/sent`; `to` is an alias or a DID. */
export const SentQuery = z.strictObject({
  to: Peer.optional(),
  before: digits(z.int().min(1).max(MAX_ID)).optional(),
  limit: PageLimit,
});

export async function inbox({ connector, query }: QueryInput<typeof InboxQuery>): Promise<Response> {
  if (connector.store.received.delivery === "push") throw new LocalError("CONNECTOR_RUNTIME_PUSHES");
  const { unread, conversation: conversationId, after, newest, held, limit, wait } = query;
  const didsOf = async (peers: string[]) => await Promise.all(peers.map((peer) => didEver(connector, peer)));
  const fromDids = query.from && await didsOf(query.from), exceptDids = await didsOf(query.except ?? []);
  const look = () => {
    const { store: { received }, waits, deps: { clock } } = connector;
    const freeAt = held ? undefined : clock.now();
    // The reply to a call that waits for it is left to that call, because two programs would otherwise act on it.
    const exceptRepliesTo = held || !unread ? [] : waits.replyKeys();
    const which = { unread, fromDids, exceptDids, exceptRepliesTo, conversationId, after, newest };
    const page = received.list({ ...which, limit, freeAt });
    return page.messages.length === 0 ? null : page;
  };
  // A look may read all unread messages, so a message that does not fit would cost the connector one for each call.
  const isAffected = (change: Change) => {
    if (change.kind !== "arrived") return change.kind === "taken" && !unread;
    const { message } = change;
    return unread && message.seq > after && (fromDids?.includes(message.fromDid) ?? true) &&
      !exceptDids.includes(message.fromDid) && message.conversationId === (conversationId ?? message.conversationId);
  };
  const written = (page: ReturnType<typeof look>) => {
    const texts = (page?.messages ?? []).map((one) => messageJson(one, connector.peers));
    return `{"messages":[${texts.join(",")}],"more":${page?.more ?? false}}`;
  };
  const page = look();
  if (page !== null || wait === 0) return jsonText(written(page));
  return laterJsonText(
    connector,
    beginWait(connector),
    async (signal) => written(await connector.waits.until(look, isAffected, wait * 1000, signal)),
  );
}

export function message({ connector, params }: LocalInput<z.output<typeof MessageId>>): Response {
  return jsonText(messageJson(storedMessage(connector, params.id), connector.peers));
}

/** A message that is unread or taken. @throws {LocalError} `CONNECTOR_MESSAGE_UNKNOWN` */
export function storedMessage({ store }: Connector, id: number): InboxMessage {
  const found = store.received.one(id);
  if (found === null) throw new LocalError("CONNECTOR_MESSAGE_UNKNOWN");
  return found;
}

/** Marks messages read, or holds them for a program that is going to show them, or releases what it held (D-395). */
export function read({ connector, body }: BodyInput<typeof InboxRead>): Response {
  const { ids, lease, leaseId } = body;
  if (lease === undefined) {
    return json({ read: connector.store.received.markRead(ids, connector.deps.clock.now(), leaseId) });
  }
  const id = leaseId ?? connector.newId();
  const held = lease === 0 ? connector.store.received.release(ids, id) : connector.lease(ids, id, lease);
  return json({ read: held, leaseId: id });
}

export async function sent({ connector, query }: QueryInput<typeof SentQuery>): Promise<Response> {
  const { to, before, limit } = query;
  const toDid = to === undefined ? undefined : await didEver(connector, to);
  await settledWithin(connector.deps.clock, connector.sending.refresh(), LIMIT.receiptLookupTimeoutMs);
  const { store: { sent, received }, peers } = connector;
  const { messages, more } = sent.list({ toDid, before, limit });
  const entries = messages.map((message): SentEntry => ({
    ...sentEntry(message, sent.payloadOf(message), peers),
    ...received.repliesTo(message),
  }));
  return json({ messages: entries, more } satisfies SentPage);
}

/**
 * The DID of a peer, from an alias or a DID. Reads the peers again when the alias is unknown, and for an unknown DID
 * while a ticket is open, because an agent that has just used the ticket refuses unsealed messages.
 *
 * @throws {LocalError} `CONNECTOR_PEER_UNKNOWN`
 */
export async function didOf(connector: Connector, to: string): Promise<string> {
  const { peers, pairing } = connector;
  const isNew = isAgentDid(to) ? peers.of(to) === null && pairing.hasOpenTicket : findPeer(peers.all, to) === null;
  if (isNew) await connector.updatePeers();
  const did = findPeer(peers.all, to);
  if (did === null) throw noPeer(to, peers.all);
  return did;
}

/** The DID of a peer, also of one whose pair has ended, because its messages can still be read. */
export async function didEver(connector: Connector, to: string): Promise<string> {
  return findPeerEver(connector.peers.all, to) ?? await didOf(connector, to);
}

/** @throws {LocalError} `CONNECTOR_BUSY` */
export function beginWait({ waits }: Connector, question?: SentKey): Disposable {
  const waiting = waits.begin(question);
  if (waiting === null) throw new LocalError("CONNECTOR_BUSY", undefined, 1);
  return waiting;
}

export const DeadLettersQuery = z.strictObject({ limit: digits(z.int().min(1).max(1_000).default(100)) });

/** IDs of dead letters; `null` for all of them. */
export const DeadLetterIds = z.union([
  z.strictObject({ ids: z.array(z.int().min(1)).min(1).max(10_000) }),
  z.strictObject({ all: z.literal(true) }),
]).transform((wanted) => "ids" in wanted ? wanted.ids : null);

export const Replayed = z.object({ replayed: z.int() });
export const Purged = z.object({ purged: z.int() });

export function deadLetters({ connector, query }: QueryInput<typeof DeadLettersQuery>): Response {
  const letters = connector.store.received.deadLetters(query.limit);
  return json({ deadLetters: letters.map(({ identity: _, ...letter }) => letter) });
}

export function replay({ connector, body }: BodyInput<typeof DeadLetterIds>): Response {
  return json({ replayed: connector.store.received.replay(body, connector.deps.clock.now()) });
}

export function purge({ connector, body }: BodyInput<typeof DeadLetterIds>): Response {
  return json({ purged: connector.store.received.purge(body) });
}

/** A place in the log, as `next` of a page gives it. */
const PlaceText = z.string().max(40)
  .refine((text) => /^\d{1,16}-\d{1,16}$/.test(text), "is not the place of another page")
  .transform((text): Place => {
    const [received = 0, sent = 0] = text.split("-").map(Number);
    return { received, sent };
  });

/**
 * Query of `GET /v1/log`. `peer` is an alias or a DID. A page `before` a place has the newest first, one `after` it the
 * oldest.
 */
export const LogQuery = z.strictObject({
  peer: Peer.optional(),
  since: z.iso.datetime().optional(),
  search: z.string().min(1).max(256).optional(),
  before: PlaceText.optional(),
  after: PlaceText.optional(),
  limit: PageLimit,
});

/** Body of `POST /v1/log/forget`; without `peer` all texts are blanked. */
export const LogForget = z.strictObject({ peer: Peer.optional() });

export async function log({ connector, query }: QueryInput<typeof LogQuery>): Promise<Response> {
  const { peer, since, search, before, after, limit } = query;
  const { messages, next } = await connector.store.history.log({
    did: peer === undefined ? undefined : await didEver(connector, peer),
    since: since === undefined ? undefined : Date.parse(since),
    isWanted: search === undefined ? undefined : hasText(search),
    from: after ?? before,
    isForward: after !== undefined,
    limit,
  });
  const texts = messages.map((one) => writtenJson(one, connector.peers));
  const place = next === null ? null : `${next.received}-${next.sent}`;
  return jsonText(`{"messages":[${texts.join(",")}],"next":${JSON.stringify(place)}}`);
}

export async function forget({ connector, body: { peer } }: BodyInput<typeof LogForget>): Promise<Response> {
  const did = peer === undefined ? null : await didEver(connector, peer);
  const forgotten = connector.store.forgetTexts(did);
  connector.version++;
  return json({ forgotten } satisfies z.output<typeof Forgotten>);
}

/** Whether a message contains a text, in any case. If the message has no text, its JSON is searched. */
function hasText(search: string): (content: Content) => boolean {
  const wanted = search.toLowerCase();
  return (content) => {
    const raw = content.payload.toLowerCase();
    // JSON without an escape contains its text literally, so most messages that do not fit are ruled out without a
    // parser.
    if (!raw.includes("\\") && !raw.includes(wanted)) return false;
    return (textOf(content) ?? raw).toLowerCase().includes(wanted);
  };
}
