/** Makes the `Response` of an answer, and the answer to a conditional request. */
import { inPieces, PIECE_BYTES } from "../../pieces.ts";
import { ByteBudget } from "../byte_budget.ts";
import { type Bytes, utf8Bytes } from "../../protocol/base64url.ts";
import type { Answer, RequestContext } from "./route.ts";

/**
 * Most large responses that wait for their clients; each holds up to three chunks. With more, clients that read
 * nothing, with 200 requests per HTTP/2 connection, take the memory of the process.
 */
const UNSENT_MAX = { total: 1_024, perParty: 64 };
/**
 * An address may have a fifteenth as many of them as there is still room for, which is 64 for one alone. With a fixed
 * number, sixteen addresses that read nothing would leave no room for others.
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
  return body !== null && body.length > PIECE_BYTES;
}

const bytesOf = (body: string | Bytes) => typeof body === "string" ? utf8Bytes(body) : body;

/** Bounds the large responses that clients have not read yet, per address and in total, because they take memory. */
export class UnsentResponses {
  readonly #budget = new ByteBudget(UNSENT_MAX);

  /** Returns false when a response to this client must be refused. */
  admits({ body }: Answer, { peer, ip }: Pick<RequestContext, "peer" | "ip">): boolean {
    if (!isLarge(body) || peer.from === "process" || !peer.info) return true;
    const room = UNSENT_MAX.total - this.#budget.used;
    if (this.#budget.usedBy(ip) >= room / UNSENT_SHARE) return false;
    const release = this.#budget.take(ip, 1);
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
