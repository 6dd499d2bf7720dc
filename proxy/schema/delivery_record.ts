/** The packed form of a delivery record (D-69). The values that its key has are left out. */
import type { DeliveryRecord } from "./records.ts";
import type { HookAnswer } from "../../shared/protocol/api/relay.ts";
import { utf8Bytes, utf8Text } from "../../shared/protocol/base64url.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parseIso, toIso } from "../../shared/protocol/time.ts";

/** How long a record is kept after its receipt. With less, a repeated message would be delivered again. */
const AFTER_RECEIPT_SECONDS = 86_400;

const VERSION = 1;
const FLAGS = { answered: 1, delivered: 2, queued: 4, reason: 8, handedOver: 16 } as const;
/** Length of a SHA-256 in base64url. It stays text, because decoding each one costs more than the 11 bytes it saves. */
const SHA_CHARS = 43;
/** Offset after version, flags, sockets and length of the instance (1 byte each) and four timestamps (8 bytes each). */
const SHA_AT = 4 + 4 * 8;
const HEAD_BYTES = SHA_AT + SHA_CHARS;
const TIME_BYTES = 8;
const NOTHING = new Uint8Array();
/** Maximum of `connectedSockets`, which is stored in one byte. */
const MOST_SOCKETS = 255;

/** Returns the end of a record, milliseconds since the Unix epoch. */
export function deliveryEnd({ startedAt, answer: response, answeredAt, receiptAt }: DeliveryRecord): number {
  // For a day a repeated message gets the same response. A receipt may precede the response, so the later time counts.
  if (receiptAt > 0) return Math.max(receiptAt, answeredAt) + AFTER_RECEIPT_SECONDS * 1000;
  // A queued message may be delivered at the end of its lifetime, and without the record its receipt would be refused.
  const from = response?.expiresAt ? parseIso(response.expiresAt) ?? answeredAt : response ? answeredAt : startedAt;
  return from + LIMITS.deliveryKeptSeconds * 1000;
}

export function packDelivery(record: DeliveryRecord): Uint8Array<ArrayBuffer> {
  const { answer: response } = record;
  const instance = record.instance ?? "";
  const reason = response?.reason ? utf8Bytes(response.reason) : NOTHING;
  const { handedOverAt } = record;
  // Few messages are handed over from a mailbox, so the others have no bytes for that time.
  const end = HEAD_BYTES + instance.length + reason.length;
  const bytes = new Uint8Array(end + (handedOverAt === undefined ? 0 : TIME_BYTES));
  const view = new DataView(bytes.buffer);
  bytes[0] = VERSION;
  bytes[1] = (response ? FLAGS.answered : 0) | (response?.delivered ? FLAGS.delivered : 0) |
    (response?.queued ? FLAGS.queued : 0) | (response?.reason === undefined ? 0 : FLAGS.reason) |
    (handedOverAt === undefined ? 0 : FLAGS.handedOver);
  bytes[2] = Math.min(response?.connectedSockets ?? 0, MOST_SOCKETS);
  bytes[3] = instance.length;
  const expiresAt = response?.expiresAt ? parseIso(response.expiresAt) ?? 0 : 0;
  view.setFloat64(4, record.startedAt);
  view.setFloat64(12, record.answeredAt);
  view.setFloat64(20, record.receiptAt);
  view.setFloat64(28, expiresAt);
  writeAscii(bytes, SHA_AT, record.bodySha256.slice(0, SHA_CHARS));
  writeAscii(bytes, HEAD_BYTES, instance);
  bytes.set(reason, HEAD_BYTES + instance.length);
  if (handedOverAt !== undefined) view.setFloat64(end, handedOverAt);
  return bytes;
}

/** Returns the record of a stored value; `null` without a value. `requestId` comes from the key. */
export function unpackDelivery(value: unknown, requestId: string): DeliveryRecord | null {
  if (value === null || value === undefined) return null;
  if (!(value instanceof Uint8Array)) throw new TypeError("A stored delivery is not bytes");
  const view = new DataView(value.buffer, value.byteOffset, value.byteLength);
  const [flags = 0, connectedSockets = 0, instanceLength = 0] = value.subarray(1, 4);
  const time = (index: number) => view.getFloat64(4 + index * 8);
  const reasonAt = HEAD_BYTES + instanceLength;
  const isHandedOver = (flags & FLAGS.handedOver) !== 0;
  const end = value.length - (isHandedOver ? TIME_BYTES : 0);
  const response: HookAnswer = {
    accepted: true,
    delivered: (flags & FLAGS.delivered) !== 0,
    connectedSockets,
    requestId,
    ...(flags & FLAGS.reason ? { reason: utf8Text(value.subarray(reasonAt, end)) } : {}),
    ...(flags & FLAGS.queued ? { queued: true, expiresAt: toIso(time(3)) } : {}),
  };
  return {
    // A delivery that the sweep has settled was stored without its hash.
    bodySha256: value[SHA_AT] === 0 ? "" : readAscii(value, SHA_AT, HEAD_BYTES),
    startedAt: time(0),
    instance: instanceLength === 0 ? null : readAscii(value, HEAD_BYTES, reasonAt),
    answer: flags & FLAGS.answered ? response : null,
    answeredAt: time(1),
    receiptAt: time(2),
    ...(isHandedOver ? { handedOverAt: view.getFloat64(end) } : {}),
  };
}

// Text in packed records has one byte for each character, because the runtime's encoders are slower for short text.
/** Writes a text of characters up to U+00FF from an offset on. */
export function writeAscii(bytes: Uint8Array, at: number, text: string): void {
  for (let i = 0; i < text.length; i++) bytes[at + i] = text.charCodeAt(i);
}

/** Returns the text of the bytes from `start` to before `end`. */
export function readAscii(bytes: Uint8Array, start: number, end: number): string {
  // One call, because joining characters one by one allocates about thirty times as much.
  return Reflect.apply(String.fromCharCode, null, bytes.subarray(start, end));
}
