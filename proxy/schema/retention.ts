/** Lifetimes of exported records of the proxy. */
import { receivedAtOf } from "./receipt_record.ts";
import { deliveryEnd, unpackDelivery } from "./delivery_record.ts";
import {
  MalformedRecord,
  partEnd,
  senderKeptMs,
  type SenderRecord,
  unpackBegun,
  unpackSender,
} from "./sender_record.ts";
import type { DeliveryRecord, MailboxEntry, Seen, TicketRecord } from "./records.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { StoredKinds } from "../../shared/server/store/transfer.ts";

/**
 * The end of each record after an import, by key family: the expiry in kv_keys.ts. Records about running instances are
 * never exported.
 */
export const STORED: StoredKinds = {
  sender: (value: unknown, now: number) => endOf(() => now + senderKeptMs(checkedSender(value), DAY_MS)),
  sender_part: (value: unknown) => endOf(() => partEnd(value)),
  window: (_: unknown, now: number) => now + DAY_MS,
  // The request ID does not change when a record ends.
  delivery: (value: unknown) => deliveryEnd(unpackDelivery(value, "") as DeliveryRecord),
  receipt: (value: unknown) => receivedAtOf(value) + LIMITS.receiptKeptSeconds * 1000,
  ticket: (value: TicketRecord) => value.expiresAt + LIMITS.ticketKeptSeconds * 1000,
  open_tickets: (_: unknown, now: number) => now + LIMITS.ticketTtlMaxSeconds * 1000,
  pair: "forever",
  // A missing count is computed from the pairs.
  pair_count: "never",
  pairs_ended: "forever",
  mailbox: (value: MailboxEntry) => value.expiresAt + DAY_MS,
  mailbox_part: (_: unknown, now: number) => now + 9 * DAY_MS,
  mailbox_state: (_: unknown, now: number) => now + 9 * DAY_MS,
  mailbox_expiry: (_: unknown, now: number) => now + 9 * DAY_MS,
  crl_seen: "forever",
  presence: "never",
  seen: ({ connectedAt, disconnectedAt }: Seen) => (disconnectedAt ?? connectedAt) + LIMITS.seenKeptSeconds * 1000,
  instance: "never",
  inbox: "never",
  inbox_part: "never",
  bell: "never",
  sweep: "never",
  commit_mark: "never",
  probe: "never",
};

/** @throws {MalformedRecord} also for the begun deliveries */
function checkedSender(value: unknown): SenderRecord {
  const record = unpackSender(value);
  unpackBegun(record.begun);
  return record;
}

/** Returns the end that `read` finds, or `NaN` for a malformed record, which is not imported. */
function endOf(read: () => number): number {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof MalformedRecord)) throw error;
    return NaN;
  }
}
