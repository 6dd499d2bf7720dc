/**
 * The visit token, VIS (D-284): with it an agent shows a proxy of another registry that its session at home stands. The
 * registry signs it for one proxy and five minutes. It is no secret: without a proof of the agent for that proxy it is worth
 * nothing, so a server that receives it cannot use it anywhere.
 */
import * as z from "zod";
import { authorityOf, isAgentDid, parseDid } from "../did.ts";
import { isUlid } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import { isOrigin } from "../origins.ts";
import { parseJws, type SigningKey, signJws, TokenError, type UnverifiedJws } from "./jws.ts";
import { SHORT_TOKEN_BYTES_MAX, type ShortTokenAuthority, unixTime, verifyShortToken } from "./short_token.ts";

/** Claims of a visit token. There are no others. */
export type VisitTokenClaims = z.output<typeof VisitTokenClaims>;
const VisitTokenClaims = z.strictObject({
  /** Origin of the registry that signed. */
  iss: z.string(),
  sub: z.string().refine(isAgentDid),
  /** Origin of the proxy that may accept it. */
  aud: z.string(),
  /** Origin of the agent's home proxy: where it can be answered. */
  proxy: z.string().refine(isOrigin),
  /** `jti` of the agent's identity token. */
  aitJti: z.string().refine(isUlid),
  iat: unixTime,
  /** 300 s after `iat`. */
  exp: unixTime,
  jti: z.string().refine(isUlid),
});

/** Content of a new token. `exp` is computed from `issuedAtSeconds`. */
export interface VisitTokenGrant {
  /** Origin of the registry. */
  issuer: string;
  agentDid: string;
  /** Origin of the visited proxy. */
  audience: string;
  /** Origin of the agent's home proxy. */
  proxy: string;
  /** `jti` of the agent's identity token. */
  aitJti: string;
  /** ULID of the new token. */
  jti: string;
  /** Time of issue, Unix seconds. */
  issuedAtSeconds: number;
}

/** Returns a signed visit token, a compact JWS. */
export function signVisitToken(grant: VisitTokenGrant, key: SigningKey): Promise<string> {
  const claims: VisitTokenClaims = {
    iss: grant.issuer,
    sub: grant.agentDid,
    aud: grant.audience,
    proxy: grant.proxy,
    aitJti: grant.aitJti,
    iat: grant.issuedAtSeconds,
    exp: grant.issuedAtSeconds + LIMITS.visitTokenTtlSeconds,
    jti: grant.jti,
  };
  return signJws("VIS", claims, key);
}

/**
 * Returns the parts of a visit token without verifying it.
 *
 * @throws {TokenError} `malformed` or `header`
 */
export function parseVisitToken(token: string): UnverifiedJws {
  return parseJws(token, "VIS", SHORT_TOKEN_BYTES_MAX);
}

/**
 * Verifies signature, claims and times with an active key. Returns the claims; that `sub` and `aitJti` are those of the
 * identity token beside it is for the caller to compare.
 *
 * @param nowSeconds Unix seconds
 * @throws {TokenError} with the reason; `unknown_kid` when no active key has that ID
 */
export async function verifyVisitToken(
  jws: UnverifiedJws,
  authority: ShortTokenAuthority,
  nowSeconds: number,
): Promise<VisitTokenClaims> {
  const rules = { claims: VisitTokenClaims, ttlSeconds: LIMITS.visitTokenTtlSeconds, what: "a visit token" };
  const claims = await verifyShortToken(jws, authority, rules, nowSeconds);
  if (parseDid(claims.sub)?.authority !== authorityOf(claims.iss)) {
    throw new TokenError("claims", "The token's DID is not of its issuer");
  }
  return claims;
}
