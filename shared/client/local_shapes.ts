/**
 * Bodies and queries of a connector's local API (D-117): what the connector answers, and what the commands of `svc` and the
 * client library read. Shapes only; the routes are in cli/connector/local_api.
 */
import * as z from "zod";
import { isAgentDid } from "../protocol/did.ts";
import { isRequestId } from "../protocol/ids.ts";
import { CLIENT_LIMITS } from "./limits.ts";

/** How far the sender of a message is proven. Today always `by-proxy`: the proxy verified the request. */
export const VERIFIED = ["end-to-end", "body-only", "by-proxy"] as const;

/** Who decided to send a message (D-117); `runtime`: it is the answer of an agent runtime (D-114). */
export const ORIGINS = ["program", "person", "model", "runtime"] as const;
export type Origin = (typeof ORIGINS)[number];

/** States of a sent message (D-115). */
export const SENT_STATES = [
  /** The request is on its way, or is tried again. */
  "sending",
  /** The proxy keeps it until the recipient connects. */
  "queued",
  /** The recipient's connector has stored it. */
  "delivered",
  /** The recipient has processed it. */
  "processed",
  /** The recipient's connector gave up on it. */
  "dead_lettered",
  /** The proxy, the recipient's connector or this connector refused it. */
  "refused",
  /** The request was interrupted. Sending it again with the same request ID is safe (D-69). */
  "unknown",
] as const;
export type SentState = (typeof SENT_STATES)[number];

const Id = z.int().min(1);
const RequestId = z.string().refine(isRequestId, "must be 8 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'");
const AgentDid = z.string().refine(isAgentDid, "is not the DID of an agent");
const When = z.iso.datetime();

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
  verified: z.enum(VERIFIED),
  conversationId: z.string().nullable(),
  inReplyTo: z.string().nullable(),
  /** True when it answers a message that this agent sent to its sender (D-112). */
  isReply: z.boolean(),
  /** True when a program sent it without a decision of a person or a model. */
  auto: z.boolean(),
  receivedAt: When,
  readAt: When.nullable(),
  /** The member `message` without the identity block; `null` when there is none, or when the content is blanked. */
  text: z.string().nullable(),
  /** Any JSON value; `null` when the content is blanked. `z.json()` would fail for a deeply nested one. */
  payload: z.unknown(),
});
export type LocalMessage = z.infer<typeof LocalMessage>;

/** Body of `GET /v1/inbox`, oldest first. `more`: there are further messages after the last one. */
export const InboxPage = z.object({ messages: z.array(LocalMessage), more: z.boolean() });
export type InboxPage = z.infer<typeof InboxPage>;

/** Body of the request `POST /v1/inbox/read`. */
export const InboxRead = z.strictObject({ ids: z.array(Id).min(1).max(CLIENT_LIMITS.readIds) });

/** Body of the response of `POST /v1/inbox/read`: the IDs that this call has changed. */
export const InboxReadResult = z.object({ read: z.array(Id) });
export type InboxReadResult = z.infer<typeof InboxReadResult>;

/** A sent message, without its payload. */
export const SentEntry = z.object({
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
});
export type SentEntry = z.infer<typeof SentEntry>;

/** Body of `GET /v1/sent`, newest first. */
export const SentPage = z.object({ messages: z.array(SentEntry), more: z.boolean() });
export type SentPage = z.infer<typeof SentPage>;

/** Body of `POST /v1/outbound` with `wait`, and of `GET /v1/outbound/<requestId>`. `to` is a DID. */
export const OutboundResult = z.object({
  requestId: RequestId,
  to: AgentDid,
  state: z.enum(SENT_STATES),
  problem: z.string().nullable(),
  expiresAt: When.nullable(),
  /** When the state has changed last; absent in the response of an earlier connector, as `replies` is. */
  stateAt: When.optional(),
  /** IDs of the replies in the inbox, the first ones. */
  replies: z.array(Id).optional(),
  reply: LocalMessage.nullable(),
});
export type OutboundResult = z.infer<typeof OutboundResult>;

/** Body of the request `POST /v1/outbound`. Exactly one of `payload` and `text`; one of `to` and `replyTo` at least. */
export const OutboundRequest = z.strictObject({
  /** Alias or DID. */
  to: z.string().min(1).max(256).optional(),
  payload: z.unknown().optional(),
  /** Becomes the payload `{"message": text}`. */
  text: z.string().optional(),
  conversationId: z.string().regex(/^[!-+\--~]{1,128}$/, "must be 1 to 128 visible ASCII characters without a comma")
    .optional(),
  requestId: RequestId.optional(),
  prefer: z.literal("respond-async").optional(),
  inReplyTo: RequestId.optional(),
  /** ID of a message in the inbox: sets recipient, `inReplyTo` and conversation. */
  replyTo: Id.optional(),
  auto: z.boolean().optional(),
  origin: z.enum(["program", "person", "model"]).optional(),
});
export type OutboundRequest = z.infer<typeof OutboundRequest>;
