// deno-lint-ignore svc/prose -- the stored key family "bell" keeps its name
/**
 * All keys of the proxy in the store. No other file builds one, because its records would be missing in exports, and
 * could fill the store.
 *
 * | key | value | written by | expiry |
 * |---|---|---|---|
 * | sender, agent | packed SenderRecord: window "agent", nonces, begun deliveries | admission, through group commit | 901 s, two windows, or 8 days with a begun delivery |
 * | sender_part, agent, number | 12 packed nonces | admission, through group commit | swept once its nonces have ended |
 * | window, rule, agent | WindowRecord of another window | admission, through group commit | two windows |
 * | delivery, request, recipient, sender | packed DeliveryRecord | deliver, through group commit | swept: 24 h after its receipt, or 8 days after its answer or mailbox lifetime |
 * | receipt, request, recipient, sender, status | when it was recorded, and what its recipient signed | receipts, mailbox, through group commit | swept: RECEIPT_RETENTION_SECONDS |
 * | ticket, digest | TicketRecord | pairing | its expiry + 24 h |
 * | open_tickets, agent | OpenTicket[] | pairing | the longest ticket |
 * | pair, agent, peer | PairRecord | pairing | none: removed with either agent; at most a quota |
 * | pair_count, agent | PairCount | pairing | none: removed with the last pair |
 * | pairs_ended | unix seconds | pair removal | none: one record |
 * | mailbox, recipient, number | MailboxEntry | mailbox, through group commit | its expiry + 8 days |
 * | mailbox_part, recipient, number, part | bytes of a payload | mailbox, through group commit | the same |
 * | mailbox_state, recipient | MailboxState | mailbox, through group commit | that of the newest message |
 * | mailbox_bytes, owner | MailboxBytes | mailbox, through group commit | the same |
 * | mailbox_expiry, time, recipient, number | true | mailbox, through group commit | the same |
 * | presence, agent | Presence | presence | swept: a day after its instance's lease; no expiry in the store |
 * | seen, agent | Seen | presence, in the same commits | 90 days after it was written; removed with the agent |
 * | instance, id | InstanceLease | instance leases | valid while it changes within 12 s, kept a day longer |
 * | inbox, instance, id | StoredInstanceMessage | instance inbox | a minute |
 * | inbox_part, instance, id, part | bytes of a message between instances | instance inbox | a minute |
 * | bell, instance | ID of the newest message between instances, and the message if it has no content | instance inbox | a minute |
 * | crl_seen | CrlSeen | CRL cache | none |
 * | issuer, authority | CrlSeen of another registry | CRL cache | 7 days |
 * | commit_mark, instance, slot, generation | number of the commit | group commit | 1 h |
 * | probe | time of the write, milliseconds since the Unix epoch | health | 1 h |
 *
 * "Swept" families except presence have an expiry in the store that is a week later than their end; the service deletes
 * them. A request ID is the first part of its key, because IDs of the same time are adjacent and one commit then writes
 * fewer pages.
 */
import type { KvKey, KvKeyPart } from "../../shared/server/kv.ts";
import type { ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import { COMMIT_MARK } from "../../shared/server/store/commit_marks.ts";

const key = (...parts: KvKeyPart[]): KvKey => ["proxy", ...parts];

export const KEYS = {
  sender: (agentDid: string) => key("sender", agentDid),
  senderPart: (agentDid: string, number: number) => key("sender_part", agentDid, number),
  allSenders: () => key("sender"),
  allSenderParts: () => key("sender_part"),
  window: (rule: string, agentDid: string) => key("window", rule, agentDid),
  // Written out, because the helper would make two more lists for each message.
  delivery: (recipient: string, requestId: string, sender: string): KvKey => [
    "proxy",
    "delivery",
    requestId,
    recipient,
    sender,
  ],
  deliveriesOf: (requestId: string) => key("delivery", requestId),
  deliveries: (recipient: string, requestId: string) => key("delivery", requestId, recipient),
  receipt: (recipient: string, requestId: string, sender: string, status: ReceiptStatus) =>
    key("receipt", requestId, recipient, sender, status),
  receiptsOf: (requestId: string) => key("receipt", requestId),
  receipts: (recipient: string, requestId: string) => key("receipt", requestId, recipient),
  ticket: (digest: string) => key("ticket", digest),
  openTickets: (agentDid: string) => key("open_tickets", agentDid),
  pair: (agentDid: string, peerDid: string) => key("pair", agentDid, peerDid),
  pairs: (agentDid: string) => key("pair", agentDid),
  pairCount: (agentDid: string) => key("pair_count", agentDid),
  pairCountsOf: (authority: string) => ({
    start: key("pair_count", `did:svc:${authority}:agent:`),
    end: key("pair_count", `did:svc:${authority}:agent;`),
  }),
  pairCountsBefore: (authority: string) => ({
    start: key("pair_count", ""),
    end: key("pair_count", `did:svc:${authority}:agent:`),
  }),
  pairCountsBehind: (authority: string) => ({
    start: key("pair_count", `did:svc:${authority}:agent;`),
    end: key("pair_count", "did:svc;"),
  }),
  pairsEnded: () => key("pairs_ended"),
  mailboxEntry: (recipient: string, number: number) => key("mailbox", recipient, number),
  mailbox: (recipient: string) => key("mailbox", recipient),
  mailboxPart: (recipient: string, number: number, part: number) => key("mailbox_part", recipient, number, part),
  mailboxState: (recipient: string) => key("mailbox_state", recipient),
  mailboxBytes: (ownerDid: string) => key("mailbox_bytes", ownerDid),
  allMailboxBytes: () => key("mailbox_bytes"),
  mailboxStates: () => key("mailbox_state"),
  mailboxExpiry: (expiresAt: number, recipient: string, number: number) =>
    key("mailbox_expiry", expiresAt, recipient, number),
  mailboxExpiredBy: (now: number) => ({ start: key("mailbox_expiry", 0), end: key("mailbox_expiry", now + 1) }),
  mailboxExpiries: () => key("mailbox_expiry"),
  presence: (agentDid: string) => key("presence", agentDid),
  seen: (agentDid: string) => key("seen", agentDid),
  allSeen: () => key("seen"),
  instance: (instance: string) => key("instance", instance),
  instances: () => key("instance"),
  inbox: (instance: string) => key("inbox", instance),
  inboxNote: (instance: string, id: string) => key("inbox", instance, id),
  inboxPart: (instance: string, id: string, part: number) => key("inbox_part", instance, id, part),
  instanceBell: (instance: string) => key("bell", instance),
  crlSeen: () => key("crl_seen"),
  issuer: (authority: string) => key("issuer", authority),
  allDeliveries: () => key("delivery"),
  allReceipts: () => key("receipt"),
  allPresences: () => key("presence"),
  commitMark: (instance: string) => key(COMMIT_MARK, instance),
  probe: () => key("probe"),
} as const;
