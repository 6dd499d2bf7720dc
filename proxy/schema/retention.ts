/** Lifetimes of records of the proxy: of exported ones, and of those that the sweep deletes. */
import type { Kv, KvKey } from "../../shared/server/kv.ts";
import { deliveryEnd, unpackDelivery } from "./delivery_record.ts";
import { MalformedRecord, partEnd, type SenderEntry, senderKeptMs, unpackSender } from "./sender_record.ts";
import { KEYS } from "./kv_keys.ts";
import type { StoredReceipt } from "./receipt_record.ts";
import type { CrlSeen, DeliveryRecord, MailboxEntry, Presence, Seen, TicketRecord } from "./records.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { firstUlidOf } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { SweptFamily } from "../../shared/server/store/expiry_sweeper.ts";
import type { StoredKinds } from "../../shared/server/store/transfer.ts";

const DELIVERY_KEPT_MS = LIMITS.deliveryKeptSeconds * 1000;
/** With less, a record of a mailbox could end before the longest message in it. */
const MAILBOX_KEPT_MS = LIMITS.mailboxTtlMaxSeconds * 1000 + DELIVERY_KEPT_MS;

/**
 * Largest value of RECEIPT_RETENTION_SECONDS. With more, old receipts would fill the store. An import keeps receipts for
 * this long, because it does not know the configuration of the server.
 */
export const RECEIPT_KEPT_SECONDS_MAX = 2_592_000;

/**
 * When each record ends after an import, by key family, as kv_keys.ts states it. Records about running instances are
 * never exported, because the instances do not move with the store.
 */
export const STORED: StoredKinds = {
  // The end of a record depends neither on its sender nor on its request ID, so none is given.
  sender: (value: unknown, now: number) => endOf(() => now + senderKeptMs(unpackSender(value, ""), DAY_MS)),
  sender_part: (value: unknown) => endOf(() => partEnd(value)),
  window: (_: unknown, now: number) => now + DAY_MS,
  delivery: (value: unknown) => endOf(() => deliveryEnd(unpackDelivery(value, "") as DeliveryRecord)),
  receipt: ({ receivedAt }: StoredReceipt) => receivedAt + RECEIPT_KEPT_SECONDS_MAX * 1000,
  ticket: (value: TicketRecord) => value.expiresAt + LIMITS.ticketKeptSeconds * 1000,
  open_tickets: (_: unknown, now: number) => now + LIMITS.ticketTtlMaxSeconds * 1000,
  pair: "forever",
  pair_count: "forever",
  pairs_ended: "forever",
  mailbox: (value: MailboxEntry) => value.expiresAt + DELIVERY_KEPT_MS,
  mailbox_part: (_: unknown, now: number) => now + MAILBOX_KEPT_MS,
  mailbox_state: (_: unknown, now: number) => now + MAILBOX_KEPT_MS,
  mailbox_bytes: (_: unknown, now: number) => now + MAILBOX_KEPT_MS,
  mailbox_expiry: (_: unknown, now: number) => now + MAILBOX_KEPT_MS,
  crl_seen: "forever",
  issuer: ({ iat }: CrlSeen) => iat * 1000 + 7 * DAY_MS,
  presence: "never",
  seen: ({ connectedAt, disconnectedAt }: Seen) => (disconnectedAt ?? connectedAt) + LIMITS.seenKeptSeconds * 1000,
  instance: "never",
  inbox: "never",
  inbox_part: "never",
  bell: "never",
  commit_mark: "never",
  probe: "never",
};

/** Returns the end that `read` finds, or `NaN` for a malformed record, which is not imported. */
function endOf(read: () => number): number {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof MalformedRecord || error instanceof TypeError || error instanceof RangeError)) throw error;
    return NaN;
  }
}

/**
 * The key families that the expiry sweep deletes: families that grow with messages, and presence, whose end depends
 * on another record.
 */
export function sweptFamilies(
  kv: Kv,
  receiptKeptMs: number,
  ownInstance: string,
  settle: (sender: SenderEntry) => Promise<void>,
): readonly SweptFamily[] {
  return [
    {
      prefix: KEYS.allSenders(),
      // Only begun deliveries without an outcome are moved out here. The record itself has an expiry of its own.
      hasEnded: async (entry) => {
        await settle(entry);
        return false;
      },
    },
    {
      prefix: KEYS.allSenderParts(),
      hasEnded: ({ value }, now) => now >= partEnd(value),
    },
    {
      prefix: KEYS.allDeliveries(),
      young: (now) => youngIds(KEYS.deliveriesOf, DAY_MS, now),
      hasEnded: ({ value }, now) => {
        const record = unpackDelivery(value, "");
        return record !== null && now >= deliveryEnd(record);
      },
    },
    {
      prefix: KEYS.allReceipts(),
      young: (now) => youngIds(KEYS.receiptsOf, receiptKeptMs, now),
      hasEnded: ({ value }, now) => now >= (value as StoredReceipt).receivedAt + receiptKeptMs,
    },
    {
      prefix: KEYS.allPresences(),
      // A lease is kept for a day after its end, so a presence whose lease is gone has ended.
      hasEnded: async ({ value }) => {
        const { instance } = value as Presence;
        if (instance === ownInstance) return false;
        return (await kv.get(KEYS.instance(instance))).value === null;
      },
    },
  ];
}

/**
 * Returns keys around the messages of the last `keptMs` milliseconds, by the time in their request IDs. A client that
 * chooses another ID, or whose clock is ahead, only has its records deleted later.
 */
function youngIds(keyOf: (requestId: string) => KvKey, keptMs: number, now: number): { from: KvKey; to: KvKey } {
  return { from: keyOf(firstUlidOf(now - keptMs)), to: keyOf(firstUlidOf(now)) };
}
