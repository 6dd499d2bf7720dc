/**
 * What the agent and its peers have written to each other, in both directions: a thread with each peer for people, and
 * a log of all messages whose texts are still kept. Only reads. A search looks through a bounded number of messages,
 * with pauses, because acknowledgements would otherwise wait for its end.
 */
import { yieldToEventLoop } from "../../../shared/clock.ts";
import type { FrameIdentity } from "../../../shared/protocol/frames.ts";
import type { Database } from "./database.ts";
import { LISTED_BYTES } from "./received_messages.ts";
import { type InboxMessage, MESSAGE_COLUMNS, type MessageRow, toMessage } from "./received_rows.ts";
import type { SentMessage, SentMessages } from "./sent_messages.ts";

const SEARCHED = 100_000;
/** Rows in memory at a time, and between two pauses. With more, a search holds up other calls. */
const BATCH = 500;

/** A message; `payload` is empty once its content is blanked. */
export type Written =
  | { kind: "received"; at: number; message: InboxMessage }
  | { kind: "sent"; at: number; message: SentMessage; payload: string };

/** A place in the history: the number of the last shown message of each direction. */
export interface Place {
  received: number;
  sent: number;
}

export interface LogQuery {
  did?: string | undefined;
  /** Only messages from this time on, milliseconds. */
  since?: number | undefined;
  /** Whether messages whose content is blanked are among them. */
  hasBlanked?: boolean;
  /** Only messages for which this holds; without it all. */
  isWanted?: ((content: Content) => boolean) | undefined;
  /** Where the page begins; without it, at the newest message. */
  from?: Place | undefined;
  /** Whether the oldest message comes first, in place of the newest. */
  isForward?: boolean;
  limit: number;
}

/** What a search sees of a message. `identity` is that of the sender of a received one. */
export interface Content {
  payload: string;
  identity: FrameIdentity | null;
}

const NEWEST: Place = { received: Number.MAX_SAFE_INTEGER, sent: Number.MAX_SAFE_INTEGER };
const NOT_DEAD = "state <> 'dead'";

export class History {
  constructor(private readonly db: Database, private readonly sent: SentMessages) {}

  /** The peers of a page, with the time of the last message and the number of unread ones. */
  conversations(limit: number, offset: number) {
    const rows = this.db.all<{ did: string; at: number; unread: number }>(
      `SELECT did, max(at) AS at, sum(unread) AS unread FROM (
         SELECT fromDid AS did, max(receivedAt) AS at, sum(state = 'waiting') AS unread FROM messages
         WHERE ${NOT_DEAD} GROUP BY fromDid
         UNION ALL SELECT toDid, max(sentAt), 0 FROM sent GROUP BY toDid
       ) GROUP BY did ORDER BY at DESC, did LIMIT ? OFFSET ?`,
      ...[limit + 1, offset],
    );
    return { conversations: rows.slice(0, limit), more: rows.length > limit };
  }

  /** When the last message with a peer came or left; `null` without one. */
  lastAt(did: string): number | null {
    const last = (at: string, table: string, peer: string) =>
      `coalesce((SELECT ${at} FROM ${table} WHERE ${peer} = ?1 ORDER BY seq DESC LIMIT 1), 0)`;
    const sql = `SELECT max(${last("receivedAt", "messages", "fromDid")}, ${last("sentAt", "sent", "toDid")})`;
    return this.db.number(sql, did) || null;
  }

  /** The latest messages with a peer, oldest first; with `before`, those before a page that was shown. */
  thread(did: string, limit: number, before = NEWEST): {
    entries: Written[];
    /** `null` when there are no older ones. */
    older: Place | null;
  } {
    const found = (kind: Written["kind"]) =>
      this.#found(kind, { did, hasBlanked: true, limit }, before[kind], limit + 1);
    const rows = merged(found("received"), found("sent"), limit + 1);
    const entries = rows.slice(0, limit).flatMap((row) => this.#message(row) ?? []).reverse();
    const lowest = (kind: Written["kind"]) => entries.find((entry) => entry.kind === kind)?.message.seq ?? before[kind];
    return { entries, older: rows.length > limit ? { received: lowest("received"), sent: lowest("sent") } : null };
  }

  /** Messages in the direction of the query, and the place where the next page begins; `null` at the end. */
  async log(query: LogQuery): Promise<{ messages: Written[]; next: Place | null }> {
    const { isWanted, limit, isForward = false } = query;
    const count = isWanted === undefined ? Math.min(limit + 1, BATCH) : BATCH;
    const messages: Written[] = [];
    let bytes = 0, place = query.from ?? NEWEST;
    for (let searched = 0; searched < SEARCHED; searched += BATCH) {
      const found = (kind: Written["kind"]) => this.#found(kind, query, place[kind], count);
      const rows = merged(found("received"), found("sent"), count, isForward);
      if (rows.length === 0) return { messages, next: null };
      for (const row of rows) {
        if (isWanted?.(row.content) ?? true) {
          bytes += row.bytes;
          const isFull = messages.length === limit || messages.length > 0 && bytes > LISTED_BYTES;
          if (isFull) return { messages, next: place };
          const message = this.#message(row);
          if (message !== null) messages.push(message);
        }
        place = { ...place, [row.kind]: row.seq };
      }
      await yieldToEventLoop();
    }
    return { messages, next: place };
  }

  /** The next rows in one direction, each with the values for its order and for a search. */
  #found(kind: Written["kind"], { did, since = 0, hasBlanked, isForward }: LogQuery, seq: number, count: number) {
    const [table, at, peer, identity, dead] = kind === "received"
      ? ["messages", "receivedAt", "fromDid", "identity", `AND ${NOT_DEAD}`]
      : ["sent", "sentAt", "toDid", "NULL", ""];
    const [than, order] = isForward ? [">", "ASC"] : ["<", "DESC"];
    const rows = this.db.all<{ seq: number; at: number; bytes: number; payload: string; identity: string | null }>(
      `SELECT seq, ${at} AS at, bytes, payload, ${identity} AS identity FROM ${table}
       WHERE seq ${than} ? AND ${at} >= ? ${hasBlanked ? "" : "AND payload <> ''"} ${dead}
       ${did === undefined ? "" : `AND ${peer} = ?`}
       ORDER BY seq ${order} LIMIT ?`,
      ...[seq, since, ...did === undefined ? [] : [did], count],
    );
    return rows.map(({ payload, identity, ...row }) => {
      const content: Content = { payload, identity: identity === null ? null : JSON.parse(identity) };
      return { kind, ...row, content };
    });
  }

  #message(
    { kind, at, seq, content: { payload } }: { kind: Written["kind"]; at: number; seq: number; content: Content },
  ): Written | null {
    if (kind === "sent") {
      const message = this.sent.one(seq);
      return message && { kind, at, message, payload };
    }
    const row = this.db.get<MessageRow>(`SELECT ${MESSAGE_COLUMNS} FROM messages WHERE seq = ?`, seq);
    return row && { kind, at, message: toMessage(row) };
  }
}

/**
 * The first entries of both lists, by time. Each list keeps its own order, because a page would otherwise skip what
 * came after the clock was set back. Takes the entries out of the lists.
 */
function merged<T extends { at: number }>(received: T[], sent: T[], count: number, isForward = false): T[] {
  const first: T[] = [];
  while (first.length < count) {
    const [a, b] = [received[0], sent[0]];
    if (a === undefined && b === undefined) break;
    const isA = b === undefined || a !== undefined && (isForward ? a.at <= b.at : a.at > b.at);
    first.push(...(isA ? received : sent).splice(0, 1));
  }
  return first;
}
