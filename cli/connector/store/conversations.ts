/** What the agent and its peers have written to each other, for people: by peer, both directions. Only reads. */
import type { Database } from "./database.ts";
import { isLeased } from "./leases.ts";
import { type InboxMessage, MESSAGE_COLUMNS, toMessage } from "./received_rows.ts";
import type { SentMessage, SentMessages } from "./sent_messages.ts";

/** The messages of one peer. */
export interface Conversation {
  did: string;
  /** When the last message came or left. */
  at: number;
  unread: number;
}

/** A message of a conversation. */
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

/** Where the page before one begins: the lowest number of each direction that was shown. */
export interface Before {
  received: number;
  sent: number;
}

const NOT_DEAD = "state <> 'dead'";

export class Conversations {
  constructor(readonly db: Database, readonly sent: SentMessages) {}

  /** The conversations with the latest messages, the latest first. */
  list(limit: number, offset: number): { conversations: Conversation[]; more: boolean } {
    const rows = this.db.all(
      `SELECT did, max(at) AS at, sum(unread) AS unread FROM (
         SELECT from_did AS did, max(received_at) AS at, sum(state = 'waiting') AS unread FROM messages
         WHERE ${NOT_DEAD} GROUP BY from_did
         UNION ALL SELECT to_did, max(sent_at), 0 FROM sent GROUP BY to_did
       ) GROUP BY did ORDER BY at DESC, did LIMIT ? OFFSET ?`,
      ...[limit + 1, offset],
    );
    const conversations = rows.slice(0, limit)
      .map(({ did, at, unread }) => ({ did: String(did), at: Number(at), unread: Number(unread) }));
    return { conversations, more: rows.length > limit };
  }

  /** When the last message with a peer came or left; `null` without one. */
  lastAt(did: string): number | null {
    const row = this.db.get(
      `SELECT max((SELECT coalesce(max(received_at), 0) FROM
         (SELECT received_at FROM messages WHERE from_did = ?1 ORDER BY seq DESC LIMIT 1)),
         (SELECT coalesce(max(sent_at), 0) FROM
         (SELECT sent_at FROM sent WHERE to_did = ?1 ORDER BY seq DESC LIMIT 1))) AS at`,
      did,
    );
    return Number(row?.at) || null;
  }

  /** The latest messages with a peer, oldest first. `before`: only those before a page that was shown. */
  thread(did: string, now: number, limit: number, before: Partial<Before> = {}): {
    entries: Entry[];
    /** `null` when there are no older ones. */
    older: Before | null;
  } {
    const { received = Number.MAX_SAFE_INTEGER, sent = Number.MAX_SAFE_INTEGER } = before;
    const rows = this.db.all(
      `SELECT ${MESSAGE_COLUMNS} FROM messages WHERE from_did = ? AND seq < ? AND ${NOT_DEAD} ORDER BY seq DESC LIMIT ?`,
      ...[did, received, limit + 1],
    );
    const mine = this.sent.list({ toDid: did, before: sent, limit: limit + 1 }).messages;
    const all: Entry[] = [
      ...rows.map((row): Entry => ({
        kind: "received",
        at: Number(row.received_at),
        message: toMessage(row),
        isUnread: row.state === "waiting",
        isHeld: isLeased(Number(row.lease_until), now),
      })),
      ...mine.map((message): Entry => ({
        kind: "sent",
        at: message.sentAt,
        message,
        payload: this.sent.payloadOf(message),
      })),
    ];
    all.sort((a, b) => b.at - a.at || b.message.seq - a.message.seq);
    const entries = all.slice(0, limit).reverse();
    const lowest = (kind: Entry["kind"], none: number) =>
      entries.filter((entry) => entry.kind === kind).reduce((low, { message }) => Math.min(low, message.seq), none);
    const older = { received: lowest("received", received), sent: lowest("sent", sent) };
    return { entries, older: all.length > limit ? older : null };
  }
}
