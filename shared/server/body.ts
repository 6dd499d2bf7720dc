/**
 * Reading request bodies (D-12): counted while they stream, cut at the cap, given up after 10 s.
 */
import type { Clock } from "../clock.ts";
import type { Bytes } from "../protocol/base64url.ts";
import { ServiceError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Room } from "./body_room.ts";

/** @throws {ServiceError} `PAYLOAD_TOO_LARGE` when `Content-Length` alone says so */
export function refuseByLength(headers: Headers, maxBytes: number): void {
  if (Number(headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
}

/** Bytes that a request says its body has; `null` when it does not say, 0 when there is none. */
export function declaredBytes({ body, headers }: Request): number | null {
  if (!body) return 0;
  const length = headers.get("content-length");
  return length === null ? null : Number(length);
}

/** Whatever has a body: a request, or an answer of another service. */
export interface BodySource {
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>> | null;
}

/** What is known of a body ahead. */
export interface BodyHints {
  /** Room that it takes up. */
  room?: Room;
  /** Its length, where the connection holds it to that. */
  length?: number | null;
}

/**
 * Reads a body to its end.
 *
 * @throws {ServiceError} `PAYLOAD_TOO_LARGE` past `maxBytes`, `REQUEST_TIMEOUT` after 10 s or when its room is cut
 */
export async function readBody(
  source: BodySource,
  maxBytes: number,
  clock: Clock,
  { room, length }: BodyHints = {},
): Promise<Bytes> {
  const { body } = source;
  if (!body) return new Uint8Array();
  // A large body goes into one buffer of its size: in pieces it would cost 64 KiB for each.
  const reader = length && length > LIMITS.bodyFreeBytes ? fillingReader(body) : body.getReader();
  let late = false;
  const giveUp = () => {
    late = true;
    reader.cancel().catch(() => {});
  };
  const cancel = clock.after(LIMITS.bodyTimeoutMs, giveUp);
  if (room) room.cut = giveUp;
  let bytes: Bytes;
  try {
    bytes = reader instanceof ReadableStreamBYOBReader
      ? await filled(reader, length ?? 0, maxBytes)
      : await gathered(reader, maxBytes);
  } catch (error) {
    reader.cancel().catch(() => {});
    if (error instanceof ServiceError) throw error;
    throw late
      ? new ServiceError("REQUEST_TIMEOUT")
      : new ServiceError("REQUEST_TIMEOUT", { message: "The body broke off", cause: error });
  } finally {
    cancel();
    if (room) room.cut = null;
  }
  if (late) throw new ServiceError("REQUEST_TIMEOUT");
  return bytes;
}

/** Bodies that come over a connection can fill a buffer; others, made in the process, come in pieces. */
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
    if (done) return chunks.length === 1 && chunks[0] ? chunks[0] : joined(chunks, size);
    size += value.length;
    if (size > maxBytes) throw tooLarge(maxBytes);
    if (chunks.push(value) > LIMITS.bodyPieces) throw tooManyPieces();
  }
}

async function filled(reader: ReadableStreamBYOBReader, length: number, maxBytes: number): Promise<Bytes> {
  // One more: a full buffer could not be asked whether the body has ended.
  let buffer = new ArrayBuffer(length + 1);
  let size = 0;
  for (let pieces = 0; size <= length; pieces++) {
    if (pieces > LIMITS.bodyPieces) throw tooManyPieces();
    const { done, value } = await reader.read(new Uint8Array(buffer, size));
    if (value) {
      buffer = value.buffer;
      size += value.length;
    }
    if (done) return new Uint8Array(buffer, 0, size);
  }
  throw tooLarge(maxBytes);
}

function joined(chunks: Uint8Array[], size: number): Bytes {
  const body = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.length;
  }
  return body;
}

function tooLarge(maxBytes: number): ServiceError {
  return new ServiceError("PAYLOAD_TOO_LARGE", {
    message: `The body is over ${maxBytes} bytes`,
    headers: { Connection: "close" },
  });
}

/** Each piece costs a turn of the event loop: a body in pieces of one byte costs seconds (D-211). */
function tooManyPieces(): ServiceError {
  return new ServiceError("PAYLOAD_TOO_LARGE", {
    message: `The body comes in over ${LIMITS.bodyPieces} pieces`,
    headers: { Connection: "close" },
  });
}

/** Decodes UTF-8 and parses JSON; `undefined` for anything that is not a JSON text. */
export function parseJson(body: Bytes): { text: string; value: unknown } | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    return { text, value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
