/**
 * The stored messages (D-88): on disk before they are acknowledged, remembered for 24 h after they ended, and kept as dead
 * letters when they could not be delivered. On a pull platform a message is unread until the agent takes it (D-116). A
 * message and its receipt change in one transaction.
 */
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { isTaskId } from "./asked_tasks.ts";
import type { Cell, Database, Row } from "./database.ts";
import { laneOf, type QueuedMessage, type Tries } from "./delivery_rules.ts";
import { InboxBounds, type InboxCounts } from "./inbox_bounds.ts";
import {
  type DeadLetter,
  type InboxMessage,
  MESSAGE_COLUMNS,
  QUEUE_COLUMNS,
  type StoredMessage,
  toDeadLetter,
  toMessage,
  toQueued,
  toStored,
  withinBytes,
} from "./inbox_rows.ts";
import { Outbox } from "./outbox.ts";
import { type NewSentMessage, type SentMessage, SentMessages } from "./sent_messages.ts";

/** The result of storing a message. */
export type StoreResult = { taken: "stored"; waiting: QueuedMessage } | { taken: "known" } | { taken: "full" };

/** Which messages to list: all conditions must hold. */
export interface InboxFilter {
  /** True: unread messages. False: those that the agent has taken. */
  unread: boolean;
  /** Only messages of one of these senders. */
  fromDids?: readonly string[] | undefined;
  conversationId?: string | undefined;
  /** Only messages with a higher `seq`. */
  after?: number | undefined;
  /** True: the newest that match, in place of the oldest. */
  newest?: boolean;
  limit: number;
}

type NewMessage = Pick<
  DeliverFrame,
  "fromAgentDid" | "requestId" | "toAgentDid" | "identity" | "conversationId" | "inReplyTo" | "auto" | "payload"
>;

interface InboxOptions {
  outbox?: Outbox;
  sent?: SentMessages;
  /** `pull`: the agent reads its messages; there is no runtime to hand them to. */
  delivery?: "push" | "pull";
}

/** Why an unread message becomes a dead letter. */
export const NOT_READ = `not read within ${LIMIT.unreadKeptMs / 86_400_000} days`;

/** The messages of a push platform that the agent may take: those that wait for a caller, not for the runtime. */
const HELD = "aside = 1 AND attempts = 0 AND next_at > ?";

export class Inbox {
  readonly #db: Database;
  readonly #outbox: Outbox;
  readonly #sent: SentMessages;
  readonly delivery: "push" | "pull";
  readonly #bounds: InboxBounds;
  /** Called for each message that is stored or unread again, after it is on disk. */
  onStored: (message: StoredMessage) => void = () => {};
  /** Called when a receipt is due. */
  onEnded: () => void = () => {};
  /** On a push platform: until when a reply waits for a caller instead of going to the runtime (D-117); 0: not at all. */
  heldUntil: (message: Omit<StoredMessage, "seq">, now: number) => number = () => 0;
  /** Whether a reply is the result of an A2A client's task: then it is taken as soon as it is stored (D-135). */
  isClaimed: (message: Omit<StoredMessage, "seq">) => boolean = () => false;

  constructor(db: Database, options: InboxOptions = {}) {
    this.#db = db;
    this.#outbox = options.outbox ?? new Outbox(db);
    this.#sent = options.sent ?? new SentMessages(db);
    this.delivery = options.delivery ?? "push";
    this.#bounds = new InboxBounds(db, this.delivery === "pull");
  }

  /** Stores messages in one transaction. They are on disk when this returns. */
  take(messages: readonly NewMessage[], now: number): StoreResult[] {
    const stored: StoredMessage[] = [];
    const answered: SentMessage[] = [];
    let results: StoreResult[];
    try {
      results = this.#db.transaction(() => messages.map((message) => this.#takeOne(message, now, stored, answered)));
    } catch (error) {
      this.#bounds.recount();
      throw error;
    }
    for (const message of answered) this.#sent.onChanged(message);
    for (const message of stored) this.onStored(message);
    return results;
  }

  #takeOne(message: NewMessage, now: number, stored: StoredMessage[], answered: SentMessage[]): StoreResult {
    const { fromAgentDid: fromDid, requestId, payload } = message;
    const conversationId = message.conversationId ?? null, inReplyTo = message.inReplyTo ?? null;
    const same = "from_did = ? AND request_id = ?";
    const known = this.#db.get(`SELECT state, ended_at FROM messages WHERE ${same}`, fromDid, requestId);
    if (known !== null) {
      // After 24 h the same ID is a new message (D-69).
      const isOver = known.ended_at !== null && now - Number(known.ended_at) >= LIMIT.seenKeptMs;
      if (!isOver) return { taken: "known" };
      this.#bounds.recount();
      this.#db.run(`DELETE FROM messages WHERE ${same}`, fromDid, requestId);
    }
    const bytes = utf8Bytes(payload).length;
    if (!this.#bounds.makeRoom(fromDid, bytes)) return { taken: "full" };
    const about = { fromDid, conversationId, inReplyTo };
    const heldUntil = this.delivery === "push" && inReplyTo !== null ? this.heldUntil(about, now) : 0;
    const row = this.#db.get(
      `INSERT INTO messages (from_did, request_id, to_did, identity, conversation_id, in_reply_to, auto, payload, bytes,
       received_at, next_at, aside, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting') RETURNING seq`,
      ...[fromDid, requestId, message.toAgentDid, JSON.stringify(message.identity), conversationId, inReplyTo],
      ...[message.auto ? 1 : 0, payload, bytes, now, heldUntil, heldUntil > 0 ? 1 : 0],
    );
    this.#bounds.add(1, bytes);
    const question = inReplyTo === null ? null : this.#sent.markAnswered(inReplyTo, fromDid, now);
    if (question !== null) answered.push(question);
    const seq = Number(row?.seq);
    stored.push({ seq, ...about });
    if (inReplyTo !== null && this.isClaimed(about)) {
      this.#takeOut(seq, now);
      // After the transaction.
      queueMicrotask(() => this.onEnded());
    }
    const lane = laneOf(fromDid, conversationId);
    const held = heldUntil > 0 ? { aside: true, isHeld: true } : { aside: false };
    return { taken: "stored", waiting: { seq, lane, nextAt: heldUntil, ...held } };
  }

  /** Ends the waits of callers that an earlier run had: their messages go to the runtime. */
  releaseHeld(): void {
    this.#db.run("UPDATE messages SET next_at = 0, aside = 0 WHERE state = 'waiting' AND aside = 1 AND attempts = 0");
  }

  /** All waiting messages in order of arrival, for the start of the connector. */
  waiting(): QueuedMessage[] {
    return this.#db.all(`SELECT ${QUEUE_COLUMNS} FROM messages WHERE state = 'waiting' ORDER BY seq`).map(toQueued);
  }

  /** A waiting message; `null` when it does not wait. */
  read(seq: number): InboxMessage | null {
    const row = this.#db.get(`SELECT ${MESSAGE_COLUMNS} FROM messages WHERE seq = ? AND state = 'waiting'`, seq);
    return row && toMessage(row);
  }

  /** A message that is unread or that the agent has taken; `null` when there is none. */
  one(seq: number): InboxMessage | null {
    const isThere = "(state = 'waiting' OR read_at IS NOT NULL)";
    const row = this.#db.get(`SELECT ${MESSAGE_COLUMNS} FROM messages WHERE seq = ? AND ${isThere}`, seq);
    return row && toMessage(row);
  }

  /** Messages, oldest first: at most `limit` and `listedBytes` of payload, but at least one. */
  list({ unread, fromDids, conversationId, after = 0, newest = false, limit }: InboxFilter): {
    messages: InboxMessage[];
    /** True when there are others: after the last one, with `newest` before the first one. */
    more: boolean;
  } {
    const conditions = [unread ? "state = 'waiting'" : "read_at IS NOT NULL", "seq > ?"];
    const values: Cell[] = [after];
    if (fromDids !== undefined) {
      conditions.push(`from_did IN (${fromDids.map(() => "?").join(", ")})`);
      values.push(...fromDids);
    }
    if (conversationId !== undefined) {
      conditions.push("conversation_id = ?");
      values.push(conversationId);
    }
    const order = newest ? "seq DESC" : "seq";
    const sql = `SELECT seq, bytes FROM messages WHERE ${conditions.join(" AND ")} ORDER BY ${order} LIMIT ?`;
    const found = this.#db.all(sql, ...values, limit + 1);
    const listed = withinBytes(found.slice(0, limit), LIMIT.listedBytes);
    const messages = listed.flatMap(({ seq }) => this.one(Number(seq)) ?? []);
    return { messages: newest ? messages.reverse() : messages, more: found.length > listed.length };
  }

  /** The first reply to a sent message that the agent may take or has taken; `null` when there is none (D-112). */
  replyTo({ toDid, requestId }: Pick<SentMessage, "toDid" | "requestId">, now: number): InboxMessage | null {
    const mayTake = this.delivery === "pull" ? "? IS NOT NULL" : HELD;
    const row = this.#db.get(
      `SELECT ${MESSAGE_COLUMNS} FROM messages WHERE in_reply_to = ? AND from_did = ?
       AND (read_at IS NOT NULL OR state = 'waiting' AND ${mayTake}) ORDER BY seq LIMIT 1`,
      ...[requestId, toDid, now],
    );
    return row && toMessage(row);
  }

  /** IDs of the replies to a sent message that the agent may take or has taken, the first ones (D-112). */
  repliesTo({ toDid, requestId }: Pick<SentMessage, "toDid" | "requestId">): number[] {
    return this.#db.all(
      `SELECT seq FROM messages WHERE in_reply_to = ? AND from_did = ? AND (read_at IS NOT NULL OR state = 'waiting')
       ORDER BY seq LIMIT ?`,
      ...[requestId, toDid, LIMIT.repliesListed],
    ).map(({ seq }) => Number(seq));
  }

  /**
   * The first reply to a task of an A2A client; `null` without one. A waiting one is taken with that: the client gets it,
   * and the runtime does not (D-135).
   */
  takeReply({ toDid, requestId }: Pick<SentMessage, "toDid" | "requestId">, now: number): InboxMessage | null {
    const row = this.#db.get(
      `SELECT ${MESSAGE_COLUMNS} FROM messages WHERE in_reply_to = ? AND from_did = ?
       AND (read_at IS NOT NULL OR state <> 'done') ORDER BY seq LIMIT 1`,
      ...[requestId, toDid],
    );
    if (row === null) return null;
    if (row.state === "waiting") {
      this.#db.transaction(() => this.#takeOut(Number(row.seq), now));
      this.onEnded();
    }
    return toMessage(row);
  }

  #takeOut(seq: number, now: number): void {
    const row = this.#db.get(
      `UPDATE messages SET state = 'done', read_at = ?, ended_at = ? WHERE seq = ? AND state = 'waiting'
       RETURNING from_did, request_id`,
      ...[now, now, seq],
    );
    if (row !== null) this.#addReceipt(row, "processed_by_svc", now);
  }

  /** What a reply must know about the stored message that it answers; `null` when that is not stored. */
  question(fromDid: string, requestId: string): { conversationId: string | null; auto: boolean } | null {
    const sql = "SELECT conversation_id, auto FROM messages WHERE from_did = ? AND request_id = ?";
    const row = this.#db.get(sql, fromDid, requestId);
    return row && { conversationId: row.conversation_id as string | null, auto: row.auto === 1 };
  }

  /**
   * Records that the agent has taken unread messages, with their receipts, in one transaction. Returns the IDs that this
   * call has changed: of two callers one gets an ID.
   */
  markRead(ids: readonly number[], now: number): number[] {
    const mayTake = this.delivery === "pull" ? "? IS NOT NULL" : HELD;
    const changed = this.#db.transaction(() =>
      ids.filter((seq) => {
        const row = this.#db.get(
          `UPDATE messages SET state = 'done', read_at = ?, ended_at = ? WHERE seq = ? AND state = 'waiting' AND ${mayTake}
           RETURNING from_did, request_id`,
          ...[now, now, seq, now],
        );
        if (row !== null) this.#addReceipt(row, "processed_by_svc", now);
        return row !== null;
      })
    );
    if (changed.length > 0) this.onEnded();
    return changed;
  }

  #addReceipt(row: Row, status: "processed_by_svc" | "dead_lettered", at: number): void {
    this.#outbox.add({ fromDid: String(row.from_did), requestId: String(row.request_id), status, at });
  }

  /** Stores a failed attempt. If a power failure loses it, there is one more attempt. */
  retry(
    seq: number,
    { attempts, refusals, firstTriedAt }: Tries,
    next: Pick<QueuedMessage, "nextAt" | "aside">,
    why: string,
  ) {
    this.#db.transactionWithoutSync(() =>
      this.#db.run(
        `UPDATE messages SET attempts = ?, refusals = ?, first_tried_at = ?, next_at = ?, aside = ?, problem = ?
         WHERE seq = ? AND state = 'waiting'`,
        ...[attempts, refusals, firstTriedAt, next.nextAt, next.aside ? 1 : 0, why, seq],
      )
    );
  }

  /**
   * Stores that the runtime accepted the message. Deletes its content, adds its receipt, and the runtime's reply to it. The
   * reply to a task of an A2A client stays readable.
   *
   * @param reply `problem`: why it is not sent
   * @param also further changes in the same transaction
   */
  finish(
    { seq, fromDid, requestId, inReplyTo, payload }: InboxMessage,
    now: number,
    reply: { message: NewSentMessage; problem: string | null } | null = null,
    also: () => void = () => {},
  ): void {
    const content = isTaskId(inReplyTo) ? "read_at = ended_at" : "payload = '', bytes = 0";
    this.#db.transaction(() => {
      this.#db.run("UPDATE messages SET state = 'done', ended_at = ? WHERE seq = ?", now, seq);
      this.#db.run(`UPDATE messages SET ${content} WHERE seq = ?`, seq);
      this.#outbox.add({ fromDid, requestId, status: "processed_by_svc", at: now });
      if (reply !== null) this.#sent.add(reply.message, now, reply.problem);
      also();
    });
    if (!isTaskId(inReplyTo)) this.#bounds.add(-1, -utf8Bytes(payload).length);
  }

  /** Makes the message a dead letter and adds its receipt. */
  moveToDeadLetters({ seq, fromDid, requestId, tries }: InboxMessage, why: string, now: number): void {
    this.#db.transaction(() => {
      this.#db.run(
        "UPDATE messages SET state = 'dead', ended_at = ?, attempts = ?, problem = ? WHERE seq = ?",
        ...[now, tries.attempts + 1, why, seq],
      );
      this.#outbox.add({ fromDid, requestId, status: "dead_lettered", at: now });
    });
  }

  counts(): InboxCounts {
    return this.#bounds.counts();
  }

  /** Dead letters, newest first: at most `limit` and `deadListedBytes` of payload, but at least one. */
  deadLetters(limit: number): DeadLetter[] {
    const newest = "SELECT seq, bytes FROM messages WHERE state = 'dead' ORDER BY ended_at DESC, seq DESC LIMIT ?";
    const listed = withinBytes(this.#db.all(newest, limit), LIMIT.deadListedBytes);
    return listed.flatMap(({ seq }) => this.#db.all("SELECT * FROM messages WHERE seq = ?", seq ?? null)).map(
      toDeadLetter,
    );
  }

  /** Makes dead letters wait again, or unread on a pull platform, and returns them. `null`: all of them. */
  replay(ids: readonly number[] | null, now: number): QueuedMessage[] {
    const rows = this.#db.transaction(() =>
      this.#deadIds(ids).map((seq) =>
        this.#db.get(
          `UPDATE messages SET state = 'waiting', ended_at = NULL, attempts = 0, refusals = 0, first_tried_at = NULL,
           next_at = ?, aside = 0 WHERE seq = ? RETURNING ${QUEUE_COLUMNS}, in_reply_to`,
          now,
          seq,
        )
      ).filter((row) => row !== null)
    );
    for (const row of rows) this.onStored(toStored(row));
    return rows.map(toQueued);
  }

  /** Deletes dead letters. Returns the number deleted. `null`: all of them. */
  purge(ids: readonly number[] | null): number {
    this.#bounds.recount();
    return this.#db.transaction(() => {
      const doomed = this.#deadIds(ids);
      for (const seq of doomed) {
        // The row stays, so that a repeated delivery is recognised.
        this.#db.run("UPDATE messages SET state = 'done', payload = '', bytes = 0 WHERE seq = ?", seq);
      }
      return doomed.length;
    });
  }

  /**
   * Makes messages that stay unread dead letters and returns them. `next_at` is the time of a replay, which starts the
   * time again.
   */
  expireUnread(now: number): Pick<InboxMessage, "fromDid" | "requestId">[] {
    if (this.delivery === "push") return [];
    const rows = this.#db.transaction(() => {
      const expired = this.#db.all(
        `UPDATE messages SET state = 'dead', ended_at = ?, problem = ?
         WHERE state = 'waiting' AND max(received_at, next_at) <= ? RETURNING from_did, request_id`,
        ...[now, NOT_READ, now - LIMIT.unreadKeptMs],
      );
      for (const row of expired) this.#addReceipt(row, "dead_lettered", now);
      return expired;
    });
    if (rows.length > 0) this.onEnded();
    return rows.map((row) => ({ fromDid: String(row.from_did), requestId: String(row.request_id) }));
  }

  /** Deletes messages and content after their retention, and ended messages over `seenMessages`. */
  forget(now: number): void {
    this.#bounds.recount();
    const blank = "state = 'done' AND bytes = 0";
    this.#db.transactionWithoutSync(() => {
      const over = now - LIMIT.readKeptMs;
      this.#db.run("UPDATE messages SET payload = '', bytes = 0 WHERE read_at < ? AND bytes > 0", over);
      this.#db.run(`DELETE FROM messages WHERE ${blank} AND ended_at < ?`, now - LIMIT.seenKeptMs);
      const newestTooMany = `SELECT seq FROM messages WHERE ${blank} ORDER BY seq DESC LIMIT 1 OFFSET ?`;
      this.#db.run(`DELETE FROM messages WHERE ${blank} AND seq <= (${newestTooMany})`, LIMIT.seenMessages);
      this.#db.run("DELETE FROM messages WHERE state = 'dead' AND ended_at < ?", now - LIMIT.deadKeptMs);
    });
  }

  #deadIds(ids: readonly number[] | null): number[] {
    const dead = this.#db.all("SELECT seq FROM messages WHERE state = 'dead' ORDER BY seq").map(({ seq }) =>
      Number(seq)
    );
    const wanted = new Set(ids);
    return ids === null ? dead : dead.filter((seq) => wanted.has(seq));
  }
}
