/**
 * Messages that were taken in (D-88): on disk before they are acknowledged, known for a day after they were handed over,
 * and kept as dead letters when nobody would take them. A message and its receipt change in one transaction.
 */
import type { DeliverFrame, FrameIdentity } from "../../../shared/protocol/frames.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import type { Database, Row } from "./database.ts";
import { laneOf, type QueuedMessage, type Tries } from "./delivery_rules.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import { Outbox } from "./outbox.ts";

/** A message as it is handed over. */
export interface InboxMessage {
  seq: number;
  fromDid: string;
  requestId: string;
  toDid: string;
  identity: FrameIdentity;
  conversationId: string | null;
  /** JSON text, byte for byte as it came. */
  payload: string;
  receivedAt: number;
  tries: Tries;
}

/** What became of a message that came in. */
export type StoreResult = { taken: "stored"; waiting: QueuedMessage } | { taken: "known" } | { taken: "full" };

/** A message that nobody would take. */
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
  /** When the oldest that waits came; `null` when none waits. */
  oldestAt: number | null;
}

/** Payloads of one list of dead letters; a peer decides how large they are. */
const LISTED_BYTES = 4 * 1024 * 1024;

type NewMessage = Pick<
  DeliverFrame,
  "fromAgentDid" | "requestId" | "toAgentDid" | "identity" | "conversationId" | "payload"
>;

export class Inbox {
  readonly #db: Database;
  readonly #outbox: Outbox;
  /** How much is kept; `null` until it is counted anew. */
  #kept: { messages: number; bytes: number } | null = null;

  constructor(db: Database, outbox = new Outbox(db)) {
    this.#db = db;
    this.#outbox = outbox;
  }

  /** Takes messages in, in one transaction: they are on disk when this returns. */
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
      // After a day the same id is a new message (D-69).
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

  /** Dead letters make room for the living, the oldest first. */
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

  /** Everything that waits, in order of arrival; after a restart. */
  waiting(): QueuedMessage[] {
    const sql =
      "SELECT seq, from_did, conversation_id, next_at, aside FROM messages WHERE state = 'waiting' ORDER BY seq";
    return this.#db.all(sql).map(toWaiting);
  }

  /** A message that waits. */
  read(seq: number): InboxMessage | null {
    const row = this.#db.get("SELECT * FROM messages WHERE seq = ? AND state = 'waiting'", seq);
    return row && toMessage(row);
  }

  /** An attempt did not succeed. Were this lost with the power, there would be an attempt more. */
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

  /** The runtime has it: its content goes, its receipt is due. */
  finish({ seq, fromDid, requestId, payload }: InboxMessage, now: number): void {
    this.#db.transaction(() => {
      this.#db.run("UPDATE messages SET state = 'done', ended_at = ?, payload = '', bytes = 0 WHERE seq = ?", now, seq);
      this.#outbox.add({ fromDid, requestId, status: "processed_by_svc", at: now });
    });
    this.#keep(-1, -utf8Bytes(payload).length);
  }

  /** Nobody would take it: it is kept, and its receipt is due. */
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

  /** Dead letters, newest first: at most `limit`, and no more than fit into one answer, but at least one. */
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

  /** Gives dead letters another life; which wait again. `null`: all of them. */
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

  /** Throws dead letters away; how many. `null`: all of them. */
  purge(ids: readonly number[] | null): number {
    this.#kept = null;
    return this.#db.transaction(() => {
      const doomed = this.#deadIds(ids);
      for (const seq of doomed) {
        // What is left of it keeps a late copy from being taken for a new message.
        this.#db.run("UPDATE messages SET state = 'done', payload = '', bytes = 0 WHERE seq = ?", seq);
      }
      return doomed.length;
    });
  }

  /** Drops what has been kept long enough. */
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
