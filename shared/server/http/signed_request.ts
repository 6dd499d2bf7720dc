/**
 * Reads a signed request (D-13, D-24, D-25): its headers and its proof. Registry and proxy share these functions; each
 * service has its own error codes.
 */
import type { KeyObject } from "node:crypto";
import { LIMITS } from "../../protocol/limits.ts";
import { canonicalProof, HEADERS } from "../../protocol/proof.ts";
import { utf8Bytes } from "../../protocol/base64url.ts";
import { parseUnixSeconds, unixSeconds } from "../../protocol/time.ts";
import { digest, verify } from "../crypto.ts";
import type { RequestContext } from "./route.ts";

/** Returns the token of an `Authorization` header of this scheme; `null` without a header, `""` for any other form. */
export function authorizationToken(headers: Headers, scheme: "Svc" | "Bearer"): string | null {
  const value = headers.get(HEADERS.authorization);
  if (value === null) return null;
  const [word = "", token = "", ...more] = value.split(/ +/);
  if (word.toLowerCase() !== scheme.toLowerCase() || more.length > 0 || /[\s,]/.test(token)) return "";
  return token;
}

/** Returns the timestamp header in Unix seconds, or why it is rejected. */
export function requestTimestamp(headers: Headers, now: number): number | "invalid" | "skew" {
  const timestamp = parseUnixSeconds(headers.get(HEADERS.timestamp) ?? "");
  if (timestamp === null) return "invalid";
  return Math.abs(unixSeconds(now) - timestamp) > LIMITS.timestampSkewSeconds ? "skew" : timestamp;
}

/**
 * Returns true when the agent's key signed this request: body, path, recipient and AIT as received, and one of the
 * service's origins.
 */
export function holdsProof(
  exchange: RequestContext,
  publicKey: KeyObject,
  aitSha256: string,
  origins: readonly string[],
): boolean {
  const { headers, method } = exchange.request;
  const bodySha256 = headers.get(HEADERS.bodySha256) ?? "";
  const proof = headers.get(HEADERS.proof) ?? "";
  if (bodySha256 !== digest(exchange.body)) return false;
  for (const origin of origins) {
    const fields = {
      method,
      origin,
      target: exchange.target,
      timestamp: headers.get(HEADERS.timestamp) ?? "",
      nonce: headers.get(HEADERS.nonce) ?? "",
      bodySha256,
      recipient: headers.get(HEADERS.recipient) ?? "",
      aitSha256,
    };
    if (verify(publicKey, proof, utf8Bytes(canonicalProof(fields)))) return true;
  }
  return false;
}
