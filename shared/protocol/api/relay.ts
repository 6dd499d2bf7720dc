/** Request and response bodies of message delivery (D-67 to D-71). */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import { IsoTime, RequestId } from "./fields.ts";

/**
 * Body of `POST /hooks/agent`: any JSON value. If it is an object whose member `message` is a string, the proxy inserts
 * the identity block at the beginning of that string. All bytes outside the string are forwarded unchanged.
 */
export type HookBody = z.output<typeof HookBody>;
export const HookBody = z.unknown().meta({
  description: "Any JSON value. In an object, the identity block is inserted in front of a string member `message`.",
  examples: [{ message: "hello" }],
});

/** `X-Svc-Conversation-Id`: visible ASCII without a comma. */
export type ConversationId = z.output<typeof ConversationId>;
export const ConversationId = z.string().regex(
  /^[!-+\--~]{1,128}$/,
  "must be 1 to 128 visible ASCII characters without a comma",
);

/** `X-Svc-In-Reply-To`: request ID of the message that this one answers. */
export type InReplyToHeader = z.output<typeof InReplyToHeader>;
export const InReplyToHeader = RequestId;

/** `X-Svc-Auto`: a program sent the message. No literal, because a generator of clients leaves out a route with `const`. */
export type AutoHeader = z.output<typeof AutoHeader>;
export const AutoHeader = z.enum(["1"]);

/** Query whose `ctx` is the hash of the signed context, base64url of 32 bytes. */
export type HookQuery = z.output<typeof HookQuery>;
export const HookQuery = z.object({
  ctx: z.string().regex(/^[A-Za-z0-9_-]{43}$/, "must be base64url of 32 bytes").optional(),
});

export const ConnectQuery = z.object({
  /** If present, the peers of the agent are not told whether it is connected. */
  hidden: z.literal("1").optional().meta({ description: "Tell no peer whether the agent is connected" }),
});

export const PreferHeader = z.string().max(LIMITS.preferLength).meta({ example: "respond-async" });

export const ContentTypeHeader = z.string().max(LIMITS.contentTypeLength)
  .meta({ example: "application/json" });

/**
 * Response of `POST /hooks/agent`. `reason` is present when the connector rejected the message; `queued` and
 * `expiresAt` are present when the message waits for an offline recipient.
 */
export type HookAnswer = z.output<typeof HookAnswer>;
export const HookAnswer = z.object({
  accepted: z.literal(true),
  /** True when the recipient's connector has stored the message. */
  delivered: z.boolean(),
  connectedSockets: z.int(),
  /** The ID by which a sender finds the receipt. It is in the body, because simple clients do not see headers. */
  requestId: RequestId,
  reason: z.string().optional(),
  queued: z.literal(true).optional(),
  expiresAt: IsoTime.optional(),
});
