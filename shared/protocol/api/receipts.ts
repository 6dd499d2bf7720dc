/** Request and response bodies of delivery receipts (D-72). */
import * as z from "zod";
import type { Shape } from "../shape.ts";
import { AgentDid, IsoTime, RequestId } from "./fields.ts";

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
