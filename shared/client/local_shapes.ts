/**
 * The shapes of the bodies and queries of the connector's local API. The connector answers with them, and the commands
 * of `svc` and the client library read them. The routes are in cli/connector/local_api.
 */
import { PeerList } from "../protocol/api/pairing.ts";
import { Receipt } from "../protocol/api/receipts.ts";
import { isAgentDid } from "../protocol/did.ts";
import { isRequestId, REQUEST_ID_FORM } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import { memberText } from "../protocol/json_text.ts";
import * as z from "zod";
import type { MessageState } from "./agent_api.ts";

/**
 * The member of a payload that says why a reply has no answer. Without it, a program would take the reason for an
 * answer. It is part of the payload, because what proves the payload then proves the error too.
 */
export const ERROR_MEMBER = "svcError";
/** Most characters of an error's message. The whole text is the message of the payload. */
const MAX_MESSAGE_CHARS = 512;

/** Why an agent has no answer. The agent chooses `code`, for example `TASK_FAILED`. */
export const ReplyError = z.object({
  code: z.string().regex(/^[A-Z][A-Z0-9_]{0,63}$/, "must be 1 to 64 of A-Z, 0-9 and '_', beginning with a letter"),
  message: z.string(),
});
export type ReplyError = z.infer<typeof ReplyError>;

/**
 * The error of an agent that refuses to answer, because the two have answered each other too often without a person or
 * a model between them.
 */
export const BUSY = "BUSY";

/** Returns the payload of a reply without an answer. People and runtimes read its `message`. */
export function errorPayload(message: string, { code, message: why }: ReplyError): Record<string, unknown> {
  return { message, [ERROR_MEMBER]: { code, message: why.slice(0, MAX_MESSAGE_CHARS).toWellFormed() } };
}

/** Returns the error in the payload of a reply (JSON text), or `null` if the reply is an answer. */
export function errorIn(payload: string): ReplyError | null {
  const json = memberText(payload, ERROR_MEMBER);
  const { data } = ReplyError.safeParse(json && JSON.parse(json) as unknown);
  return data === undefined ? null : { ...data, message: data.message.slice(0, MAX_MESSAGE_CHARS).toWellFormed() };
}

/** Most IDs of a request. With more, a request could exceed the size of a body that the local API reads. */
const READ_IDS_MAX = 1_000;

/** Who decided to send a message. `runtime`: it is the answer of an agent runtime. */
export const ORIGINS = ["program", "person", "model", "runtime"] as const;
export type Origin = (typeof ORIGINS)[number];

export const SENT_STATES = [
  "sending",
  "kept",
  "queued",
  "delivered",
  "processed",
  "dead_lettered",
  "refused",
  "unknown",
] as const satisfies readonly MessageState[];

const Id = z.int().min(1);
const RequestId = z.string().refine(isRequestId, `must be ${REQUEST_ID_FORM}`);
const AgentDid = z.string().refine(isAgentDid, "is not the DID of an agent");
const When = z.iso.datetime();

/** How a receiver knows the key that signed a message. */
export const VERIFIED = ["end-to-end", "by-registry"] as const;
export type Verified = (typeof VERIFIED)[number];

/** A stored message. `payload` is the last member, byte for byte as the sender wrote it. */
export const LocalMessage = z.object({
  id: Id,
  requestId: RequestId,
  from: z.object({
    agentDid: AgentDid,
    ownerDid: z.string(),
    name: z.string(),
    alias: z.string().nullable(),
    humanName: z.string().nullable(),
  }),
  /**
   * `end-to-end`: it was sealed, and signed with a key that no server chose. `by-registry`: it was signed with a key
   * that servers named.
   */
  verified: z.enum(VERIFIED),
  conversationId: z.string().nullable(),
  inReplyTo: z.string().nullable(),
  /**
   * True when it answers a message that this agent sent to its sender. `inReplyTo` alone proves nothing, because any
   * agent may name any ID.
   */
  isReply: z.boolean(),
  /** True when a program sent it without a decision of a person or a model. */
  auto: z.boolean(),
  receivedAt: When,
  readAt: When.nullable(),
  /** True for an unread message that a program has held, and so may have shown already. */
  mayBeRepeat: z.boolean(),
  /** The member `message` without the identity block; `null` when there is none, or when the content was deleted. */
  text: z.string().nullable(),
  /** Why a reply has no answer. It is `null` for an answer, and for a message that is not a reply. */
  error: ReplyError.nullable(),
  /** Any JSON value; `null` when the content was deleted. `z.json()` would fail for a deeply nested value. */
  payload: z.unknown(),
});
export type LocalMessage = z.infer<typeof LocalMessage>;

/** Body of `GET /v1/inbox`, oldest first. `more` is true if there are messages after the last one. */
export const InboxPage = z.object({ messages: z.array(LocalMessage), more: z.boolean() });
export type InboxPage = z.infer<typeof InboxPage>;

/**
 * Body of the request `POST /v1/inbox/read`. Without `lease`, the messages are marked read. With it, they are held for
 * that number of seconds: other calls neither list nor take them, and they become unread again afterwards unless the
 * holder marks them first. `0` releases them. A repetition with the same `leaseId` is the same lease.
 */
export const InboxRead = z.strictObject({
  ids: z.array(Id).min(1).max(READ_IDS_MAX),
  lease: z.int().min(0).max(LIMITS.leaseSeconds).optional(),
  leaseId: RequestId.optional(),
});

/** Response of `POST /v1/inbox/read`: the IDs that this call has changed, and with `lease` the ID of the lease. */
export const InboxReadResult = z.object({ read: z.array(Id), leaseId: RequestId.optional() });

/** What is known of the replies to a sent message. */
const Replies = {
  /** IDs of the first messages that answer it. */
  replies: z.array(Id),
  /** Code of the error in the first of them; `null` without a reply, and if one of them is an answer. */
  replyError: z.string().nullable(),
};
export type Replies = z.infer<z.ZodObject<typeof Replies>>;

/** What is known of a sent message. */
const SentStatus = {
  state: z.enum(SENT_STATES),
  /** When the state last changed. */
  stateAt: When,
  problem: z.string().nullable(),
  /** When the proxy deletes the message if it is still queued; `null` when it is not queued. */
  expiresAt: When.nullable(),
  /** Until when the connector tries again; `null` unless the message is `kept`. */
  until: When.nullable(),
  /** When it tries next; `null` unless the message is `kept`. */
  nextTryAt: When.nullable(),
  /** How often the connector has tried to send it again. */
  attempts: z.int(),
  ...Replies,
};

/** The text in `problem` of a message that its sender has cancelled. */
export const CANCELLED = "cancelled";

/** A sent message, without its payload. */
export const SentEntry = z.object({
  /** Its text, or only the beginning in a list; `null` when there is none, or when the content was deleted. */
  text: z.string().nullable(),
  seq: Id,
  requestId: RequestId,
  to: z.object({ agentDid: AgentDid, alias: z.string().nullable() }),
  conversationId: z.string().nullable(),
  inReplyTo: z.string().nullable(),
  auto: z.boolean(),
  origin: z.enum(ORIGINS),
  bytes: z.int(),
  sentAt: When,
  ...SentStatus,
});
export type SentEntry = z.infer<typeof SentEntry>;

/** Body of `GET /v1/sent`, newest first. */
export const SentPage = z.object({ messages: z.array(SentEntry), more: z.boolean() });
export type SentPage = z.infer<typeof SentPage>;

/** A message of the log. `payload` is the last member, byte for byte as its sender wrote it. */
export const LogEntry = z.discriminatedUnion("kind", [
  LocalMessage.extend({ kind: z.literal("received") }),
  SentEntry.omit({ replies: true, replyError: true }).extend({ kind: z.literal("sent"), payload: z.unknown() }),
]);
export type LogEntry = z.infer<typeof LogEntry>;

/**
 * Body of `GET /v1/log`, newest first, or oldest first with `after`. `next` is the value of `before` or `after` for the
 * next page; `null` on the last page. A page of a search may be empty and still have a next page.
 */
export const LogPage = z.object({ messages: z.array(LogEntry), next: z.string().nullable() });

/** Response of `POST /v1/log/forget`: the number of messages whose text was deleted. */
export const Forgotten = z.object({ forgotten: z.int() });

/** A message that the connector gave up on. Times are milliseconds since the Unix epoch. */
const DeadLetter = z.object({
  id: z.int(),
  fromAgentDid: z.string(),
  requestId: z.string().refine(isRequestId),
  conversationId: z.string().nullable(),
  /** JSON text. */
  payload: z.string(),
  receivedAt: z.int(),
  verified: z.enum(VERIFIED),
  endedAt: z.int(),
  attempts: z.int(),
  problem: z.string(),
});
export type DeadLetter = z.infer<typeof DeadLetter>;

/** Response of `GET /v1/dead-letter`, newest first. */
export const DeadLetters = z.object({ deadLetters: z.array(DeadLetter) });

/** Body of `POST /v1/outbound` with `wait`, and of `GET /v1/outbound/<requestId>`. `to` is a DID. */
export const OutboundResult = z.object({
  requestId: RequestId,
  to: AgentDid,
  ...SentStatus,
  reply: LocalMessage.nullable(),
});
export type OutboundResult = z.infer<typeof OutboundResult>;

/** Response of `POST /v1/page-codes`: an address that opens the connector's web page once. */
export const PageCode = z.object({ url: z.url(), expiresAt: When });

/** A receipt of a sent message, checked by the connector against the message and the key of its recipient. */
export const CheckedReceipt = Receipt.extend({
  /** `signed`: the recipient signed it for this message. `by-proxy`: only the proxy says it. */
  verified: z.enum(["signed", "by-proxy"]),
  /** What is wrong with the receipt. With a problem, a server between the two agents lies, or the recipient does. */
  problem: z.string().optional(),
  /** Present for a sealed message, because `svc receipt verify` can compare the payload only with it. */
  salt: z.string().optional(),
});
export type CheckedReceipt = z.infer<typeof CheckedReceipt>;

/** Response of `GET /v1/receipts`. */
export const CheckedReceipts = z.object({ receipts: z.array(CheckedReceipt) });

/** A peer that was renamed, blocked or unblocked. */
export const ChangedPeer = z.object({
  alias: z.string(),
  agentDid: AgentDid,
  agentName: z.string(),
  humanName: z.string(),
  /** True when this agent accepts no messages of the peer and sends it none. */
  blocked: z.boolean(),
});
export type ChangedPeer = z.infer<typeof ChangedPeer>;

/** A peer, with its key, its presence and the time of the last message. */
export const LocalPeer = ChangedPeer.extend({
  pairedAt: When,
  /** The peer's public key; `null` until it is known. */
  key: z.string().nullable(),
  /** How the key became known: a ticket proved it, or servers named it (`contact`); `null` until it is known. */
  how: z.enum(["ticket", "contact"]).nullable(),
  /** When the key became known. */
  since: When.nullable(),
  /** Whether the peer is connected; `null` for a peer that hides it. */
  online: z.boolean().nullable(),
  /** When the peer was last connected, to the minute; `null` if it never was, or hides it. */
  lastSeenAt: When.nullable(),
  /** When the last stored message was sent or received; `null` without one. */
  lastMessageAt: When.nullable(),
  /** Origin of the peer's home proxy, if that is another server. */
  proxy: z.string().optional(),
  /** Why the connector's last call of that server failed; `null` after a success, and before the first call. */
  proxyProblem: z.string().nullable().optional(),
});
export type LocalPeer = z.infer<typeof LocalPeer>;

/** Response of `GET /v1/peers`, sorted by alias. */
export const LocalPeers = z.object({ peers: z.array(LocalPeer) });

/** Response of `GET /v1/pair/peers`: all peers. */
export const PairPeers = PeerList.pick({ peers: true });

/**
 * Body of the request `POST /v1/outbound`. It has one of `payload`, `text` and `error`, or both `text` and `error`; and
 * at least one of `to` and `replyTo`.
 */
export const OutboundRequest = z.strictObject({
  /** Alias or DID. */
  to: z.string().min(1).max(256).optional(),
  payload: z.unknown().optional(),
  /** Becomes the payload `{"message": text}`. */
  text: z.string().optional(),
  /** Why there is no answer. The text of the reply is `text`, or the message of the error if there is none. */
  error: ReplyError.optional(),
  conversationId: z.string().regex(/^[!-+\--~]{1,128}$/, "must be 1 to 128 visible ASCII characters without a comma")
    .optional(),
  requestId: RequestId.optional(),
  prefer: z.literal("respond-async").optional(),
  /** The connector keeps the message if the proxy does not take it, and sends it later. It needs `prefer`. */
  keep: z.boolean().optional(),
  inReplyTo: RequestId.optional(),
  /** ID of the message in the inbox that this one answers. It sets recipient, `inReplyTo` and conversation. */
  replyTo: Id.optional(),
  auto: z.boolean().optional(),
  origin: z.enum(["program", "person", "model"]).optional(),
});
export type OutboundRequest = z.infer<typeof OutboundRequest>;
