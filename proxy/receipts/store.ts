/**
 * Delivery receipts in the store (D-72).
 *
 * - There is one of each status for a delivery, and the first one stays. One that belongs to an earlier message with
 *   the same request ID is replaced, because it would otherwise say that the later message was read.
 * - The recipient and the sender of the delivery may read it.
 * - A receipt for an unknown delivery is refused, because any agent could otherwise write receipts without messages.
 */
import type { Kv, KvEntryMaybe } from "../../shared/server/kv.ts";
import { RECEIPT_STATUSES, ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { BatchedReads, readAll } from "../../shared/server/store/batched_reads.ts";
import type { Update } from "../../shared/server/store/batch.ts";
import type { GroupCommit } from "../../shared/server/store/group_commit.ts";
import { diskRefusal, type StoreReserve } from "../../shared/server/store/store_reserve.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import type { Senders } from "../message/sender.ts";
import type { OwnerBudgets } from "../owner_budgets.ts";
import type { MessageForwarder } from "../relay/message_forwarder.ts";
import type { AdmittedAgent } from "../caller.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { type DeliveryOutcome, timeUpdate } from "../message/deliveries.ts";
import type { DeliveryId } from "../message/delivery.ts";
import { deliveryEnd, unpackDelivery } from "../schema/delivery_record.ts";
import type { DeliveryRecord } from "../schema/records.ts";
import { begunOf } from "../schema/sender_record.ts";
import { isOfEarlier, type ReceiptRecord, type StoredReceipt, storedReceipt } from "../schema/receipt_record.ts";

/**
 * Most peers that are searched, 0.04 ms each. An owner may send 200 receipts a second, so with 1,000 peers that owner
 * would take the time of all others.
 */
const PEERS_READ_MAX = 20;
/**
 * Most receipts of an answer. One takes 5 KB and 0.05 ms, so with 200 an owner who uses one request ID for many messages
 * would take the time of all others.
 */
const RECEIPTS_LISTED_MAX = 20;

/**
 * Reserves of the disk that signed receipts leave free. With one, they would end queued messages and pairs. Those of one
 * person, up to 19 GB a day, also take at most half of the rest, because the receipts of all others would otherwise end.
 */
const RESERVES_LEFT = 2;

export interface ReceiptDeps extends Pick<ServiceDeps, "kv" | "clock" | "metrics"> {
  commits: GroupCommit;
  senders: Senders;
  config: { receiptKeptMs: number };
  forwarder: Pick<MessageForwarder, "tellDelivery">;
  reserve: Pick<StoreReserve, "hasRoom">;
  owners: Pick<OwnerBudgets, "addReceipt" | "receiptBytes">;
}

export const STATE_OF_RECEIPT = { processed_by_svc: "processed", dead_lettered: "dead_lettered" } as const;

/**
 * Records a receipt. Returns the new receipt, or the first one of the same status.
 *
 * @param by the agent that sends the receipt, and its owner
 * @throws {ServiceError} `PROXY_RELAY_RECEIPT_FORBIDDEN` for a receipt of another agent, `PROXY_RELAY_RECEIPT_INVALID`
 *   when several senders used the ID and none is named, `PROXY_RECEIPT_DELIVERY_NOT_FOUND` when the delivery is
 *   unknown, `SERVICE_UNAVAILABLE` when a signed receipt would use the disk's reserves or the room of others
 */
export async function recordReceipt(
  deps: ReceiptDeps,
  by: Pick<AdmittedAgent, "agentDid" | "ownerDid">,
  receipt: Pick<ReceiptRecord, "requestId" | "recipientAgentDid" | "status"> & {
    senderAgentDid?: string | undefined;
    /** The receipt as its recipient signed it, with the identity token of the request. */
    proof?: Required<Pick<StoredReceipt, "signed" | "ait">> | undefined;
  },
): Promise<ReceiptRecord> {
  const { requestId, recipientAgentDid, status, proof } = receipt, { agentDid, ownerDid } = by;
  if (agentDid !== recipientAgentDid) throw new ServiceError("PROXY_RELAY_RECEIPT_FORBIDDEN");
  const sender = receipt.senderAgentDid ?? await onlySender(deps, recipientAgentDid, requestId);
  const id: DeliveryId = { sender, recipient: recipientAgentDid, requestId };
  const now = deps.clock.now();
  const keptMs = deps.config.receiptKeptMs;
  const stored = { receivedAt: now, ...proof };
  const bytes = (proof?.signed.length ?? 0) + (proof?.ait.length ?? 0);
  let delivery: DeliveryRecord | null = null;
  const first: Update<StoredReceipt | "disk_full"> = {
    key: KEYS.receipt(recipientAgentDid, requestId, sender, status),
    uncached: true,
    bytes,
    next: (current) => {
      const known = current as StoredReceipt | null;
      const isFirst = known !== null && now < known.receivedAt + keptMs && !isOfEarlier(known.receivedAt, delivery);
      if (isFirst) return { refuse: known };
      // A message may have two signed receipts of 5 KB, so those of one person would otherwise fill the disk in days.
      const room = { reserves: RESERVES_LEFT, more: deps.owners.receiptBytes(ownerDid, keptMs) };
      return proof && !deps.reserve.hasRoom(bytes, room) ? { refuse: "disk_full" } : storedReceipt(stored, keptMs);
    },
  };
  // The delivery is checked first, because after its end a repeated receipt must be refused too.
  const record = deps.senders.of(sender);
  const updates = [timeUpdate(id, record, "receiptAt", now, (found) => delivery = found), first];
  const result = await deps.commits.claim<StoredReceipt | "disk_full" | "unknown">(updates, { live: { record } });
  if (result.taken) {
    deps.metrics.count("receipts_total", status);
    if (proof) deps.owners.addReceipt(ownerDid, bytes, keptMs);
    void deps.forwarder.tellDelivery(id, { state: STATE_OF_RECEIPT[status], at: now, status }, proof?.signed);
    return { requestId, recipientAgentDid, status, ...stored };
  }
  if (result.refused === "unknown") throw new ServiceError("PROXY_RECEIPT_DELIVERY_NOT_FOUND");
  if (result.refused === "disk_full") throw diskRefusal("receipts");
  return { requestId, recipientAgentDid, status, ...result.refused };
}

/** Returns the receipts of the newest messages with a request ID that the reader may see, oldest first. */
export async function listReceipts(
  deps: ReceiptDeps,
  reader: string,
  { requestId, recipientAgentDid }: { requestId: string; recipientAgentDid: string },
): Promise<ReceiptRecord[]> {
  // A read would not see a 202 that waits for its commit, and would show receipts of the message before.
  await deps.commits.flush();
  const prefix = KEYS.receipts(recipientAgentDid, requestId);
  const entries: KvEntryMaybe<StoredReceipt>[] = reader === recipientAgentDid
    ? await Array.fromAsync(deps.kv.list<StoredReceipt>({ prefix }, { limit: RECEIPTS_LISTED_MAX }))
    : await deps.kv.getMany<StoredReceipt[]>(
      RECEIPT_STATUSES.map((status) => KEYS.receipt(recipientAgentDid, requestId, reader, status)),
    );
  const deliveries = await readAll<Uint8Array>(
    deps.kv,
    entries.map(({ key }) => KEYS.delivery(recipientAgentDid, requestId, String(key.at(-2)))),
  );
  const now = deps.clock.now();
  return entries
    .flatMap(({ key, value }, i) =>
      value === null || isOfEarlier(value.receivedAt, unpackDelivery(deliveries[i]?.value, requestId))
        ? []
        : [{ requestId, recipientAgentDid, status: ReceiptStatus.parse(key.at(-1)), ...value }]
    )
    .filter(({ receivedAt }) => now < receivedAt + deps.config.receiptKeptMs)
    .sort((a, b) => a.receivedAt - b.receivedAt);
}

/** Receipts and deliveries that are read at once. With more, one question would keep the store from messages. */
const READ_TOGETHER = 10;

/** Returns the outcomes of a sender's messages, in their order. Messages that are unknown or have none are left out. */
export async function outcomesOf(
  deps: ReceiptDeps,
  sender: string,
  messages: readonly { requestId: string; recipientAgentDid: string }[],
): Promise<{ requestId: string; recipientAgentDid: string; outcome: DeliveryOutcome }[]> {
  await deps.commits.flush();
  const reads = new BatchedReads(deps.kv);
  const found: { requestId: string; recipientAgentDid: string; outcome: DeliveryOutcome }[] = [];
  for (let i = 0; i < messages.length; i += READ_TOGETHER) {
    const some = await Promise.all(
      messages.slice(i, i + READ_TOGETHER).map(async (message) => {
        const outcome = await outcomeOf(deps, reads, sender, message);
        return outcome === null ? [] : [{ ...message, outcome }];
      }),
    );
    found.push(...some.flat());
  }
  return found;
}

async function outcomeOf(
  { clock, config }: ReceiptDeps,
  reads: BatchedReads,
  sender: string,
  { requestId, recipientAgentDid: recipient }: { requestId: string; recipientAgentDid: string },
): Promise<DeliveryOutcome | null> {
  const now = clock.now();
  const [stored, ...receipts] = await Promise.all([
    reads.get<Uint8Array>(KEYS.delivery(recipient, requestId, sender)),
    ...RECEIPT_STATUSES.map((status) => reads.get<StoredReceipt>(KEYS.receipt(recipient, requestId, sender, status))),
  ]);
  const record = unpackDelivery(stored.value, requestId);
  // A dead letter can be replayed and processed later, so with both receipts the first status of the list counts.
  for (const [i, status] of RECEIPT_STATUSES.entries()) {
    const at = receipts[i]?.value?.receivedAt;
    if (at !== undefined && now < at + config.receiptKeptMs && !isOfEarlier(at, record)) {
      return { state: STATE_OF_RECEIPT[status], at, status };
    }
  }
  if (!record?.answer || now >= deliveryEnd(record)) return null;
  const { answer, answeredAt, handedOverAt } = record;
  if (handedOverAt !== undefined) return { state: "delivered", at: handedOverAt };
  return { state: answer.delivered ? "delivered" : answer.queued ? "queued" : "refused", at: answeredAt };
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
    if (senders.size > 1) break;
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

/** Returns those of the recipient's first peers that have a begun delivery of this request ID to it. */
async function peersWhoBegan(kv: Kv, recipient: string, requestId: string): Promise<string[]> {
  const limit = PEERS_READ_MAX;
  const pairs = await Array.fromAsync(kv.list({ prefix: KEYS.pairs(recipient) }, { limit }));
  const records = await readAll(kv, pairs.map(({ key }) => KEYS.sender(String(key.at(-1)))));
  return records.flatMap(begunOf)
    .filter((begun) => begun.requestId === requestId && begun.recipient === recipient)
    .map(({ sender }) => sender);
}
