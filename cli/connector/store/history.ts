/**
 * Reads what the agent and its peers have written, as long as its text is kept: both directions in the order of time. A
 * search looks through a bounded number of messages, in parts, because acknowledgements wait meanwhile.
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

export type Written =
  | { kind: "received"; message: InboxMessage }
  | { kind: "sent"; message: SentMessage; payload: string };

/** A place in the history: the number of the last shown message of each direction. */
export interface Place {
  received: number;
  sent: number;
}

export interface LogQuery {
  did?: string | undefined;
  /** Only messages from this time on, milliseconds. */
  since?: number | undefined;
  /** Only messages for which this holds; without it all. */
  isWanted?: ((content: Content) => boolean) | undefined;
  /** From which place, and in which direction; default: from the newest backwards. */
  from?: { before: Place } | { after: Place } | undefined;
  limit: number;
}

/** What a search sees of a message. `identity`: of its sender, for a received one. */
export interface Content {
  payload: string;
  identity: FrameIdentity | null;
}

/** A row with what its order and a search need. */
interface Found {
  kind: Written["kind"];
  seq: number;
  at: number;
  bytes: number;
  content: Content;
}

const NEWEST: Place = { received: Number.MAX_SAFE_INTEGER, sent: Number.MAX_SAFE_INTEGER };

export class MessageLog {
  constructor(private readonly db: Database, private readonly sent: SentMessages) {}

  /** Messages in the direction of the query, and the place where the next page begins; `null` at the end. */
  async page(query: LogQuery): Promise<{ messages: Written[]; next: Place | null }> {
    const { isWanted, limit } = query;
    const messages: Written[] = [];
    let bytes = 0, place = placeOf(query);
    for (let searched = 0; searched < SEARCHED; searched += BATCH) {
      const rows = this.#rows(query, place, isWanted === undefined ? Math.min(limit + 1, BATCH) : BATCH);
      if (rows.length === 0) return { messages, next: null };
      for (const { kind, seq, bytes: size, content } of rows) {
        if (isWanted?.(content) ?? true) {
          bytes += size;
          const isFull = messages.length === limit || messages.length > 0 && bytes > LISTED_BYTES;
          if (isFull) return { messages, next: place };
          const message = this.#message(kind, seq, content);
          if (message !== null) messages.push(message);
        }
        place = { ...place, [kind]: seq };
      }
      await yieldToEventLoop();
    }
    return { messages, next: place };
  }

  /** The next rows of both directions, merged by time; each direction keeps its own order. */
  #rows(query: LogQuery, place: Place, count: number): Found[] {
    const isForward = isForwards(query);
    const received = this.#found("received", query, place.received, count);
    const sent = this.#found("sent", query, place.sent, count);
    const rows: Found[] = [];
    while (rows.length < count) {
      const [a, b] = [received[0], sent[0]];
      if (a === undefined && b === undefined) break;
      const isA = b === undefined || a !== undefined && (isForward ? a.at <= b.at : a.at > b.at);
      rows.push(...(isA ? received : sent).splice(0, 1));
    }
    return rows;
  }

  #found(kind: Found["kind"], query: LogQuery, seq: number, count: number): Found[] {
    const { did, since = 0 } = query;
    const [table, at, peer, identity, dead] = kind === "received"
      ? ["messages", "receivedAt", "fromDid", "identity", "AND state <> 'dead'"]
      : ["sent", "sentAt", "toDid", "NULL", ""];
    const [than, order] = isForwards(query) ? [">", "ASC"] : ["<", "DESC"];
    const rows = this.db.all<Pick<Found, "seq" | "at" | "bytes"> & { payload: string; identity: string | null }>(
      `SELECT seq, ${at} AS at, bytes, payload, ${identity} AS identity FROM ${table}
       WHERE seq ${than} ? AND ${at} >= ? AND payload <> '' ${dead} ${did === undefined ? "" : `AND ${peer} = ?`}
       ORDER BY seq ${order} LIMIT ?`,
      ...[seq, since, ...did === undefined ? [] : [did], count],
    );
    return rows.map(({ payload, identity, ...row }): Found => ({
      kind,
      ...row,
      content: { payload, identity: identity === null ? null : JSON.parse(identity) },
    }));
  }

  #message(kind: Found["kind"], seq: number, { payload }: Content): Written | null {
    if (kind === "sent") {
      const [message] = this.sent.list({ before: seq + 1, limit: 1 }).messages;
      return message?.seq === seq ? { kind, message, payload } : null;
    }
    const row = this.db.get<MessageRow>(`SELECT ${MESSAGE_COLUMNS} FROM messages WHERE seq = ?`, seq);
    return row && { kind, message: toMessage(row) };
  }
}

function isForwards({ from }: LogQuery): boolean {
  return from !== undefined && "after" in from;
}

function placeOf({ from }: LogQuery): Place {
  if (from === undefined) return NEWEST;
  return "after" in from ? from.after : from.before;
}
