/**
 * What is stored about a delivery (D-69, D-218): packed, without anything that its key says. Records of the version before
 * were objects, and are still read.
 */
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { fromBase64Url, toBase64Url, utf8Bytes } from "../../shared/protocol/base64url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";

/** A delivery on record; times are milliseconds since the Unix epoch. */
export interface DeliveryRecord {
  bodySha256: string;
  startedAt: number;
  /** Instance that delivers it; `null` once the attempt has ended. */
  instance: string | null;
  /** The 202, once there was one. */
  answer: HookAnswer | null;
  answeredAt: number;
  /** When the first receipt was recorded; 0 without one. */
  receiptAt: number;
}

const VERSION = 1;
const FLAGS = { answered: 1, delivered: 2, queued: 4, reason: 8 } as const;
/** Version, flags, sockets, length of the instance, four times, SHA-256. */
const HEAD_BYTES = 4 + 4 * 8 + 32;
/** Connected sockets as stored: one byte. */
const MOST_SOCKETS = 255;

/** When a record ends: milliseconds since the Unix epoch (D-218). */
export function deliveryEnd({ startedAt, answer, answeredAt, receiptAt }: DeliveryRecord): number {
  // The same answer is due for a day after it was given (D-69), also when its receipt was recorded before it.
  if (receiptAt > 0) return Math.max(receiptAt, answeredAt) + LIMITS.deliveryAfterReceiptSeconds * 1000;
  // A queued message may be read at the end of its lifetime, and its receipt must still be accepted.
  const from = answer?.expiresAt ? parseIso(answer.expiresAt) ?? answeredAt : answer ? answeredAt : startedAt;
  return from + LIMITS.deliveryKeptSeconds * 1000;
}

/** The stored form. */
export function packDelivery(record: DeliveryRecord): Uint8Array<ArrayBuffer> {
  const { answer } = record;
  const instance = utf8Bytes(record.instance ?? "");
  const reason = utf8Bytes(answer?.reason ?? "");
  const bytes = new Uint8Array(HEAD_BYTES + instance.length + reason.length);
  const view = new DataView(bytes.buffer);
  bytes[0] = VERSION;
  bytes[1] = (answer ? FLAGS.answered : 0) | (answer?.delivered ? FLAGS.delivered : 0) |
    (answer?.queued ? FLAGS.queued : 0) | (answer?.reason === undefined ? 0 : FLAGS.reason);
  bytes[2] = Math.min(answer?.connectedSockets ?? 0, MOST_SOCKETS);
  bytes[3] = instance.length;
  const expiresAt = answer?.expiresAt ? parseIso(answer.expiresAt) ?? 0 : 0;
  [record.startedAt, record.answeredAt, record.receiptAt, expiresAt].forEach((time, i) => {
    view.setFloat64(4 + i * 8, time);
  });
  bytes.set(fromBase64Url(record.bodySha256)?.subarray(0, 32) ?? [], HEAD_BYTES - 32);
  bytes.set(instance, HEAD_BYTES);
  bytes.set(reason, HEAD_BYTES + instance.length);
  return bytes;
}

/** A stored value as a record, in its packed form or as an object; `requestId` is part of the key. */
export function unpackDelivery(value: unknown, requestId: string): DeliveryRecord | null {
  if (value === null || value === undefined) return null;
  if (!(value instanceof Uint8Array)) return { receiptAt: 0, ...value as Omit<DeliveryRecord, "receiptAt"> };
  const view = new DataView(value.buffer, value.byteOffset, value.byteLength);
  const [flags = 0, connectedSockets = 0, instanceLength = 0] = value.subarray(1, 4);
  const time = (index: number) => view.getFloat64(4 + index * 8);
  const text = (start: number, end?: number) =>
    new TextDecoder("utf-8", { ignoreBOM: true }).decode(value.subarray(start, end));
  const reasonAt = HEAD_BYTES + instanceLength;
  const answer: HookAnswer = {
    accepted: true,
    delivered: (flags & FLAGS.delivered) !== 0,
    connectedSockets,
    requestId,
    ...(flags & FLAGS.reason ? { reason: text(reasonAt) } : {}),
    ...(flags & FLAGS.queued ? { queued: true, expiresAt: toIso(time(3)) } : {}),
  };
  return {
    bodySha256: toBase64Url(value.slice(HEAD_BYTES - 32, HEAD_BYTES)),
    startedAt: time(0),
    instance: instanceLength === 0 ? null : text(HEAD_BYTES, reasonAt),
    answer: flags & FLAGS.answered ? answer : null,
    answeredAt: time(1),
    receiptAt: time(2),
  };
}
