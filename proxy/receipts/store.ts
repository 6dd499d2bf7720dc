/**
 * Delivery receipts in the store (D-72): one of each status per delivery, the first wins. Seen by the recipient, and by
 * the sender of that very delivery; a receipt for a delivery that is not on record is its submitter's alone.
 */
import type { ReceiptStatus } from "../../shared/protocol/api/relay.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { optimistically } from "../../shared/server/kv.ts";
import type { ProxyDeps } from "../deps.ts";
import { KEYS } from "../keys.ts";
import type { DeliveryRecord } from "../relay/deliveries.ts";

/** A receipt as stored; time is milliseconds since the Unix epoch. */
export interface ReceiptRecord {
  requestId: string;
  recipientAgentDid: string;
  status: ReceiptStatus;
  receivedAt: number;
  /** Sender of the delivery; `null` when it is not on record. */
  senderAgentDid: string | null;
}

/** Sender part of the key for a delivery that is not on record. */
const NOT_ON_RECORD = "-";

/**
 * Records a receipt, or gives the one that was first.
 *
 * @throws {ServiceError} `PROXY_RELAY_RECEIPT_INVALID` when several senders used the id and none is named
 */
export async function recordReceipt(
  deps: ProxyDeps,
  receipt: { requestId: string; recipientAgentDid: string; status: ReceiptStatus; senderAgentDid?: string | undefined },
): Promise<ReceiptRecord> {
  const { requestId, recipientAgentDid, status } = receipt;
  const senderAgentDid = await senderOf(deps, receipt);
  const key = KEYS.receipt(recipientAgentDid, requestId, senderAgentDid ?? NOT_ON_RECORD, status);
  const record: ReceiptRecord = {
    requestId,
    recipientAgentDid,
    status,
    receivedAt: deps.clock.now(),
    senderAgentDid,
  };
  return await optimistically(deps, async () => {
    const entry = await deps.kv.get<ReceiptRecord>(key);
    const operation = deps.kv.atomic().check(entry);
    if (entry.value) return { operation, result: entry.value };
    operation.set(key, record, { expireIn: LIMITS.deliveryKeptSeconds * 1000 });
    return { operation, result: record };
  });
}

/** The receipts of a request id that the reader may see, by the time they came. */
export async function listReceipts(
  deps: ProxyDeps,
  reader: string,
  query: { requestId: string; recipientAgentDid: string },
): Promise<ReceiptRecord[]> {
  const prefix = KEYS.receipts(query.recipientAgentDid, query.requestId);
  const entries = await Array.fromAsync(deps.kv.list<ReceiptRecord>({ prefix }));
  return entries
    .map((entry) => entry.value)
    .filter((receipt) => reader === receipt.recipientAgentDid || reader === receipt.senderAgentDid)
    .sort((a, b) => a.receivedAt - b.receivedAt);
}

async function senderOf(
  deps: ProxyDeps,
  { requestId, recipientAgentDid, senderAgentDid }: {
    requestId: string;
    recipientAgentDid: string;
    senderAgentDid?: string | undefined;
  },
): Promise<string | null> {
  const prefix = KEYS.deliveries(recipientAgentDid, requestId);
  const deliveries = await Array.fromAsync(deps.kv.list<DeliveryRecord>({ prefix }));
  const senders = deliveries.map(({ key }) => String(key.at(-1)));
  if (senderAgentDid !== undefined) return senders.includes(senderAgentDid) ? senderAgentDid : null;
  if (senders.length > 1) {
    throw new ServiceError("PROXY_RELAY_RECEIPT_INVALID", {
      message: "Several agents sent a message with this request id: name senderAgentDid",
    });
  }
  return senders[0] ?? null;
}
