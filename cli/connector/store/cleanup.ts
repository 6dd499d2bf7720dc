/**
 * Deletes at intervals what the connector keeps no longer, for example the texts of old messages. The retention of each
 * record stands beside its table.
 */
import type { ExpiredMessage } from "./received_messages.ts";
import type { ConnectorStore } from "./store.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";

/** Between deletions of expired records. With more, a message that nothing reads stays unread beyond its seven days. */
export const CLEANUP_EVERY_MS = 10 * 60_000;

/**
 * How long a receipt is tried: as long as the proxy accepts it. For a queued message these 8 days start at the end of
 * its mailbox lifetime, so a connector that does not reach the proxy for 8 days may drop a receipt that the proxy would
 * still accept.
 */
const RECEIPT_KEPT_MS = LIMITS.deliveryKeptSeconds * 1000;

/** Returns the messages that became dead letters because nothing read them. */
export function deleteExpired(
  { received, sent, receipts, tasks, proofs, pairSecrets, historyMs }: ConnectorStore,
  now: number,
): readonly ExpiredMessage[] {
  const expired = received.expireUnread(now);
  received.forget(now, historyMs);
  sent.forget(now, historyMs);
  receipts.forget(now - RECEIPT_KEPT_MS);
  tasks.forget(now);
  proofs.forget(now);
  pairSecrets.forget(now);
  return expired;
}
