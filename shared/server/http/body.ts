/**
 * Reads request bodies. Each has a size limit and a deadline of 10 s, which also hold while it streams, because a
 * chunked or slow body could otherwise occupy memory and a connection without end. A body that is not read completely
 * ends its connection: a small one with a declared length once the rest has arrived, any other one after 2 s.
 */
import type { Clock } from "../../clock.ts";
import { type Bytes, joinedBytes } from "../../protocol/base64url.ts";
import { ServiceError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { BodyLease } from "./body_budget.ts";

/**
 * Most pieces of a body of up to 1 MiB. Each costs memory in addition to its bytes, and a turn of the event loop. With
 * more, a body in tiny pieces would cost many times its budget and take seconds.
 */
export const BODY_PIECES_MAX = 1_024;
/**
 * Bytes for each piece of a larger body. With more, a long revocation list from a slow network, which brings the bytes
 * of one packet at a time, would be refused, and with it every request.
 */
const PIECE_BYTES = 1_024;
/**
 * Bytes of a refused body that are still read. With less, a client that is still sending sees its connection break and
 * not the refusal; with more, it sends for nothing.
 */
const BODY_LEFT_BYTES = 262_144;
/** Time for which a refused body is still read. With more, bodies that arrive slowly would hold their connections. */
export const BODY_LEFT_MS = 2_000;

/** @throws {ServiceError} `PAYLOAD_TOO_LARGE` when `Content-Length` exceeds the limit */
export function refuseByLength(headers: Headers, maxBytes: number): void {
  if ((lengthOf(headers) ?? 0) > maxBytes) throw tooLarge(`is over ${maxBytes} bytes`);
}

/** Returns the declared length of a body in bytes: 0 without a body, `null` when the length is not declared. */
export function declaredBytes(request: Request): number | null {
  const length = lengthOf(request.headers);
  // Reading `request.body` would create a stream, which a small body does not need.
  return isSmall(length) || request.body ? length : 0;
}

/**
 * Returns `Content-Length`, or `null` without it. The platform accepts it twice with the same value, which reads as
 * `2, 2` and counts as not declared, because a budget that has counted `NaN` bytes would admit every body from then on.
 */
function lengthOf(headers: Headers): number | null {
  const length = Number(headers.get("content-length") ?? NaN);
  return Number.isNaN(length) ? null : length;
}

function isSmall(length: number | null | undefined): length is number {
  return typeof length === "number" && length <= LIMITS.bodyFreeBytes;
}

/** A request, or a response of another service. */
export interface BodySource {
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>> | null;
  bytes?(): Promise<Bytes>;
}

interface Reading {
  whole: Promise<Bytes>;
  /** Absent for a body that is read in one step, because the platform then reads the rest of it. */
  reader?: Cancellable;
}

type Cancellable = Pick<ReadableStreamDefaultReader, "cancel">;

/**
 * Reads a complete body.
 *
 * @param options.length in bytes, if the connection enforces it
 * @throws {ServiceError} `PAYLOAD_TOO_LARGE` past `maxBytes`; `REQUEST_TIMEOUT` after 10 s, when its lease is aborted,
 * or when it breaks off
 */
export async function readBody(
  source: BodySource,
  maxBytes: number,
  clock: Clock,
  { room, length }: { room?: BodyLease; length?: number | null } = {},
): Promise<Bytes> {
  const reading = beginReading(source, maxBytes, length);
  if (!reading) return new Uint8Array();
  const result = Promise.withResolvers<Bytes>();
  reading.whole.then(result.resolve, result.reject);
  const giveUp = () => result.reject(new ServiceError("REQUEST_TIMEOUT"));
  const cancel = clock.after(LIMITS.bodyTimeoutMs, giveUp);
  if (room) room.abort = giveUp;
  try {
    const body = await result.promise;
    // A body that is read in one step was not counted while it arrived.
    if (body.length > maxBytes) throw tooLarge(`is over ${maxBytes} bytes`);
    return body;
  } catch (error) {
    if (error instanceof ServiceError) {
      if (reading.reader) endLater(reading.reader, clock);
      throw error;
    }
    throw new ServiceError("REQUEST_TIMEOUT", { message: "The body broke off", cause: error });
  } finally {
    cancel();
    if (room) room.abort = null;
  }
}

function beginReading(source: BodySource, maxBytes: number, length: number | null | undefined): Reading | null {
  // Most small bodies arrive together with their head, and a stream would cost more than the rest of the reading. The
  // platform refuses a request whose body is longer or shorter than declared, or that declares its length in two ways. A
  // body that an HTTP/2 reset cuts short reads as complete, but its client is gone.
  if (isSmall(length) && source.bytes) return { whole: source.bytes() };
  const { body } = source;
  if (!body) return null;
  // A large body is read into one buffer, because each chunk would otherwise allocate 64 KiB.
  const reader = length && !isSmall(length) ? fillingReader(body) : body.getReader();
  const whole = reader instanceof ReadableStreamBYOBReader
    ? filled(reader, length ?? 0, maxBytes)
    : gathered(reader, maxBytes);
  return { whole, reader };
}

/**
 * Reads the rest of a body after its response, up to 256 KiB, and ends the connection after 2 s if the body has not
 * ended. Without this, the platform would read a declared body of any length completely.
 */
export async function leaveBody(request: Pick<Request, "body" | "bodyUsed">, clock: Clock): Promise<void> {
  const body = unreadBody(request);
  if (!body) return;
  const reader = body.getReader();
  let isOver = false;
  const cancel = endLater(reader, clock, () => isOver = true);
  try {
    for (let size = 0; size <= BODY_LEFT_BYTES && !isOver;) {
      const { done, value } = await reader.read();
      if (done) return cancel();
      size += value.length;
    }
  } catch {
    cancel();
  }
}

/** Returns the body if nothing has read it, or `null` without a body and after an upgrade. */
function unreadBody(request: Pick<Request, "body" | "bodyUsed">): BodySource["body"] {
  try {
    return request.bodyUsed ? null : request.body;
  } catch {
    return null;
  }
}

/**
 * Cancels a body after 2 s, and reads nothing until then. It waits, because the platform goes on reading a body that is
 * cancelled before the response is sent.
 */
function endLater(reader: Cancellable, clock: Clock, ended: () => void = () => {}): () => void {
  return clock.after(BODY_LEFT_MS, () => {
    ended();
    reader.cancel().catch(() => {});
  });
}

/** Returns a reader that fills a buffer, or for a body that this process made, one that gets it in chunks. */
function fillingReader(body: NonNullable<BodySource["body"]>) {
  try {
    return body.getReader({ mode: "byob" });
  } catch {
    return body.getReader();
  }
}

async function gathered(reader: ReadableStreamDefaultReader<Bytes>, maxBytes: number): Promise<Bytes> {
  const chunks: Bytes[] = [];
  let size = 0;
  while (true) {
    const { done, value } = await reader.read();
    if (done) return chunks.length === 1 && chunks[0] ? chunks[0] : joinedBytes(chunks);
    size += value.length;
    if (size > maxBytes) throw tooLarge(`is over ${maxBytes} bytes`);
    // Deno reads each piece into a buffer of 64 KiB, so 1,024 pieces of one byte would hold 64 MiB.
    refuseManyPieces(chunks.push(value.byteLength < value.buffer.byteLength ? value.slice() : value), maxBytes);
  }
}

async function filled(reader: ReadableStreamBYOBReader, length: number, maxBytes: number): Promise<Bytes> {
  // There is room for one extra byte, because the read that finds the end of the body needs a place to write to.
  let buffer = new ArrayBuffer(length + 1);
  let size = 0;
  for (let pieces = 0; size <= length; pieces++) {
    refuseManyPieces(pieces, maxBytes);
    const { done, value } = await reader.read(new Uint8Array(buffer, size));
    if (value) {
      buffer = value.buffer;
      size += value.length;
    }
    if (done) return new Uint8Array(buffer, 0, size);
  }
  throw tooLarge(`is over ${maxBytes} bytes`);
}

function refuseManyPieces(pieces: number, maxBytes: number): void {
  const most = Math.max(BODY_PIECES_MAX, maxBytes / PIECE_BYTES);
  if (pieces > most) throw tooLarge(`comes in over ${most} pieces`);
}

function tooLarge(how: string): ServiceError {
  return new ServiceError("PAYLOAD_TOO_LARGE", { message: `The body ${how}`, headers: { Connection: "close" } });
}

const STRICT_UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Parses a JSON text in UTF-8; returns `undefined` for any other bytes. */
export function parseJson(body: Bytes): { text: string; value: unknown } | undefined {
  try {
    const text = STRICT_UTF8.decode(body);
    return { text, value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
