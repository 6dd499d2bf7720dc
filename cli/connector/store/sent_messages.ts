/**
 * The messages that this agent has sent: one row each, stored before the request leaves, so that an interrupted call is
 * known as `unknown` and can be repeated with its request ID. A message that the connector may keep becomes `kept`
 * instead, and sending_loop.ts sends it again (D-305). Stores states; sends nothing.
 */
import type { MessageState } from "../../../shared/client/agent_api.ts";
import type { Origin } from "../../../shared/client/local_shapes.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { DAY_MS } from "../../../shared/clock.ts";
import { LocalError } from "../../local_errors.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { Cell, Database } from "./database.ts";
import { type OnChange, type SentKey, TASK_REPLY } from "./received_rows.ts";

/** How long a message is kept. With less, the message could be deleted before its last receipt comes. */
const SENT_KEPT_MS = 8 * DAY_MS;
/** Rows and content are bounded, because an agent in a loop would fill the disk. */
export const SENT_MESSAGES = 100_000, SENT_BYTES = 256 * 1024 ** 2;
/** The newest tasks of a peer that ListTasks looks through, because more would hold up each other call. */
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
  state: MessageState;
  stateAt: number;
  /** Code or reason of a refusal, or why the state is unknown; `null` without one. */
  problem: string | null;
  /** When the proxy deletes a queued message; `null` when it is not queued. */
  expiresAt: number | null;
  /** Whether the answer of an attempt was lost, so that the recipient may have the message. */
  mayHaveArrived: boolean;
  /** How often it was sent again. */
  attempts: number;
  nextAt: number;
}

/**
 * What was sent for a message (D-152). A receipt is checked against its hashes. The sealed body is kept for a day,
 * because another seal of the payload would be another text, and the proxy would refuse another text under the request
 * ID. A plain message has only the hash of its body, which is its payload.
 */
export interface SentBody {
  /** base64url, as are the hashes. */
  salt: string | null;
  payloadSha256: string | null;
  bodySha256: string;
  /** The sealed body; `null` for an unsealed message, and once the body is deleted. */
  body: string | null;
}

/** What a receipt of a message is checked against (D-154). The hashes are `null` before the first request. */
export type SentProof =
  & Pick<SentMessage, "sentAt" | "conversationId">
  & { [member in Exclude<keyof SentBody, "body">]: string | null };

export type NewSentMessage =
  & Pick<SentMessage, "toDid" | "requestId" | "conversationId" | "inReplyTo" | "auto" | "origin">
  & {
    /** JSON text. */
    payload: string;
    /** Default: only a reply of the runtime is kept. */
    keep?: boolean;
    /** Why it is stored as `refused` and not sent. */
    problem?: string;
  };

export function keptUntil({ sentAt }: Pick<SentMessage, "sentAt">): number {
  return sentAt + LIMIT.keptMs;
}

export type StateChange = Pick<SentMessage, "state"> & Partial<Pick<SentMessage, "problem" | "expiresAt">>;

/** The states that may replace a state. Any other would let the answer of a repeated request hide what is known. */
const NEXT: Readonly<Record<MessageState, readonly MessageState[]>> = {
  sending: ["kept", "queued", "delivered", "processed", "dead_lettered", "refused", "unknown"],
  kept: ["queued", "delivered", "processed", "dead_lettered", "refused", "unknown"],
  unknown: ["sending", "queued", "delivered", "processed", "dead_lettered"],
  refused: ["sending", "queued", "delivered", "processed", "dead_lettered", "unknown"],
  queued: ["delivered", "processed", "dead_lettered"],
  delivered: ["processed", "dead_lettered"],
  // A dead letter can be replayed, and is then processed.
  dead_lettered: ["processed"],
  processed: [],
};

const COLUMNS = `seq, toDid, requestId, conversationId, inReplyTo, auto, origin, bytes, sentAt, state, stateAt,
 problem, expiresAt, mayHaveArrived, attempts, nextAt`;
/**
 * The newest tasks of local A2A clients for a peer, each with the time of its state, or of its reply if there is one.
 * The bounds of the request ID must be those of the index `sent_tasks`, which SQLite would not use with others.
 */
const TASKS = `SELECT ${COLUMNS}, coalesce((
   SELECT receivedAt FROM messages WHERE messages.inReplyTo = sent.requestId AND messages.fromDid = sent.toDid
   AND ${TASK_REPLY} ORDER BY messages.seq LIMIT 1
 ), stateAt) AS at
 FROM sent WHERE toDid = ? AND requestId >= 'a-' AND requestId < 'a.' AND length(requestId) = 45
 ORDER BY seq DESC LIMIT ${LISTED_TASKS}`;
/**
 * Order in which rows are deleted or blanked: finished, then queued, then other ones; of each the oldest first. Replies
 * of the runtime that are not open go first, because a peer that asks without an end could otherwise erase what the
 * person wrote to others.
 */
const OLDEST_FINISHED = "ORDER BY state IN ('sending', 'kept'), origin <> 'runtime', state = 'queued', seq LIMIT ?";
/** Rows that are deleted or blanked at a time, so that a full table is not searched for each message. */
const ROOM_ROWS = 1_000;
const FIRST_KEPT = "seq IN (SELECT min(seq) FROM sent WHERE state = 'kept' GROUP BY toDid)";
/**
 * The messages to one recipient that wait here or are tried now. SQLite would choose an index of all that was ever sent
 * to the recipient, and read it for each message.
 */
const OPEN_TO = "FROM sent INDEXED BY sent_open WHERE toDid = ? AND keep = 1 AND state IN ('kept', 'sending')";
const REPLIES_TO = `SELECT count(*) AS rows, total(bytes) AS sum ${OPEN_TO} AND origin = 'runtime'`;
const UNSENT = "keep = 1 AND state IN ('kept', 'sending')", FINISHED = "state NOT IN ('sending', 'kept', 'queued')";
const MAKE_DUE = "UPDATE sent SET nextAt = ?1 WHERE state = 'kept' AND nextAt > ?1";
const INTERRUPTED = "the connector ended during the request", REPLIES_FULL = "too many replies wait for this peer";
const NO_BODY = "body = NULL, bodyBytes = 0";
/** The thread of the automatic message that a stored message answers, or NULL. `?1` is its sender. */
const threadOf = (requestId: string) =>
  `(SELECT before.thread FROM messages JOIN sent AS before
    ON before.toDid = messages.fromDid AND before.requestId = messages.inReplyTo
    WHERE messages.fromDid = ?1 AND messages.requestId = ${requestId})`;

/** The last task of a page: tasks are ordered by the time of their state, then by the order in which they were sent. */
export interface TaskCursor {
  at: number;
  seq: number;
}

export class SentMessages {
  /**
   * Rows, and bytes of payloads and bodies; `null` until they are counted. A row that is rolled back stays in it until
   * the next count.
   */
  #kept: { rows: number; bytes: number } | null = null;

  constructor(private readonly db: Database, private readonly onChange: OnChange) {}

  /**
   * Stores a message before its request leaves, in state `sending`. A message that may be kept is `kept` at once when
   * others to its recipient wait, because it would otherwise overtake them. A message that is sent again keeps its
   * state if that shows that the proxy has it, or that it waits here. After 24 h its request ID names a new message
   * (D-69).
   *
   * The row survives a kill, but is not on disk yet when this returns, because waiting for the disk would delay the
   * message. `settle` with `isAnswered` puts it on disk before the caller gets an answer, so a power failure before
   * that loses only a row that no caller knows.
   *
   * @throws {LocalError} `CONNECTOR_OUTBOX_FULL`
   */
  begin(message: NewSentMessage, now: number): SentMessage {
    return this.db.transactionWithoutSync(() => this.add(message, now));
  }

  /** `begin` in a transaction of the caller. */
  add(message: NewSentMessage, now: number): SentMessage {
    const { toDid, requestId, conversationId, inReplyTo, auto, origin, payload, problem = null } = message;
    const isReply = origin === "runtime", { keep = isReply } = message;
    const known = this.find(requestId, toDid);
    let left: SentBody | null = null, mayHaveArrived = false;
    if (known !== null) {
      const isOver = now - known.sentAt >= LIMIT.seenKeptMs;
      if (!isOver && !NEXT[known.state].includes("sending")) return known;
      const isSame = known.conversationId === conversationId && known.inReplyTo === inReplyTo && known.auto === auto &&
        this.payloadOf(known) === payload;
      if (!isOver && isSame) left = this.bodyOf(known);
      mayHaveArrived = !isOver && known.state === "unknown";
      this.db.run("DELETE FROM sent WHERE seq = ?", known.seq);
    }
    const bytes = utf8Bytes(payload).length;
    if (keep && !isReply) this.#checkOutbox(bytes);
    const isFull = isReply && problem === null && this.#isFullOfReplies(toDid, bytes);
    this.#makeRoom(bytes);
    const isBehind = !isReply && keep && this.#isAhead(toDid);
    const state: MessageState = isFull || problem !== null ? "refused" : isReply || isBehind ? "kept" : "sending";
    const why = isFull ? REPLIES_FULL : problem ?? (isBehind ? this.#problemAhead(toDid) : null);
    const row = this.db.get<SentRow>(
      `INSERT INTO sent (toDid, requestId, conversationId, inReplyTo, auto, origin, bytes, sentAt, state, stateAt,
       problem, payload, keep, mayHaveArrived, thread) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?8, ?10, ?11, ?12,
       ?13, CASE WHEN ?5 THEN coalesce(${threadOf("?4")}, ?2) END) RETURNING ${COLUMNS}`,
      ...[toDid, requestId, conversationId, inReplyTo, auto ? 1 : 0, origin, bytes, now, state, why, payload],
      ...[keep ? 1 : 0, mayHaveArrived ? 1 : 0],
    );
    const stored = toSent(row as SentRow);
    if (left?.body) this.#storeBody(stored, left);
    if (state === "kept") this.db.afterCommit(() => this.onChange({ kind: "kept" }));
    if (isFull) this.db.afterCommit(() => this.onChange({ kind: "reply_refused", message: stored, why: REPLIES_FULL }));
    return stored;
  }

  /**
   * Refuses messages over the bounds. Replies of the runtime do not count, because a peer that asks and takes no reply
   * would otherwise stop what the person sends to others.
   */
  #checkOutbox(bytes: number): void {
    const open = this.db.sums("bytes", "sent", `${UNSENT} AND origin <> 'runtime'`);
    if (open.rows < LIMIT.keptMessages && open.bytes + bytes <= LIMIT.keptBytes) return;
    const text = `Over ${LIMIT.keptMessages} messages, or ${LIMIT.keptBytes / 1024 ** 2} MiB, wait here`;
    throw new LocalError("CONNECTOR_OUTBOX_FULL", text);
  }

  /** Tells whether a peer's share of the replies that wait here is used up. */
  #isFullOfReplies(toDid: string, bytes: number): boolean {
    const { rows, sum } = this.db.get(REPLIES_TO, toDid) as { rows: number; sum: number };
    return rows >= LIMIT.keptReplies || sum + bytes > LIMIT.keptReplyBytes;
  }

  /** How many messages wait here, or are tried now. */
  get unsent(): number {
    return this.db.sums("bytes", "sent", UNSENT).rows;
  }

  /** Whether a kept message to a recipient waits, or is tried again now. */
  #isAhead(toDid: string): boolean {
    return this.db.get(`SELECT 1 ${OPEN_TO} AND (state = 'kept' OR attempts > 0) LIMIT 1`, toDid) !== null;
  }

  /** Why the first message to a recipient waits; `null` when that is not known, or is no reason for a message behind. */
  #problemAhead(toDid: string): string | null {
    // Only the first one is tried, so the problem of any other may be an old one.
    const first = this.#select(`seq = (SELECT min(seq) ${OPEN_TO})`, toDid)[0]?.problem ?? null;
    return first === INTERRUPTED ? null : first;
  }

  /**
   * Stores a new state, unless the present one already shows more. Returns the message with its state.
   *
   * @param options `isAnswered`: a caller gets the state as its answer, so message and state are on disk before that
   */
  settle(message: SentMessage, outcome: StateChange, now: number, { isAnswered = false } = {}): SentMessage {
    return this.#write(isAnswered, () => this.#change(message, outcome, now));
  }

  #write<T>(isAnswered: boolean, change: () => T): T {
    return isAnswered ? this.db.transaction(change) : this.db.transactionWithoutSync(change);
  }

  /**
   * Marks a message as processed, because its recipient has answered it. Outside the transaction that stores the reply,
   * a kill would lose this state.
   */
  markAnswered({ toDid, requestId }: SentKey, now: number): void {
    const message = this.find(requestId, toDid);
    if (message !== null) this.#change(message, { state: "processed" }, now);
  }

  #change(message: SentMessage, { state, problem = null, expiresAt = null }: StateChange, now: number): SentMessage {
    const { seq } = message;
    const present = this.one(seq);
    if (present !== null && !NEXT[present.state].includes(state)) return present;
    const sql = "UPDATE sent SET state = ?, stateAt = ?, problem = ?, expiresAt = ? WHERE seq = ?";
    this.db.run(sql, state, now, problem, expiresAt, seq);
    this.db.afterCommit(() => this.onChange({ kind: "sent", message }));
    // The row may be deleted by now, to make room for others.
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
    return this.#write(isAnswered, () => {
      const present = this.#change(message, { state: "kept", problem }, now);
      if (present.state !== "kept") return present;
      const isUnclear = present.mayHaveArrived || mayHaveArrived;
      const sql = "UPDATE sent SET nextAt = ?, mayHaveArrived = ? WHERE seq = ?";
      this.db.run(sql, nextAt, isUnclear ? 1 : 0, message.seq);
      if (isAnswered) this.db.afterCommit(() => this.onChange({ kind: "kept" }));
      return { ...present, nextAt, mayHaveArrived: isUnclear };
    });
  }

  /** Stores that a kept message is tried again; `null` when it is no longer kept. */
  tryAgain({ seq }: Pick<SentMessage, "seq">, now: number): SentMessage | null {
    const sql =
      `UPDATE sent SET state = 'sending', stateAt = ?, attempts = attempts + 1 WHERE seq = ? AND state = 'kept'
      RETURNING ${COLUMNS}`;
    const row = this.db.transactionWithoutSync(() => this.db.get<SentRow>(sql, now, seq));
    if (row === null) return null;
    const message = toSent(row);
    this.onChange({ kind: "sent", message });
    return message;
  }

  /** Ends a message that is not sent again: as `unknown` when an answer was lost, because it may have arrived. */
  giveUp(message: SentMessage, problem: string, now: number): SentMessage {
    const state = message.mayHaveArrived ? "unknown" : "refused";
    return this.settle(message, { state, problem }, now, { isAnswered: true });
  }

  one(seq: number): SentMessage | null {
    return this.#select("seq = ?", seq)[0] ?? null;
  }

  /** Returns the message with this request ID to this recipient, or else the newest to any; `null` without one. */
  find(requestId: string, toDid?: string): SentMessage | null {
    const rest = "requestId = ? AND toDid = coalesce(?, toDid) ORDER BY seq DESC LIMIT 1";
    return this.#select(rest, requestId, toDid ?? null)[0] ?? null;
  }

  /**
   * Time of the n-th newest automatic message in the thread to which the answer to a message belongs, milliseconds
   * since the Unix epoch; `null` when there are fewer. A thread is one automatic message and all that follows it as
   * answers to answers, also in other conversations.
   */
  automaticInThread(peerDid: string, requestId: string, n: number): number | null {
    const inThread = `toDid = ?1 AND thread = ${threadOf("?2")}`;
    const sql = `SELECT sentAt FROM sent WHERE ${inThread} ORDER BY seq DESC LIMIT 1 OFFSET ?3`;
    return this.db.number(sql, peerDid, requestId, n - 1);
  }

  hasAnswered(peerDid: string, requestId: string): boolean {
    return this.db.get("SELECT 1 FROM sent WHERE toDid = ? AND inReplyTo = ? LIMIT 1", peerDid, requestId) !== null;
  }

  /** What a receipt of a message is checked against; `null` when there is no such message. */
  proofOf(requestId: string, toDid: string): SentProof | null {
    const message = this.find(requestId, toDid);
    if (message === null) return null;
    const { sentAt, conversationId } = message;
    const { bodySha256 = null, payloadSha256 = null, salt = null } = this.bodyOf(message) ?? {};
    return { sentAt, conversationId, bodySha256, payloadSha256, salt };
  }

  payloadOf({ seq }: Pick<SentMessage, "seq">): string | null {
    const payload = this.db.get("SELECT payload FROM sent WHERE seq = ?", seq)?.payload ?? "";
    return payload === "" ? null : String(payload);
  }

  bodyOf({ seq }: Pick<SentMessage, "seq">): SentBody | null {
    const sql = "SELECT payloadSha256, bodySha256, salt, body FROM sent WHERE seq = ? AND bodySha256 IS NOT NULL";
    return this.db.get<SentBody>(sql, seq);
  }

  /**
   * Stores what is about to be sent for a message, and returns what is stored. Two attempts at the same time both send
   * the body of the first, because the proxy would refuse another one. A body that the proxy may already have is not
   * replaced.
   */
  leave(message: Pick<SentMessage, "seq">, body: SentBody): SentBody {
    return this.db.transactionWithoutSync(() => {
      const present = this.bodyOf(message);
      const isOpen = () => ["sending", "kept"].includes(this.one(message.seq)?.state ?? "");
      if (present !== null && (present.body !== null || !isOpen())) return present;
      this.#storeBody(message, body);
      return body;
    });
  }

  #storeBody({ seq }: Pick<SentMessage, "seq">, { payloadSha256, bodySha256, salt, body }: SentBody): void {
    const bytes = body?.length ?? 0;
    this.db.run(
      "UPDATE sent SET payloadSha256 = ?, bodySha256 = ?, salt = ?, body = ?, bodyBytes = ? WHERE seq = ?",
      ...[payloadSha256, bodySha256, salt, body, bytes, seq],
    );
    if (this.#kept !== null) this.#kept.bytes += bytes;
  }

  /** Messages without their content, newest first; with `before`, only those with a lower `seq`. */
  list(
    { toDid, before = Number.MAX_SAFE_INTEGER, limit }: {
      toDid?: string | undefined;
      before?: number | undefined;
      limit: number;
    },
  ): {
    messages: SentMessage[];
    /** True when there are older ones. */
    more: boolean;
  } {
    const isTo = toDid === undefined ? "" : "AND toDid = ?";
    const values = [before, ...toDid === undefined ? [] : [toDid], limit + 1];
    const found = this.#select(`seq < ? ${isTo} ORDER BY seq DESC LIMIT ?`, ...values);
    return { messages: found.slice(0, limit), more: found.length > limit };
  }

  /**
   * Tasks of local A2A clients for a peer, the newest state first, and how many there are in all pages. The last
   * `cursor` begins the next page. Of over 1,000 tasks the oldest are left out.
   */
  tasks(
    toDid: string,
    { contextId, since, before, limit }: {
      contextId: string | undefined;
      since: number;
      before: TaskCursor | undefined;
      limit: number;
    },
  ): { tasks: { sent: SentMessage; cursor: TaskCursor }[]; more: boolean; total: number } {
    const all = this.db.all<SentRow & TaskCursor>(
      `SELECT * FROM (${TASKS}) WHERE at >= ? AND conversationId IS coalesce(?, conversationId)
       ORDER BY at DESC, seq DESC`,
      ...[toDid, since, contextId ?? null],
    );
    const left = all.filter(({ at, seq }) =>
      before === undefined || at < before.at || at === before.at && seq < before.seq
    );
    const tasks = left.slice(0, limit).map(({ at, ...row }) => ({ sent: toSent(row), cursor: { at, seq: row.seq } }));
    return { tasks, more: left.length > limit, total: all.length };
  }

  /**
   * Marks the messages whose request an earlier run did not complete as `unknown`, or as `kept` when the connector
   * sends them again by itself. Returns the number marked.
   */
  markInterrupted(now: number): number {
    return this.db.run(
      `UPDATE sent SET state = CASE WHEN keep = 1 THEN 'kept' ELSE 'unknown' END, stateAt = ?, mayHaveArrived = 1,
       nextAt = 0, problem = ? WHERE state = 'sending'`,
      ...[now, INTERRUPTED],
    );
  }

  /** The queue of kept messages: the oldest to each peer, so that no newer one overtakes it. */
  readonly kept = {
    due: (now: number, latest: number): SentMessage[] =>
      this.#select(`${FIRST_KEPT} AND (nextAt <= ? OR nextAt > ?) ORDER BY seq`, now, latest),
    nextAt: (now: number) => this.db.number(`SELECT min(nextAt) FROM sent WHERE ${FIRST_KEPT} AND nextAt > ?`, now),
    makeAllDue: (now: number, seq: number | null = null) =>
      void this.db.runWithoutSync(`${MAKE_DUE} AND seq = coalesce(?2, seq)`, now, seq),
  };

  /** The newest messages before `seq` whose state the proxy may change. */
  open(seq: number, limit: number): SentMessage[] {
    const isOpen = "state IN ('queued', 'delivered', 'unknown', 'dead_lettered') AND seq < ?";
    return this.#select(`${isOpen} ORDER BY seq DESC LIMIT ?`, Math.min(seq, Number.MAX_SAFE_INTEGER), limit);
  }

  /** Blanks the content of messages that have ended, to one recipient or to all. Returns how many. */
  blank(toDid: string | null): number {
    this.#kept = null;
    const which = `payload <> '' AND ${FINISHED} AND toDid = coalesce(?, toDid)`;
    return this.db.run(`UPDATE sent SET payload = '' WHERE ${which}`, toDid);
  }

  /** Deletes old rows, except of messages that still wait here and would vanish unsaid, and blanks old content. */
  forget(now: number, historyMs: number): void {
    this.#kept = null;
    this.db.transactionWithoutSync(() => {
      const end = now - Math.max(SENT_KEPT_MS, historyMs);
      this.db.run("DELETE FROM sent WHERE state NOT IN ('sending', 'kept') AND stateAt < ?", end);
      const over = now - historyMs;
      this.db.run(`UPDATE sent SET payload = '' WHERE payload <> '' AND ${FINISHED} AND stateAt < ?`, over);
      // After a day the proxy takes the ID for a new message, so the same body is not needed again.
      this.db.run(`UPDATE sent SET ${NO_BODY} WHERE body IS NOT NULL AND sentAt < ?`, now - LIMIT.seenKeptMs);
    });
  }

  #makeRoom(bytes: number): void {
    const kept = this.#kept ??= this.#count();
    if (kept.rows >= SENT_MESSAGES) {
      this.db.run(`DELETE FROM sent WHERE seq IN (SELECT seq FROM sent ${OLDEST_FINISHED})`, ROOM_ROWS);
      Object.assign(kept, this.#count());
    }
    while (kept.bytes > 0 && kept.bytes + bytes > SENT_BYTES) {
      // A message that is not sent yet needs its content; of the others the state is enough.
      const oldest = `SELECT seq FROM sent WHERE payload <> '' ${OLDEST_FINISHED}`;
      const blank =
        `UPDATE sent SET payload = '', ${NO_BODY} WHERE state NOT IN ('sending', 'kept') AND seq IN (${oldest})`;
      if (this.db.run(blank, ROOM_ROWS) === 0) this.db.run(`DELETE FROM sent WHERE seq IN (${oldest})`, 1);
      Object.assign(kept, this.#count());
    }
    kept.rows++;
    kept.bytes += bytes;
  }

  /** All rows, and the bytes of those that have content. */
  #count(): { rows: number; bytes: number } {
    const { bytes } = this.db.sums("bytes + bodyBytes", "sent", "payload <> ''");
    return { rows: this.db.number("SELECT count(*) FROM sent") ?? 0, bytes };
  }

  #select(rest: string, ...values: Cell[]): SentMessage[] {
    return this.db.all<SentRow>(`SELECT ${COLUMNS} FROM sent WHERE ${rest}`, ...values).map(toSent);
  }
}

type SentRow = Omit<SentMessage, "auto" | "mayHaveArrived"> & Record<"auto" | "mayHaveArrived", number>;

function toSent(row: SentRow): SentMessage {
  return { ...row, auto: row.auto === 1, mayHaveArrived: row.mayHaveArrived === 1 };
}
