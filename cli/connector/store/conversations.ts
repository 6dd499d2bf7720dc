/** What the agent and its peers have written to each other, for people: by peer, both directions. Only reads. */
import type { Database } from "./database.ts";
import { isLeased } from "./received_messages.ts";
import { type InboxMessage, MESSAGE_COLUMNS, type MessageRow, toMessage } from "./received_rows.ts";
import type { SentMessage, SentMessages } from "./sent_messages.ts";

export interface Conversation {
  did: string;
  at: number;
  unread: number;
}

export type Entry =
  | {
    kind: "received";
    at: number;
    message: InboxMessage;
    isUnread: boolean;
    /** True while a program holds it, so that no other reader may take it (D-395). */
    isHeld: boolean;
  }
  | { kind: "sent"; at: number; message: SentMessage; payload: string | null };

/** The place before a shown page: the lowest number of each direction on it. */
export interface Before {
  received: number;
  sent: number;
}

const NOT_DEAD = "state <> 'dead'";

export class Conversations {
  constructor(readonly db: Database, readonly sent: SentMessages) {}

  list(limit: number, offset: number): { conversations: Conversation[]; more: boolean } {
    const rows = this.db.all<Conversation>(
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

  /** The latest messages with a peer, oldest first. `before`: only those before a page that was shown. */
  thread(did: string, now: number, limit: number, before: Partial<Before> = {}): {
    entries: Entry[];
    /** `null` when there are no older ones. */
    older: Before | null;
  } {
    const { received = Number.MAX_SAFE_INTEGER, sent = Number.MAX_SAFE_INTEGER } = before;
    const rows = this.db.all<MessageRow & { state: string; leaseUntil: number }>(
      `SELECT ${MESSAGE_COLUMNS}, state, leaseUntil FROM messages WHERE fromDid = ? AND seq < ? AND ${NOT_DEAD}
       ORDER BY seq DESC LIMIT ?`,
      ...[did, received, limit + 1],
    );
    const mine = this.sent.list({ toDid: did, before: sent, limit: limit + 1 }).messages;
    const theirs = rows.map((row): Entry => ({
      kind: "received",
      at: row.receivedAt,
      message: toMessage(row),
      isUnread: row.state === "waiting",
      isHeld: isLeased(row.leaseUntil, now),
    }));
    const own = mine.map((message): Entry => ({
      kind: "sent",
      at: message.sentAt,
      message,
      payload: this.sent.payloadOf(message),
    }));
    const isMore = theirs.length + own.length > limit;
    const entries: Entry[] = [];
    // Each direction keeps its order, because a page would otherwise skip what came after the clock was set back.
    while (entries.length < limit && theirs.length + own.length > 0) {
      const [a, b] = [theirs[0], own[0]];
      const isTheirs = b === undefined || a !== undefined && a.at > b.at;
      entries.unshift(...(isTheirs ? theirs : own).splice(0, 1));
    }
    const lowest = (kind: Entry["kind"], none: number) =>
      entries.filter((entry) => entry.kind === kind).reduce((low, { message }) => Math.min(low, message.seq), none);
    const older = { received: lowest("received", received), sent: lowest("sent", sent) };
    return { entries, older: isMore ? older : null };
  }
}
