/**
 * The mailbox of an offline agent (D-68): queued messages in the store, in order and bounded. Each one stays until it
 * is acknowledged or dead-lettered. All changes are claims of the group commit. mailbox_delivery.ts delivers the
 * messages.
 */
import type { ProxyConfig } from "../config.ts";
import type { KvKey } from "../../shared/server/kv.ts";
import { isOfEarlier, type StoredReceipt, storedReceipt } from "../schema/receipt_record.ts";
import type { DeliveryRecord, MailboxBytes, MailboxEntry, MailboxState, Message } from "../schema/records.ts";
import { type DeliveryOutcome, timeUpdate } from "../message/deliveries.ts";
import { type DeliveryId, deliveryIdOf } from "../message/delivery.ts";
import { payerOf } from "../federation/visitors.ts";
import { joinMessage, splitMessage } from "./message_content.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { joinedBytes } from "../../shared/protocol/base64url.ts";
import type { ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { digest } from "../../shared/server/crypto.ts";
import { splitChunks } from "../../shared/server/store/stored_bytes.ts";
import type { Update, Write } from "../../shared/server/store/batch.ts";
import type { GroupCommit } from "../../shared/server/store/group_commit.ts";
import { visitAll } from "../../shared/server/store/shared_count.ts";
import type { StoreReserve } from "../../shared/server/store/store_reserve.ts";
import type { ServiceDeps } from "../../shared/server/http/app.ts";

/** Why a message is not queued. */
export type MailboxRefusal = "mailbox_full" | "recipient_full" | "sender_full" | "disk_full";

/**
 * Messages of one payer to a recipient of another owner. With more, one person with five agents could fill the mailbox,
 * and the messages of all others to this recipient would be refused.
 */
const PER_PAYER = LIMITS.mailboxPerRecipient / 2;
/** Bytes of a queued message beside its content. Without them, empty messages would cost their owner nothing. */
const RECORDS_BYTES = 2_048;

/**
 * How long records are kept after the expiry of a message, milliseconds. This is as long as for a delivery, because
 * days may pass without a sweep, and the message would otherwise end without a receipt and still count as waiting.
 */
const GRACE_MS = LIMITS.deliveryKeptSeconds * 1000;

/** Returns the milliseconds to wait after a failed hand-over. `failures` is the number of failures before it. */
export function retryWait(failures: number): number {
  return Math.min(LIMITS.mailboxRetryMs * 2 ** failures, LIMITS.mailboxRetryMaxMs);
}

interface MailboxDeps extends Pick<ServiceDeps, "kv" | "clock" | "metrics"> {
  commits: GroupCommit;
  reserve: StoreReserve;
  config: Pick<ProxyConfig, "mailboxTtlSeconds" | "mailboxOwnerBytes" | "receiptKeptMs" | "registryUrl">;
}

/** The queued messages of all recipients together. */
export interface MailboxCounts {
  messages: number;
  recipients: number;
  /** When the oldest message was queued, milliseconds since the Unix epoch; `null` without one. */
  oldestAt: number | null;
  /** Largest used share of a bound: of the messages to a recipient, of one sender's to it, or of an owner's bytes. */
  fullest: number;
}

function partKeys({ message, number, parts }: MailboxEntry): KvKey[] {
  return Array.from({ length: parts }, (_, i) => KEYS.mailboxPart(message.toAgentDid, number, i));
}

function withoutOne(counts: Record<string, number>, name: string): Record<string, number> {
  const { [name]: count = 1, ...others } = counts;
  return count > 1 ? { ...others, [name]: count - 1 } : others;
}

export class Mailbox {
  /** Called when a queued message has been handed over or dead-lettered. */
  onOutcome: (id: DeliveryId, outcome: DeliveryOutcome) => void = () => {};

  /** How long a message waits, and how long its records are kept, milliseconds. */
  readonly #ttlMs: number;
  readonly #keptMs: number;

  constructor(private readonly deps: MailboxDeps) {
    this.#ttlMs = deps.config.mailboxTtlSeconds * 1000;
    this.#keptMs = this.#ttlMs + GRACE_MS;
  }

  /** Returns when a message that is queued now expires, milliseconds since the Unix epoch. */
  expiry(): number {
    return this.deps.clock.now() + this.#ttlMs;
  }

  /** Returns the updates that queue a message for an agent of `recipientOwnerDid`, or refuse it. */
  enqueue(message: Message, recipientOwnerDid: string, expiresAt: number): Update<MailboxRefusal>[] {
    const { envelope, content } = splitMessage(message);
    const { toAgentDid: recipient } = message;
    const parts = splitChunks(content);
    const bytes = content.length + RECORDS_BYTES;
    const expireInMs = this.#keptMs;
    const payerName = payerOf(message.identity, this.deps.config.registryUrl), isOwn = payerName === recipientOwnerDid;
    const sender = digest(message.fromAgentDid), payer = digest(payerName);
    const owners = this.#countBytes({ message, recipientOwnerDid, bytes }, 1);
    return [{
      key: KEYS.mailboxState(recipient),
      bytes: content.length,
      next: (current) => {
        const state = (current as MailboxState | null) ?? { next: 1, total: 0, bySender: {}, byPayer: {} };
        const ofSender = state.bySender[sender] ?? 0;
        const ofPayer = state.byPayer[payer] ?? 0, isOver = ofPayer >= PER_PAYER && !isOwn;
        if (state.total >= LIMITS.mailboxPerRecipient || ofSender >= LIMITS.mailboxPerSender || isOver) {
          return { refuse: "mailbox_full" };
        }
        if (!this.deps.reserve.hasRoom(bytes)) return { refuse: "disk_full" };
        const number = state.next;
        const entry: MailboxEntry = {
          number,
          message: envelope,
          parts: parts.length,
          bytes,
          recipientOwnerDid,
          expiresAt,
          nacks: 0,
          finalNacks: 0,
          notBefore: 0,
        };
        const also: Write[] = [
          { key: KEYS.mailboxEntry(recipient, number), value: entry, expireInMs },
          { key: KEYS.mailboxExpiry(expiresAt, recipient, number), value: true, expireInMs },
          ...parts.map((value, i) => ({ key: KEYS.mailboxPart(recipient, number, i), value, expireInMs })),
        ];
        const value: MailboxState = {
          next: number + 1,
          total: state.total + 1,
          bySender: { ...state.bySender, [sender]: ofSender + 1 },
          byPayer: { ...state.byPayer, [payer]: ofPayer + 1 },
        };
        return { value, expireInMs, also };
      },
    }, ...owners];
  }

  /**
   * Returns the updates that add a queued message to the bytes of both owners, or take it away (`sign` -1). A message of
   * another server counts only for its recipient's owner, because one person there could otherwise use up what all people
   * of that server have, and the owner here has let the sender in.
   */
  #countBytes(
    { message, recipientOwnerDid, bytes }: Pick<MailboxEntry, "message" | "recipientOwnerDid" | "bytes">,
    sign: 1 | -1,
  ): Update<MailboxRefusal>[] {
    const { registryUrl, mailboxOwnerBytes } = this.deps.config;
    const { issuer, ownerDid: senderOwnerDid } = message.identity, expireInMs = this.#keptMs;
    const owners = issuer === registryUrl ? [recipientOwnerDid, senderOwnerDid] : [recipientOwnerDid];
    return [...new Set(owners)].map((ownerDid) => ({
      key: KEYS.mailboxBytes(ownerDid),
      next: (current) => {
        const { received, sent } = current as MailboxBytes | null ?? { received: 0, sent: 0 };
        const value = {
          received: Math.max(0, received + (ownerDid === recipientOwnerDid ? sign * bytes : 0)),
          sent: Math.max(0, sent + (ownerDid === senderOwnerDid ? sign * bytes : 0)),
        };
        if (sign > 0 && value.received > Math.max(received, mailboxOwnerBytes)) return { refuse: "recipient_full" };
        if (sign > 0 && value.sent > Math.max(sent, mailboxOwnerBytes)) return { refuse: "sender_full" };
        return value.received + value.sent === 0 ? { delete: true } : { value, expireInMs };
      },
    }));
  }

  /**
   * Returns the messages of a recipient with a higher number than `number`, oldest first; all of them with 0.
   *
   * @throws {StoreUnavailable}
   */
  async after(recipient: string, number: number, limit: number = LIMITS.mailboxPerRecipient): Promise<MailboxEntry[]> {
    const start = KEYS.mailboxEntry(recipient, number + 1);
    const entries = this.deps.kv.list<MailboxEntry>({ prefix: KEYS.mailbox(recipient), start }, { limit });
    return (await Array.fromAsync(entries)).map(({ value }) => value);
  }

  /**
   * Returns a queued message with its payload, or `null` when it was removed.
   *
   * @throws {StoreUnavailable}
   */
  async load(entry: MailboxEntry): Promise<Message | null> {
    const parts: Uint8Array[] = [];
    for (const key of partKeys(entry)) {
      const { value } = await this.deps.kv.get<Uint8Array>(key);
      if (value === null) return null;
      parts.push(value);
    }
    return joinMessage(entry.message, joinedBytes(parts));
  }

  /**
   * Removes an acknowledged message, and records when it was handed over. Idempotent.
   *
   * @throws {StoreUnavailable}
   */
  async remove(entry: MailboxEntry): Promise<void> {
    const at = this.deps.clock.now();
    const handedOver = timeUpdate(deliveryIdOf(entry.message), null, "handedOverAt", at);
    const { taken } = await this.deps.commits.claim([...this.#removal(entry), handedOver]);
    if (taken) this.onOutcome(deliveryIdOf(entry.message), { state: "delivered", at });
  }

  /**
   * Removes a message that cannot be delivered and records its `dead_lettered` receipt. Idempotent.
   *
   * @throws {StoreUnavailable}
   */
  async deadLetter(entry: MailboxEntry): Promise<void> {
    const status: ReceiptStatus = "dead_lettered";
    const { toAgentDid: recipientAgentDid, fromAgentDid: senderAgentDid, requestId } = entry.message;
    const receivedAt = this.deps.clock.now();
    const receipt: Update<never> = {
      key: KEYS.receipt(recipientAgentDid, requestId, senderAgentDid, status),
      uncached: true,
      next: (current) => {
        const known = current as StoredReceipt | null;
        if (known !== null && !isOfEarlier(known.receivedAt, delivery)) return "keep";
        return storedReceipt({ receivedAt }, this.deps.config.receiptKeptMs);
      },
    };
    let delivery: DeliveryRecord | null = null;
    const { taken } = await this.deps.commits.claim([
      ...this.#removal(entry),
      timeUpdate(deliveryIdOf(entry.message), null, "receiptAt", receivedAt, (found) => delivery = found),
      receipt,
    ]);
    if (!taken) return;
    this.onOutcome(deliveryIdOf(entry.message), { state: "dead_lettered", at: receivedAt, status });
    this.deps.metrics.count("receipts_total", status);
    this.deps.metrics.count("relay_handovers_total", "dead");
  }

  /**
   * Dead-letters what one agent has queued for another.
   *
   * @throws {StoreUnavailable}
   */
  async deadLetterFrom(sender: string, recipient: string): Promise<void> {
    const entries = (await this.after(recipient, 0)).filter(({ message }) => message.fromAgentDid === sender);
    await Promise.all(entries.map((entry) => this.deadLetter(entry)));
  }

  /**
   * Records a refusal by the connector. Returns the changed entry.
   *
   * @param isTemporary true for a refusal that passes by itself, which does not count towards a dead letter
   * @throws {StoreUnavailable}
   */
  async noteNack(entry: MailboxEntry, isTemporary: boolean): Promise<MailboxEntry> {
    const noted: MailboxEntry = {
      ...entry,
      nacks: entry.nacks + 1,
      finalNacks: entry.finalNacks + (isTemporary ? 0 : 1),
      notBefore: this.deps.clock.now() + retryWait(entry.nacks),
    };
    const expireInMs = Math.max(1, entry.expiresAt - this.deps.clock.now()) + GRACE_MS;
    await this.deps.commits.claim([{
      key: KEYS.mailboxEntry(entry.message.toAgentDid, entry.number),
      next: (current) => current === null ? "keep" : { value: noted, expireInMs },
    }]);
    return noted;
  }

  /**
   * Yields the expired messages of all recipients.
   *
   * @throws {StoreUnavailable}
   */
  async *expired(): AsyncGenerator<MailboxEntry> {
    for await (const { key } of this.deps.kv.list(KEYS.mailboxExpiredBy(this.deps.clock.now()))) {
      const [recipient, number] = [String(key.at(-2)), Number(key.at(-1))];
      const { value } = await this.deps.kv.get<MailboxEntry>(KEYS.mailboxEntry(recipient, number));
      if (value) yield value;
    }
  }

  /**
   * Counts the queued messages of all recipients.
   *
   * @throws {StoreUnavailable}
   */
  async count(): Promise<MailboxCounts & { areAll: boolean }> {
    const { kv, config } = this.deps;
    let messages = 0, recipients = 0, fullest = 0, bytes = 0;
    const areQueues = await visitAll<MailboxState>(kv, KEYS.mailboxStates(), ({ value: { total, bySender } }) => {
      messages += total;
      if (total > 0) recipients++;
      fullest = Math.max(fullest, total / LIMITS.mailboxPerRecipient);
      for (const ofSender of Object.values(bySender)) fullest = Math.max(fullest, ofSender / LIMITS.mailboxPerSender);
    });
    const areBytes = await visitAll<MailboxBytes>(kv, KEYS.allMailboxBytes(), ({ value: { received, sent } }) => {
      bytes = Math.max(bytes, received, sent);
    });
    const first = await kv.list({ prefix: KEYS.mailboxExpiries() }, { limit: 1 }).next();
    const oldestAt = first.done || messages === 0 ? null : Number(first.value.key[2]) - this.#ttlMs;
    fullest = Math.max(fullest, bytes / config.mailboxOwnerBytes);
    return { messages, recipients, oldestAt, fullest, areAll: areQueues && areBytes };
  }

  #removal(entry: MailboxEntry): Update<"gone" | MailboxRefusal>[] {
    const { number, expiresAt } = entry;
    const { toAgentDid: recipient, fromAgentDid, identity } = entry.message, expireInMs = this.#keptMs;
    const sender = digest(fromAgentDid), payer = digest(payerOf(identity, this.deps.config.registryUrl));
    const also: Write[] = [
      { key: KEYS.mailboxExpiry(expiresAt, recipient, number), delete: true },
      ...partKeys(entry).map((key) => ({ key, delete: true as const })),
    ];
    return [{
      key: KEYS.mailboxEntry(recipient, number),
      next: (current) => current === null ? { refuse: "gone" } : { delete: true, also },
    }, {
      key: KEYS.mailboxState(recipient),
      next(current) {
        if (current === null) return "keep";
        const state = current as MailboxState;
        const bySender = withoutOne(state.bySender, sender), byPayer = withoutOne(state.byPayer, payer);
        return { value: { ...state, total: Math.max(0, state.total - 1), bySender, byPayer }, expireInMs };
      },
    }, ...this.#countBytes(entry, -1)];
  }
}
