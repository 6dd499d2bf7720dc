/**
 * Reading request bodies (D-12): counted while they stream, cut at the cap, given up after 10 s.
 */
import type { Clock } from "../clock.ts";
import type { Bytes } from "../protocol/base64url.ts";
import { ServiceError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";

/** @throws {ServiceError} `PAYLOAD_TOO_LARGE` when `Content-Length` alone says so */
export function refuseByLength(headers: Headers, maxBytes: number): void {
  if (Number(headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
}

/** Whatever has a body: a request, or an answer of another service. */
export interface BodySource {
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>> | null;
}

/**
 * Reads a body to its end.
 *
 * @throws {ServiceError} `PAYLOAD_TOO_LARGE` past `maxBytes`, `REQUEST_TIMEOUT` after 10 s
 */
export async function readBody(source: BodySource, maxBytes: number, clock: Clock): Promise<Bytes> {
  if (!source.body) return new Uint8Array();
  const reader = source.body.getReader();
  let late = false;
  const cancel = clock.after(LIMITS.bodyTimeoutMs, () => {
    late = true;
    reader.cancel().catch(() => {});
  });
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > maxBytes) throw tooLarge(maxBytes);
      chunks.push(value);
    }
  } catch (error) {
    reader.cancel().catch(() => {});
    if (error instanceof ServiceError) throw error;
    if (!late) throw new ServiceError("REQUEST_TIMEOUT", { message: "The body broke off", cause: error });
  } finally {
    cancel();
  }
  if (late) throw new ServiceError("REQUEST_TIMEOUT");
  return chunks.length === 1 ? chunks[0] as Bytes : joined(chunks, size);
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

/** Decodes UTF-8 and parses JSON; `undefined` for anything that is not a JSON text. */
export function parseJson(body: Bytes): { text: string; value: unknown } | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    return { text, value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
