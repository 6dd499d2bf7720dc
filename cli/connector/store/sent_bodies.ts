/**
 * What left for each sent message (D-152), in columns of `sent`: its hashes, against which a receipt is checked, and for a day the
 * sealed body, because each seal of a payload is another text and the proxy would refuse another text under the request ID.
 */
import { CONNECTOR_LIMITS as LIMIT } from "../limits.ts";
import type { Database } from "./database.ts";

/** A plain message has the hash of its body only: its payload is the body. */
export interface SentBody {
  /** base64url, as are the hashes. */
  salt: string | null;
  payloadSha256: string | null;
  bodySha256: string;
  /** The sealed body; `null` for a plain message, and when it is dropped. */
  body: string | null;
}

/** Values of a row without its body. */
export const NO_BODY = "body = NULL, body_bytes = 0";

/** Names a row of `sent`. */
interface SentRow {
  seq: number;
}

export class SentBodies {
  constructor(private readonly db: Database, private readonly onStored: (bytes: number) => void) {}

  /** What left for a message; `null` when nothing has. */
  of({ seq }: SentRow): SentBody | null {
    const row = this.db.get("SELECT payload_sha256, body_sha256, salt, body FROM sent WHERE seq = ?", seq);
    if (row === null || row.body_sha256 === null) return null;
    return {
      payloadSha256: row.payload_sha256 as string | null,
      bodySha256: String(row.body_sha256),
      salt: row.salt as string | null,
      body: row.body as string | null,
    };
  }

  /**
   * Stores what is going to leave for a message, and returns what is stored. Of two attempts at a time the first one stores, and
   * both send its body. What the proxy may have already stays.
   */
  leave(message: SentRow, body: SentBody): SentBody {
    return this.db.transactionWithoutSync(() => {
      const present = this.of(message);
      if (present !== null && (present.body !== null || !this.#isOpen(message))) return present;
      this.store(message, body);
      return body;
    });
  }

  /** The same, in a transaction of the caller, and always. */
  store({ seq }: SentRow, { payloadSha256, bodySha256, salt, body }: SentBody): void {
    const bytes = body?.length ?? 0;
    this.db.run(
      "UPDATE sent SET payload_sha256 = ?, body_sha256 = ?, salt = ?, body = ?, body_bytes = ? WHERE seq = ?",
      ...[payloadSha256, bodySha256, salt, body, bytes, seq],
    );
    this.onStored(bytes);
  }

  /** Drops bodies after a day: the proxy takes the ID for a new message then. */
  prune(now: number): void {
    this.db.run(`UPDATE sent SET ${NO_BODY} WHERE body IS NOT NULL AND sent_at < ?`, now - LIMIT.seenKeptMs);
  }

  #isOpen({ seq }: SentRow): boolean {
    return this.db.get("SELECT 1 FROM sent WHERE seq = ? AND state IN ('sending', 'kept')", seq) !== null;
  }
}
