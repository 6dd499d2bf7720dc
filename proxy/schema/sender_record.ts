/**
 * The packed record of a sender: its rate-limit window "agent", its newest nonces, and its deliveries that have begun
 * and have no delivery record. It is one record, because a commit would otherwise write one for each nonce. Older
 * nonces are in sealed parts of 12. This file packs and unpacks the record, and has the rules of its values. With the
 * default limit and up to two begun deliveries it has under 1,000 bytes, because SQLite writes a page of its own for the
 * rest of a longer one at every message.
 *
 *   record  version 1 · since 8 · sealed 4 · bytes of the nonces 2 and of the window 2, then both and the deliveries
 *   nonce   first bytes of its SHA-256 12 · signed second 4 · its end as milliseconds after second + 301 s 3
 *   window  time of the first entry 8, then for each entry, as numbers of 7 bits a byte: milliseconds since the entry
 *           before it · requests
 *   begun   start of the delivery 8, then request ID, recipient and instance: each a length 1 and ASCII
 *   part    version 1, then 12 nonces
 */
import type { KvKey } from "../../shared/server/kv.ts";
import { readAscii, writeAscii } from "./delivery_record.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { nonceEnd, type NonceRecord } from "../../shared/server/nonces.ts";
import { Window } from "../../shared/server/rate_limit.ts";

export interface BegunDelivery {
  requestId: string;
  sender: string;
  recipient: string;
  /** Milliseconds since the Unix epoch. */
  startedAt: number;
  /** Instance that delivers it. */
  instance: string;
}

/** What is stored of a sender. Nonces have running numbers: 0 to 12 × `sealed` − 1 are in parts, the others here. */
export interface SenderRecord {
  /**
   * When the record was created, milliseconds since the Unix epoch. It tells the record from an earlier one of the
   * sender, whose nonces had other numbers.
   */
  since: number;
  /** Number of parts that were sealed, which is also the number of the next part. */
  sealed: number;
  /** Packed nonces, oldest first. */
  nonces: Uint8Array;
  window: Window;
  begun: readonly BegunDelivery[];
}

/** The first 12 bytes of the SHA-256 of a nonce, as three signed integers of 32 bits. */
export interface NonceName {
  readonly a: number;
  readonly b: number;
  readonly c: number;
}

export interface StoredNonce extends NonceRecord {
  name: NonceName;
}

/** Thrown for bytes that are not a record of this format. */
export class MalformedRecord extends Error {
  override name = "MalformedRecord";
}

const VERSION = 1;
const HEAD_BYTES = 17;
export const NONCE_BYTES = 19;
/** Bytes of the hash that identify a sender's nonce. With fewer, a new nonce could be refused as a used one. */
const NAME_BYTES = 12;
const TIME_BYTES = 8;
const PART_BYTES = LIMITS.senderPartNonces * NONCE_BYTES;
const GRACE_MS = LIMITS.nonceGraceSeconds * 1000;
const MOST_EXTRA_MS = 0xff_ffff;
const MOST_NUMBER = 0xffff_ffff;

export function newSender(now: number): SenderRecord {
  return { since: now, sealed: 0, nonces: new Uint8Array(), window: new Window(), begun: [] };
}

/** Returns the name of a nonce. `sha256` is its hash in hexadecimal. */
export function nonceName(sha256: string): NonceName {
  return { a: hexInteger(sha256, 0), b: hexInteger(sha256, 8), c: hexInteger(sha256, 16) };
}

/** Returns the signed integer of eight hexadecimal digits. */
function hexInteger(hex: string, at: number): number {
  let value = 0;
  for (let i = at; i < at + 8; i++) value = value << 4 | hexDigit(hex.charCodeAt(i));
  return value;
}

function hexDigit(code: number): number {
  return code <= 57 ? code - 48 : code - 87;
}

export function packSender({ since, sealed, nonces, window, begun }: SenderRecord): Uint8Array<ArrayBuffer> {
  const windowBytes = windowLength(window);
  let at = HEAD_BYTES + nonces.length, length = at + windowBytes;
  for (const one of begun) {
    length += TIME_BYTES + 3 + one.requestId.length + one.recipient.length + one.instance.length;
  }
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  bytes[0] = VERSION;
  view.setFloat64(1, since);
  view.setUint32(9, sealed);
  view.setUint16(13, nonces.length);
  view.setUint16(15, windowBytes);
  bytes.set(nonces, HEAD_BYTES);
  if (windowBytes > 0) {
    let before = window.timeOf(0);
    view.setFloat64(at, before);
    at += TIME_BYTES;
    for (let i = 0; i < window.length; i++) {
      const time = window.timeOf(i);
      at = putNumber(bytes, putNumber(bytes, at, time - before), window.countOf(i));
      before = time;
    }
  }
  for (const { startedAt, requestId, recipient, instance } of begun) {
    view.setFloat64(at, startedAt);
    at = putText(bytes, at + TIME_BYTES, requestId);
    at = putText(bytes, at, recipient);
    at = putText(bytes, at, instance);
  }
  return bytes;
}

function windowLength(window: Window): number {
  if (window.length === 0) return 0;
  let length = TIME_BYTES, before = window.timeOf(0);
  for (let i = 0; i < window.length; i++) {
    const time = window.timeOf(i);
    length += numberLength(time - before) + numberLength(window.countOf(i));
    before = time;
  }
  return length;
}

/** Returns the bytes of a number, which is an integer under 2^32. */
function numberLength(number: number): number {
  let length = 1;
  for (let rest = number >>> 7; rest > 0; rest >>>= 7) length++;
  return length;
}

/** Writes an integer under 2^32, lowest bits first; every byte but the last has its highest bit. Returns the offset behind it. */
function putNumber(bytes: Uint8Array, from: number, number: number): number {
  let at = from, rest = number >>> 0;
  for (; rest > 127; rest >>>= 7) bytes[at++] = rest & 127 | 128;
  bytes[at++] = rest;
  return at;
}

/** Writes a text with its length. Returns the offset behind it. */
function putText(bytes: Uint8Array, at: number, text: string): number {
  bytes[at] = text.length;
  writeAscii(bytes, at + 1, text);
  return at + 1 + text.length;
}

/**
 * Returns a stored record. Its nonces are a view of the value.
 *
 * @param sender the agent, which only the key of the record names
 * @throws {MalformedRecord}
 */
export function unpackSender(value: unknown, sender: string): SenderRecord {
  const { view, nonces, window, begun } = sectionsOf(value);
  return {
    since: view.getFloat64(1),
    sealed: view.getUint32(9),
    nonces,
    window: unpackWindow(window),
    begun: unpackBegun(begun, sender),
  };
}

/** Returns the sections of a stored record as views of it. @throws {MalformedRecord} */
function sectionsOf(value: unknown) {
  const view = viewOf(value, HEAD_BYTES);
  const bytes = value as Uint8Array;
  const windowAt = HEAD_BYTES + view.getUint16(13), begunAt = windowAt + view.getUint16(15);
  const nonces = bytes.subarray(HEAD_BYTES, windowAt);
  const isWhole = begunAt <= bytes.length && nonces.length % NONCE_BYTES === 0 &&
    nonces.length <= LIMITS.senderNonces * NONCE_BYTES;
  if (!isWhole) throw new MalformedRecord("The record of a sender is cut");
  return { view, nonces, window: bytes.subarray(windowAt, begunAt), begun: bytes.subarray(begunAt) };
}

/** An entry of the store with the record of a sender, which may be absent. */
export interface SenderEntry {
  readonly key: KvKey;
  readonly value: unknown;
}

/** Returns the begun deliveries of a sender. @throws {MalformedRecord} */
export function begunOf({ key, value }: SenderEntry): readonly BegunDelivery[] {
  return value === null ? [] : unpackBegun(sectionsOf(value).begun, String(key.at(-1)));
}

/** @throws {MalformedRecord} if it is cut, or holds a number that is too large */
function unpackWindow(packed: Uint8Array): Window {
  const window = new Window();
  if (packed.length === 0) return window;
  if (packed.length <= TIME_BYTES) throw new MalformedRecord("The window of a sender is cut");
  const numbers: number[] = [];
  for (let at = TIME_BYTES; at < packed.length;) {
    let number = 0, factor = 1, byte: number | undefined;
    do {
      byte = packed[at++];
      if (byte === undefined || factor >= 2 ** 35) throw new MalformedRecord("The window of a sender is cut");
      number += (byte & 127) * factor;
      factor *= 128;
    } while (byte > 127);
    // `packSender` would store only the rest of a larger one, so the window would count other requests than before.
    if (number > MOST_NUMBER) throw new MalformedRecord("A number in the window of a sender is too large");
    numbers.push(number);
  }
  if (numbers.length % 2 !== 0) throw new MalformedRecord("The window of a sender is cut");
  let time = new DataView(packed.buffer, packed.byteOffset).getFloat64(0);
  for (let i = 0; i < numbers.length; i += 2) window.push(time += numbers[i] ?? 0, numbers[i + 1] ?? 0);
  return window;
}

/** @param packed the end of a packed record @throws {MalformedRecord} if it is cut */
function unpackBegun(packed: Uint8Array, sender: string): BegunDelivery[] {
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
    deliveries.push({ startedAt, requestId: text(), sender, recipient: text(), instance: text() });
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

export function packPart(nonces: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(1 + PART_BYTES);
  bytes[0] = VERSION;
  bytes.set(nonces, 1);
  return bytes;
}

export function putNonce(view: DataView, at: number, nonce: StoredNonce): void {
  const extra = Math.min(Math.max(0, nonce.expiresAt - nonce.timestamp * 1000 - GRACE_MS), MOST_EXTRA_MS);
  view.setInt32(at, nonce.name.a);
  view.setInt32(at + 4, nonce.name.b);
  view.setInt32(at + 8, nonce.name.c);
  view.setUint32(at + NAME_BYTES, nonce.timestamp);
  view.setUint8(at + NAME_BYTES + 4, extra >> 16);
  view.setUint16(at + NAME_BYTES + 5, extra & 0xffff);
}

/** Returns packed nonces in the order of their use. */
export function noncesIn(nonces: Uint8Array): StoredNonce[] {
  const view = new DataView(nonces.buffer, nonces.byteOffset, nonces.byteLength);
  const all: StoredNonce[] = [];
  for (let at = 0; at < nonces.length; at += NONCE_BYTES) {
    const timestamp = view.getUint32(at + NAME_BYTES);
    const extra = (view.getUint8(at + NAME_BYTES + 4) << 16) | view.getUint16(at + NAME_BYTES + 5);
    const name = { a: view.getInt32(at), b: view.getInt32(at + 4), c: view.getInt32(at + 8) };
    all.push({ name, timestamp, expiresAt: timestamp * 1000 + GRACE_MS + extra });
  }
  return all;
}

/** Returns when a part may be deleted, milliseconds since the Unix epoch. @throws {MalformedRecord} */
export function partEnd(value: unknown): number {
  return Math.max(...noncesIn(unpackPart(value)).map(nonceEnd));
}

/** Returns how long a record is kept after its last change, milliseconds. */
export function senderKeptMs({ begun }: Pick<SenderRecord, "begun">, windowMs: number): number {
  // A request may be dated ahead by the allowed skew. With less, parts could outlive the record and count in a new one.
  const nonceMs = (LIMITS.timestampSkewSeconds + LIMITS.nonceGraceSeconds + LIMITS.nonceKeptSeconds) * 1000;
  // Days may pass without a sweep, and a record that ends before it would take its begun deliveries with it.
  const begunMs = begun.length > 0 ? LIMITS.deliveryKeptSeconds * 1000 : 0;
  return Math.max(nonceMs, begunMs, 2 * windowMs);
}

function viewOf(value: unknown, least: number): DataView {
  if (!(value instanceof Uint8Array)) throw new MalformedRecord("The record of a sender is not bytes");
  if (value.length < least) throw new MalformedRecord("The record of a sender is cut");
  if (value[0] !== VERSION) throw new MalformedRecord("The record of a sender has another version");
  return new DataView(value.buffer, value.byteOffset, value.byteLength);
}
