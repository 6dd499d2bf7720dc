/**
 * Delivery receipts in the store (D-72, D-218): one of each status per delivery; the first one stays. The recipient and the
 * sender of the delivery may read it. A receipt for an unknown delivery is refused.
 */
import { RECEIPT_STATUSES, ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Clock } from "../../shared/clock.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import type { GroupCommit, Update } from "../../shared/server/store/group_commit.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { begunDeliveries, type DeliveryId, receiptUpdates } from "../relay/deliveries.ts";
import { deliveryEnd, unpackDelivery } from "../schema/delivery_record.ts";
import { type ReceiptRecord, receivedAtOf, storedReceipt } from "../schema/receipt_record.ts";

export interface ReceiptDeps {
  kv: Deno.Kv;
  clock: Clock;
  commits: GroupCommit;
  metrics: Metrics;
  config: { receiptKeptMs: number };
}

/** The receipt of the same status that was recorded first. */
class First {
  constructor(readonly receivedAt: number) {}
}

/**
 * Records a receipt. Returns the new receipt, or the first one of the same status.
 *
 * @throws {ServiceError} `PROXY_RELAY_RECEIPT_INVALID` when several senders used the ID and none is named,
 * `PROXY_RECEIPT_DELIVERY_NOT_FOUND` when the delivery is unknown
 */
export async function recordReceipt(
  deps: ReceiptDeps,
  receipt: { requestId: string; recipientAgentDid: string; status: ReceiptStatus; senderAgentDid?: string | undefined },
): Promise<ReceiptRecord> {
  const { requestId, recipientAgentDid, status } = receipt;
  const sender = receipt.senderAgentDid ?? await onlySender(deps, recipientAgentDid, requestId);
  const id: DeliveryId = { sender, recipient: recipientAgentDid, requestId };
  const now = deps.clock.now();
  const keptMs = deps.config.receiptKeptMs;
  const first: Update<First> = {
    key: KEYS.receipt(recipientAgentDid, requestId, sender, status),
    uncached: true,
    next: (current) => {
      const receivedAt = current === null ? null : receivedAtOf(current);
      if (receivedAt !== null && now < receivedAt + keptMs) return { refuse: new First(receivedAt) };
      return storedReceipt(now, keptMs);
    },
  };
  // The delivery is checked first, because a repeated receipt is also refused after the end of its delivery.
  const result = await deps.commits.claim<First | "unknown">([...receiptUpdates(id, now), first]);
  if (result.taken) {
    deps.metrics.count("receipts_total", status);
    return { requestId, recipientAgentDid, status, receivedAt: now };
  }
  if (result.refused === "unknown") throw new ServiceError("PROXY_RECEIPT_DELIVERY_NOT_FOUND");
  return { requestId, recipientAgentDid, status, receivedAt: result.refused.receivedAt };
}

/** Returns the receipts of a request ID that the reader may see, oldest first. */
export async function listReceipts(
  deps: ReceiptDeps,
  reader: string,
  { requestId, recipientAgentDid }: { requestId: string; recipientAgentDid: string },
): Promise<ReceiptRecord[]> {
  const prefix = KEYS.receipts(recipientAgentDid, requestId);
  const entries: Deno.KvEntryMaybe<unknown>[] = reader === recipientAgentDid
    ? await Array.fromAsync(deps.kv.list({ prefix }, { limit: LIMITS.receiptsListed }))
    : await deps.kv.getMany<unknown[]>(
      RECEIPT_STATUSES.map((status) => KEYS.receipt(recipientAgentDid, requestId, reader, status)),
    );
  const now = deps.clock.now();
  return entries
    .filter(({ value }) => value !== null && now < receivedAtOf(value) + deps.config.receiptKeptMs)
    .map(({ key, value }) => ({
      requestId,
      recipientAgentDid,
      status: ReceiptStatus.parse(key.at(-1)),
      receivedAt: receivedAtOf(value),
    }))
    .sort((a, b) => a.receivedAt - b.receivedAt);
}

/**
 * Returns the sender of the only delivery with this request ID to this recipient.
 *
 * @throws {ServiceError} `PROXY_RELAY_RECEIPT_INVALID` or `PROXY_RECEIPT_DELIVERY_NOT_FOUND`
 */
async function onlySender(deps: ReceiptDeps, recipientAgentDid: string, requestId: string): Promise<string> {
  const now = deps.clock.now();
  const senders = new Set<string>();
  for await (const { key, value } of deps.kv.list({ prefix: KEYS.deliveries(recipientAgentDid, requestId) })) {
    const record = unpackDelivery(value, requestId);
    if (record && now < deliveryEnd(record)) senders.add(String(key.at(-1)));
  }
  // A delivery that has begun is in the record of its sender, which is one of the recipient's peers.
  if (senders.size === 0) {
    for (const sender of await peersWhoBegan(deps.kv, recipientAgentDid, requestId)) senders.add(sender);
  }
  const [only, ...others] = senders;
  if (others.length > 0) {
    throw new ServiceError("PROXY_RELAY_RECEIPT_INVALID", {
      message: "Several agents sent a message with this request ID; add senderAgentDid",
    });
  }
  if (only === undefined) throw new ServiceError("PROXY_RECEIPT_DELIVERY_NOT_FOUND");
  return only;
}

/** Returns the peers with a begun delivery of this request ID to the recipient, among its first peers. */
async function peersWhoBegan(kv: Deno.Kv, recipient: string, requestId: string): Promise<string[]> {
  const limit = LIMITS.receiptPeersRead;
  const pairs = await Array.fromAsync(kv.list({ prefix: KEYS.pairs(recipient) }, { limit }));
  const reads = new BatchedReads(kv);
  const records = await Promise.all(pairs.map(({ key }) => reads.get(KEYS.sender(String(key.at(-1))))));
  return records.flatMap(({ value }) => begunDeliveries(value))
    .filter(({ id }) => id.requestId === requestId && id.recipient === recipient)
    .map(({ id }) => id.sender);
}
