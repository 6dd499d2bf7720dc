/**
 * Receipts on their way to the proxy (D-72, D-88): each written in the transaction that ends its message, kept until the
 * proxy has it. Stores; receipts.ts sends.
 */
import type { ReceiptStatus } from "../../../shared/protocol/api/relay.ts";
import type { Cell, Database, Row } from "./database.ts";

/** A receipt that is still to be sent; times are milliseconds since the Unix epoch. */
export interface PendingReceipt {
  seq: number;
  fromDid: string;
  requestId: string;
  status: ReceiptStatus;
  at: number;
  attempts: number;
  nextAt: number;
}

export class Outbox {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /** Adds one; within the transaction that ends the message. */
  add(receipt: Pick<PendingReceipt, "fromDid" | "requestId" | "status" | "at">): void {
    const { fromDid, requestId, status, at } = receipt;
    this.#db.run(
      "INSERT INTO receipts (from_did, request_id, status, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
      ...[fromDid, requestId, status, at] as Cell[],
    );
  }

  /** Those that are due, oldest first. */
  due(now: number, latest: number): PendingReceipt[] {
    // A time further off than any wait was left by a clock that has since been set back.
    return this.#db.all(
      "SELECT * FROM receipts WHERE next_at <= ? OR next_at > ? ORDER BY seq LIMIT 100",
      now,
      latest,
    ).map(toReceipt);
  }

  /** When the next one is due; `null` when none waits. */
  nextAt(): number | null {
    const at = this.#db.get("SELECT min(next_at) AS at FROM receipts")?.at ?? null;
    return at === null ? null : Number(at);
  }

  get size(): number {
    return Number(this.#db.get("SELECT count(*) AS n FROM receipts")?.n);
  }

  /** The proxy has it, or will never take it. To send it once more is harmless. */
  remove(seq: number): void {
    this.#db.transactionWithoutSync(() => this.#db.run("DELETE FROM receipts WHERE seq = ?", seq));
  }

  postpone(seq: number, attempts: number, nextAt: number): void {
    this.#db.transactionWithoutSync(() =>
      this.#db.run("UPDATE receipts SET attempts = ?, next_at = ? WHERE seq = ?", attempts, nextAt, seq)
    );
  }

  /** Makes all of them due. */
  makeAllDue(now: number): void {
    this.#db.transactionWithoutSync(() => this.#db.run("UPDATE receipts SET next_at = ? WHERE next_at > ?", now, now));
  }

  /** Drops those that nobody can use any more; how many. */
  forget(before: number): number {
    return this.#db.transactionWithoutSync(() => this.#db.run("DELETE FROM receipts WHERE at < ?", before));
  }
}

function toReceipt(row: Row): PendingReceipt {
  return {
    seq: Number(row.seq),
    fromDid: String(row.from_did),
    requestId: String(row.request_id),
    status: String(row.status) as ReceiptStatus,
    at: Number(row.at),
    attempts: Number(row.attempts),
    nextAt: Number(row.next_at),
  };
}
