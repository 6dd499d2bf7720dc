/** Makes the `Response` of an answer, and the answer to a conditional request. */
import { inPieces, PIECE_BYTES } from "../../pieces.ts";
import { ByteBudget } from "../byte_budget.ts";
import { type Bytes, utf8Bytes } from "../../protocol/base64url.ts";
import type { Answer, RequestContext } from "./route.ts";

/**
 * A larger body counts until its client has read it. With more, clients that read nothing, with 200 requests per HTTP/2
 * connection, take the memory of the process; with less, each answer to a message takes longer.
 */
const UNCOUNTED_BYTES = 1_024;
/** What the platform holds of bytes that are not read: three pieces. A text has a copy of its own, which is held whole. */
const HELD_BYTES_MAX = 3 * PIECE_BYTES;
/** Bytes of responses that wait for their clients. With more, clients that read nothing take the memory of the process. */
const UNSENT_BYTES = 1_024 * HELD_BYTES_MAX;
/**
 * A party may have a fifteenth as many of them as there is still room for, which is 6 MiB for one alone. With a fixed
 * number, sixteen parties that read nothing would leave no room for others.
 */
const UNSENT_SHARE = 15;

/**
 * Returns the response of an answer.
 *
 * @param headers in place of those of the answer
 * @param isHead true for HEAD: the response has the length of the body, but no body (RFC 9110 section 8.6)
 */
export function toResponse({ status, headers: own, body }: Answer, { headers = own, isHead = false } = {}): Response {
  if (isHead && body !== null) {
    return new Response(null, { status, headers: { ...headers, "Content-Length": String(bytesOf(body).length) } });
  }
  return new Response(isLarge(body) ? inPieces(bytesOf(body)) : body, { status, headers });
}

function isLarge(body: Answer["body"]): body is string | Bytes {
  return body !== null && body.length > UNCOUNTED_BYTES;
}

const bytesOf = (body: string | Bytes) => typeof body === "string" ? utf8Bytes(body) : body;

/** Bounds the responses that clients have not read yet, per party and in total, because they take memory. */
export class UnsentResponses {
  readonly #budget = new ByteBudget({ total: UNSENT_BYTES, perParty: UNSENT_BYTES });

  /**
   * Returns false when a response to this client must be refused. The only one of a party never is, because a hundred
   * parties that read nothing would otherwise leave no room for others.
   *
   * @param party the person who asks, or the address of a client without one
   */
  admits({ body }: Answer, peer: RequestContext["peer"], party: string): boolean {
    if (!isLarge(body) || peer.from === "process" || !peer.info) return true;
    const bytes = typeof body === "string" ? body.length : Math.min(body.length, HELD_BYTES_MAX);
    const own = this.#budget.usedBy(party);
    if (own > 0 && own + bytes > (UNSENT_BYTES - this.#budget.used) / UNSENT_SHARE) return false;
    const release = this.#budget.take(party, bytes, { ignoreTotal: true });
    if (release) peer.info.completed.then(release, release);
    return release !== null;
  }
}

/** Returns the JSON text, or 304 when the client has this version already (RFC 9110 section 13). */
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
