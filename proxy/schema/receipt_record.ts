/**
 * The stored form of a receipt: the time at which it was recorded, milliseconds since the Unix epoch. Its key has the
 * other values.
 */
import type { ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";

export interface ReceiptRecord {
  requestId: string;
  recipientAgentDid: string;
  status: ReceiptStatus;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
}

/**
 * Returns the value of a new receipt and its expiry in the store, milliseconds. The service deletes the record earlier
 * (D-217).
 */
export function storedReceipt(receivedAt: number, keptMs: number): { value: number; expireInMs: number } {
  return { value: receivedAt, expireInMs: keptMs + LIMITS.sweepMarginSeconds * 1000 };
}
