/** Request and response bodies of message delivery (D-66 to D-71). */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import type { Shape } from "../shape.ts";
import { IsoTime, RequestId } from "./fields.ts";

/**
 * Body of `POST /hooks/agent`: any JSON value. The proxy inserts the identity block (D-71) in front of a string member
 * `message` of an object. All other bytes are forwarded unchanged.
 */
export type HookBody = unknown;
/** Schema of `HookBody`. */
export const HookBody: Shape<HookBody> = z.unknown().meta({
  description: "Any JSON value. In an object, the identity block is inserted in front of a string member `message`.",
  examples: [{ message: "hello" }],
});

/** `X-Svc-Conversation-Id`: visible ASCII without a comma. */
export type ConversationId = string;
/** Schema of `ConversationId`. */
export const ConversationId: Shape<ConversationId> = z.string().regex(/^[!-+\--~]{1,128}$/);

/** `X-Svc-In-Reply-To`: request ID of the message that this one answers. */
export type InReplyToHeader = string;
/** Schema of `InReplyToHeader`. */
export const InReplyToHeader: Shape<InReplyToHeader> = RequestId;

/** `X-Svc-Auto`: a program sent the message. */
export type AutoHeader = "1";
/** Schema of `AutoHeader`. */
export const AutoHeader: Shape<AutoHeader> = z.literal("1");

/** Query of `POST /hooks/agent`: the signed context, base64url of 32 bytes. */
export interface HookQuery {
  /** Hash of the bound headers; absent in messages of older clients. */
  ctx?: string | undefined;
}
/** Schema of `HookQuery`. */
export const HookQuery: Shape<HookQuery> = z.object({ ctx: z.string().regex(/^[A-Za-z0-9_-]{43}$/).optional() });

/** Schema of the `Prefer` header of a message. */
export const PreferHeader: Shape<string> = z.string().max(LIMITS.preferLength).meta({ example: "respond-async" });

/** Schema of the `Content-Type` header of a message. */
export const ContentTypeHeader: Shape<string> = z.string().max(LIMITS.contentTypeLength)
  .meta({ example: "application/json" });

/**
 * Response of `POST /hooks/agent`; `reason` when the connector rejected the message; `queued` and `expiresAt` when it waits
 * for an offline recipient (D-68).
 */
export interface HookAnswer {
  /** Always true. */
  accepted: true;
  /** True when the recipient's connector stored the message. */
  delivered: boolean;
  /** Relay sockets of the recipient. */
  connectedSockets: number;
  /** ID of the message. */
  requestId: string;
  /** Why the connector rejected the message. */
  reason?: string | undefined;
  /** True when the message waits in the mailbox. */
  queued?: true | undefined;
  /** Time at which a queued message expires, ISO 8601. */
  expiresAt?: string | undefined;
}
/** Schema of `HookAnswer`. */
export const HookAnswer: Shape<HookAnswer> = z.object({
  accepted: z.literal(true),
  delivered: z.boolean(),
  connectedSockets: z.int(),
  requestId: RequestId,
  reason: z.string().optional(),
  queued: z.literal(true).optional(),
  expiresAt: IsoTime.optional(),
});
