/** Makes the one `Response` of an answer, and the answer to a conditional request. */
import { type Bytes, utf8Bytes } from "../../protocol/base64url.ts";
import type { Answer } from "./route.ts";

/**
 * A large body is sent in chunks of this size, because one copy of the whole body for each request would use too much
 * memory.
 */
const PIECE_BYTES = 262_144;

/**
 * Returns the response of an answer.
 *
 * @param headers in place of those of the answer
 * @param isHead true for HEAD: without the body, with its length (RFC 9110 section 8.6)
 */
export function toResponse({ status, headers: own, body }: Answer, { headers = own, isHead = false } = {}): Response {
  if (isHead && body !== null) {
    const { length } = typeof body === "string" ? utf8Bytes(body) : body;
    return new Response(null, { status, headers: { ...headers, "Content-Length": String(length) } });
  }
  const isLarge = body !== null && typeof body !== "string" && body.length > PIECE_BYTES;
  return new Response(isLarge ? inPieces(body) : body, { status, headers });
}

function inPieces(body: Bytes): ReadableStream<Bytes> {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      controller.enqueue(body.subarray(at, at += PIECE_BYTES));
      if (at >= body.length) controller.close();
    },
  });
}

/** Returns the JSON text, or 304 when the client has this version (RFC 9110 section 13). */
export function conditionalAnswer(request: Request, body: Bytes, etag: string, cacheControl: string): Answer {
  const headers = { ETag: etag, "Cache-Control": cacheControl };
  const known = request.headers.get("if-none-match")?.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (known?.some((tag) => tag === etag || tag === "*")) return { status: 304, headers, body: null };
  return {
    status: 200,
    headers: {
      ...headers,
      "Content-Type": "application/json; charset=utf-8",
      "Content-Length": String(body.length),
    },
    body,
  };
}
