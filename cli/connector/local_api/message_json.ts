/**
 * Stored and sent messages as JSON texts of the local API. `payload` is copied byte for byte as the last member,
 * because parsing it would round large numbers and walk deep nesting.
 */
import {
  errorIn,
  type LocalMessage,
  type OutboundResult,
  type Replies,
  type SentEntry,
} from "../../../shared/client/local_shapes.ts";
import { withoutIdentityBlock } from "../../../shared/protocol/identity_block.ts";
import { memberText } from "../../../shared/protocol/json_text.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import type { Written } from "../store/history.ts";
import type { InboxMessage } from "../store/received_rows.ts";
import { keptUntil, type SentMessage } from "../store/sent_messages.ts";
import type { PeerBook } from "../peers/peer_book.ts";

type PeerNames = Pick<PeerBook, "aliasOf" | "of">;

export function messageJson(message: InboxMessage, names: PeerNames): string {
  const { identity, payload } = message;
  const head: Omit<LocalMessage, "payload"> = {
    id: message.seq,
    requestId: message.requestId,
    from: {
      agentDid: message.fromDid,
      ownerDid: identity.ownerDid,
      name: identity.name,
      alias: names.aliasOf(message.fromDid),
      humanName: names.of(message.fromDid)?.humanName ?? null,
    },
    verified: message.verified,
    conversationId: message.conversationId,
    inReplyTo: message.inReplyTo,
    isReply: message.isReply,
    auto: message.auto,
    receivedAt: toIso(message.receivedAt),
    readAt: message.readAt === null ? null : toIso(message.readAt),
    mayBeRepeat: message.mayBeRepeat,
    text: textOf(message),
    error: message.inReplyTo === null ? null : errorIn(payload),
  };
  return withLast(head, "payload", payload === "" ? "null" : payload);
}

/** The JSON text of a sent message with its first reply, and with what is known of its replies. */
export function outboundJson(
  sent: SentMessage,
  reply: InboxMessage | null,
  replies: Replies,
  names: PeerNames,
): string {
  const head: Omit<OutboundResult, "reply"> = {
    requestId: sent.requestId,
    to: sent.toDid,
    ...stateMembers(sent),
    ...replies,
  };
  return withLast(head, "reply", reply === null ? "null" : messageJson(reply, names));
}

/** Characters of a text in a list; more would not fit a line. */
const LISTED_CHARACTERS = 200;

/** A sent message for a list. `payload` is its content, or `null` when that is blanked. */
export function sentEntry(
  sent: SentMessage,
  payload: string | null,
  names: PeerNames,
): Omit<SentEntry, keyof Replies> {
  const text = payload === null ? null : textOf({ payload, identity: null });
  return {
    text: text === null ? null : text.slice(0, LISTED_CHARACTERS).toWellFormed(),
    seq: sent.seq,
    requestId: sent.requestId,
    to: { agentDid: sent.toDid, alias: names.aliasOf(sent.toDid) },
    conversationId: sent.conversationId,
    inReplyTo: sent.inReplyTo,
    auto: sent.auto,
    origin: sent.origin,
    bytes: sent.bytes,
    sentAt: toIso(sent.sentAt),
    ...stateMembers(sent),
  };
}

export function writtenJson(written: Written, names: PeerNames): string {
  if (written.kind === "received") return `{"kind":"received",${messageJson(written.message, names).slice(1)}`;
  const { kind, message, payload } = written;
  const entry = { ...sentEntry(message, null, names), text: textOf({ payload, identity: null }) };
  return withLast({ kind, ...entry }, "payload", payload);
}

function stateMembers(sent: SentMessage) {
  const { state, problem, attempts } = sent, isKept = state === "kept";
  return {
    state,
    stateAt: toIso(sent.stateAt),
    problem,
    expiresAt: sent.expiresAt === null ? null : toIso(sent.expiresAt),
    until: isKept ? toIso(keptUntil(sent)) : null,
    nextTryAt: isKept && sent.nextAt > 0 ? toIso(sent.nextAt) : null,
    attempts,
  };
}

/**
 * The member `message` of a payload without the block of `identity`; `null` when it is not a string. Half of a
 * surrogate pair is replaced, because a Python program could not print it, and a strict reader would refuse the page.
 */
export function textOf(
  { payload, identity }: { payload: string; identity: InboxMessage["identity"] | null },
): string | null {
  const json = memberText(payload, "message");
  if (json?.[0] !== '"') return null;
  const text = JSON.parse(json) as string;
  return (identity === null ? text : withoutIdentityBlock(text, identity)).toWellFormed();
}

/** The JSON text of an object with one more member, which is JSON text already. */
function withLast(head: object, name: string, json: string): string {
  return `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(name)}:${json}}`;
}
