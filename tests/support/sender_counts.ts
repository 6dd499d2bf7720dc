/** What the stored record of a sender holds. */
import { NONCE_BYTES, unpackSender } from "../../proxy/schema/sender_record.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";

/** Returns the requests that the window "agent" of a stored record counts. */
export function requestsIn(value: unknown): number {
  return value === null ? 0 : unpackSender(value, "").window.record().reduce((sum, [, count]) => sum + count, 0);
}

/** Returns how many nonces a stored record and its parts have had. */
export function noncesOf(value: unknown): number {
  const { sealed, nonces } = unpackSender(value, "");
  return sealed * LIMITS.senderPartNonces + nonces.length / NONCE_BYTES;
}
