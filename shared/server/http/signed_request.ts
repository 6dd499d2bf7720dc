/**
 * Reads a signed request (D-24, D-25): its headers and its proof. A repeated header is refused, because servers on the
 * way disagree about which of its values counts. Registry and proxy share these functions, but each has error codes of
 * its own.
 */
import type { KeyObject } from "node:crypto";
import { LIMITS } from "../../protocol/limits.ts";
import { canonicalProof, HEADERS } from "../../protocol/proof.ts";
import { utf8Bytes } from "../../protocol/base64url.ts";
import { parseUnixSeconds, unixSeconds } from "../../protocol/time.ts";
import { digest, verify } from "../crypto.ts";
import type { RequestContext, SignedHeaders } from "./route.ts";

/** Returns the token of an `Authorization` header of this scheme; `""` for another form, `null` without the header. */
export function authorizationToken(headers: Headers, scheme: "Svc" | "Bearer"): string | null {
  const value = headers.get(HEADERS.authorization);
  if (value === null) return null;
  const end = value.indexOf(" ");
  const isScheme = end === scheme.length &&
    (value.startsWith(scheme) || value.slice(0, end).toLowerCase() === scheme.toLowerCase());
  if (!isScheme) return "";
  let at = end;
  while (value[at] === " ") at++;
  const token = value.slice(at);
  return /[\s,]/.test(token) ? "" : token;
}

/** Returns the headers of a signed request. They are read once and kept, because each read calls the runtime. */
export function signedHeaders(exchange: RequestContext): SignedHeaders {
  const { headers } = exchange.request;
  return exchange.signed ??= {
    token: authorizationToken(headers, "Svc"),
    access: headers.get(HEADERS.access) ?? "",
    recipient: headers.get(HEADERS.recipient) ?? "",
    timestamp: headers.get(HEADERS.timestamp) ?? "",
    nonce: headers.get(HEADERS.nonce) ?? "",
    bodySha256: headers.get(HEADERS.bodySha256) ?? "",
    proof: headers.get(HEADERS.proof) ?? "",
  };
}

/** Returns the timestamp header in Unix seconds, or why it is rejected. */
export function requestTimestamp(exchange: RequestContext, now: number): number | "invalid" | "skew" {
  const timestamp = parseUnixSeconds(signedHeaders(exchange).timestamp);
  if (timestamp === null) return "invalid";
  return Math.abs(unixSeconds(now) - timestamp) > LIMITS.timestampSkewSeconds ? "skew" : timestamp;
}

/**
 * Returns which of the service's origins the agent's key has signed for this request. Returns `null` when the signature
 * is for another body, path, recipient or AIT than were received.
 */
export function provenOrigin(
  exchange: RequestContext,
  publicKey: KeyObject,
  aitSha256: string,
  origins: readonly string[],
): string | null {
  const { timestamp, nonce, bodySha256, recipient, proof } = signedHeaders(exchange);
  const { request: { method }, target } = exchange;
  if (bodySha256 !== digest(exchange.body)) return null;
  for (const origin of origins) {
    const fields = { method, origin, target, timestamp, nonce, bodySha256, recipient, aitSha256 };
    if (verify(publicKey, proof, utf8Bytes(canonicalProof(fields)))) return origin;
  }
  return null;
}
