/**
 * The mailbox of an offline agent (D-68): queued messages in the store, in order and bounded. Each one stays until it
 * is acknowledged or dead-lettered. All changes are claims of the group commit. mailbox_delivery.ts delivers the
 * messages.
 */
import { storedReceipt } from "../schema/receipt_record.ts";
import type { MailboxEntry, MailboxState, Message } from "../schema/records.ts";
import { queuedReceiptUpdate } from "./deliveries.ts";
import { KEYS } from "../schema/kv_keys.ts";
import { type Clock, DAY_MS, yieldToEventLoop } from "../../shared/clock.ts";
import type { ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import { utf8Bytes } from "../../shared/protocol/base64url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { concatChunks, splitChunks } from "../../shared/server/store/chunks.ts";
import type { Metrics } from "../../shared/server/metrics/metrics.ts";
import type { GroupCommit, Update, Write } from "../../shared/server/store/group_commit.ts";

/** Messages are kept this long after their expiry, so that the sweep can record their receipt. Milliseconds. */
const GRACE_MS = DAY_MS;

interface MailboxDeps {
  kv: Deno.Kv;
  clock: Clock;
  commits: GroupCommit;
  metrics: Metrics;
}

export class Mailbox {
  readonly #kv: Deno.Kv;
  readonly #clock: Clock;
  readonly #commits: GroupCommit;
  readonly #metrics: Metrics;
  readonly #ttlMs: number;
  readonly #receiptKeptMs: number;

  constructor(deps: MailboxDeps, ttlSeconds: number, receiptKeptMs: number) {
    this.#kv = deps.kv;
    this.#clock = deps.clock;
    this.#commits = deps.commits;
    this.#metrics = deps.metrics;
    this.#ttlMs = ttlSeconds * 1000;
    this.#receiptKeptMs = receiptKeptMs;
  }

  /** Returns when a message that is queued now expires, milliseconds since the Unix epoch. */
  expiry(): number {
    return this.#clock.now() + this.#ttlMs;
  }

  /** Returns the update that queues a message. Refuses with `"mailbox_full"`. */
  enqueue(message: Message, expiresAt: number): Update<"mailbox_full"> {
    const { payload, ...rest } = message;
    const { toAgentDid: recipient, fromAgentDid: sender } = message;
    const parts = splitChunks(utf8Bytes(payload));
    const expireInMs = this.#ttlMs + GRACE_MS;
    return {
      key: KEYS.mailboxState(recipient),
      bytes: parts.reduce((sum, part) => sum + part.length, 0),
      next(current) {
        const state = (current as MailboxState | null) ?? { next: 1, total: 0, bySender: {} };
        const ofSender = state.bySender[sender] ?? 0;
        if (state.total >= LIMITS.mailboxPerRecipient || ofSender >= LIMITS.mailboxPerSender) {
          return { refuse: "mailbox_full" };
        }
        const number = state.next;
        const entry: MailboxEntry = { number, message: rest, parts: parts.length, expiresAt, nacks: 0, notBefore: 0 };
        const also: Write[] = [
          { key: KEYS.mailboxEntry(recipient, number), value: entry, expireInMs },
          { key: KEYS.mailboxExpiry(expiresAt, recipient, number), value: true, expireInMs },
          ...parts.map((value, i) => ({ key: KEYS.mailboxPart(recipient, number, i), value, expireInMs })),
        ];
        const value: MailboxState = {
          next: number + 1,
          total: state.total + 1,
          bySender: { ...state.bySender, [sender]: ofSender + 1 },
        };
        return { value, expireInMs: expireInMs * 2, also };
      },
    };
  }

  /**
   * Returns the oldest message of a recipient, or `null`.
   *
   * @throws {StoreUnavailable}
   */
  async first(recipient: string): Promise<MailboxEntry | null> {
    const entries = this.#kv.list<MailboxEntry>({ prefix: KEYS.mailbox(recipient) }, { limit: 1 });
    const { value } = await entries.next();
    return value?.value ?? null;
  }

  /**
   * Returns a queued message with its payload, or `null` when it was removed.
   *
   * @throws {StoreUnavailable}
   */
  async load(entry: MailboxEntry): Promise<Message | null> {
    const { toAgentDid: recipient } = entry.message;
    const parts: Uint8Array[] = [];
    for (let i = 0; i < entry.parts; i++) {
      const { value } = await this.#kv.get<Uint8Array>(KEYS.mailboxPart(recipient, entry.number, i));
      if (value === null) return null;
      parts.push(value);
    }
    return { ...entry.message, payload: new TextDecoder().decode(concatChunks(parts)) };
  }

  /**
   * Removes an acknowledged message. Idempotent.
   *
   * @throws {StoreUnavailable}
   */
  async remove(entry: MailboxEntry): Promise<void> {
    await this.#commits.claim(this.#removal(entry));
  }

  /**
   * Removes a message that cannot be delivered and records its `dead_lettered` receipt. Idempotent.
   *
   * @throws {StoreUnavailable}
   */
  async deadLetter(entry: MailboxEntry): Promise<void> {
    const status: ReceiptStatus = "dead_lettered";
    const { toAgentDid: recipientAgentDid, fromAgentDid: senderAgentDid, requestId } = entry.message;
    const receivedAt = this.#clock.now();
    const receipt: Update<never> = {
      key: KEYS.receipt(recipientAgentDid, requestId, senderAgentDid, status),
      uncached: true,
      next: (current) => current === null ? storedReceipt(receivedAt, this.#receiptKeptMs) : "keep",
    };
    const id = { sender: senderAgentDid, recipient: recipientAgentDid, requestId };
    const { taken } = await this.#commits.claim([
      ...this.#removal(entry),
      receipt,
      queuedReceiptUpdate(id, receivedAt),
    ]);
    if (!taken) return;
    this.#metrics.count("receipts_total", status);
    this.#metrics.count("relay_handovers_total", "dead");
  }

  /**
   * Records a refusal by the connector. Returns the changed entry.
   *
   * @throws {StoreUnavailable}
   */
  async noteNack(entry: MailboxEntry): Promise<MailboxEntry> {
    const wait = Math.min(LIMITS.mailboxRetryMs * 2 ** entry.nacks, LIMITS.mailboxRetryMaxMs);
    const noted = { ...entry, nacks: entry.nacks + 1, notBefore: this.#clock.now() + wait };
    const expireInMs = Math.max(1, entry.expiresAt - this.#clock.now()) + GRACE_MS;
    await this.#commits.claim([{
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
    for await (const { key } of this.#kv.list(KEYS.mailboxExpiredBy(this.#clock.now()))) {
      const [recipient, number] = [String(key.at(-2)), Number(key.at(-1))];
      const { value } = await this.#kv.get<MailboxEntry>(KEYS.mailboxEntry(recipient, number));
      if (value) yield value;
    }
  }

  /**
   * Counts the queued messages of all recipients for the gauges (D-176), in parts with a turn between them. Returns the
   * milliseconds that it took.
   *
   * @throws {StoreUnavailable}
   */
  async measure(): Promise<number> {
    const began = this.#clock.now();
    let messages = 0, recipients = 0, read = 0;
    for await (const { value } of this.#kv.list<MailboxState>({ prefix: KEYS.mailboxStates() })) {
      messages += value.total;
      if (value.total > 0) recipients++;
      if (++read % LIMITS.mailboxCountedTogether === 0) await yieldToEventLoop();
    }
    const first = await this.#kv.list({ prefix: KEYS.mailboxExpiries() }, { limit: 1 }).next();
    const expiresAt = first.done ? null : Number(first.value.key[2]);
    const now = this.#clock.now();
    this.#metrics.set("mailbox_messages", messages);
    this.#metrics.set("mailbox_recipients", recipients);
    const age = expiresAt === null || messages === 0 ? 0 : Math.max(0, now - (expiresAt - this.#ttlMs));
    this.#metrics.set("mailbox_oldest_seconds", age / 1000);
    return now - began;
  }

  #removal(entry: MailboxEntry): Update<"gone">[] {
    const { number, parts, expiresAt } = entry;
    const { toAgentDid: recipient, fromAgentDid: sender } = entry.message;
    const expireInMs = (this.#ttlMs + GRACE_MS) * 2;
    const also: Write[] = [
      { key: KEYS.mailboxExpiry(expiresAt, recipient, number), delete: true },
      ...Array.from(
        { length: parts },
        (_, i) => ({ key: KEYS.mailboxPart(recipient, number, i), delete: true as const }),
      ),
    ];
    return [{
      key: KEYS.mailboxEntry(recipient, number),
      next: (current) => current === null ? { refuse: "gone" } : { delete: true, also },
    }, {
      key: KEYS.mailboxState(recipient),
      next(current) {
        if (current === null) return "keep";
        const state = current as MailboxState;
        const { [sender]: ofSender = 1, ...others } = state.bySender;
        const bySender = ofSender > 1 ? { ...others, [sender]: ofSender - 1 } : others;
        return { value: { ...state, total: Math.max(0, state.total - 1), bySender }, expireInMs };
      },
    }];
  }
}
