/**
 * What admin tokens and visit tokens share: the registry signs them for one service and a few minutes, and they cannot be
 * revoked. Keys, addresses and time are parameters.
 */
import * as z from "zod";
import { hasDuplicateKeys } from "../json_text.ts";
import { LIMITS } from "../limits.ts";
import { TokenError, type UnverifiedJws, type VerificationKeys, verifyJws } from "./jws.ts";

/** With more, a bad token costs more to decode before it is refused. */
export const SHORT_TOKEN_BYTES_MAX = 2_048;

/** Unix seconds. */
export const unixTime = z.int().min(0).max(253_402_300_799);

/** The trusted issuer with its published keys, and the service that the token must name. */
export interface ShortTokenAuthority {
  /** Origin of the registry, as in `iss`. */
  issuer: string;
  /** Origin of the service, as in `aud`. */
  audience: string;
  /** Published keys of the registry. */
  keys: VerificationKeys;
}

/**
 * Verifies signature, claims and times with an active key: a retired one has signed nothing that is still valid. Returns the
 * claims.
 *
 * @param what names the token in the message of an error
 * @param nowSeconds Unix seconds
 * @throws {TokenError} with the reason; `unknown_kid` when no active key has that ID
 */
export async function verifyShortToken<C extends { iss: string; aud: string; iat: number; exp: number }>(
  jws: UnverifiedJws,
  authority: ShortTokenAuthority,
  { claims: schema, ttlSeconds, what }: { claims: z.ZodType<C>; ttlSeconds: number; what: string },
  nowSeconds: number,
): Promise<C> {
  const key = authority.keys.get(jws.kid);
  if (key?.status !== "active") throw new TokenError("unknown_kid", "The token's key is not an active one");
  const payload = await verifyJws(jws, key.publicKey);
  // Two readers of a duplicate claim could use different values.
  if (hasDuplicateKeys(jws.payloadJson)) throw new TokenError("claims", "The token has a duplicate claim");
  const parsed = schema.safeParse(payload);
  if (!parsed.success) {
    const where = parsed.error.issues[0]?.path.join(".") || "the claims";
    throw new TokenError("claims", `The token's claims are not those of ${what} (${where})`);
  }
  const claims = parsed.data;
  if (claims.iss !== authority.issuer) throw new TokenError("issuer", "The token was issued by another registry");
  if (claims.aud !== authority.audience) throw new TokenError("audience", "The token is for another proxy");
  if (claims.exp !== claims.iat + ttlSeconds) {
    throw new TokenError("claims", `The token does not have the lifetime of ${what}`);
  }
  if (nowSeconds >= claims.exp) throw new TokenError("expired", "The token has expired");
  if (claims.iat > nowSeconds + LIMITS.tokenLeewaySeconds) {
    throw new TokenError("not_yet_valid", "The token is not valid yet");
  }
  return claims;
}
