/**
 * Reading request bodies (D-12): counted while they stream, cut at the cap, given up after 10 s. A body that is not read
 * to its end ends its connection (D-248).
 */
import type { Clock } from "../../clock.ts";
import type { Bytes } from "../../protocol/base64url.ts";
import { ServiceError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { BodyLease } from "./body_budget.ts";

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
export interface ReadOptions {
  /** Room that it takes up. */
  room?: BodyLease;
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
  { room, length }: ReadOptions = {},
): Promise<Bytes> {
  const { body } = source;
  if (!body) return new Uint8Array();
  // A large body goes into one buffer of its size: in pieces it would cost 64 KiB for each.
  const reader = length && length > LIMITS.bodyFreeBytes ? fillingReader(body) : body.getReader();
  const late = Promise.withResolvers<never>();
  const giveUp = () => late.reject(new ServiceError("REQUEST_TIMEOUT"));
  const cancel = clock.after(LIMITS.bodyTimeoutMs, giveUp);
  if (room) room.abortRead = giveUp;
  const read = reader instanceof ReadableStreamBYOBReader
    ? filled(reader, length ?? 0, maxBytes)
    : gathered(reader, maxBytes);
  try {
    return await Promise.race([read, late.promise]);
  } catch (error) {
    read.catch(() => {});
    if (error instanceof ServiceError) {
      endLater(reader, clock);
      throw error;
    }
    throw new ServiceError("REQUEST_TIMEOUT", { message: "The body broke off", cause: error });
  } finally {
    cancel();
    if (room) room.abortRead = null;
  }
}

/**
 * Reads what an answered request still sends, up to 256 KiB, and ends the connection of one that sends more, or takes
 * over 2 s. Without this the platform reads a declared body to its end, however long, after any answer.
 */
export async function leaveBody({ body }: BodySource, clock: Clock): Promise<void> {
  if (!body || body.locked) return;
  const reader = body.getReader();
  let isOver = false;
  const cancel = endLater(reader, clock, () => isOver = true);
  try {
    for (let size = 0; size <= LIMITS.bodyLeftBytes && !isOver;) {
      const { done, value } = await reader.read();
      if (done) return cancel();
      size += value.length;
    }
  } catch {
    cancel();
  }
}

/**
 * Cancels a body 2 s from now: the answer needs that time to get through, and nothing more is read meanwhile. A body that
 * is cancelled before its answer would be read on by the platform.
 */
function endLater(
  reader: { cancel(): Promise<void> },
  clock: Clock,
  ended: () => void = () => {},
): () => void {
  return clock.after(LIMITS.bodyLeftMs, () => {
    ended();
    reader.cancel().catch(() => {});
  });
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
    if (done) return chunks.length === 1 && chunks[0] ? chunks[0] : concatChunks(chunks, size);
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

function concatChunks(chunks: Uint8Array[], size: number): Bytes {
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
