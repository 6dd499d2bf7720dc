/**
 * The stored form of a receipt: when it was recorded, and what its recipient signed. Its key has the other values.
 */
import type { ReceiptStatus } from "../../shared/protocol/api/receipts.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { DeliveryRecord } from "./records.ts";

/** The value in the store. Without `signed` the proxy recorded it itself, or its recipient did not sign it. */
export interface StoredReceipt {
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
  /** The receipt as its recipient signed it, and the identity token of the request that brought it. Not verified. */
  signed?: string;
  ait?: string;
}

export interface ReceiptRecord extends StoredReceipt {
  requestId: string;
  recipientAgentDid: string;
  status: ReceiptStatus;
}

/**
 * Returns the value of a new receipt and its expiry in the store, milliseconds. The service deletes the record before
 * that expiry, because every commit waits while the store deletes its expired records.
 */
export function storedReceipt(value: StoredReceipt, keptMs: number): { value: StoredReceipt; expireInMs: number } {
  return { value, expireInMs: keptMs + LIMITS.sweepMarginSeconds * 1000 };
}

/**
 * How much older than its message a receipt may look. With less, it could seem to be of an earlier message, because the
 * clocks of two instances differ.
 */
const CLOCKS_MS = 60_000;

/** Returns true when a receipt is of an earlier message with the same ID, which may be used again after a day. */
export function isOfEarlier(receivedAt: number, delivery: Pick<DeliveryRecord, "startedAt"> | null): boolean {
  return delivery !== null && receivedAt < delivery.startedAt - CLOCKS_MS;
}
