/**
 * What is stored about a receipt (D-218): the time at which it was recorded, milliseconds since the Unix epoch; its key says
 * the rest. Records of the version before were objects, and are still read.
 */
import type { ReceiptStatus } from "../../shared/protocol/api/relay.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";

/** A receipt as read. */
export interface ReceiptRecord {
  requestId: string;
  recipientAgentDid: string;
  status: ReceiptStatus;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
}

/** A new receipt, and how long the store keeps it: the service deletes it before (D-217). */
export function storedReceipt(receivedAt: number, keptMs: number): { value: number; expireInMs: number } {
  return { value: receivedAt, expireInMs: keptMs + LIMITS.sweepMarginSeconds * 1000 };
}

/** When a stored receipt was recorded, in its present form or as an object. */
export function receivedAtOf(value: unknown): number {
  return typeof value === "number" ? value : (value as { receivedAt: number }).receivedAt;
}
