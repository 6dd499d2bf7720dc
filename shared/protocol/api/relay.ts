/** Wire bodies of message delivery and receipts (D-66 to D-72). */
import * as z from "zod";
import { AgentDid, IsoTime, RequestId } from "./fields.ts";

/**
 * Body of `POST /hooks/agent`: any JSON value. The proxy puts the identity block (D-71) in front of a text `message` of an
 * object and passes everything else on byte for byte.
 */
export const HookBody = z.unknown().meta({
  description: "Any JSON value. In an object, the identity block is put in front of a text member `message`.",
  examples: [{ message: "hello" }],
});

/** `X-Svc-Conversation-Id`: visible ASCII without a comma. */
export const ConversationId = z.string().regex(/^[!-+\--~]{1,128}$/);

/**
 * Answer of `POST /hooks/agent`; `reason` when the connector refused the message; `queued` and `expiresAt` when it waits
 * for an offline recipient (D-68).
 */
export const HookAnswer = z.object({
  accepted: z.literal(true),
  delivered: z.boolean(),
  connectedSockets: z.int(),
  requestId: RequestId,
  reason: z.string().optional(),
  queued: z.literal(true).optional(),
  expiresAt: IsoTime.optional(),
});
export type HookAnswer = z.infer<typeof HookAnswer>;

/** How a message ended. */
export const ReceiptStatus = z.enum(["processed_by_svc", "dead_lettered"]);
export type ReceiptStatus = z.infer<typeof ReceiptStatus>;

/** Body of `POST /v1/relay/delivery-receipts`. */
export const ReceiptBody = z.object({
  requestId: RequestId,
  recipientAgentDid: AgentDid,
  status: ReceiptStatus,
  timestamp: IsoTime,
  senderAgentDid: AgentDid.optional(),
});

/** A receipt; `receivedAt` is when the proxy recorded it. */
export const Receipt = z.object({
  requestId: RequestId,
  recipientAgentDid: AgentDid,
  status: ReceiptStatus,
  receivedAt: IsoTime,
});
export type Receipt = z.infer<typeof Receipt>;

/** Answer of `POST /v1/relay/delivery-receipts`. */
export const ReceiptAnswer = z.object({ receipt: Receipt });

/** Query of `GET /v1/relay/delivery-receipts`. */
export const ReceiptQuery = z.object({ requestId: RequestId, recipientAgentDid: AgentDid });

/** Answer of `GET /v1/relay/delivery-receipts`. */
export const ReceiptList = z.object({ receipts: z.array(Receipt) });
export type ReceiptList = z.infer<typeof ReceiptList>;
