/**
 * The stored messages (D-88): on disk before they are acknowledged, remembered for 24 h after they ended, and kept as dead
 * letters when they could not be delivered. On a pull platform a message is unread until the agent takes it (D-116). A
 * message and its receipt change in one transaction.
 */
import type { ProvenMessage } from "../check_proof.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { DAY_MS } from "../../../shared/clock.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { SeenProofs } from "./seen_proofs.ts";
import type { Cell, Database, Row } from "./database.ts";
import { type InboxCounts, ReceivedBounds } from "./received_bounds.ts";
import {
  type DeadLetter,
  type InboxMessage,
  laneOf,
  MESSAGE_COLUMNS,
  type OnChange,
  QUEUE_COLUMNS,
  type QueuedMessage,
  SESSION,
  type StoredMessage,
  TASK_REPLY,
  toDeadLetter,
  toMessage,
  toQueued,
  toStored,
  type Tries,
  withinBytes,
} from "./received_rows.ts";
import { free, IS_FREE, isLeased, type Lease, Leases } from "./leases.ts";
import type { AboutProof, ReceiptRows } from "./receipt_rows.ts";
import { isTaskId, type NewSentMessage, type SentMessage, type SentMessages } from "./sent_messages.ts";

/** Ended messages that are remembered. With fewer, a repeated delivery is handed over twice under load. */
export const SEEN_MESSAGES = 100_000;
/** Then an unread message is dead and its sender learns so. A holiday fits in. */
const UNREAD_KEPT_MS = 7 * DAY_MS;
/** Its sender has had the receipt, so this is only the time to look at it or to replay it. */
export const DEAD_KEPT_MS = 30 * DAY_MS;
/** Payload on a page and in a list of dead letters: a peer decides how large a payload is, and the answer is in memory. */
export const LISTED_BYTES = 1024 ** 2, DEAD_LISTED_BYTES = 4 * 1024 ** 2;
/** Replies to one message that are listed: a peer may send any number. */
const REPLIES_LISTED = 100;

/** The result of storing a message. */
export type StoreResult = "stored" | "known" | "full" | "replayed" | "proof_too_old";

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
  /** Leaves out what a program holds at this time (D-395); absent: lists those too. */
  freeAt?: number | undefined;
  limit: number;
}

/** A proven message to store, and how its sender's key is known. */
export type TakenMessage = Omit<ProvenMessage, "key"> & Pick<InboxMessage, "verified">;

/** A message that is about to be stored, as far as callers that wait may claim it. */
export type ArrivingMessage = Omit<StoredMessage, "seq">;

/** What callers may want with a reply. */
export interface ReplyClaims {
  /** On a push platform: until when it waits for a caller instead of going to the runtime; 0: not at all. */
  heldUntil(message: ArrivingMessage, now: number): number;
  /** Whether it is the result of an A2A client's task: then it is taken as soon as it is stored (D-135). */
  isClaimed(message: ArrivingMessage): boolean;
}

/** How the messages of an agent leave the store. */
export interface ReceivedOptions {
  /** `pull`: the agent reads its messages; there is no runtime to hand them to. */
  delivery: "push" | "pull";
  claims: ReplyClaims;
  onChange: OnChange;
}

/** A stored message, as far as a reply to it must know it. */
export type Answered = Pick<InboxMessage, "fromDid" | "requestId" | "conversationId" | "inReplyTo" | "auto">;

/** An unread message that became a dead letter. */
export type ExpiredMessage = Pick<InboxMessage, "fromDid" | "requestId">;

/** Why an unread message becomes a dead letter. */
export const NOT_READ = `not read within ${UNREAD_KEPT_MS / 86_400_000} days`;

/** The messages of a push platform that the agent may take: those that wait for a caller, not for the runtime. */
const HELD = "aside = 1 AND attempts = 0 AND next_at > ?";

/** What a receipt needs of its message. */
const ENDED_COLUMNS = "from_did, request_id, conversation_id, proof";

export class ReceivedMessages {
  readonly delivery: "push" | "pull";
  readonly #bounds: ReceivedBounds;
  readonly #leases: Leases;

  constructor(
    private readonly db: Database,
    private readonly tables: { receipts: ReceiptRows; sent: SentMessages; proofs: SeenProofs },
    private readonly options: ReceivedOptions,
  ) {
    this.delivery = options.delivery;
    this.#bounds = new ReceivedBounds(db);
    this.#leases = new Leases(db);
  }

  /** Stores messages in one transaction. They are on disk when this returns. */
  take(messages: readonly TakenMessage[], now: number): StoreResult[] {
    try {
      return this.db.transaction(() => messages.map((message) => this.#takeOne(message, now)));
    } catch (error) {
      this.#bounds.recount();
      this.tables.proofs.recount();
      throw error;
    }
  }

  #takeOne(message: TakenMessage, now: number): StoreResult {
    const { fromAgentDid: fromDid, requestId, nonce, signedAt, verified, payload, bodySha256, payloadSha256 } = message;
    const proof = { fromDid, requestId, nonce, signedAt };
    const judged = this.tables.proofs.judge(proof);
    if (judged !== "new") return judged;
    const conversationId = message.conversationId ?? null, inReplyTo = message.inReplyTo ?? null;
    const same = "from_did = ? AND request_id = ?";
    const known = this.db.get(`SELECT state, ended_at FROM messages WHERE ${same}`, fromDid, requestId);
    if (known !== null) {
      // After 24 h the same ID is a new message (D-69).
      const isOver = known.ended_at !== null && now - Number(known.ended_at) >= LIMIT.seenKeptMs;
      if (!isOver) {
        // The sender's own repetition: its new nonce must not work once the message is forgotten.
        this.tables.proofs.add(proof);
        return "known";
      }
      this.#bounds.recount();
      this.db.run(`DELETE FROM messages WHERE ${same}`, fromDid, requestId);
    }
    const bytes = utf8Bytes(payload).length;
    if (!this.#bounds.makeRoom(fromDid, bytes)) return "full";
    const about = { fromDid, conversationId, inReplyTo };
    const heldUntil = this.delivery === "push" && inReplyTo !== null ? this.options.claims.heldUntil(about, now) : 0;
    const row = this.db.get(
      `INSERT INTO messages (from_did, request_id, to_did, identity, conversation_id, in_reply_to, auto, payload, bytes,
       received_at, next_at, aside, verified, signed_at, proof, state)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting') RETURNING seq, ${SESSION}`,
      ...[fromDid, requestId, message.toAgentDid, JSON.stringify(message.identity), conversationId, inReplyTo],
      ...[message.auto ? 1 : 0, payload, bytes, now, heldUntil, heldUntil > 0 ? 1 : 0, verified, signedAt],
      JSON.stringify({ nonce, bodySha256, payloadSha256 } satisfies AboutProof),
    );
    this.tables.proofs.add(proof);
    this.#bounds.add(1, bytes);
    if (inReplyTo !== null) this.tables.sent.markAnswered(inReplyTo, fromDid, now);
    const seq = Number(row?.seq);
    const lane = laneOf(fromDid, row?.session as string | null);
    const held = heldUntil > 0 ? { aside: true, isHeld: true } : { aside: false };
    this.#arrived({ seq, ...about }, { seq, lane, nextAt: heldUntil, ...held });
    if (inReplyTo !== null && this.options.claims.isClaimed(about)) this.#takeOut(seq, now);
    return "stored";
  }

  /** Ends the waits of callers that an earlier run had: their messages go to the runtime. */
  releaseHeld(): void {
    this.db.run("UPDATE messages SET next_at = 0, aside = 0 WHERE state = 'waiting' AND aside = 1 AND attempts = 0");
  }

  /** All waiting messages in order of arrival, for the start of the connector. */
  waiting(): QueuedMessage[] {
    return this.db.all(`SELECT ${QUEUE_COLUMNS} FROM messages WHERE state = 'waiting' ORDER BY seq`).map(toQueued);
  }

  /** A waiting message; `null` when it does not wait. */
  read(seq: number): InboxMessage | null {
    const row = this.db.get(`SELECT ${MESSAGE_COLUMNS} FROM messages WHERE seq = ? AND state = 'waiting'`, seq);
    return row && toMessage(row);
  }

  /** A message that is unread or that the agent has taken; `null` when there is none. */
  one(seq: number): InboxMessage | null {
    const isThere = "(state = 'waiting' OR read_at IS NOT NULL)";
    const row = this.db.get(`SELECT ${MESSAGE_COLUMNS} FROM messages WHERE seq = ? AND ${isThere}`, seq);
    return row && toMessage(row);
  }

  /** Messages, oldest first: at most `limit` and `LISTED_BYTES` of payload, but at least one. */
  list({ unread, fromDids, conversationId, after = 0, newest = false, freeAt, limit }: InboxFilter): {
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
    if (unread && freeAt !== undefined) {
      conditions.push(IS_FREE);
      values.push(...free(freeAt));
    }
    const order = newest ? "seq DESC" : "seq";
    const sql = `SELECT seq, bytes FROM messages WHERE ${conditions.join(" AND ")} ORDER BY ${order} LIMIT ?`;
    const found = this.db.all(sql, ...values, limit + 1);
    const listed = withinBytes(found.slice(0, limit), LISTED_BYTES);
    const messages = listed.flatMap(({ seq }) => this.one(Number(seq)) ?? []);
    return { messages: newest ? messages.reverse() : messages, more: found.length > listed.length };
  }

  /** The first reply to a sent message that the agent may take or has taken; `null` when there is none (D-112). */
  replyTo({ toDid, requestId }: Pick<SentMessage, "toDid" | "requestId">, now: number): InboxMessage | null {
    const row = this.db.get(
      `SELECT ${MESSAGE_COLUMNS} FROM messages WHERE in_reply_to = ? AND from_did = ?
       AND (read_at IS NOT NULL OR state = 'waiting' AND ${this.#mayTake}) ORDER BY seq LIMIT 1`,
      ...[requestId, toDid, now],
    );
    return row && toMessage(row);
  }

  /** IDs of the replies to a sent message that the agent may take or has taken, the first ones (D-112). */
  repliesTo({ toDid, requestId }: Pick<SentMessage, "toDid" | "requestId">): number[] {
    return this.db.all(
      `SELECT seq FROM messages WHERE in_reply_to = ? AND from_did = ? AND (read_at IS NOT NULL OR state = 'waiting')
       ORDER BY seq LIMIT ?`,
      ...[requestId, toDid, REPLIES_LISTED],
    ).map(({ seq }) => Number(seq));
  }

  /** The first reply to a task of an A2A client; `null` without one (D-135). It is not taken with that. */
  taskReply(task: Pick<SentMessage, "toDid" | "requestId">): InboxMessage | null {
    const row = this.#taskReply(task);
    return row && toMessage(row);
  }

  /** The same. A waiting one is taken with that: the client gets it, and the runtime does not. */
  takeReply(task: Pick<SentMessage, "toDid" | "requestId">, now: number): InboxMessage | null {
    const row = this.#taskReply(task);
    if (row === null) return null;
    if (row.state === "waiting") this.db.transaction(() => this.#takeOut(Number(row.seq), now));
    return toMessage(row);
  }

  #taskReply({ toDid, requestId }: Pick<SentMessage, "toDid" | "requestId">): Row | null {
    return this.db.get(
      `SELECT ${MESSAGE_COLUMNS} FROM messages WHERE in_reply_to = ? AND from_did = ? AND ${TASK_REPLY}
       ORDER BY seq LIMIT 1`,
      ...[requestId, toDid],
    );
  }

  #takeOut(seq: number, now: number): void {
    const row = this.db.get(
      `UPDATE messages SET state = 'done', read_at = ?, ended_at = ? WHERE seq = ? AND state = 'waiting' AND ${IS_FREE}
       RETURNING ${ENDED_COLUMNS}`,
      ...[now, now, seq, ...free(now)],
    );
    if (row !== null) this.#read(row, now);
  }

  /** The agent has taken a message. */
  #read(row: Row, now: number): void {
    this.#addReceipt(row, "processed_by_svc", now);
    this.db.afterCommit(() => this.options.onChange({ kind: "taken" }));
  }

  #arrived(message: StoredMessage, waiting: QueuedMessage | null): void {
    this.db.afterCommit(() => this.options.onChange({ kind: "arrived", message, waiting }));
  }

  /** What a reply must know about the stored message that it answers; `null` when that is not stored. */
  question(fromDid: string, requestId: string): Answered | null {
    const sql = "SELECT conversation_id, in_reply_to, auto FROM messages WHERE from_did = ? AND request_id = ?";
    const row = this.db.get(sql, fromDid, requestId);
    return row && {
      fromDid,
      requestId,
      conversationId: row.conversation_id as string | null,
      inReplyTo: row.in_reply_to as string | null,
      auto: row.auto === 1,
    };
  }

  /**
   * Records that the agent has taken unread messages, with their receipts, in one transaction. Returns the IDs that this
   * call has changed: of two callers one gets an ID.
   *
   * @param leaseId the lease that holds them, if one does. Their reader has seen them already, so nothing waits for the disk: a
   * power failure makes them unread again, as the end of the lease would
   */
  markRead(ids: readonly number[], now: number, leaseId: string | null = null): number[] {
    const mayTake = this.#mayTake;
    const change = () =>
      ids.filter((seq) => {
        const row = this.db.get(
          `UPDATE messages SET state = 'done', read_at = ?, ended_at = ?, lease_until = 0 WHERE seq = ?
           AND state = 'waiting' AND (lease_id = ? OR ${IS_FREE}) AND ${mayTake} RETURNING ${ENDED_COLUMNS}`,
          ...[now, now, seq, leaseId, ...free(now), now],
        );
        if (row !== null) this.#read(row, now);
        return row !== null;
      });
    return leaseId === null ? this.db.transaction(change) : this.db.transactionWithoutSync(change);
  }

  /** Leases unread messages to a program that is going to show them (D-395). Returns the IDs that the lease holds now. */
  lease(ids: readonly number[], lease: Lease, now: number): number[] {
    return this.#leases.take(ids, lease, now, this.#mayTake, [now]);
  }

  /** Ends a lease of messages that were not shown. Returns their IDs. */
  release(ids: readonly number[], leaseId: string): number[] {
    return this.#announce(this.#leases.release(ids, leaseId));
  }

  /** Ends the leases whose time is over. Returns when the next one ends; `null` without one. */
  endLeases(now: number): number | null {
    const next = this.#leases.nextEnd();
    if (next === null || isLeased(next, now)) return next;
    this.#announce(this.#leases.end(now));
    return this.#leases.nextEnd();
  }

  #announce(messages: readonly StoredMessage[]): number[] {
    for (const message of messages) this.#arrived(message, null);
    return messages.map(({ seq }) => seq);
  }

  /** Condition for a message that the agent may take, with the time as its value. */
  get #mayTake(): string {
    return this.delivery === "pull" ? "? IS NOT NULL" : HELD;
  }

  #addReceipt(row: Row | null, status: "processed_by_svc" | "dead_lettered", at: number): void {
    if (row === null) return;
    const about: AboutProof = JSON.parse(String(row.proof));
    const conversation = row.conversation_id === null ? {} : { conversationId: String(row.conversation_id) };
    const key = { fromDid: String(row.from_did), requestId: String(row.request_id) };
    this.tables.receipts.add({ ...key, status, at, about: { ...about, ...conversation } });
  }

  /** Stores a failed attempt. If a power failure loses it, there is one more attempt. */
  retry(
    seq: number,
    { attempts, refusals, firstTriedAt }: Tries,
    next: Pick<QueuedMessage, "nextAt" | "aside">,
    why: string,
  ) {
    this.db.transactionWithoutSync(() =>
      this.db.run(
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
    { seq, inReplyTo, payload }: InboxMessage,
    now: number,
    reply: { message: NewSentMessage; problem: string | null } | null = null,
    also: () => void = () => {},
  ): void {
    const content = isTaskId(inReplyTo) ? "read_at = ended_at" : "payload = '', bytes = 0";
    this.db.transaction(() => {
      const sql = `UPDATE messages SET state = 'done', ended_at = ? WHERE seq = ? RETURNING ${ENDED_COLUMNS}`;
      const ended = this.db.get(sql, now, seq);
      this.db.run(`UPDATE messages SET ${content} WHERE seq = ?`, seq);
      this.#addReceipt(ended, "processed_by_svc", now);
      if (reply !== null) this.tables.sent.add(reply.message, now, reply.problem);
      also();
    });
    if (!isTaskId(inReplyTo)) this.#bounds.add(-1, -utf8Bytes(payload).length);
  }

  /** Makes the message a dead letter and adds its receipt. */
  moveToDeadLetters({ seq, tries }: InboxMessage, why: string, now: number): void {
    this.db.transaction(() => {
      const ended = this.db.get(
        `UPDATE messages SET state = 'dead', ended_at = ?, attempts = ?, problem = ? WHERE seq = ?
         RETURNING ${ENDED_COLUMNS}`,
        ...[now, tries.attempts + 1, why, seq],
      );
      this.#addReceipt(ended, "dead_lettered", now);
    });
  }

  counts(): InboxCounts {
    return this.#bounds.counts();
  }

  /** Dead letters, newest first: at most `limit` and `DEAD_LISTED_BYTES` of payload, but at least one. */
  deadLetters(limit: number): DeadLetter[] {
    const newest = "SELECT seq, bytes FROM messages WHERE state = 'dead' ORDER BY ended_at DESC, seq DESC LIMIT ?";
    const listed = withinBytes(this.db.all(newest, limit), DEAD_LISTED_BYTES);
    return listed.flatMap(({ seq }) => this.db.all("SELECT * FROM messages WHERE seq = ?", seq ?? null)).map(
      toDeadLetter,
    );
  }

  /** Makes dead letters wait again, or unread on a pull platform. `null`: all of them. Returns their number. */
  replay(ids: readonly number[] | null, now: number): number {
    return this.db.transaction(() => {
      const rows = this.#deadIds(ids).flatMap((seq) =>
        this.db.all(
          `UPDATE messages SET state = 'waiting', ended_at = NULL, attempts = 0, refusals = 0, first_tried_at = NULL,
           next_at = ?, aside = 0 WHERE seq = ? RETURNING ${QUEUE_COLUMNS}, conversation_id, in_reply_to`,
          ...[now, seq],
        )
      );
      for (const row of rows) this.#arrived(toStored(row), toQueued(row));
      return rows.length;
    });
  }

  /** Deletes dead letters. Returns the number deleted. `null`: all of them. */
  purge(ids: readonly number[] | null): number {
    this.#bounds.recount();
    return this.db.transaction(() => {
      const dead = this.#deadIds(ids);
      for (const seq of dead) {
        // The row stays, so that a repeated delivery is recognised.
        this.db.run("UPDATE messages SET state = 'done', payload = '', bytes = 0 WHERE seq = ?", seq);
      }
      return dead.length;
    });
  }

  /**
   * Makes messages that stay unread dead letters and returns them. `next_at` is the time of a replay, which starts the
   * time again.
   */
  expireUnread(now: number): ExpiredMessage[] {
    if (this.delivery === "push") return [];
    return this.db.transaction(() => {
      const expired = this.db.all(
        `UPDATE messages SET state = 'dead', ended_at = ?, problem = ?
         WHERE state = 'waiting' AND max(received_at, next_at) <= ? RETURNING ${ENDED_COLUMNS}`,
        ...[now, NOT_READ, now - UNREAD_KEPT_MS],
      );
      for (const row of expired) this.#addReceipt(row, "dead_lettered", now);
      return expired.map((row) => ({ fromDid: String(row.from_did), requestId: String(row.request_id) }));
    });
  }

  /** Blanks the content of messages that the agent has read, of one sender or of all. Returns how many. */
  blank(fromDid: string | null): number {
    this.#bounds.recount();
    const sql = "UPDATE messages SET payload = '', bytes = 0 WHERE read_at IS NOT NULL AND bytes > 0";
    return fromDid === null ? this.db.run(sql) : this.db.run(`${sql} AND from_did = ?`, fromDid);
  }

  /** Deletes messages and content after their retention, and ended messages over `SEEN_MESSAGES`. */
  forget(now: number, historyMs: number): void {
    this.#bounds.recount();
    const blank = "state = 'done' AND bytes = 0";
    this.db.transactionWithoutSync(() => {
      const over = now - historyMs;
      this.db.run("UPDATE messages SET payload = '', bytes = 0 WHERE read_at < ? AND bytes > 0", over);
      this.db.run(`DELETE FROM messages WHERE ${blank} AND ended_at < ?`, now - LIMIT.seenKeptMs);
      const newestTooMany = `SELECT seq FROM messages WHERE ${blank} ORDER BY seq DESC LIMIT 1 OFFSET ?`;
      this.db.run(`DELETE FROM messages WHERE ${blank} AND seq <= (${newestTooMany})`, SEEN_MESSAGES);
      this.db.run("DELETE FROM messages WHERE state = 'dead' AND ended_at < ?", now - DEAD_KEPT_MS);
    });
  }

  #deadIds(ids: readonly number[] | null): number[] {
    const dead = this.db.all("SELECT seq FROM messages WHERE state = 'dead' ORDER BY seq").map(({ seq }) =>
      Number(seq)
    );
    const wanted = new Set(ids);
    return ids === null ? dead : dead.filter((seq) => wanted.has(seq));
  }
}
