/**
 * The messages that this agent has sent: one row each, on disk before the request leaves, so that an interrupted call
 * is known as `unknown` and can be repeated with its request ID. One that the connector may keep is `kept` instead, and
 * sending_loop.ts sends it again (D-305). Stores states; sends nothing.
 */
import type { Origin, SentState } from "../../../shared/client/local_shapes.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { DAY_MS } from "../../../shared/clock.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { Database, Row } from "./database.ts";
import { type OnChange, TASK_REPLY } from "./received_rows.ts";
import { NO_BODY, SentBodies, type SentBody } from "./sent_bodies.ts";

/** After its last change: with less than the proxy keeps a receipt, a late receipt finds no message. */
const SENT_KEPT_MS = 8 * DAY_MS;
/** Kept rows and content: an agent in a loop would fill the disk. */
export const SENT_MESSAGES = 100_000, SENT_BYTES = 256 * 1024 ** 2;
/** The newest tasks of a peer that ListTasks looks through: more would hold up each other call. */
const LISTED_TASKS = 1_000;

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
  /** Whether the connector sends it again by itself. */
  keep: boolean;
  /** Whether the answer of an attempt was lost, so that the recipient may have it. */
  mayHaveArrived: boolean;
  /** Attempts to send it again. */
  attempts: number;
  /** When a `kept` message is tried again. */
  nextAt: number;
}

/** What a receipt of a message is checked against (D-154). */
export interface SentProof {
  /** Milliseconds. */
  sentAt: number;
  conversationId: string | null;
  /** Of the request body; `null` before the first request. */
  bodySha256: string | null;
  /** Of a sealed message: of its salt and its payload. */
  payloadSha256?: string;
  salt?: string;
}

/** What the caller decides about a message. */
export type NewSentMessage =
  & Pick<SentMessage, "toDid" | "requestId" | "conversationId" | "inReplyTo" | "auto" | "origin">
  & {
    /** JSON text. */
    payload: string;
    /** Default: only a reply of the runtime is kept. */
    keep?: boolean;
  };

/** Until when a kept message is tried. */
export function keptUntil({ sentAt }: Pick<SentMessage, "sentAt">): number {
  return sentAt + LIMIT.keptMs;
}

/** The messages that wait here take up all their space. Nothing was stored. */
export class OutboxFullError extends Error {
  override name = "OutboxFullError";
}

/** A state with its reason. */
export type StateChange = Pick<SentMessage, "state"> & Partial<Pick<SentMessage, "problem" | "expiresAt">>;

/** Request IDs of tasks: `a-` and a SHA-256 as base64url, which no other sender of this agent makes. */
export function isTaskId(requestId: string | null): requestId is string {
  return requestId !== null && /^a-[A-Za-z0-9_-]{43}$/.test(requestId);
}

/** The states that may replace a state: what is known is not lost to the answer of a repeated request. */
const NEXT: Readonly<Record<SentState, readonly SentState[]>> = {
  sending: ["kept", "queued", "delivered", "processed", "dead_lettered", "refused", "unknown"],
  kept: ["queued", "delivered", "processed", "dead_lettered", "refused", "unknown"],
  unknown: ["sending", "queued", "delivered", "processed", "dead_lettered", "refused"],
  refused: ["sending", "queued", "delivered", "processed", "dead_lettered", "unknown"],
  queued: ["delivered", "processed", "dead_lettered"],
  delivered: ["processed", "dead_lettered"],
  // A dead letter can be replayed.
  dead_lettered: ["processed"],
  processed: [],
};

const COLUMNS = `seq, to_did, request_id, conversation_id, in_reply_to, auto, origin, bytes, sent_at, state, state_at,
 problem, expires_at, keep, may_have_arrived, attempts, next_at`;
/**
 * The newest tasks of local A2A clients for a peer, each with the time of its state: that of its reply, if there is one. The
 * bounds of the request ID are those of their index.
 */
const TASKS = `SELECT seq, conversation_id, coalesce((
   SELECT received_at FROM messages WHERE messages.in_reply_to = sent.request_id AND messages.from_did = sent.to_did
   AND ${TASK_REPLY} ORDER BY messages.seq LIMIT 1
 ), state_at) AS at
 FROM sent WHERE to_did = ? AND request_id >= 'a-' AND request_id < 'a.' AND length(request_id) = 45
 ORDER BY seq DESC LIMIT ${LISTED_TASKS}`;
/** Finished rows first, then queued ones, the oldest of each first: the order in which rows make room. */
const OLDEST_FINISHED = "ORDER BY state IN ('sending', 'kept'), state = 'queued', seq LIMIT ?";
/** Rows that make room at a time, so that a full table is not searched for each message. */
const ROOM_ROWS = 1_000;
const FIRST_KEPT = "seq IN (SELECT min(seq) FROM sent WHERE state = 'kept' GROUP BY to_did)";
const FINISHED = "state NOT IN ('sending', 'kept', 'queued')";
/** The thread of the automatic message that a stored message answers; NULL without one. The parameters are of the message. */
const threadOf = (fromDid: string, requestId: string) =>
  `(SELECT before.thread FROM messages JOIN sent AS before
    ON before.to_did = messages.from_did AND before.request_id = messages.in_reply_to
    WHERE messages.from_did = ${fromDid} AND messages.request_id = ${requestId})`;

export class SentMessages {
  /** Rows, and bytes of payload; `null` until they are counted again. A row that is rolled back counts until then. */
  #kept: { rows: number; bytes: number } | null = null;
  readonly bodies: SentBodies;

  constructor(private readonly db: Database, private readonly onChange: OnChange) {
    this.bodies = new SentBodies(db, (bytes) => {
      if (this.#kept !== null) this.#kept.bytes += bytes;
    });
  }

  /**
   * Stores a message before its request leaves, in state `sending`. One that may be kept is `kept` at once behind others to
   * its recipient, or it would overtake them. A message that is sent again keeps a state that shows that the proxy has it,
   * or that it waits here. After 24 h its request ID names a new message (D-69).
   *
   * The row survives a kill. It does not wait for the disk, because the recipient would wait for that too; `settle` with
   * `isAnswered` puts it there before the caller knows of the message. A power failure before that loses a row that no
   * caller has heard of.
   *
   * @throws {OutboxFullError}
   */
  begin(message: NewSentMessage, now: number): SentMessage {
    return this.db.transactionWithoutSync(() => this.add(message, now));
  }

  /** The same, in a transaction of the caller. `problem`: why the message is `refused` and not sent. */
  add(message: NewSentMessage, now: number, problem: string | null = null): SentMessage {
    const { toDid, requestId, conversationId, inReplyTo, auto, origin, payload } = message;
    const isReply = origin === "runtime";
    const { keep = isReply } = message;
    const known = this.find(requestId, toDid);
    let left: SentBody | null = null;
    if (known !== null) {
      const isOver = now - known.sentAt >= LIMIT.seenKeptMs;
      if (!isOver && !NEXT[known.state].includes("sending")) return known;
      const isSame = known.conversationId === conversationId && known.inReplyTo === inReplyTo && known.auto === auto &&
        this.payloadOf(known) === payload;
      if (!isOver && isSame) left = this.bodies.of(known);
      this.db.run("DELETE FROM sent WHERE seq = ?", known.seq);
    }
    const bytes = utf8Bytes(payload).length;
    if (keep && !isReply) this.#checkOutbox(bytes);
    this.#makeRoom(bytes);
    const isKept = isReply || keep && this.#isAhead(toDid);
    const state: SentState = problem !== null ? "refused" : isKept ? "kept" : "sending";
    const row = this.db.get(
      `INSERT INTO sent (to_did, request_id, conversation_id, in_reply_to, auto, origin, bytes, sent_at, state, state_at,
       problem, payload, keep, thread) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?8, ?10, ?11, ?12,
       CASE WHEN ?5 THEN coalesce(${threadOf("?1", "?4")}, ?2) END) RETURNING ${COLUMNS}`,
      ...[
        toDid,
        requestId,
        conversationId,
        inReplyTo,
        auto ? 1 : 0,
        origin,
        bytes,
        now,
        state,
        problem,
        payload,
        keep ? 1 : 0,
      ],
    );
    const stored = toSent(row as Row);
    if (left?.body) this.bodies.store(stored, left);
    if (state === "kept") this.db.afterCommit(() => this.onChange({ kind: "kept" }));
    return stored;
  }

  /** Replies of the runtime count, but are never refused: no caller would learn it. */
  #checkOutbox(bytes: number): void {
    const sql = "SELECT count(*) AS n, sum(bytes) AS bytes FROM sent WHERE keep = 1 AND state IN ('kept', 'sending')";
    const row = this.db.get(sql);
    const isFull = Number(row?.n) >= LIMIT.keptMessages || Number(row?.bytes ?? 0) + bytes > LIMIT.keptBytes;
    if (isFull) throw new OutboxFullError();
  }

  /** Whether a kept message to a recipient waits, or is tried again now. */
  #isAhead(toDid: string): boolean {
    const sql = `SELECT 1 FROM sent WHERE to_did = ? AND keep = 1
      AND (state = 'kept' OR state = 'sending' AND attempts > 0) LIMIT 1`;
    return this.db.get(sql, toDid) !== null;
  }

  /**
   * Stores a new state, unless the present one already shows more. Returns the message with its state.
   *
   * @param options `isAnswered`: a caller gets the state as its answer, so message and state are on disk before
   */
  settle(message: SentMessage, outcome: StateChange, now: number, { isAnswered = false } = {}): SentMessage {
    const change = () => this.#change(message, outcome, now);
    return isAnswered ? this.db.transaction(change) : this.db.transactionWithoutSync(change);
  }

  /**
   * Stores that the recipient has answered a message, so it has processed it. Call it in the transaction that stores
   * the reply.
   */
  markAnswered(requestId: string, toDid: string, now: number): void {
    const message = this.find(requestId, toDid);
    if (message !== null) this.#change(message, { state: "processed" }, now);
  }

  #change(message: SentMessage, { state, problem = null, expiresAt = null }: StateChange, now: number): SentMessage {
    const { seq } = message;
    const present = this.#bySeq(seq);
    if (present !== null && !NEXT[present.state].includes(state)) return present;
    const sql = "UPDATE sent SET state = ?, state_at = ?, problem = ?, expires_at = ? WHERE seq = ?";
    this.db.run(sql, state, now, problem, expiresAt, seq);
    this.db.afterCommit(() => this.onChange({ kind: "sent", message }));
    // The row may have made room in the meantime.
    return { ...present ?? message, state, stateAt: now, problem, expiresAt };
  }

  /**
   * Stores that a message waits here after a failed attempt, unless it has ended meanwhile. Returns it with its state.
   *
   * @param options `isAnswered`: as of `settle`
   */
  keep(
    message: SentMessage,
    { problem, nextAt, mayHaveArrived }: { problem: string; nextAt: number; mayHaveArrived: boolean },
    now: number,
    { isAnswered = false } = {},
  ): SentMessage {
    const change = () => {
      const present = this.#change(message, { state: "kept", problem }, now);
      if (present.state !== "kept") return present;
      const isUnclear = present.mayHaveArrived || mayHaveArrived;
      const sql = "UPDATE sent SET next_at = ?, may_have_arrived = ? WHERE seq = ?";
      this.db.run(sql, nextAt, isUnclear ? 1 : 0, message.seq);
      this.db.afterCommit(() => this.onChange({ kind: "kept" }));
      return { ...present, nextAt, mayHaveArrived: isUnclear };
    };
    return isAnswered ? this.db.transaction(change) : this.db.transactionWithoutSync(change);
  }

  /** Stores that a kept message is tried again; `null` when it is no longer kept. */
  tryAgain({ seq }: Pick<SentMessage, "seq">, now: number): SentMessage | null {
    const sql =
      `UPDATE sent SET state = 'sending', state_at = ?, attempts = attempts + 1 WHERE seq = ? AND state = 'kept'
      RETURNING ${COLUMNS}`;
    const row = this.db.transactionWithoutSync(() => this.db.get(sql, now, seq));
    if (row === null) return null;
    const message = toSent(row);
    this.onChange({ kind: "sent", message });
    return message;
  }

  /** Ends a message that the connector does not send again. One whose answer was lost is `unknown`, because it may have arrived. */
  giveUp(message: SentMessage, problem: string, now: number): SentMessage {
    return this.settle(message, { state: message.mayHaveArrived ? "unknown" : "refused", problem }, now, {
      isAnswered: true,
    });
  }

  /** The message with this request ID: to one recipient, or the newest; `null` when there is none. */
  find(requestId: string, toDid?: string): SentMessage | null {
    const one = toDid === undefined ? "" : "AND to_did = ?";
    const sql = `SELECT ${COLUMNS} FROM sent WHERE request_id = ? ${one} ORDER BY seq DESC LIMIT 1`;
    const row = this.db.get(sql, requestId, ...toDid === undefined ? [] : [toDid]);
    return row && toSent(row);
  }

  /**
   * When the agent sent an automatic message in the thread of a message to answer: the n-th from the end; `null` when there
   * are fewer. A thread is what follows one automatic message by answers to answers, also with a new conversation in each
   * turn.
   */
  automaticInThread(peerDid: string, requestId: string, n: number): number | null {
    const inThread = `to_did = ?1 AND thread = ${threadOf("?1", "?2")}`;
    const sql = `SELECT sent_at FROM sent WHERE ${inThread} ORDER BY seq DESC LIMIT 1 OFFSET ?3`;
    const row = this.db.get(sql, peerDid, requestId, n - 1);
    return row && Number(row.sent_at);
  }

  hasAnswered(peerDid: string, requestId: string): boolean {
    return this.db.get("SELECT 1 FROM sent WHERE to_did = ? AND in_reply_to = ? LIMIT 1", peerDid, requestId) !== null;
  }

  /** What a receipt of a message is checked against; `null` when there is no such message. */
  proofOf(requestId: string, toDid: string): SentProof | null {
    const message = this.find(requestId, toDid);
    if (message === null) return null;
    const { bodySha256 = null, payloadSha256, salt } = this.bodies.of(message) ?? {};
    const sealed = payloadSha256 == null || salt == null ? {} : { payloadSha256, salt };
    return { sentAt: message.sentAt, conversationId: message.conversationId, bodySha256, ...sealed };
  }

  /** The content of a message; `null` when it is blanked. */
  payloadOf({ seq }: Pick<SentMessage, "seq">): string | null {
    const payload = this.db.get("SELECT payload FROM sent WHERE seq = ?", seq)?.payload ?? "";
    return payload === "" ? null : String(payload);
  }

  /** Messages without their content, newest first. `before`: only those with a lower `seq`. */
  list({ toDid, before, limit }: { toDid?: string | undefined; before?: number | undefined; limit: number }): {
    messages: SentMessage[];
    /** True when there are older ones. */
    more: boolean;
  } {
    const rows = this.db.all(
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
   * Tasks of local A2A clients for a peer, the newest state first, and how many there are in all pages. `cursor` of a
   * task is for the next page. Of very many tasks the oldest are left out.
   */
  tasks(
    toDid: string,
    { contextId, since, before, limit }: {
      contextId: string | undefined;
      since: number;
      before: { at: number; seq: number } | undefined;
      limit: number;
    },
  ): { tasks: { sent: SentMessage; cursor: { at: number; seq: number } }[]; more: boolean; total: number } {
    const all = this.db.all(
      `SELECT seq, at FROM (${TASKS}) WHERE at >= ? AND conversation_id IS coalesce(?, conversation_id)
       ORDER BY at DESC, seq DESC`,
      ...[toDid, since, contextId ?? null],
    ).map(({ seq, at }) => ({ seq: Number(seq), at: Number(at) }));
    const isBehind = ({ at, seq }: { at: number; seq: number }) =>
      before === undefined || at < before.at || at === before.at && seq < before.seq;
    const left = all.filter(isBehind);
    const tasks = left.slice(0, limit).flatMap((cursor) => {
      const sent = this.#bySeq(cursor.seq);
      return sent === null ? [] : [{ sent, cursor }];
    });
    return { tasks, more: left.length > limit, total: all.length };
  }

  /**
   * Marks the messages whose request an earlier run did not complete as `unknown`, or as `kept` when the connector sends them
   * again by itself. Returns the number marked.
   */
  markInterrupted(now: number): number {
    return this.db.run(
      `UPDATE sent SET state = CASE WHEN keep = 1 THEN 'kept' ELSE 'unknown' END, state_at = ?, may_have_arrived = 1,
       next_at = 0, problem = 'the connector ended during the request' WHERE state = 'sending'`,
      now,
    );
  }

  /**
   * The oldest kept message to each peer, if it is due, at most 100. The next one to that peer waits for it. `latest`: a later
   * time counts as due.
   */
  dueKept(now: number, latest: number): SentMessage[] {
    return this.db.all(
      `SELECT ${COLUMNS} FROM sent WHERE ${FIRST_KEPT} AND (next_at <= ? OR next_at > ?) ORDER BY seq LIMIT 100`,
      now,
      latest,
    ).map(toSent);
  }

  /** Time when the next kept message is due; `null` when none waits. */
  nextKeptAt(): number | null {
    const at = this.db.get(`SELECT min(next_at) AS at FROM sent WHERE ${FIRST_KEPT}`)?.at ?? null;
    return at === null ? null : Number(at);
  }

  makeKeptDue(now: number): void {
    this.db.transactionWithoutSync(() =>
      this.db.run("UPDATE sent SET next_at = ? WHERE state = 'kept' AND next_at > ?", now, now)
    );
  }

  /** The newest messages before `seq` whose state the proxy may change. */
  open(seq: number, limit: number): SentMessage[] {
    return this.db.all(
      `SELECT ${COLUMNS} FROM sent WHERE state IN ('queued', 'delivered', 'unknown', 'dead_lettered') AND seq < ?
       ORDER BY seq DESC LIMIT ?`,
      ...[Math.min(seq, Number.MAX_SAFE_INTEGER), limit],
    ).map(toSent);
  }

  /** Blanks the content of messages that have ended, to one recipient or to all. Returns how many. */
  blank(toDid: string | null): number {
    this.#kept = null;
    const sql = `UPDATE sent SET payload = '' WHERE payload <> '' AND ${FINISHED}`;
    return toDid === null ? this.db.run(sql) : this.db.run(`${sql} AND to_did = ?`, toDid);
  }

  /** Deletes rows after their retention, and blanks the content of messages that have ended long ago. */
  prune(now: number, historyMs: number): void {
    this.#kept = null;
    this.db.transactionWithoutSync(() => {
      this.db.run("DELETE FROM sent WHERE state_at < ?", now - Math.max(SENT_KEPT_MS, historyMs));
      const over = now - historyMs;
      this.db.run(`UPDATE sent SET payload = '' WHERE payload <> '' AND ${FINISHED} AND state_at < ?`, over);
      this.bodies.prune(now);
    });
  }

  #makeRoom(bytes: number): void {
    const kept = this.#kept ??= this.#count();
    if (kept.rows >= SENT_MESSAGES) {
      this.db.run(`DELETE FROM sent WHERE seq IN (SELECT seq FROM sent ${OLDEST_FINISHED})`, ROOM_ROWS);
      Object.assign(kept, this.#count());
    }
    while (kept.bytes > 0 && kept.bytes + bytes > SENT_BYTES) {
      // The row of a message whose request is under way needs its content; the others are known without it.
      const oldest = `SELECT seq FROM sent WHERE payload <> '' ${OLDEST_FINISHED}`;
      const blank =
        `UPDATE sent SET payload = '', ${NO_BODY} WHERE state NOT IN ('sending', 'kept') AND seq IN (${oldest})`;
      if (this.db.run(blank, ROOM_ROWS) === 0) this.db.run(`DELETE FROM sent WHERE seq IN (${oldest})`, 1);
      Object.assign(kept, this.#count());
    }
    kept.rows++;
    kept.bytes += bytes;
  }

  #count(): { rows: number; bytes: number } {
    const rows = Number(this.db.get("SELECT count(*) AS n FROM sent")?.n);
    const sum = "SELECT coalesce(sum(bytes + body_bytes), 0) AS bytes FROM sent WHERE payload <> ''";
    return { rows, bytes: Number(this.db.get(sum)?.bytes) };
  }

  #bySeq(seq: number): SentMessage | null {
    const row = this.db.get(`SELECT ${COLUMNS} FROM sent WHERE seq = ?`, seq);
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
    keep: row.keep === 1,
    mayHaveArrived: row.may_have_arrived === 1,
    attempts: Number(row.attempts),
    nextAt: Number(row.next_at),
  };
}
