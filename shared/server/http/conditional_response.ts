/** Responses to conditional requests with `If-None-Match` (RFC 9110 section 13). */
import type { Bytes } from "../../protocol/base64url.ts";

/** Chunk size of a large body (D-104): one copy of the whole body for each request would use too much memory. */
const PIECE_BYTES = 262_144;

/** Returns 200 with the JSON text, or 304 when the client has this version. */
export function conditionalResponse(request: Request, body: Bytes, etag: string, cacheControl: string): Response {
  const headers = { ETag: etag, "Cache-Control": cacheControl };
  const known = request.headers.get("if-none-match")?.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (known?.some((tag) => tag === etag || tag === "*")) return new Response(null, { status: 304, headers });
  return new Response(body.length > PIECE_BYTES ? inPieces(body) : body, {
    headers: {
      ...headers,
      "Content-Type": "application/json; charset=utf-8",
      "Content-Length": String(body.length),
    },
  });
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
