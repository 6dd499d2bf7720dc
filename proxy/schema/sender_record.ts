/**
 * The packed record of a sender (D-261): its rate-limit window "agent", its newest nonces and its deliveries that have begun
 * and have no delivery record. Older nonces are in sealed parts of 32. Pure: packing, unpacking and the rules of the values.
 *
 *   record  version 1 · since 8 · sealed 4 · bytes of the nonces 2 and of the window 2, then both and the deliveries
 *   nonce   first bytes of its SHA-256 12 · signed second 4 · its end as milliseconds after second + 301 s 3
 *   window  time of the first entry 8, then for each entry: milliseconds from that time 4 · requests 4
 *   begun   start of the delivery 8, then request ID, sender, recipient and instance: each a length 1 and ASCII
 *   part    version 1, then 32 nonces
 */
import { readAscii, writeAscii } from "./ascii.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { isReplay, nonceEnd, type NonceRecord } from "../../shared/server/nonces.ts";
import type { Entries, WindowRecord } from "../../shared/server/rate_limit.ts";

/** A delivery that has begun and has no delivery record. */
export interface BegunDelivery {
  requestId: string;
  /** DID of the sender; its key has only the ULID. */
  sender: string;
  recipient: string;
  /** Milliseconds since the Unix epoch. */
  startedAt: number;
  /** Instance that delivers it. */
  instance: string;
}

/** What is stored of a sender. Nonces have running numbers: 0 to 32 × `sealed` − 1 are in parts, the others here. */
export interface SenderRecord {
  /** When the record was created, milliseconds since the Unix epoch: an earlier record of the sender had other numbers. */
  since: number;
  /** Number of parts that were sealed, and number of the next one. */
  sealed: number;
  /** Packed nonces, oldest first. */
  nonces: Uint8Array;
  /** Packed window. */
  window: Uint8Array;
  /** Packed deliveries. */
  begun: Uint8Array;
}

/** A sealed part. */
export interface SenderPart {
  number: number;
  bytes: Uint8Array;
}

/** The bytes are not a record of this format. */
export class MalformedRecord extends Error {
  override name = "MalformedRecord";
}

const VERSION = 1;
const HEAD_BYTES = 17;
export const NONCE_BYTES = 19;
/** Bytes of the hash that identify a nonce among those of its sender. */
export const NONCE_HASH_BYTES = 12;
const TIME_BYTES = 8;
const ENTRY_BYTES = 8;
const PART_NONCES = LIMITS.senderPartNonces;
const PART_BYTES = PART_NONCES * NONCE_BYTES;
const GRACE_MS = LIMITS.nonceGraceSeconds * 1000;
const MOST_EXTRA_MS = 0xff_ffff;
const NO_BYTES = new Uint8Array();

/** Returns the record of a sender without one. */
export function newSender(now: number): SenderRecord {
  return { since: now, sealed: 0, nonces: NO_BYTES, window: NO_BYTES, begun: NO_BYTES };
}

/** Returns the stored form of a record. */
export function packSender({ since, sealed, nonces, window, begun }: SenderRecord): Uint8Array<ArrayBuffer> {
  const windowAt = HEAD_BYTES + nonces.length, begunAt = windowAt + window.length;
  const bytes = new Uint8Array(begunAt + begun.length);
  const view = new DataView(bytes.buffer);
  bytes[0] = VERSION;
  view.setFloat64(1, since);
  view.setUint32(9, sealed);
  view.setUint16(13, nonces.length);
  view.setUint16(15, window.length);
  bytes.set(nonces, HEAD_BYTES);
  bytes.set(window, windowAt);
  bytes.set(begun, begunAt);
  return bytes;
}

/** Returns a record whose packed members are views of the value. @throws {MalformedRecord} */
export function unpackSender(value: unknown): SenderRecord {
  const view = viewOf(value, HEAD_BYTES);
  const bytes = value as Uint8Array;
  const windowAt = HEAD_BYTES + view.getUint16(13), begunAt = windowAt + view.getUint16(15);
  const [nonces, window] = [bytes.subarray(HEAD_BYTES, windowAt), bytes.subarray(windowAt, begunAt)];
  const isWhole = begunAt <= bytes.length && nonces.length % NONCE_BYTES === 0 &&
    (window.length === 0 || window.length > TIME_BYTES && (window.length - TIME_BYTES) % ENTRY_BYTES === 0);
  if (!isWhole) throw new MalformedRecord("The record of a sender is cut");
  return { since: view.getFloat64(1), sealed: view.getUint32(9), nonces, window, begun: bytes.subarray(begunAt) };
}

/** Returns the packed form of a window, whose entries are in order of time. */
export function packWindow(window: WindowRecord): Uint8Array<ArrayBuffer> {
  const start = window[0]?.[0];
  if (start === undefined) return NO_BYTES;
  const bytes = new Uint8Array(TIME_BYTES + window.length * ENTRY_BYTES);
  const view = new DataView(bytes.buffer);
  view.setFloat64(0, start);
  let at = TIME_BYTES;
  for (const [time, count] of window) {
    view.setUint32(at, time - start);
    view.setUint32(at + 4, count);
    at += ENTRY_BYTES;
  }
  return bytes;
}

/** The entries of a packed window of an unpacked record. */
export class PackedWindow implements Entries {
  readonly length: number;
  readonly #view: DataView;
  readonly #start: number;

  constructor(packed: Uint8Array) {
    this.length = packed.length === 0 ? 0 : (packed.length - TIME_BYTES) / ENTRY_BYTES;
    this.#view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
    this.#start = packed.length === 0 ? 0 : this.#view.getFloat64(0);
  }

  timeOf(index: number): number {
    return this.#start + this.#view.getUint32(TIME_BYTES + index * ENTRY_BYTES);
  }

  countOf(index: number): number {
    return this.#view.getUint32(TIME_BYTES + index * ENTRY_BYTES + 4);
  }
}

/** Returns the packed form of begun deliveries. */
export function packBegun(deliveries: readonly BegunDelivery[]): Uint8Array<ArrayBuffer> {
  if (deliveries.length === 0) return NO_BYTES;
  const all = deliveries.map(({ requestId, sender, recipient, instance }) => [requestId, sender, recipient, instance]);
  const bytes = new Uint8Array(all.flat().reduce((sum, text) => sum + 1 + text.length, TIME_BYTES * all.length));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const [i, texts] of all.entries()) {
    view.setFloat64(at, deliveries[i]?.startedAt ?? 0);
    at += TIME_BYTES;
    for (const text of texts) {
      bytes[at++] = text.length;
      writeAscii(bytes, at, text);
      at += text.length;
    }
  }
  return bytes;
}

/** Returns the deliveries of their packed form. @throws {MalformedRecord} */
export function unpackBegun(packed: Uint8Array): BegunDelivery[] {
  if (packed.length === 0) return [];
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  let at = 0;
  const take = (length: number): number => {
    const from = at;
    at += length;
    if (at > packed.length) throw new MalformedRecord("The begun deliveries of a sender are cut");
    return from;
  };
  const text = (): string => {
    const length = packed[take(1)] ?? 0;
    const from = take(length);
    return readAscii(packed, from, from + length);
  };
  const deliveries: BegunDelivery[] = [];
  while (at < packed.length) {
    const startedAt = view.getFloat64(take(TIME_BYTES));
    deliveries.push({ startedAt, requestId: text(), sender: text(), recipient: text(), instance: text() });
  }
  return deliveries;
}

/** Returns the packed nonces of a part. @throws {MalformedRecord} */
export function unpackPart(value: unknown): Uint8Array {
  viewOf(value, 1 + PART_BYTES);
  const bytes = value as Uint8Array;
  if (bytes.length !== 1 + PART_BYTES) throw new MalformedRecord("The part of a sender is too long");
  return bytes.subarray(1);
}

/** Returns the running number behind the newest nonce. */
export function nonceTotal({ sealed, nonces }: SenderRecord): number {
  return sealed * PART_NONCES + nonces.length / NONCE_BYTES;
}

/** Returns the packed nonces with one more. `hash` is the SHA-256 of the nonce. */
export function withNonce(
  nonces: Uint8Array,
  hash: Uint8Array,
  { timestamp, expiresAt }: NonceRecord,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(nonces.length + NONCE_BYTES);
  bytes.set(nonces);
  bytes.set(hash.subarray(0, NONCE_HASH_BYTES), nonces.length);
  const view = new DataView(bytes.buffer, nonces.length + NONCE_HASH_BYTES);
  const extra = Math.min(Math.max(0, expiresAt - timestamp * 1000 - GRACE_MS), MOST_EXTRA_MS);
  view.setUint32(0, timestamp);
  view.setUint8(4, extra >> 16);
  view.setUint16(5, extra & 0xffff);
  return bytes;
}

/** Yields the offset and the record of each packed nonce. */
export function* noncesIn(nonces: Uint8Array): Generator<[at: number, record: NonceRecord]> {
  const view = new DataView(nonces.buffer, nonces.byteOffset, nonces.byteLength);
  for (let at = 0; at < nonces.length; at += NONCE_BYTES) yield [at, recordAt(view, at)];
}

/** Returns true when one of the packed nonces rejects a request. `hash` is the SHA-256 of its nonce. */
export function isUsedIn(nonces: Uint8Array, hash: Uint8Array, timestamp: number, now: number): boolean {
  for (let at = 0; at < nonces.length; at += NONCE_BYTES) {
    let same = 0;
    while (same < NONCE_HASH_BYTES && nonces[at + same] === hash[same]) same++;
    if (same < NONCE_HASH_BYTES) continue;
    const view = new DataView(nonces.buffer, nonces.byteOffset, nonces.byteLength);
    if (isReplay(recordAt(view, at), timestamp, now)) return true;
  }
  return false;
}

/**
 * Moves the oldest nonces into parts while the record is full. A part whose nonces have all ended is left out.
 *
 * @param known only nonces with a smaller number are moved: those that this instance remembers
 */
export function seal(record: SenderRecord, known: number, now: number): { record: SenderRecord; parts: SenderPart[] } {
  let { sealed, nonces } = record;
  const parts: SenderPart[] = [];
  while (nonces.length >= LIMITS.senderNonces * NONCE_BYTES && (sealed + 1) * PART_NONCES <= known) {
    const bytes = new Uint8Array(1 + PART_BYTES);
    bytes[0] = VERSION;
    bytes.set(nonces.subarray(0, PART_BYTES), 1);
    if (now < partEnd(bytes)) parts.push({ number: sealed, bytes });
    nonces = nonces.subarray(PART_BYTES);
    sealed++;
  }
  return { record: { ...record, sealed, nonces }, parts };
}

/** Returns when a part may be deleted, milliseconds since the Unix epoch. @throws {MalformedRecord} */
export function partEnd(value: unknown): number {
  const nonces = unpackPart(value);
  const view = new DataView(nonces.buffer, nonces.byteOffset, nonces.byteLength);
  let end = 0;
  for (let at = 0; at < nonces.length; at += NONCE_BYTES) end = Math.max(end, nonceEnd(recordAt(view, at)));
  return end;
}

/** Returns the value of a record and its expiry in the store: later than any of its members counts. */
export function storedSender(
  record: SenderRecord,
  windowMs: number,
): { value: Uint8Array<ArrayBuffer>; expireInMs: number } {
  return { value: packSender(record), expireInMs: senderKeptMs(record, windowMs) };
}

/** Returns how long a record is kept after its last change, milliseconds. */
export function senderKeptMs({ begun }: SenderRecord, windowMs: number): number {
  // A request may be dated ahead by the skew. Parts end before the record, so that a new one finds none that counts.
  const nonceMs = (LIMITS.timestampSkewSeconds + LIMITS.nonceGraceSeconds + LIMITS.nonceKeptSeconds) * 1000;
  // The sweep moves begun deliveries out of the record, but no sweep may run for days.
  const begunMs = begun.length > 0 ? LIMITS.deliveryKeptSeconds * 1000 : 0;
  return Math.max(nonceMs, begunMs, 2 * windowMs);
}

function viewOf(value: unknown, least: number): DataView {
  if (!(value instanceof Uint8Array)) throw new MalformedRecord("The record of a sender is not bytes");
  if (value.length < least) throw new MalformedRecord("The record of a sender is cut");
  if (value[0] !== VERSION) throw new MalformedRecord("The record of a sender has another version");
  return new DataView(value.buffer, value.byteOffset, value.byteLength);
}

function recordAt(view: DataView, at: number): NonceRecord {
  const timestamp = view.getUint32(at + NONCE_HASH_BYTES);
  const extra = (view.getUint8(at + NONCE_HASH_BYTES + 4) << 16) | view.getUint16(at + NONCE_HASH_BYTES + 5);
  return { timestamp, expiresAt: timestamp * 1000 + GRACE_MS + extra };
}
