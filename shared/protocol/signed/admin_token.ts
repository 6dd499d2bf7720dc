/**
 * The admin token, ADM (D-172): with it an admin reads the relay state of a proxy. The registry signs it for one proxy and
 * five minutes. It cannot be revoked and it changes nothing. Keys, addresses and time are parameters.
 */
import * as z from "zod";
import { authorityOf, isHumanDid, parseDid } from "../did.ts";
import { isUlid } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import { parseJws, type SigningKey, signJws, TokenError, type UnverifiedJws } from "./jws.ts";
import { SHORT_TOKEN_BYTES_MAX, type ShortTokenAuthority, unixTime, verifyShortToken } from "./short_token.ts";

/** Claims of an admin token. There are no others. */
export type AdminTokenClaims = z.output<typeof AdminTokenClaims>;
const AdminTokenClaims = z.strictObject({
  /** Origin of the registry that signed. */
  iss: z.string(),
  sub: z.string().refine(isHumanDid),
  /** Origin of the proxy that may accept it. */
  aud: z.string(),
  scope: z.tuple([z.literal("relay.read")]),
  iat: unixTime,
  /** 300 s after `iat`. */
  exp: unixTime,
  jti: z.string().refine(isUlid),
});

/** Content of a new token. `exp` is computed from `issuedAtSeconds`. */
export interface AdminTokenGrant {
  /** Origin of the registry. */
  issuer: string;
  humanDid: string;
  /** Origin of the proxy. */
  audience: string;
  /** ULID of the new token. */
  jti: string;
  /** Time of issue, Unix seconds. */
  issuedAtSeconds: number;
}

/** Returns a signed admin token, a compact JWS. */
export function signAdminToken(grant: AdminTokenGrant, key: SigningKey): Promise<string> {
  const claims: AdminTokenClaims = {
    iss: grant.issuer,
    sub: grant.humanDid,
    aud: grant.audience,
    scope: ["relay.read"],
    iat: grant.issuedAtSeconds,
    exp: grant.issuedAtSeconds + LIMITS.adminTokenTtlSeconds,
    jti: grant.jti,
  };
  return signJws("ADM", claims, key);
}

/**
 * Returns the parts of an admin token without verifying it.
 *
 * @throws {TokenError} `malformed` or `header`
 */
export function parseAdminToken(token: string): UnverifiedJws {
  return parseJws(token, "ADM", SHORT_TOKEN_BYTES_MAX);
}

/**
 * Verifies signature, claims and times with an active key. Retired keys do not sign admin tokens. Returns the claims.
 *
 * @param nowSeconds Unix seconds
 * @throws {TokenError} with the reason; `unknown_kid` when no active key has that ID
 */
export async function verifyAdminToken(
  jws: UnverifiedJws,
  authority: ShortTokenAuthority,
  nowSeconds: number,
): Promise<AdminTokenClaims> {
  const rules = { claims: AdminTokenClaims, ttlSeconds: LIMITS.adminTokenTtlSeconds, what: "an admin token" };
  const claims = await verifyShortToken(jws, authority, rules, nowSeconds);
  if (parseDid(claims.sub)?.authority !== authorityOf(claims.iss)) {
    throw new TokenError("claims", "The token's DID is not of its issuer");
  }
  return claims;
}
