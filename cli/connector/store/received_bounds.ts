/**
 * The bounds of the inbox (D-68, D-116): messages and bytes in total, of each sender and of all agents of one owner, so
 * that no peer shuts out the others. Makes room by blanking what was read and deleting dead letters.
 */
import type { Cell, Database } from "./database.ts";

/**
 * Bounds of the inbox. Waiting, unread and dead messages count, and read ones while they have content. Without bounds,
 * peers fill the disk.
 */
export const INBOX_MESSAGES = 10_000, INBOX_BYTES = 1024 ** 3;
/** What one sender may have waiting or unread, so that others still find room. */
export const SENDER_MESSAGES = 1_000, SENDER_BYTES = 64 * 1024 ** 2;

/**
 * What the agents of one owner together may have waiting or unread. With the bound of a sender alone, ten agents of one
 * person would leave no room for anyone else. It is looked up only in an inbox that is that full.
 */
export const OWNER_MESSAGES = INBOX_MESSAGES / 2, OWNER_BYTES = INBOX_BYTES / 2;

export interface InboxCounts {
  /** Messages for the runtime, or unread ones. */
  waiting: number;
  dead: number;
  /** Messages whose content is kept after the agent took them. */
  read: number;
  /** Bytes of the payloads of all of these. */
  bytes: number;
  /** When the oldest waiting message was received; `null` when none waits. */
  oldestAt: number | null;
}

/** As the index `messages_waiting_by_owner` has it. With another text, SQLite would not use that index. */
const OWNER = "json_extract(identity, '$.ownerDid')";
const READ = "readAt IS NOT NULL AND bytes > 0";
/** The sender with most read messages, if it has more than its share. */
const CROWDING = `SELECT fromDid FROM messages WHERE ${READ} GROUP BY fromDid
 HAVING count(*) > ${SENDER_MESSAGES} OR sum(bytes) > ${SENDER_BYTES} ORDER BY count(*) DESC LIMIT 1`;

export class ReceivedBounds {
  /** Messages and bytes that count toward the bounds; `null` until they are counted again. */
  #kept: { messages: number; bytes: number } | null = null;

  constructor(private readonly db: Database) {}

  counts(): InboxCounts {
    const row = this.db.get(
      `SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE state = 'dead') AS dead,
       coalesce(sum(bytes), 0) AS bytes, min(receivedAt) FILTER (WHERE state = 'waiting') AS oldestAt
       FROM messages WHERE state IN ('waiting', 'dead')`,
    ) as Omit<InboxCounts, "read">;
    const read = this.db.sums("bytes", "messages", READ);
    return { ...row, read: read.rows, bytes: row.bytes + read.bytes };
  }

  /**
   * Makes room for a message of a sender of an owner: blanks read messages, then deletes dead letters, the oldest first.
   * Read ones of a sender with more than its share go before all others, because it could otherwise erase what others
   * wrote. Returns false when the message does not fit.
   */
  makeRoom(fromDid: string, ownerDid: string, bytes: number): boolean {
    const unread = this.db.sums("bytes", "messages", "fromDid = ? AND state = 'waiting'", fromDid);
    if (unread.rows >= SENDER_MESSAGES || unread.bytes + bytes > SENDER_BYTES) return false;
    if (this.#isCrowdedBy(ownerDid, bytes)) return false;
    // Looked up once, because a large message may need the room of thousands of small ones.
    let crowding: { fromDid: string } | null | undefined;
    while (true) {
      const kept = this.#kept ??= this.#count();
      if (kept.messages < INBOX_MESSAGES && kept.bytes + bytes <= INBOX_BYTES) return true;
      if (crowding === undefined) crowding = this.db.get(CROWDING);
      const freed = this.#freeOldest(crowding?.fromDid);
      if (freed === null) return false;
      this.add(-1, -freed);
    }
  }

  add(messages: number, bytes: number): void {
    if (this.#kept === null) return;
    this.#kept = { messages: this.#kept.messages + messages, bytes: this.#kept.bytes + bytes };
  }

  /** Makes the next use count everything again, after a change that was not counted. */
  recount(): void {
    this.#kept = null;
  }

  #isCrowdedBy(ownerDid: string, bytes: number): boolean {
    const kept = this.#kept ??= this.#count();
    if (kept.messages < OWNER_MESSAGES && kept.bytes + bytes <= OWNER_BYTES) return false;
    const unread = this.db.sums("bytes", "messages", `${OWNER} = ? AND state = 'waiting'`, ownerDid);
    return unread.rows >= OWNER_MESSAGES || unread.bytes + bytes > OWNER_BYTES;
  }

  #count(): { messages: number; bytes: number } {
    const { waiting, dead, read, bytes } = this.counts();
    return { messages: waiting + dead + read, bytes };
  }

  /**
   * Blanks the oldest read message, of the crowding sender if there is one, or else deletes the oldest dead letter.
   * Returns the bytes; `null` without one.
   */
  #freeOldest(crowding: string | undefined): number | null {
    const oldest = (condition: string, ...values: Cell[]) =>
      this.db.get<{ seq: number; bytes: number }>(
        `SELECT seq, bytes FROM messages WHERE ${condition} ORDER BY seq LIMIT 1`,
        ...values,
      );
    const its = crowding === undefined ? null : oldest(`${READ} AND fromDid = ?`, crowding);
    const read = its ?? oldest(READ), freed = read ?? oldest("state = 'dead'");
    if (freed === null) return null;
    const free = read === null ? "DELETE FROM messages" : "UPDATE messages SET payload = '', bytes = 0";
    this.db.run(`${free} WHERE seq = ?`, freed.seq);
    return freed.bytes;
  }
}
