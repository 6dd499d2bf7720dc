/**
 * Receipts that are not sent yet (D-72, D-88). Each is stored in the transaction that ends its message and kept until
 * the proxy has it. Signs and sends nothing.
 */
import type { ReceiptStatus } from "../../../shared/protocol/api/receipts.ts";
import type { NewId } from "../../../shared/protocol/ids.ts";
import type { ReceiptClaims } from "../../../shared/protocol/receipt_token.ts";
import type { Database } from "./database.ts";
import type { OnChange } from "./received_rows.ts";

/** What a receipt says of the message's proof (D-154). */
export type AboutProof = Pick<ReceiptClaims, "nonce" | "bodySha256" | "payloadSha256">;

/** A receipt that is not sent yet; times are milliseconds since the Unix epoch. */
export interface PendingReceipt {
  seq: number;
  fromDid: string;
  requestId: string;
  status: ReceiptStatus;
  at: number;
  about: AboutProof & Pick<ReceiptClaims, "jti" | "conversationId">;
  attempts: number;
  nextAt: number;
}

export class ReceiptRows {
  constructor(private readonly db: Database, private readonly onChange: OnChange, private readonly newId: NewId) {}

  /** Adds a receipt. Outside the transaction that ends the message, a kill between the two would lose it. */
  add(
    { fromDid, requestId, status, at, about }: Pick<PendingReceipt, "fromDid" | "requestId" | "status" | "at"> & {
      about: Omit<PendingReceipt["about"], "jti">;
    },
  ): void {
    const sql =
      "INSERT INTO receipts (fromDid, requestId, status, at, about) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
    this.db.run(sql, fromDid, requestId, status, at, JSON.stringify({ jti: this.newId(), ...about }));
    this.db.afterCommit(() => this.onChange({ kind: "receipt" }));
  }

  /** The receipts that are due, oldest first, at most 100. */
  due(now: number, latest: number): PendingReceipt[] {
    // A time beyond the longest wait comes from a clock that was set back, so it counts as due.
    const sql = "SELECT * FROM receipts WHERE nextAt <= ? OR nextAt > ? ORDER BY seq LIMIT 100";
    return this.db.all<Omit<PendingReceipt, "about"> & { about: string }>(sql, now, latest)
      .map((row) => ({ ...row, about: JSON.parse(row.about) }));
  }

  /** When the next receipt is due that is not due now. */
  nextAt(now: number): number | null {
    return this.db.number("SELECT min(nextAt) FROM receipts WHERE nextAt > ?", now);
  }

  get size(): number {
    return this.db.number("SELECT count(*) FROM receipts") ?? 0;
  }

  /** Removes a receipt without waiting for the disk. If a power failure brings it back, it is only sent again. */
  remove(seq: number): void {
    this.db.runWithoutSync("DELETE FROM receipts WHERE seq = ?", seq);
  }

  postpone(seq: number, attempts: number, nextAt: number): void {
    this.db.runWithoutSync("UPDATE receipts SET attempts = ?, nextAt = ? WHERE seq = ?", attempts, nextAt, seq);
  }

  makeAllDue(now: number): void {
    this.db.runWithoutSync("UPDATE receipts SET nextAt = ?1 WHERE nextAt > ?1", now);
  }

  forget(before: number): number {
    return this.db.runWithoutSync("DELETE FROM receipts WHERE at < ?", before);
  }
}
