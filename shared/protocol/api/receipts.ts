/** Request and response bodies of delivery receipts (D-72). */
import * as z from "zod";
import { DELIVERY_STATES } from "../frames.ts";
import { LIMITS } from "../limits.ts";
import { AgentDid, IsoTime, RequestId, strictQuery } from "./fields.ts";

export const RECEIPT_STATUSES = ["processed_by_svc", "dead_lettered"] as const;
export type ReceiptStatus = z.output<typeof ReceiptStatus>;
export const ReceiptStatus = z.enum(RECEIPT_STATUSES);

const COMPACT_JWS = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}$/;

export type ReceiptBody = z.output<typeof ReceiptBody>;
export const ReceiptBody = z.object({
  requestId: RequestId,
  recipientAgentDid: AgentDid,
  status: ReceiptStatus,
  timestamp: IsoTime,
  /** Required when several senders used the same request ID. */
  senderAgentDid: AgentDid.optional(),
  /** The receipt as its recipient signed it. The proxy checks only its form. */
  signed: z.string().max(LIMITS.receiptTokenBytes).regex(COMPACT_JWS, "must be a signed receipt").meta({
    examples: [`e30.e30.${"A".repeat(86)}`],
  }).optional(),
});

/**
 * A receipt. `receivedAt` is when the proxy recorded it, `signed` is what the recipient signed, and `ait` is the
 * identity token with which the recipient sent it. A receipt that the proxy itself wrote has neither `signed` nor
 * `ait`.
 */
export type Receipt = z.output<typeof Receipt>;
export const Receipt = z.object({
  requestId: RequestId,
  recipientAgentDid: AgentDid,
  status: ReceiptStatus,
  receivedAt: IsoTime,
  signed: z.string().optional(),
  ait: z.string().optional(),
});

export type ReceiptAnswer = z.output<typeof ReceiptAnswer>;
export const ReceiptAnswer = z.object({ receipt: Receipt });

export type ReceiptQuery = z.output<typeof ReceiptQuery>;
export const ReceiptQuery = strictQuery({ requestId: RequestId, recipientAgentDid: AgentDid });

export type ReceiptList = z.output<typeof ReceiptList>;
export const ReceiptList = z.object({ receipts: z.array(Receipt) });

/** Names messages that the caller has sent, to ask what happened to them. */
export type DeliveriesBody = z.output<typeof DeliveriesBody>;
export const DeliveriesBody = z.object({
  messages: z.array(z.object({ requestId: RequestId, recipientAgentDid: AgentDid })).min(1).max(100),
});

/** The messages whose outcome is known, in the order of the request. */
export type DeliveriesAnswer = z.output<typeof DeliveriesAnswer>;
export const DeliveriesAnswer = z.object({
  deliveries: z.array(z.object({
    requestId: RequestId,
    recipientAgentDid: AgentDid,
    state: z.enum(DELIVERY_STATES),
    at: IsoTime,
  })),
});
