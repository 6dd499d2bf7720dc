/** Answers to conditional requests with `If-None-Match` (RFC 9110 section 13). */
import type { Bytes } from "../../protocol/base64url.ts";
import type { Answer } from "./route.ts";

/** Returns 200 with the JSON text, or 304 when the client has this version. */
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
