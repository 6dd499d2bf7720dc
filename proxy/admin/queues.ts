/** How many messages wait for each recipient (D-173). It names no sender and reads no payload. */
import type { Queue, QueueQuery } from "../../shared/protocol/api/relay_admin.ts";
import { toIso } from "../../shared/protocol/time.ts";
import type { Mailbox } from "../relay/mailbox.ts";
import { KEYS } from "../schema/kv_keys.ts";
import type { MailboxState } from "../schema/records.ts";
import { type DidPage, pageByDid } from "./page_by_did.ts";

/** @throws {StoreUnavailable} */
export function listQueues(
  { kv, mailbox }: { kv: Deno.Kv; mailbox: Pick<Mailbox, "first"> },
  query: QueueQuery,
): Promise<DidPage<Queue>> {
  return pageByDid<MailboxState, Queue>(
    kv,
    KEYS.mailboxStates(),
    query,
    (entries) =>
      Promise.all(entries.map(async ({ key, value: { total, bySender } }) => {
        // The state of an emptied mailbox stays for a while.
        const recipientAgentDid = String(key.at(-1));
        const oldest = total === 0 ? null : await mailbox.first(recipientAgentDid);
        if (oldest === null) return null;
        const senders = Object.keys(bySender).length;
        return { recipientAgentDid, messages: total, senders, oldestExpiresAt: toIso(oldest.expiresAt) };
      })),
  );
}
