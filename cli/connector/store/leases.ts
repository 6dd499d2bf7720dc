/**
 * Messages that a program holds while it shows them (D-395): they are unread, because no reader has seen them yet, but
 * another program must not show them too. A lease ends by itself, because a program that is killed releases nothing. It is on
 * disk, because the connector may end before the program does.
 */
import type { Cell, Database } from "./database.ts";
import { type StoredMessage, toStored } from "./received_rows.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";

/** A lease. `until` in milliseconds since the Unix epoch. */
export interface Lease {
  id: string;
  until: number;
}

/** Condition for a message that no program holds; takes the values of `free`. */
export const IS_FREE = "(lease_until <= ? OR lease_until > ?)";

/** The values of `IS_FREE`. A lease that ends later than any may comes from a clock that was set back; it is over. */
export function free(now: number): [number, number] {
  return [now, now + LIMITS.leaseSeconds * 1000];
}

/** Whether a lease that ends at a time holds now. */
export function isLeased(until: number, now: number): boolean {
  const [over, later] = free(now);
  return until > over && until <= later;
}

const ANNOUNCED = "seq, from_did, conversation_id, in_reply_to";

export class Leases {
  constructor(private readonly db: Database) {}

  /**
   * Leases unread messages. Returns the IDs that this lease holds now. The rows survive a kill of the connector. After a
   * power failure they may be missing: then the message is unread, which is what its program's end makes it anyway.
   *
   * @param mayTake further condition, with its values
   */
  take(ids: readonly number[], { id, until }: Lease, now: number, mayTake: string, values: readonly Cell[]): number[] {
    return this.db.transactionWithoutSync(() =>
      ids.filter((seq) =>
        this.db.run(
          `UPDATE messages SET may_repeat = may_repeat OR (lease_id IS NOT NULL AND lease_id <> ?), lease_id = ?,
           lease_until = ? WHERE seq = ? AND state = 'waiting' AND (lease_id = ? OR ${IS_FREE}) AND ${mayTake}`,
          ...[id, id, until, seq, id, ...free(now), ...values],
        ) > 0
      )
    );
  }

  /** Ends a lease whose messages were not shown: the next reader gets them as new ones. Returns those that are unread. */
  release(ids: readonly number[], id: string): StoredMessage[] {
    return this.db.transactionWithoutSync(() =>
      ids.flatMap((seq) =>
        this.db.all(
          `UPDATE messages SET lease_id = NULL, lease_until = 0 WHERE seq = ? AND lease_id = ? AND state = 'waiting'
           RETURNING ${ANNOUNCED}`,
          ...[seq, id],
        )
      )
    ).map(toStored);
  }

  /** Ends the leases whose time is over: whether their messages were shown is not known. Returns those that are unread. */
  end(now: number): StoredMessage[] {
    return this.db.transactionWithoutSync(() =>
      this.db.all(
        `UPDATE messages SET lease_until = 0 WHERE lease_until > 0 AND state = 'waiting' AND ${IS_FREE}
         RETURNING ${ANNOUNCED}`,
        ...free(now),
      )
    ).map(toStored);
  }

  /** When the next lease ends; `null` without one. */
  nextEnd(): number | null {
    const row = this.db.get(
      "SELECT min(lease_until) AS until FROM messages WHERE lease_until > 0 AND state = 'waiting'",
    );
    return row?.until === null ? null : Number(row?.until);
  }
}
