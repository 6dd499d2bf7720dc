/** Request and response bodies of message delivery and receipts (D-66 to D-72). */
import * as z from "zod";
import { LIMITS } from "../limits.ts";
import type { Shape } from "../shape.ts";
import { AgentDid, IsoTime, RequestId } from "./fields.ts";

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

/** Every status of a receipt. */
export const RECEIPT_STATUSES = ["processed_by_svc", "dead_lettered"] as const;
/** How a message ended. */
export type ReceiptStatus = (typeof RECEIPT_STATUSES)[number];
/** Schema of `ReceiptStatus`. */
export const ReceiptStatus: Shape<ReceiptStatus> = z.enum(RECEIPT_STATUSES);

/** Body of `POST /v1/relay/delivery-receipts`. */
export interface ReceiptBody {
  /** ID of the request that carried the message. */
  requestId: string;
  /** DID of the recipient. */
  recipientAgentDid: string;
  /** How the message ended. */
  status: ReceiptStatus;
  /** Time at which the message ended, ISO 8601. */
  timestamp: string;
  /** DID of the sender; required when several senders used the request ID. */
  senderAgentDid?: string | undefined;
}
/** Schema of `ReceiptBody`. */
export const ReceiptBody: Shape<ReceiptBody> = z.object({
  requestId: RequestId,
  recipientAgentDid: AgentDid,
  status: ReceiptStatus,
  timestamp: IsoTime,
  senderAgentDid: AgentDid.optional(),
});

/** A receipt; `receivedAt` is when the proxy recorded it. */
export interface Receipt {
  /** ID of the request that carried the message. */
  requestId: string;
  /** DID of the recipient. */
  recipientAgentDid: string;
  /** How the message ended. */
  status: ReceiptStatus;
  /** Time at which the proxy recorded the receipt, ISO 8601. */
  receivedAt: string;
}
/** Schema of `Receipt`. */
export const Receipt: Shape<Receipt> = z.object({
  requestId: RequestId,
  recipientAgentDid: AgentDid,
  status: ReceiptStatus,
  receivedAt: IsoTime,
});

/** Response of `POST /v1/relay/delivery-receipts`. */
export interface ReceiptAnswer {
  /** The recorded receipt. */
  receipt: Receipt;
}
/** Schema of `ReceiptAnswer`. */
export const ReceiptAnswer: Shape<ReceiptAnswer> = z.object({ receipt: Receipt });

/** Query of `GET /v1/relay/delivery-receipts`. */
export interface ReceiptQuery {
  /** ID of the request that carried the message. */
  requestId: string;
  /** DID of the recipient. */
  recipientAgentDid: string;
}
/** Schema of `ReceiptQuery`. */
export const ReceiptQuery: Shape<ReceiptQuery> = z.object({ requestId: RequestId, recipientAgentDid: AgentDid });

/** Response of `GET /v1/relay/delivery-receipts`. */
export interface ReceiptList {
  /** Receipts of the message. */
  receipts: Receipt[];
}
/** Schema of `ReceiptList`. */
export const ReceiptList: Shape<ReceiptList> = z.object({ receipts: z.array(Receipt) });
