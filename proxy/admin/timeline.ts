/**
 * The timeline of a message, made from the records that exist: delivery, sender, mailbox entry and receipts. It has no
 * record of its own, because each message would then cost a write. It reads no payload.
 */
import type { DeliveryTimeline } from "../../shared/protocol/api/relay_admin.ts";
import { RECEIPT_STATUSES, type ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import { toIso } from "../../shared/protocol/time.ts";
import { withoutSecrets } from "../../shared/redaction.ts";
import type { GroupCommit } from "../../shared/server/store/group_commit.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";
import { deliveryEnd, unpackDelivery } from "../schema/delivery_record.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { isOfEarlier, type StoredReceipt } from "../schema/receipt_record.ts";
import type { DeliveryRecord, MailboxEntry } from "../schema/records.ts";
import { begunOf } from "../schema/sender_record.ts";
import { STATE_OF_RECEIPT } from "../receipts/store.ts";
import { recordOf } from "../message/delivery.ts";
import type { Mailbox } from "../relay/mailbox.ts";

/** Most deliveries of an answer. Without a bound, many senders with one request ID would make it too long. */
const DELIVERIES_LISTED_MAX = 50;
/** Most records of senders that are searched. With more, one question of an admin takes the time of many messages. */
const SENDERS_READ_MAX = 1_000;

interface TimelineDeps extends Pick<ServiceDeps, "kv" | "clock"> {
  commits: Pick<GroupCommit, "flush">;
  config: { receiptKeptMs: number };
  mailbox: Pick<Mailbox, "after">;
}

type Event = DeliveryTimeline["events"][number];

/** The records of one delivery. */
interface Found {
  sender: string;
  recipient: string;
  delivery: DeliveryRecord | null;
  receipts: { status: ReceiptStatus; at: number }[];
}

const READ_TOGETHER = 200;

/**
 * Returns the timelines of the deliveries with a request ID.
 *
 * @throws {StoreUnavailable}
 */
export async function timelinesOf(deps: TimelineDeps, requestId: string): Promise<DeliveryTimeline[]> {
  const lines = new Map<string, Promise<MailboxEntry[]>>();
  const lineOf = (recipient: string) => lines.getOrInsertComputed(recipient, () => deps.mailbox.after(recipient, 0));
  const timelines: DeliveryTimeline[] = [];
  for (const found of await recordsOf(deps, requestId)) {
    const events = [...eventsOf(found), ...await waitingEvent(deps, found, requestId, lineOf)];
    const last = events.at(-1);
    if (last === undefined) continue;
    timelines.push({
      senderAgentDid: found.sender,
      recipientAgentDid: found.recipient,
      state: last.event,
      events,
    });
  }
  return timelines;
}

/** Returns the unexpired deliveries and receipts of a request ID, together for each recipient and sender. */
async function recordsOf({ kv, clock, commits, config }: TimelineDeps, requestId: string): Promise<Found[]> {
  await commits.flush();
  const now = clock.now();
  const all = new Map<string, Found>();
  const foundOf = (recipient: string, sender: string): Found =>
    all.getOrInsert(`${recipient} ${sender}`, { sender, recipient, delivery: null, receipts: [] });
  const limit = DELIVERIES_LISTED_MAX;
  for await (const { key, value } of kv.list({ prefix: KEYS.deliveriesOf(requestId) }, { limit })) {
    const delivery = unpackDelivery(value, requestId);
    if (delivery === null || now >= deliveryEnd(delivery)) continue;
    foundOf(String(key.at(-2)), String(key.at(-1))).delivery = delivery;
  }
  // A delivery that has begun is in the record of its sender. It is not known which sender that is, so the records of
  // senders are searched, up to a bound.
  const senders = kv.list({ prefix: KEYS.allSenders() }, {
    limit: SENDERS_READ_MAX,
    batchSize: READ_TOGETHER,
  });
  for await (const sender of senders) {
    for (const begun of begunOf(sender)) {
      if (begun.requestId === requestId) foundOf(begun.recipient, begun.sender).delivery ??= recordOf(begun);
    }
  }
  const most = { limit: limit * RECEIPT_STATUSES.length };
  for await (
    const { key, value: { receivedAt: at } } of kv.list<StoredReceipt>({ prefix: KEYS.receiptsOf(requestId) }, most)
  ) {
    const status = RECEIPT_STATUSES.find((known) => known === key.at(-1));
    if (status === undefined || now >= at + config.receiptKeptMs) continue;
    const { receipts, delivery } = foundOf(String(key.at(-3)), String(key.at(-2)));
    if (!isOfEarlier(at, delivery)) receipts.push({ status, at });
  }
  return [...all.values()].slice(0, limit);
}

/** Returns the events of a delivery and its receipts, oldest first. */
function eventsOf({ delivery, receipts }: Found): Event[] {
  const events: Event[] = [];
  if (delivery) events.push({ at: toIso(delivery.startedAt), event: "began" });
  if (delivery?.answer) {
    const { queued, delivered, reason, expiresAt } = delivery.answer;
    const at = toIso(delivery.answeredAt);
    if (queued) events.push({ at, event: "queued", detail: `until ${expiresAt}` });
    else if (delivered) events.push({ at, event: "acked" });
    else events.push({ at, event: "refused_by_connector", ...(reason ? { detail: withoutSecrets(reason) } : {}) });
  }
  if (delivery?.handedOverAt !== undefined) events.push({ at: toIso(delivery.handedOverAt), event: "handed_over" });
  for (const { status, at } of receipts.sort((a, b) => a.at - b.at)) {
    events.push({ at: toIso(at), event: STATE_OF_RECEIPT[status] });
  }
  return events;
}

/** Returns one event, at the present time, for a message that still waits in the mailbox; else an empty list. */
async function waitingEvent(
  { clock }: TimelineDeps,
  { delivery, receipts, sender, recipient }: Found,
  requestId: string,
  lineOf: (recipient: string) => Promise<MailboxEntry[]>,
): Promise<Event[]> {
  if (!delivery?.answer?.queued || receipts.length > 0) return [];
  const line = await lineOf(recipient);
  const place = line.findIndex(({ message }) => message.requestId === requestId && message.fromAgentDid === sender);
  const entry = line[place];
  if (!entry) return [];
  const { nacks, notBefore } = entry;
  const next = notBefore > 0 ? `, not before ${toIso(notBefore)}` : "";
  return [{ at: toIso(clock.now()), event: "waiting", detail: `place ${place + 1}, refusals ${nacks}${next}` }];
}
