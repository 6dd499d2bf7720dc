/**
 * Bodies and queries of a connector's local API: what the connector answers, and what the commands of `svc` and the
 * client library read. Shapes only; the routes are in cli/connector/local_api.
 */
import { PeerList } from "../protocol/api/pairing.ts";
import { Receipt } from "../protocol/api/receipts.ts";
import { isAgentDid } from "../protocol/did.ts";
import { isRequestId, REQUEST_ID_FORM } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import { memberText } from "../protocol/json_text.ts";
import * as z from "zod";

/**
 * The member of a payload with the error of a reply: an agent that has no answer says why, and without it a program
 * would take the reason for an answer. It is in the payload and not in the frame, so what proves the payload proves the
 * error too.
 */
const MEMBER = "svcError";
/** Characters of the message of an error; the whole text is the message of the payload. */
const MAX_MESSAGE_CHARS = 512;

/** Why an agent has no answer. `code` is the agent's own, for example `TASK_FAILED`. */
export const ReplyError = z.object({
  code: z.string().regex(/^[A-Z][A-Z0-9_]{0,63}$/, "must be 1 to 64 of A-Z, 0-9 and '_', beginning with a letter"),
  message: z.string(),
});
export type ReplyError = z.infer<typeof ReplyError>;

/** The error of an agent that answers too often without a person or a model between. */
export const BUSY = "BUSY";

/** The payload of a reply without an answer. Its `message` is what people and runtimes read. */
export function errorPayload(message: string, { code, message: why }: ReplyError): Record<string, unknown> {
  return { message, [MEMBER]: { code, message: why.slice(0, MAX_MESSAGE_CHARS).toWellFormed() } };
}

/** The error in the payload of a reply, as JSON text; `null` when it is an answer. */
export function errorIn(payload: string): ReplyError | null {
  const json = memberText(payload, MEMBER);
  const { data } = ReplyError.safeParse(json && JSON.parse(json) as unknown);
  return data === undefined ? null : { ...data, message: data.message.slice(0, MAX_MESSAGE_CHARS).toWellFormed() };
}

export function isErrorMember(name: string): boolean {
  return name === MEMBER;
}

/** With more, a request could pass the size of a body that the local API reads. */
const READ_IDS_MAX = 1_000;

/** Who decided to send a message; `runtime`: it is the answer of an agent runtime. */
export const ORIGINS = ["program", "person", "model", "runtime"] as const;
export type Origin = (typeof ORIGINS)[number];

export const SENT_STATES = [
  "sending",
  /** This connector has it on its disk, and sends it again with the same request ID until `until`. */
  "kept",
  /** The proxy has it on its disk until `expiresAt`, and sends it when the recipient connects. */
  "queued",
  /** It is on the disk of the recipient's connector; its agent has not taken it. */
  "delivered",
  /** The recipient's agent has taken it: read it, or its runtime accepted it. */
  "processed",
  /** It ended; nothing acts on it unless its recipient replays it. */
  "dead_lettered",
  /** The recipient does not have it, and nothing tries again. */
  "refused",
  /** It may have arrived. Sending it again with the same request ID is safe. */
  "unknown",
] as const;
export type SentState = (typeof SENT_STATES)[number];

const Id = z.int().min(1);
const RequestId = z.string().refine(isRequestId, `must be ${REQUEST_ID_FORM}`);
const AgentDid = z.string().refine(isAgentDid, "is not the DID of an agent");
const When = z.iso.datetime();

/** How the key is known that signed a message. */
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
  /** `end-to-end`: sealed, and signed with a key that no server chose. `by-registry`: with a key that servers named. */
  verified: z.enum(VERIFIED),
  conversationId: z.string().nullable(),
  inReplyTo: z.string().nullable(),
  /** True when it answers a message that this agent sent to its sender; any agent may name another ID. */
  isReply: z.boolean(),
  /** True when a program sent it without a decision of a person or a model. */
  auto: z.boolean(),
  receivedAt: When,
  readAt: When.nullable(),
  /** True for an unread message that a program held and may have shown before it ended. */
  mayBeRepeat: z.boolean(),
  /** The member `message` without the identity block; `null` when there is none, or when the content is blanked. */
  text: z.string().nullable(),
  /** Why a reply has no answer; `null` for an answer, and for a message that is not a reply. */
  error: ReplyError.nullable(),
  /** Any JSON value; `null` when the content is blanked. `z.json()` would fail for a deeply nested one. */
  payload: z.unknown(),
});
export type LocalMessage = z.infer<typeof LocalMessage>;

/** Body of `GET /v1/inbox`, oldest first. `more`: there are further messages after the last one. */
export const InboxPage = z.object({ messages: z.array(LocalMessage), more: z.boolean() });
export type InboxPage = z.infer<typeof InboxPage>;

/**
 * Body of the request `POST /v1/inbox/read`. Without `lease` the messages are read. With it they are held for that
 * number of seconds: other calls neither list nor take them, and they are unread again when it ends, unless the holder
 * marks them before. `0` releases them. A repeat with the same `leaseId` is the same lease.
 */
export const InboxRead = z.strictObject({
  ids: z.array(Id).min(1).max(READ_IDS_MAX),
  lease: z.int().min(0).max(LIMITS.leaseSeconds).optional(),
  leaseId: RequestId.optional(),
});

/** Response of `POST /v1/inbox/read`: the IDs that this call has changed, and with `lease` the ID of the lease. */
export const InboxReadResult = z.object({ read: z.array(Id), leaseId: RequestId.optional() });

const Kept = {
  /** Until when it is tried; `null` unless it is `kept`. */
  until: When.nullable(),
  /** `null` unless it is `kept`. */
  nextTryAt: When.nullable(),
  /** Attempts of the connector to send it again. */
  attempts: z.int(),
};

/** The problem of a message that its sender has cancelled. */
export const CANCELLED = "cancelled";

/** A sent message, without its payload. */
export const SentEntry = z.object({
  /** Its text, in a list the beginning; `null` when there is none, or when the content is blanked. */
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
  state: z.enum(SENT_STATES),
  stateAt: When,
  problem: z.string().nullable(),
  /** When the proxy deletes the message if it is still queued; `null` when it is not queued. */
  expiresAt: When.nullable(),
  ...Kept,
  /** IDs of the first messages that answer it. */
  replies: z.array(Id),
});
export type SentEntry = z.infer<typeof SentEntry>;

/** Body of `GET /v1/sent`, newest first. */
export const SentPage = z.object({ messages: z.array(SentEntry), more: z.boolean() });
export type SentPage = z.infer<typeof SentPage>;

/** A message of the log; `payload` is the last member, byte for byte as its sender wrote it. */
export const LogEntry = z.discriminatedUnion("kind", [
  LocalMessage.extend({ kind: z.literal("received") }),
  SentEntry.omit({ replies: true }).extend({ kind: z.literal("sent"), payload: z.unknown() }),
]);
export type LogEntry = z.infer<typeof LogEntry>;

/**
 * Body of `GET /v1/log`: the newest first, with `after` the oldest. `next` is `before` or `after` of the next page;
 * `null` when there is none. A page of a search may have no message and still have a next page.
 */
export const LogPage = z.object({ messages: z.array(LogEntry), next: z.string().nullable() });

/** Response of `POST /v1/log/forget`: how many texts were blanked. */
export const Forgotten = z.object({ forgotten: z.int() });

/** Body of `POST /v1/outbound` with `wait`, and of `GET /v1/outbound/<requestId>`. `to` is a DID. */
export const OutboundResult = z.object({
  requestId: RequestId,
  to: AgentDid,
  state: z.enum(SENT_STATES),
  problem: z.string().nullable(),
  expiresAt: When.nullable(),
  ...Kept,
  /** When the state has changed last. */
  stateAt: When,
  /** IDs of the first replies in the inbox. */
  replies: z.array(Id),
  reply: LocalMessage.nullable(),
});
export type OutboundResult = z.infer<typeof OutboundResult>;

/** Response of `POST /v1/page-codes`: an address that opens the connector's web page once. */
export const PageCode = z.object({ url: z.url(), expiresAt: When });

/** A receipt of a sent message, checked by the connector against the message and the key of its recipient. */
export const CheckedReceipt = Receipt.extend({
  /** The recipient signed it for this message, or only the proxy says it. */
  verified: z.enum(["signed", "by-proxy"]),
  /** What is wrong with it: a server between the two agents lies, or its recipient does. */
  problem: z.string().optional(),
  /** Of a sealed message: with it `svc receipt verify` compares the payload. */
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
  /** This agent takes nothing of it and sends it nothing. */
  blocked: z.boolean(),
});
export type ChangedPeer = z.infer<typeof ChangedPeer>;

/** A peer, as its people see it. */
export const LocalPeer = ChangedPeer.extend({
  pairedAt: When,
  /** Its public key, once it is known. */
  key: z.string().nullable(),
  /** Whether a ticket proved the key, or registry and proxy named it; `null` while it is not known. */
  how: z.enum(["ticket", "contact"]).nullable(),
  /** When the key became known. */
  since: When.nullable(),
  /** `null` for a peer that hides it. */
  online: z.boolean().nullable(),
  /** To the minute; `null` for a peer that never was connected, or hides it. */
  lastSeenAt: When.nullable(),
  /** When the last stored message came or left; `null` without one. */
  lastMessageAt: When.nullable(),
  /** Origin of its home proxy, for a peer of another server. */
  proxy: z.string().optional(),
});
export type LocalPeer = z.infer<typeof LocalPeer>;

/** Response of `GET /v1/peers`, by alias. */
export const LocalPeers = z.object({ peers: z.array(LocalPeer) });

/** Response of `GET /v1/pair/peers`: all peers. */
export const PairPeers = PeerList.pick({ peers: true });

/**
 * Body of the request `POST /v1/outbound`. Exactly one of `payload`, `text` and `error`, or `text` with `error`; at
 * least one of `to` and `replyTo`.
 */
export const OutboundRequest = z.strictObject({
  /** Alias or DID. */
  to: z.string().min(1).max(256).optional(),
  payload: z.unknown().optional(),
  /** Becomes the payload `{"message": text}`. */
  text: z.string().optional(),
  /** The reply says why there is no answer. Its text is `text`, else the message of the error. */
  error: ReplyError.optional(),
  conversationId: z.string().regex(/^[!-+\--~]{1,128}$/, "must be 1 to 128 visible ASCII characters without a comma")
    .optional(),
  requestId: RequestId.optional(),
  prefer: z.literal("respond-async").optional(),
  /** The connector keeps the message while the proxy does not take it, and sends it later; needs `prefer`. */
  keep: z.boolean().optional(),
  inReplyTo: RequestId.optional(),
  /** ID of a message in the inbox: sets recipient, `inReplyTo` and conversation. */
  replyTo: Id.optional(),
  auto: z.boolean().optional(),
  origin: z.enum(["program", "person", "model"]).optional(),
});
export type OutboundRequest = z.infer<typeof OutboundRequest>;
