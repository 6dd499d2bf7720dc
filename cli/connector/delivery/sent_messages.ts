/**
 * The messages that this agent has sent (D-115): one row each, on disk before the request leaves, so that an interrupted
 * call is known. Stores states; sends nothing.
 */
import type { Origin, SentState } from "../../../shared/client/local_shapes.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { Database, Row } from "./database.ts";

/** A sent message; times are milliseconds since the Unix epoch. */
export interface SentMessage {
  seq: number;
  toDid: string;
  requestId: string;
  conversationId: string | null;
  inReplyTo: string | null;
  auto: boolean;
  origin: Origin;
  /** Size of the payload, also after it is blanked. */
  bytes: number;
  sentAt: number;
  state: SentState;
  stateAt: number;
  /** Code or reason of a refusal, or why the state is unknown; `null` without one. */
  problem: string | null;
  /** When the proxy deletes a queued message; `null` when it is not queued. */
  expiresAt: number | null;
  /** Failed attempts at a reply of the runtime. */
  attempts: number;
}

/** What the caller decides about a message. */
export type NewSentMessage =
  & Pick<SentMessage, "toDid" | "requestId" | "conversationId" | "inReplyTo" | "auto" | "origin">
  & {
    /** JSON text. */
    payload: string;
  };

/** A state with its reason. */
export type StateChange = Pick<SentMessage, "state"> & Partial<Pick<SentMessage, "problem" | "expiresAt">>;

/** The states that may replace a state: what is known is not lost to the answer of a repeated request. */
const NEXT: Readonly<Record<SentState, readonly SentState[]>> = {
  sending: ["queued", "delivered", "processed", "dead_lettered", "refused", "unknown"],
  unknown: ["sending", "queued", "delivered", "processed", "dead_lettered", "refused"],
  refused: ["sending", "queued", "delivered", "processed", "dead_lettered", "unknown"],
  queued: ["delivered", "processed", "dead_lettered"],
  delivered: ["processed", "dead_lettered"],
  // A dead letter can be replayed.
  dead_lettered: ["processed"],
  processed: [],
};

/** Columns of a `SentMessage`. */
const COLUMNS = `seq, to_did, request_id, conversation_id, in_reply_to, auto, origin, bytes, sent_at, state, state_at,
 problem, expires_at, attempts`;
/** Finished rows first, then queued ones, the oldest of each first: the order in which rows make room. */
const OLDEST_FINISHED = "ORDER BY state = 'sending', state = 'queued', seq LIMIT ?";
/** Rows that make room at a time, so that a full table is not searched for each message. */
const ROOM_ROWS = 1_000;
const FIRST_REPLIES =
  "seq IN (SELECT min(seq) FROM sent WHERE state = 'sending' AND origin = 'runtime' GROUP BY to_did)";
const FINISHED = "state NOT IN ('sending', 'queued')";

export class SentMessages {
  readonly #db: Database;
  /** Rows, and bytes of payload; `null` until they are counted again. A row that is rolled back counts until then. */
  #kept: { rows: number; bytes: number } | null = null;
  /** Called after a state has changed and is on disk. */
  onChanged: (message: SentMessage) => void = () => {};

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * Stores a message before its request leaves, in state `sending`. A message that is sent again keeps a state that shows
   * that the proxy has it. After 24 h its request ID names a new message (D-69).
   */
  begin(message: NewSentMessage, now: number): SentMessage {
    return this.#db.transaction(() => this.add(message, now));
  }

  /** The same, in a transaction of the caller. `problem`: why the message is `refused` and not sent. */
  add(message: NewSentMessage, now: number, problem: string | null = null): SentMessage {
    const { toDid, requestId, conversationId, inReplyTo, auto, origin, payload } = message;
    const known = this.find(requestId, toDid);
    if (known !== null) {
      const isOver = now - known.sentAt >= LIMIT.seenKeptMs;
      if (!isOver && !NEXT[known.state].includes("sending")) return known;
      this.#db.run("DELETE FROM sent WHERE seq = ?", known.seq);
    }
    const bytes = utf8Bytes(payload).length;
    this.#makeRoom(bytes);
    const state: SentState = problem === null ? "sending" : "refused";
    const row = this.#db.get(
      `INSERT INTO sent (to_did, request_id, conversation_id, in_reply_to, auto, origin, bytes, sent_at, state, state_at,
       problem, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING ${COLUMNS}`,
      ...[toDid, requestId, conversationId, inReplyTo, auto ? 1 : 0, origin, bytes, now, state, now, problem, payload],
    );
    return toSent(row as Row);
  }

  /** Stores a new state, unless the present one already shows more. Returns the message with its state. */
  settle(message: SentMessage, outcome: StateChange, now: number): SentMessage {
    const { after, isChanged } = this.#db.transactionWithoutSync(() => this.#change(message, outcome, now));
    if (isChanged) this.onChanged(after);
    return after;
  }

  /**
   * Stores that the recipient has answered a message, so it has processed it (D-115). Call it in the transaction that
   * stores the reply, and `onChanged` with the result after it; `null` when nothing has changed.
   */
  markAnswered(requestId: string, toDid: string, now: number): SentMessage | null {
    const message = this.find(requestId, toDid);
    if (message === null) return null;
    const { after, isChanged } = this.#change(message, { state: "processed" }, now);
    return isChanged ? after : null;
  }

  #change(message: SentMessage, { state, problem = null, expiresAt = null }: StateChange, now: number) {
    const { seq } = message;
    const next = { ...message, state, stateAt: now, problem, expiresAt };
    const present = this.#bySeq(seq);
    // The row may have made room in the meantime.
    if (present === null) return { after: next, isChanged: true };
    if (!NEXT[present.state].includes(state)) return { after: present, isChanged: false };
    const sql = "UPDATE sent SET state = ?, state_at = ?, problem = ?, expires_at = ? WHERE seq = ?";
    this.#db.run(sql, state, now, problem, expiresAt, seq);
    return { after: { ...next, attempts: present.attempts }, isChanged: true };
  }

  /** The message with this request ID: to one recipient, or the newest; `null` when there is none. */
  find(requestId: string, toDid?: string): SentMessage | null {
    const one = toDid === undefined ? "" : "AND to_did = ?";
    const sql = `SELECT ${COLUMNS} FROM sent WHERE request_id = ? ${one} ORDER BY seq DESC LIMIT 1`;
    const row = this.#db.get(sql, requestId, ...toDid === undefined ? [] : [toDid]);
    return row && toSent(row);
  }

  /** The content of a message; `null` when it is blanked. */
  payloadOf({ seq }: Pick<SentMessage, "seq">): string | null {
    const payload = this.#db.get("SELECT payload FROM sent WHERE seq = ?", seq)?.payload ?? "";
    return payload === "" ? null : String(payload);
  }

  /** Messages without their content, newest first. `before`: only those with a lower `seq`. */
  list({ toDid, before, limit }: { toDid?: string | undefined; before?: number | undefined; limit: number }): {
    messages: SentMessage[];
    /** True when there are older ones. */
    more: boolean;
  } {
    const rows = this.#db.all(
      `SELECT ${COLUMNS} FROM sent WHERE seq < ? ${
        toDid === undefined ? "" : "AND to_did = ?"
      } ORDER BY seq DESC LIMIT ?`,
      before ?? Number.MAX_SAFE_INTEGER,
      ...toDid === undefined ? [] : [toDid],
      limit + 1,
    );
    return { messages: rows.slice(0, limit).map(toSent), more: rows.length > limit };
  }

  /**
   * Marks the messages whose request an earlier run did not complete as `unknown`. Replies of the runtime stay: they are
   * sent again. Returns the number marked.
   */
  markInterrupted(now: number): number {
    return this.#db.run(
      `UPDATE sent SET state = 'unknown', state_at = ?, problem = 'the connector ended during the request'
       WHERE state = 'sending' AND origin <> 'runtime'`,
      now,
    );
  }

  /**
   * The oldest reply of the runtime to each peer, if it is due, at most 100. The next one to that peer waits for it.
   * `latest`: a later time counts as due.
   */
  dueReplies(now: number, latest: number): SentMessage[] {
    return this.#db.all(
      `SELECT ${COLUMNS} FROM sent WHERE ${FIRST_REPLIES} AND (next_at <= ? OR next_at > ?) ORDER BY seq LIMIT 100`,
      now,
      latest,
    ).map(toSent);
  }

  /** Time when the next reply of the runtime is due; `null` when none waits. */
  nextReplyAt(): number | null {
    const at = this.#db.get(`SELECT min(next_at) AS at FROM sent WHERE ${FIRST_REPLIES}`)?.at ?? null;
    return at === null ? null : Number(at);
  }

  /** Stores a failed attempt at a reply. */
  postpone({ seq }: Pick<SentMessage, "seq">, attempts: number, nextAt: number): void {
    this.#db.transactionWithoutSync(() =>
      this.#db.run("UPDATE sent SET attempts = ?, next_at = ? WHERE seq = ?", attempts, nextAt, seq)
    );
  }

  /** Makes every reply of the runtime due. */
  makeRepliesDue(now: number): void {
    this.#db.transactionWithoutSync(() =>
      this.#db.run(
        "UPDATE sent SET next_at = ? WHERE state = 'sending' AND origin = 'runtime' AND next_at > ?",
        now,
        now,
      )
    );
  }

  /** Deletes rows after their retention, and blanks the content of messages that have ended for a day. */
  prune(now: number): void {
    this.#kept = null;
    this.#db.transactionWithoutSync(() => {
      this.#db.run("DELETE FROM sent WHERE state_at < ?", now - LIMIT.sentKeptMs);
      const over = now - LIMIT.sentPayloadKeptMs;
      this.#db.run(`UPDATE sent SET payload = '' WHERE payload <> '' AND ${FINISHED} AND state_at < ?`, over);
    });
  }

  #makeRoom(bytes: number): void {
    const kept = this.#kept ??= this.#count();
    if (kept.rows >= LIMIT.sentMessages) {
      this.#db.run(`DELETE FROM sent WHERE seq IN (SELECT seq FROM sent ${OLDEST_FINISHED})`, ROOM_ROWS);
      Object.assign(kept, this.#count());
    }
    while (kept.bytes > 0 && kept.bytes + bytes > LIMIT.sentBytes) {
      // The row of a message whose request is under way needs its content; the others are known without it.
      const oldest = `SELECT seq FROM sent WHERE payload <> '' ${OLDEST_FINISHED}`;
      const blank = `UPDATE sent SET payload = '' WHERE state <> 'sending' AND seq IN (${oldest})`;
      if (this.#db.run(blank, ROOM_ROWS) === 0) this.#db.run(`DELETE FROM sent WHERE seq IN (${oldest})`, 1);
      Object.assign(kept, this.#count());
    }
    kept.rows++;
    kept.bytes += bytes;
  }

  #count(): { rows: number; bytes: number } {
    const rows = Number(this.#db.get("SELECT count(*) AS n FROM sent")?.n);
    const sum = "SELECT coalesce(sum(bytes), 0) AS bytes FROM sent WHERE payload <> ''";
    return { rows, bytes: Number(this.#db.get(sum)?.bytes) };
  }

  #bySeq(seq: number): SentMessage | null {
    const row = this.#db.get(`SELECT ${COLUMNS} FROM sent WHERE seq = ?`, seq);
    return row && toSent(row);
  }
}

function toSent(row: Row): SentMessage {
  return {
    seq: Number(row.seq),
    toDid: String(row.to_did),
    requestId: String(row.request_id),
    conversationId: row.conversation_id as string | null,
    inReplyTo: row.in_reply_to as string | null,
    auto: row.auto === 1,
    origin: row.origin as Origin,
    bytes: Number(row.bytes),
    sentAt: Number(row.sent_at),
    state: row.state as SentState,
    stateAt: Number(row.state_at),
    problem: row.problem as string | null,
    expiresAt: row.expires_at === null ? null : Number(row.expires_at),
    attempts: Number(row.attempts),
  };
}
