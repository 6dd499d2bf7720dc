/**
 * The stored messages (D-88): on disk before they are acknowledged, remembered for 24 h after delivery, and kept as dead
 * letters when the runtime does not accept them. A message and its receipt change in one transaction.
 */
import type { DeliverFrame, FrameIdentity } from "../../../shared/protocol/frames.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import type { Database, Row } from "./database.ts";
import { laneOf, type QueuedMessage, type Tries } from "./delivery_rules.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { Outbox } from "./outbox.ts";

/** A message for the runtime. */
export interface InboxMessage {
  seq: number;
  fromDid: string;
  requestId: string;
  toDid: string;
  identity: FrameIdentity;
  conversationId: string | null;
  /** JSON text, unchanged byte for byte. */
  payload: string;
  receivedAt: number;
  tries: Tries;
}

/** The result of storing a message. */
export type StoreResult = { taken: "stored"; waiting: QueuedMessage } | { taken: "known" } | { taken: "full" };

/** A message that the connector gave up on. */
export interface DeadLetter {
  id: number;
  fromAgentDid: string;
  requestId: string;
  conversationId: string | null;
  payload: string;
  receivedAt: number;
  endedAt: number;
  attempts: number;
  problem: string;
}

export interface InboxCounts {
  waiting: number;
  dead: number;
  bytes: number;
  /** When the oldest waiting message was received; `null` when none waits. */
  oldestAt: number | null;
}

/** Bytes of payload in one list of dead letters. A peer decides how large a payload is. */
const LISTED_BYTES = 4 * 1024 * 1024;

type NewMessage = Pick<
  DeliverFrame,
  "fromAgentDid" | "requestId" | "toAgentDid" | "identity" | "conversationId" | "payload"
>;

export class Inbox {
  readonly #db: Database;
  readonly #outbox: Outbox;
  /** Stored messages and bytes; `null` until they are counted again. */
  #kept: { messages: number; bytes: number } | null = null;

  constructor(db: Database, outbox = new Outbox(db)) {
    this.#db = db;
    this.#outbox = outbox;
  }

  /** Stores messages in one transaction. They are on disk when this returns. */
  take(messages: readonly NewMessage[], now: number): StoreResult[] {
    try {
      return this.#db.transaction(() => messages.map((message) => this.#takeOne(message, now)));
    } catch (error) {
      this.#kept = null;
      throw error;
    }
  }

  #takeOne(message: NewMessage, now: number): StoreResult {
    const { fromAgentDid, requestId, payload } = message;
    const same = "from_did = ? AND request_id = ?";
    const known = this.#db.get(`SELECT state, ended_at FROM messages WHERE ${same}`, fromAgentDid, requestId);
    if (known !== null) {
      // After 24 h the same ID is a new message (D-69).
      const isOver = known.ended_at !== null && now - Number(known.ended_at) >= LIMIT.seenKeptMs;
      if (!isOver) return { taken: "known" };
      this.#db.run(`DELETE FROM messages WHERE ${same}`, fromAgentDid, requestId);
    }
    const bytes = utf8Bytes(payload).length;
    if (!this.#makeRoom(bytes)) return { taken: "full" };
    const conversationId = message.conversationId ?? null;
    const row = this.#db.get(
      `INSERT INTO messages (from_did, request_id, to_did, identity, conversation_id, payload, bytes, received_at, state)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting') RETURNING seq`,
      fromAgentDid,
      requestId,
      message.toAgentDid,
      JSON.stringify(message.identity),
      conversationId,
      payload,
      bytes,
      now,
    );
    this.#keep(1, bytes);
    const lane = laneOf(fromAgentDid, conversationId);
    return { taken: "stored", waiting: { seq: Number(row?.seq), lane, nextAt: 0, aside: false } };
  }

  /** Deletes the oldest dead letters until a message fits. Returns false when it does not fit. */
  #makeRoom(bytes: number): boolean {
    while (true) {
      if (this.#kept === null) {
        const { waiting, dead, bytes } = this.counts();
        this.#kept = { messages: waiting + dead, bytes };
      }
      if (this.#kept.messages < LIMIT.inboxMessages && this.#kept.bytes + bytes <= LIMIT.inboxBytes) return true;
      const oldest = "(SELECT min(seq) FROM messages WHERE state = 'dead')";
      const gone = this.#db.get(`DELETE FROM messages WHERE seq = ${oldest} RETURNING bytes`);
      if (gone === null) return false;
      this.#keep(-1, -Number(gone.bytes));
    }
  }

  #keep(messages: number, bytes: number): void {
    if (this.#kept === null) return;
    this.#kept = { messages: this.#kept.messages + messages, bytes: this.#kept.bytes + bytes };
  }

  /** All waiting messages in order of arrival, for the start of the connector. */
  waiting(): QueuedMessage[] {
    const sql =
      "SELECT seq, from_did, conversation_id, next_at, aside FROM messages WHERE state = 'waiting' ORDER BY seq";
    return this.#db.all(sql).map(toWaiting);
  }

  /** A waiting message; `null` when it does not wait. */
  read(seq: number): InboxMessage | null {
    const row = this.#db.get("SELECT * FROM messages WHERE seq = ? AND state = 'waiting'", seq);
    return row && toMessage(row);
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
        attempts,
        refusals,
        firstTriedAt,
        next.nextAt,
        next.aside ? 1 : 0,
        why,
        seq,
      )
    );
  }

  /** Stores that the runtime accepted the message. Deletes its content and adds its receipt. */
  finish({ seq, fromDid, requestId, payload }: InboxMessage, now: number): void {
    this.#db.transaction(() => {
      this.#db.run("UPDATE messages SET state = 'done', ended_at = ?, payload = '', bytes = 0 WHERE seq = ?", now, seq);
      this.#outbox.add({ fromDid, requestId, status: "processed_by_svc", at: now });
    });
    this.#keep(-1, -utf8Bytes(payload).length);
  }

  /** Makes the message a dead letter and adds its receipt. */
  moveToDeadLetters({ seq, fromDid, requestId, tries }: InboxMessage, why: string, now: number): void {
    this.#db.transaction(() => {
      this.#db.run(
        "UPDATE messages SET state = 'dead', ended_at = ?, attempts = ?, problem = ? WHERE seq = ?",
        now,
        tries.attempts + 1,
        why,
        seq,
      );
      this.#outbox.add({ fromDid, requestId, status: "dead_lettered", at: now });
    });
  }

  counts(): InboxCounts {
    const row = this.#db.get(
      `SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE state = 'dead') AS dead,
       coalesce(sum(bytes), 0) AS bytes, min(received_at) FILTER (WHERE state = 'waiting') AS oldest
       FROM messages WHERE state IN ('waiting', 'dead')`,
    );
    return {
      waiting: Number(row?.waiting),
      dead: Number(row?.dead),
      bytes: Number(row?.bytes),
      oldestAt: row?.oldest === null ? null : Number(row?.oldest),
    };
  }

  /** Dead letters, newest first: at most `limit` and 4 MiB of payloads, but at least one. */
  deadLetters(limit: number): DeadLetter[] {
    const newest = "SELECT seq, bytes FROM messages WHERE state = 'dead' ORDER BY ended_at DESC, seq DESC LIMIT ?";
    let bytes = 0;
    const listed = this.#db.all(newest, limit).filter((row, i) =>
      (bytes += Number(row.bytes)) <= LISTED_BYTES || i === 0
    );
    const rows = listed.flatMap(({ seq }) => this.#db.all("SELECT * FROM messages WHERE seq = ?", seq ?? null));
    return rows.map((row) => ({
      id: Number(row.seq),
      fromAgentDid: String(row.from_did),
      requestId: String(row.request_id),
      conversationId: row.conversation_id as string | null,
      payload: String(row.payload),
      receivedAt: Number(row.received_at),
      endedAt: Number(row.ended_at),
      attempts: Number(row.attempts),
      problem: String(row.problem),
    }));
  }

  /** Queues dead letters again and returns them. `null`: all of them. */
  replay(ids: readonly number[] | null, now: number): QueuedMessage[] {
    return this.#db.transaction(() =>
      this.#deadIds(ids).map((seq) => {
        const row = this.#db.get(
          `UPDATE messages SET state = 'waiting', ended_at = NULL, attempts = 0, refusals = 0, first_tried_at = NULL,
           next_at = ?, aside = 0 WHERE seq = ? RETURNING seq, from_did, conversation_id, next_at, aside`,
          now,
          seq,
        );
        return toWaiting(row as Row);
      })
    );
  }

  /** Deletes dead letters. Returns the number deleted. `null`: all of them. */
  purge(ids: readonly number[] | null): number {
    this.#kept = null;
    return this.#db.transaction(() => {
      const doomed = this.#deadIds(ids);
      for (const seq of doomed) {
        // The row stays, so that a repeated delivery is recognised.
        this.#db.run("UPDATE messages SET state = 'done', payload = '', bytes = 0 WHERE seq = ?", seq);
      }
      return doomed.length;
    });
  }

  /** Deletes messages after their retention, and delivered messages over `seenMessages`. */
  forget(now: number): void {
    this.#kept = null;
    this.#db.transactionWithoutSync(() => {
      this.#db.run("DELETE FROM messages WHERE state = 'done' AND ended_at < ?", now - LIMIT.seenKeptMs);
      const newestTooMany = "SELECT seq FROM messages WHERE state = 'done' ORDER BY seq DESC LIMIT 1 OFFSET ?";
      this.#db.run(`DELETE FROM messages WHERE state = 'done' AND seq <= (${newestTooMany})`, LIMIT.seenMessages);
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

function toWaiting(row: Row): QueuedMessage {
  return {
    seq: Number(row.seq),
    lane: laneOf(String(row.from_did), row.conversation_id as string | null),
    nextAt: Number(row.next_at),
    aside: row.aside === 1,
  };
}

function toMessage(row: Row): InboxMessage {
  return {
    seq: Number(row.seq),
    fromDid: String(row.from_did),
    requestId: String(row.request_id),
    toDid: String(row.to_did),
    identity: JSON.parse(String(row.identity)) as FrameIdentity,
    conversationId: row.conversation_id as string | null,
    payload: String(row.payload),
    receivedAt: Number(row.received_at),
    tries: {
      attempts: Number(row.attempts),
      refusals: Number(row.refusals),
      firstTriedAt: row.first_tried_at === null ? null : Number(row.first_tried_at),
    },
  };
}
