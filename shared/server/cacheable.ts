/**
 * Answers that may be asked for again with `If-None-Match` (RFC 9110 section 13).
 */

/** 200 with the JSON text, or 304 when the client has it already. */
export function cacheable(request: Request, body: string, etag: string, cacheControl: string): Response {
  const headers = { ETag: etag, "Cache-Control": cacheControl };
  const known = request.headers.get("if-none-match")?.split(",").map((tag) => tag.trim().replace(/^W\//, ""));
  if (known?.some((tag) => tag === etag || tag === "*")) return new Response(null, { status: 304, headers });
  return new Response(body, { headers: { ...headers, "Content-Type": "application/json; charset=utf-8" } });
}
