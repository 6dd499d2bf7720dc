/**
 * Receipts that are not sent yet (D-72, D-88). Each is stored in the transaction that ends its message and kept until the
 * proxy has it. Signs and sends nothing.
 */
import type { ReceiptStatus } from "../../../shared/protocol/api/receipts.ts";
import type { NewId } from "../../../shared/protocol/ids.ts";
import type { ReceiptClaims } from "../../../shared/protocol/receipt_token.ts";
import type { Cell, Database, Row } from "./database.ts";
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
  constructor(
    private readonly db: Database,
    private readonly onChange: OnChange,
    private readonly newId: NewId,
  ) {}

  /** Adds a receipt. Call it in the transaction that ends the message. */
  add(
    { fromDid, requestId, status, at, about }: Pick<PendingReceipt, "fromDid" | "requestId" | "status" | "at"> & {
      about: Omit<PendingReceipt["about"], "jti">;
    },
  ): void {
    this.db.run(
      "INSERT INTO receipts (from_did, request_id, status, at, about) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
      ...[fromDid, requestId, status, at, JSON.stringify({ jti: this.newId(), ...about })] as Cell[],
    );
    this.db.afterCommit(() => this.onChange({ kind: "receipt" }));
  }

  /** The receipts that are due, oldest first, at most 100. */
  due(now: number, latest: number): PendingReceipt[] {
    // A time beyond the longest wait comes from a clock that was set back later; it counts as due.
    return this.db.all(
      "SELECT * FROM receipts WHERE next_at <= ? OR next_at > ? ORDER BY seq LIMIT 100",
      now,
      latest,
    ).map(toReceipt);
  }

  /** Time when the next receipt is due; `null` when none waits. */
  nextAt(): number | null {
    const at = this.db.get("SELECT min(next_at) AS at FROM receipts")?.at ?? null;
    return at === null ? null : Number(at);
  }

  get size(): number {
    return Number(this.db.get("SELECT count(*) AS n FROM receipts")?.n);
  }

  /** Removes a receipt that the proxy has or rejects permanently. Sending it again is harmless. */
  remove(seq: number): void {
    this.db.transactionWithoutSync(() => this.db.run("DELETE FROM receipts WHERE seq = ?", seq));
  }

  postpone(seq: number, attempts: number, nextAt: number): void {
    this.db.transactionWithoutSync(() =>
      this.db.run("UPDATE receipts SET attempts = ?, next_at = ? WHERE seq = ?", attempts, nextAt, seq)
    );
  }

  makeAllDue(now: number): void {
    this.db.transactionWithoutSync(() => this.db.run("UPDATE receipts SET next_at = ? WHERE next_at > ?", now, now));
  }

  /** Deletes receipts from before a time. Returns the number deleted. */
  forget(before: number): number {
    return this.db.transactionWithoutSync(() => this.db.run("DELETE FROM receipts WHERE at < ?", before));
  }
}

function toReceipt(row: Row): PendingReceipt {
  return {
    seq: Number(row.seq),
    fromDid: String(row.from_did),
    requestId: String(row.request_id),
    status: String(row.status) as ReceiptStatus,
    at: Number(row.at),
    about: JSON.parse(String(row.about)),
    attempts: Number(row.attempts),
    nextAt: Number(row.next_at),
  };
}
