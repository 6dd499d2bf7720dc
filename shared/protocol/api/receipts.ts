/** Request and response bodies of delivery receipts (D-72). */
import * as z from "zod";
import { DELIVERY_STATES } from "../frames.ts";
import { AgentDid, IsoTime, RequestId } from "./fields.ts";

/** Every status of a receipt. */
export const RECEIPT_STATUSES = ["processed_by_svc", "dead_lettered"] as const;
/** How a message ended. */
export type ReceiptStatus = z.output<typeof ReceiptStatus>;
export const ReceiptStatus = z.enum(RECEIPT_STATUSES);

/** Body of `POST /v1/relay/delivery-receipts`. */
export type ReceiptBody = z.output<typeof ReceiptBody>;
export const ReceiptBody = z.object({
  requestId: RequestId,
  recipientAgentDid: AgentDid,
  status: ReceiptStatus,
  /** When the message ended. */
  timestamp: IsoTime,
  /** Required when several senders used the request ID. */
  senderAgentDid: AgentDid.optional(),
});

/** A receipt; `receivedAt` is when the proxy recorded it. */
export type Receipt = z.output<typeof Receipt>;
export const Receipt = z.object({
  requestId: RequestId,
  recipientAgentDid: AgentDid,
  status: ReceiptStatus,
  receivedAt: IsoTime,
});

/** Response of `POST /v1/relay/delivery-receipts`. */
export type ReceiptAnswer = z.output<typeof ReceiptAnswer>;
export const ReceiptAnswer = z.object({ receipt: Receipt });

/** Query of `GET /v1/relay/delivery-receipts`. */
export type ReceiptQuery = z.output<typeof ReceiptQuery>;
export const ReceiptQuery = z.object({ requestId: RequestId, recipientAgentDid: AgentDid });

/** Response of `GET /v1/relay/delivery-receipts`. */
export type ReceiptList = z.output<typeof ReceiptList>;
export const ReceiptList = z.object({ receipts: z.array(Receipt) });

/** Body of `POST /v1/relay/deliveries`: messages that the caller has sent. */
export type DeliveriesBody = z.output<typeof DeliveriesBody>;
export const DeliveriesBody = z.object({
  messages: z.array(z.object({ requestId: RequestId, recipientAgentDid: AgentDid })).min(1).max(100),
});

/** Response of `POST /v1/relay/deliveries`: the messages whose outcome is known, in the order of the request. */
export type DeliveriesAnswer = z.output<typeof DeliveriesAnswer>;
export const DeliveriesAnswer = z.object({
  deliveries: z.array(z.object({
    requestId: RequestId,
    recipientAgentDid: AgentDid,
    state: z.enum(DELIVERY_STATES),
    /** When it got the state. */
    at: IsoTime,
  })),
});
