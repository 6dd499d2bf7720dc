/**
 * The stored messages (D-88). They are on disk before they are acknowledged, remembered for 24 h after they ended, and
 * kept as dead letters when they could not be delivered. On a pull platform a message is unread until the agent takes
 * it (D-116). A message and its receipt change in one transaction, because a kill between the two would lose the
 * receipt.
 */
import type { ProvenMessage } from "../check_proof.ts";
import { type DeadLetter, ERROR_MEMBER, errorIn, type Replies } from "../../../shared/client/local_shapes.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { DAY_MS } from "../../../shared/clock.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { OldProof, SeenProofs } from "./seen_proofs.ts";
import type { Cell, Database } from "./database.ts";
import { type InboxCounts, ReceivedBounds } from "./received_bounds.ts";
import {
  type InboxMessage,
  isTaskId,
  MESSAGE_COLUMNS,
  type MessageRow,
  type OnChange,
  QUEUE_COLUMNS,
  type QueuedMessage,
  type QueueRow,
  type SentKey,
  type StoredMessage,
  TASK_REPLY,
  toMessage,
  toQueued,
  type Tries,
  withinBytes,
} from "./received_rows.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { AboutProof, ReceiptRows } from "./receipt_rows.ts";
import type { NewSentMessage, SentMessages } from "./sent_messages.ts";

/**
 * Ended messages that are remembered. With fewer, a message that its sender repeats under load is handed over twice.
 */
export const SEEN_MESSAGES = 100_000;
/**
 * After this time an unread message is a dead letter, and its sender is told. With less, messages end during a holiday.
 */
const UNREAD_KEPT_MS = 7 * DAY_MS;
/** How long a person can look at a dead letter or replay it; its sender has had the receipt already. */
export const DEAD_KEPT_MS = 30 * DAY_MS;
/** Most payload of a page, and of a list of dead letters. With more, large payloads of a peer fill the memory. */
export const LISTED_BYTES = 1024 ** 2, DEAD_LISTED_BYTES = 4 * 1024 ** 2;
/** Replies to one message that are listed, because a peer may send any number, which would fill the answer. */
const REPLIES_LISTED = 100;

export type StoreResult = "stored" | "full" | OldProof;

/** Which messages to list: all conditions must hold. */
export interface InboxFilter {
  /** Whether to list unread messages, or those that the agent has taken. */
  unread: boolean;
  fromDids?: readonly string[] | undefined;
  exceptDids?: readonly string[] | undefined;
  conversationId?: string | undefined;
  /** Only messages with a higher `seq`. */
  after?: number | undefined;
  /** Whether to list the newest that match, in place of the oldest. */
  newest?: boolean;
  /** Leaves out what a program holds at this time (D-395); without it, lists those too. */
  freeAt?: number | undefined;
  /** Leaves out the replies to these sent messages, which are keys (`keyOf`). */
  exceptRepliesTo?: readonly string[];
  limit: number;
}

/** A proven message to store, and how its sender's key is known. */
export type TakenMessage = Omit<ProvenMessage, "key"> & Pick<InboxMessage, "verified">;

/** Who gets the reply to a sent message. */
export interface ReplyClaims {
  /** On a push platform: until when a reply waits for its caller before it goes to the runtime; 0: it does not wait. */
  heldUntil(question: SentKey, now: number): number;
  /** Whether a reply is the result of an A2A client's task. It is then taken for the client once it is stored (D-135). */
  isClaimed(question: SentKey): boolean;
}

export interface ReceivedOptions {
  /** With `pull` the agent reads its messages, because there is no runtime to hand them to. */
  delivery: "push" | "pull";
  claims: ReplyClaims;
  onChange: OnChange;
}

/** What a reply must know of the message that it answers. */
export type Answered = Pick<InboxMessage, "fromDid" | "requestId" | "conversationId" | "inReplyTo" | "auto">;

/** What a receipt needs of its message. */
export type EndedMessage = Pick<InboxMessage, "fromDid" | "requestId" | "conversationId"> & { proof: string };

export const NOT_READ = `not read within ${UNREAD_KEPT_MS / DAY_MS} days`;

const LEASE_MS = LIMITS.leaseSeconds * 1000;

/**
 * Whether a lease holds now. An end beyond the longest lease does not count, because it comes from a clock that was set
 * back.
 */
export function isLeased(until: number, now: number): boolean {
  return until > now && until <= now + LEASE_MS;
}

/** The condition for messages without a lease that holds now; `?1` is the time. */
const IS_FREE = `(leaseUntil <= ?1 OR leaseUntil > ?1 + ${LEASE_MS})`;
/** The messages of a push platform that the agent may take: those that wait for a caller, not for the runtime. */
const HELD = "aside = 1 AND attempts = 0 AND nextAt > ?1";
const BLANK = "payload = '', bytes = 0";
/** The condition for dead letters; `?1` is the JSON text of their IDs, or NULL for all of them. */
const IS_DEAD_OF = "state = 'dead' AND (?1 IS NULL OR seq IN (SELECT value FROM json_each(?1)))";

const STORED_COLUMNS = "seq, fromDid, conversationId, inReplyTo";

export class ReceivedMessages {
  readonly delivery: "push" | "pull";
  readonly #bounds: ReceivedBounds;
  /** Condition for a message that the agent may take; `?1` is the time. */
  readonly #mayTake: string;

  constructor(
    private readonly db: Database,
    private readonly tables: { receipts: ReceiptRows; sent: SentMessages; proofs: SeenProofs },
    private readonly options: ReceivedOptions,
  ) {
    this.delivery = options.delivery;
    this.#mayTake = options.delivery === "pull" ? "TRUE" : HELD;
    this.#bounds = new ReceivedBounds(db);
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
    const judged = this.tables.proofs.judge(message);
    if (judged !== "new") return judged;
    const conversationId = message.conversationId ?? null, inReplyTo = message.inReplyTo ?? null;
    const same = "fromDid = ? AND requestId = ?";
    const known = this.db.get<{ endedAt: number | null }>(
      `SELECT endedAt FROM messages WHERE ${same}`,
      ...[fromDid, requestId],
    );
    if (known !== null) {
      // After 24 h the same ID is a new message (D-69).
      const isOver = known.endedAt !== null && now - known.endedAt >= LIMIT.seenKeptMs;
      if (!isOver) {
        // The new nonce of a repetition is kept too, because it would otherwise work once the message is forgotten.
        this.tables.proofs.add(message);
        return "known";
      }
      this.#bounds.recount();
      this.db.run(`DELETE FROM messages WHERE ${same}`, fromDid, requestId);
    }
    const bytes = utf8Bytes(payload).length;
    if (!this.#bounds.makeRoom(fromDid, message.identity.ownerDid, bytes)) return "full";
    const { claims } = this.options, question = inReplyTo === null ? null : { toDid: fromDid, requestId: inReplyTo };
    const heldUntil = this.delivery === "push" && question !== null ? claims.heldUntil(question, now) : 0;
    const row = this.db.get<QueueRow>(
      `INSERT INTO messages (fromDid, requestId, toDid, identity, conversationId, inReplyTo, auto, payload, bytes,
       receivedAt, nextAt, aside, verified, signedAt, proof, state)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting') RETURNING ${QUEUE_COLUMNS}`,
      ...[fromDid, requestId, message.toAgentDid, JSON.stringify(message.identity), conversationId, inReplyTo],
      ...[message.auto ? 1 : 0, payload, bytes, now, heldUntil, heldUntil > 0 ? 1 : 0, verified, signedAt],
      JSON.stringify({ nonce, bodySha256, payloadSha256 } satisfies AboutProof),
    );
    this.tables.proofs.add(message);
    this.#bounds.add(1, bytes);
    if (question !== null) this.tables.sent.markAnswered(question, now);
    const queued = toQueued(row as QueueRow), { seq } = queued;
    this.#arrived({ seq, fromDid, conversationId, inReplyTo }, queued.aside ? { ...queued, isHeld: true } : queued);
    if (question !== null && claims.isClaimed(question)) this.#markRead(seq, now);
    return "stored";
  }

  /** Gives the messages that an earlier run held for callers to the runtime, because those callers are gone. */
  releaseHeld(): void {
    this.db.run("UPDATE messages SET nextAt = 0, aside = 0 WHERE state = 'waiting' AND aside = 1 AND attempts = 0");
  }

  /** All waiting messages in order of arrival, for the start of the connector. */
  waiting(): QueuedMessage[] {
    const sql = `SELECT ${QUEUE_COLUMNS} FROM messages WHERE state = 'waiting' ORDER BY seq`;
    return this.db.all<QueueRow>(sql).map(toQueued);
  }

  #first(condition: string, ...values: Cell[]): InboxMessage | null {
    const sql = `SELECT ${MESSAGE_COLUMNS} FROM messages WHERE ${condition} ORDER BY seq LIMIT 1`;
    const row = this.db.get<MessageRow>(sql, ...values);
    return row && toMessage(row);
  }

  /** A waiting message; `null` when it does not wait. */
  read(seq: number): InboxMessage | null {
    return this.#first("state = 'waiting' AND seq = ?", seq);
  }

  /** A message that is unread or that the agent has taken; `null` when there is none. */
  one(seq: number): InboxMessage | null {
    return this.#first("(state = 'waiting' OR readAt IS NOT NULL) AND seq = ?", seq);
  }

  /** Messages, oldest first: at most `limit` and `LISTED_BYTES` of payload, but at least one. */
  list(filter: InboxFilter): {
    messages: InboxMessage[];
    /** True when there are others: after the last one, with `newest` before the first one. */
    more: boolean;
  } {
    const { unread, fromDids, exceptDids = [], exceptRepliesTo = [], conversationId, after = 0, newest, limit } =
      filter;
    // A value for each DID, because with a list as one value SQLite reads all unread messages, not those of one sender.
    const isFrom = fromDids === undefined ? "" : `AND fromDid IN (${fromDids.map(() => "?").join(", ")})`;
    const found = this.db.all<{ seq: number; bytes: number }>(
      `SELECT seq, bytes FROM messages WHERE seq > ?2 AND ${unread ? "state = 'waiting'" : "readAt IS NOT NULL"}
       AND (?1 IS NULL OR ${IS_FREE}) AND conversationId IS coalesce(?3, conversationId)
       AND fromDid NOT IN (SELECT value FROM json_each(?4))
       AND (inReplyTo IS NULL OR fromDid || ' ' || inReplyTo NOT IN (SELECT value FROM json_each(?5))) ${isFrom}
       ORDER BY seq ${newest ? "DESC" : "ASC"} LIMIT ?`,
      ...[filter.freeAt ?? null, after, conversationId ?? null, JSON.stringify(exceptDids)],
      ...[JSON.stringify(exceptRepliesTo), ...fromDids ?? [], limit + 1],
    );
    const listed = withinBytes(found.slice(0, limit), LISTED_BYTES);
    const messages = listed.flatMap(({ seq }) => this.one(seq) ?? []);
    return { messages: newest ? messages.reverse() : messages, more: found.length > listed.length };
  }

  /** The first reply to a sent message that the agent may take or has taken; `null` when there is none (D-112). */
  replyTo({ toDid, requestId }: SentKey, now: number): InboxMessage | null {
    const isReadable = `(readAt IS NOT NULL OR state = 'waiting' AND ${this.#mayTake})`;
    return this.#first(`inReplyTo = ?2 AND fromDid = ?3 AND ${isReadable}`, now, requestId, toDid);
  }

  /** The first replies to a sent message that wait or that the agent has taken (D-112). */
  repliesTo({ toDid, requestId }: SentKey): Replies {
    const found = this.db.all<{ seq: number; payload: string }>(
      `SELECT seq, iif(instr(payload, '"${ERROR_MEMBER}"'), payload, '') AS payload FROM messages
       WHERE inReplyTo = ? AND fromDid = ? AND (readAt IS NOT NULL OR state = 'waiting') ORDER BY seq LIMIT ?`,
      ...[requestId, toDid, REPLIES_LISTED],
    );
    const codes = found.map(({ payload }) => errorIn(payload)?.code ?? null);
    return { replies: found.map(({ seq }) => seq), replyError: codes.includes(null) ? null : codes[0] ?? null };
  }

  /** The first reply to a task of an A2A client; `null` without one (D-135). Does not take it. */
  taskReply({ toDid, requestId }: SentKey): InboxMessage | null {
    return this.#first(`inReplyTo = ? AND fromDid = ? AND ${TASK_REPLY}`, requestId, toDid);
  }

  /** The first reply to a task; `null` without one. Takes a waiting one, so that the runtime does not get it too. */
  takeReply(task: SentKey, now: number): InboxMessage | null {
    const reply = this.taskReply(task);
    if (reply !== null && reply.readAt === null) this.db.transaction(() => this.#markRead(reply.seq, now));
    return reply;
  }

  /** Takes a waiting message, unless another program holds it. Returns whether this call has changed it. */
  #markRead(seq: number, now: number, leaseId: string | null = null, condition = "TRUE"): boolean {
    const change = `state = 'done', readAt = ?1, leaseUntil = 0
      WHERE seq = ?2 AND state = 'waiting' AND (leaseId = ?3 OR ${IS_FREE}) AND ${condition}`;
    if (this.#end(change, "processed_by_svc", now, seq, leaseId).length === 0) return false;
    this.db.afterCommit(() => this.options.onChange({ kind: "taken" }));
    return true;
  }

  #arrived(message: StoredMessage, waiting: QueuedMessage | null): void {
    this.db.afterCommit(() => this.options.onChange({ kind: "arrived", message, waiting }));
  }

  /** What a reply must know about the stored message that it answers; `null` when that is not stored. */
  question(fromDid: string, requestId: string): Answered | null {
    return this.#first("fromDid = ? AND requestId = ?", fromDid, requestId);
  }

  /**
   * Records that the agent has taken unread messages, with their receipts, in one transaction. Returns the IDs that
   * this call has changed, so that only one of two callers gets an ID.
   *
   * @param leaseId the lease that holds them, if one does. Their reader has seen them, so this does not wait for the
   * disk: a power failure makes them unread again, as the end of the lease would
   */
  markRead(ids: readonly number[], now: number, leaseId: string | null = null): number[] {
    const change = () => ids.filter((seq) => this.#markRead(seq, now, leaseId, this.#mayTake));
    return leaseId === null ? this.db.transaction(change) : this.db.transactionWithoutSync(change);
  }

  /**
   * Leases unread messages to a program that is going to show them (D-395), because another program would otherwise
   * show them too. Returns the IDs that the lease holds now. A lease survives a kill of the connector. A power failure
   * may end it, and then its messages are unread, as after the end of its program.
   */
  lease(ids: readonly number[], { id, until }: { id: string; until: number }, now: number): number[] {
    const sql = `UPDATE messages SET mayRepeat = mayRepeat OR (leaseId IS NOT NULL AND leaseId <> ?2), leaseId = ?2,
     leaseUntil = ?3 WHERE seq = ?4 AND state = 'waiting' AND (leaseId = ?2 OR ${IS_FREE}) AND ${this.#mayTake}`;
    return this.db.transactionWithoutSync(() => ids.filter((seq) => this.db.run(sql, now, id, until, seq) > 0));
  }

  /**
   * Ends a lease whose messages were not shown, so they do not count as possible repeats. Returns the IDs of those that
   * are unread again.
   */
  release(ids: readonly number[], leaseId: string): number[] {
    const sql = `UPDATE messages SET leaseId = NULL, leaseUntil = 0
      WHERE seq = ? AND leaseId = ? AND state = 'waiting' RETURNING ${STORED_COLUMNS}`;
    return this.#freed(() => ids.flatMap((seq) => this.db.all<StoredMessage>(sql, seq, leaseId)));
  }

  /**
   * Ends the leases whose time is over, because a program that is killed releases nothing. Their messages may have been
   * shown already. Returns when the next lease ends; `null` without one.
   */
  endLeases(now: number): number | null {
    const nextEnd = "SELECT min(leaseUntil) FROM messages WHERE leaseUntil > 0 AND state = 'waiting'";
    const next = this.db.number(nextEnd);
    if (next === null || isLeased(next, now)) return next;
    const sql = `UPDATE messages SET leaseUntil = 0
      WHERE leaseUntil > 0 AND state = 'waiting' AND ${IS_FREE} RETURNING ${STORED_COLUMNS}`;
    this.#freed(() => this.db.all<StoredMessage>(sql, now));
    return this.db.number(nextEnd);
  }

  #freed(change: () => StoredMessage[]): number[] {
    const messages = this.db.transactionWithoutSync(change);
    for (const message of messages) this.#arrived(message, null);
    return messages.map(({ seq }) => seq);
  }

  /**
   * Ends messages with their receipts, in a transaction of the caller, and returns them. In `change`, `?1` is the time.
   */
  #end(change: string, status: "processed_by_svc" | "dead_lettered", at: number, ...values: Cell[]): EndedMessage[] {
    const sql = `UPDATE messages SET endedAt = ?1, ${change} RETURNING fromDid, requestId, conversationId, proof`;
    const ended = this.db.all<EndedMessage>(sql, at, ...values);
    for (const { fromDid, requestId, conversationId, proof } of ended) {
      const about = { ...JSON.parse(proof) as AboutProof, conversationId: conversationId ?? undefined };
      this.tables.receipts.add({ fromDid, requestId, status, at, about });
    }
    return ended;
  }

  /** Stores a failed attempt. If a power failure loses it, there is one more attempt. */
  retry(
    seq: number,
    { attempts, refusals, firstTriedAt }: Tries,
    next: Pick<QueuedMessage, "nextAt" | "aside">,
    why: string,
  ) {
    this.db.runWithoutSync(
      `UPDATE messages SET attempts = ?, refusals = ?, firstTriedAt = ?, nextAt = ?, aside = ?, problem = ?
       WHERE seq = ? AND state = 'waiting'`,
      ...[attempts, refusals, firstTriedAt, next.nextAt, next.aside ? 1 : 0, why, seq],
    );
  }

  /**
   * Stores that the runtime accepted the message. Deletes its content, adds its receipt, and the runtime's reply to it.
   * The reply to a task of an A2A client stays readable.
   *
   * @param also further changes in the same transaction
   */
  finish(
    { seq, inReplyTo, payload }: InboxMessage,
    now: number,
    reply: NewSentMessage | null = null,
    also: () => void = () => {},
  ): void {
    const content = isTaskId(inReplyTo) ? "readAt = ?1" : BLANK;
    this.db.transaction(() => {
      this.#end(`state = 'done', ${content} WHERE seq = ?2`, "processed_by_svc", now, seq);
      if (reply !== null) this.tables.sent.add(reply, now);
      also();
    });
    if (!isTaskId(inReplyTo)) this.#bounds.add(-1, -utf8Bytes(payload).length);
  }

  /** Makes a message a dead letter, with its receipt, unless a client has taken it meanwhile. */
  moveToDeadLetters({ seq, tries }: InboxMessage, why: string, now: number): void {
    const change = "state = 'dead', attempts = ?2, problem = ?3 WHERE seq = ?4 AND state = 'waiting'";
    this.db.transaction(() => this.#end(change, "dead_lettered", now, tries.attempts + 1, why, seq));
  }

  counts(): InboxCounts {
    return this.#bounds.counts();
  }

  /** Dead letters, newest first: at most `limit` and `DEAD_LISTED_BYTES` of payload, but at least one. */
  deadLetters(limit: number): (DeadLetter & Pick<InboxMessage, "identity">)[] {
    const newest = "SELECT seq, bytes FROM messages WHERE state = 'dead' ORDER BY endedAt DESC, seq DESC LIMIT ?";
    const listed = withinBytes(this.db.all<{ seq: number; bytes: number }>(newest, limit), DEAD_LISTED_BYTES);
    const sql =
      `SELECT seq AS id, fromDid AS fromAgentDid, requestId, conversationId, identity, payload, receivedAt, verified,
       endedAt, attempts, problem FROM messages WHERE seq = ?`;
    return listed.flatMap(({ seq }) => this.db.all<DeadLetter & { identity: string }>(sql, seq))
      .map((row) => ({ ...row, identity: JSON.parse(row.identity) }));
  }

  /**
   * Lets dead letters, or with `null` all of them, wait again; on a pull platform they are unread. Returns their
   * number.
   */
  replay(ids: readonly number[] | null, now: number): number {
    const sql = `UPDATE messages SET state = 'waiting', endedAt = NULL, attempts = 0, refusals = 0, firstTriedAt = NULL,
       nextAt = ?2, aside = 0 WHERE ${IS_DEAD_OF} RETURNING ${QUEUE_COLUMNS}, conversationId, inReplyTo`;
    const which = ids && JSON.stringify(ids);
    const rows = this.db.transaction(() => this.db.all<QueueRow & StoredMessage>(sql, which, now));
    for (const row of rows) {
      const { seq, fromDid, conversationId, inReplyTo } = row;
      this.#arrived({ seq, fromDid, conversationId, inReplyTo }, toQueued(row));
    }
    return rows.length;
  }

  /** Deletes dead letters, or with `null` all of them. Returns how many. */
  purge(ids: readonly number[] | null): number {
    this.#bounds.recount();
    // The row stays, so that a repeated delivery is recognised.
    const sql = `UPDATE messages SET state = 'done', ${BLANK} WHERE ${IS_DEAD_OF}`;
    return this.db.transaction(() => this.db.run(sql, ids && JSON.stringify(ids)));
  }

  /**
   * Makes dead letters of messages that stay unread too long, and returns them. After a replay the time starts again,
   * and `nextAt` is then the time of the replay.
   */
  expireUnread(now: number): EndedMessage[] {
    if (this.delivery === "push") return [];
    const change = "state = 'dead', problem = ?2 WHERE state = 'waiting' AND max(receivedAt, nextAt) <= ?3";
    return this.db.transaction(() => this.#end(change, "dead_lettered", now, NOT_READ, now - UNREAD_KEPT_MS));
  }

  /** Blanks the content of messages that the agent has read, of one sender or of all. Returns how many. */
  blank(fromDid: string | null): number {
    this.#bounds.recount();
    const isRead = "readAt IS NOT NULL AND bytes > 0 AND fromDid = coalesce(?, fromDid)";
    return this.db.run(`UPDATE messages SET ${BLANK} WHERE ${isRead}`, fromDid);
  }

  /** Deletes messages and content after their retention, and ended messages over `SEEN_MESSAGES`. */
  forget(now: number, historyMs: number): void {
    this.#bounds.recount();
    const isBlank = "state = 'done' AND bytes = 0";
    this.db.transactionWithoutSync(() => {
      const over = now - historyMs;
      this.db.run(`UPDATE messages SET ${BLANK} WHERE readAt < ? AND bytes > 0`, over);
      this.db.run(`DELETE FROM messages WHERE ${isBlank} AND endedAt < ?`, now - LIMIT.seenKeptMs);
      const newestTooMany = `SELECT seq FROM messages WHERE ${isBlank} ORDER BY seq DESC LIMIT 1 OFFSET ?`;
      this.db.run(`DELETE FROM messages WHERE ${isBlank} AND seq <= (${newestTooMany})`, SEEN_MESSAGES);
      this.db.run("DELETE FROM messages WHERE state = 'dead' AND endedAt < ?", now - DEAD_KEPT_MS);
    });
  }
}
