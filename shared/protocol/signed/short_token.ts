/**
 * Tokens that a registry signs for one service. They live for five minutes, because they cannot be revoked. With an
 * admin token, ADM (D-172), an admin reads the relay state of a proxy. With a visit token, VIS (D-282), an agent shows
 * a proxy of another registry that its session at home is valid. A visit token is no secret, because it is worth
 * nothing without a proof that the agent makes for that proxy.
 */
import * as z from "zod";
import { authorityOf, isAgentDid, isHumanDid, parseDid } from "../did.ts";
import { isUlid } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import { isOrigin } from "../origins.ts";
import {
  checkTimes,
  claimsIn,
  parseJws,
  type SigningKey,
  signJws,
  TokenError,
  unixTime,
  type UnverifiedJws,
  type VerificationKeys,
  verifyJws,
} from "./jws.ts";

/** Longest token. With more, a bad token costs more to decode before it is refused. */
export const SHORT_TOKEN_BYTES_MAX = 2_048;

/** The claims of every kind of short token. `sub` has the same authority as `iss`. */
type ShortTokenClaims = z.output<typeof Common> & { sub: string };
const Common = z.strictObject({
  /** Origin of the registry that signed. */
  iss: z.string(),
  /** Origin of the service that may accept it. */
  aud: z.string(),
  /** Unix seconds. */
  iat: unixTime,
  /** Unix seconds. */
  exp: unixTime,
  jti: z.string().refine(isUlid),
});

/** Claims of an admin token. `sub` is the admin. */
export type AdminTokenClaims = z.output<typeof AdminTokenClaims>;
const AdminTokenClaims = Common.extend({
  sub: z.string().refine(isHumanDid),
  scope: z.tuple([z.literal("relay.read")]),
});

/** Claims of a visit token. `sub` is the agent. */
export type VisitTokenClaims = z.output<typeof VisitTokenClaims>;
const VisitTokenClaims = Common.extend({
  sub: z.string().refine(isAgentDid),
  /** Origin of the agent's home proxy, to which answers are sent. */
  proxy: z.string().refine(isOrigin),
  /** `jti` of the agent's identity token. */
  aitJti: z.string().refine(isUlid),
});

export interface ShortTokenKind<C extends ShortTokenClaims> {
  /** The `typ` in the header. */
  typ: string;
  /** The name of the token in the message of an error. */
  what: string;
  /** Seconds from `iat` to `exp`. */
  ttlSeconds: number;
  claims: z.ZodType<C>;
}

export const ADM: ShortTokenKind<AdminTokenClaims> = {
  typ: "ADM",
  what: "an admin token",
  ttlSeconds: LIMITS.adminTokenTtlSeconds,
  claims: AdminTokenClaims,
};

export const VIS: ShortTokenKind<VisitTokenClaims> = {
  typ: "VIS",
  what: "a visit token",
  ttlSeconds: LIMITS.visitTokenTtlSeconds,
  claims: VisitTokenClaims,
};

/** Returns a signed token as a compact JWS. Its `exp` follows from `iat`. */
export function signShortToken<C extends ShortTokenClaims>(
  { typ, ttlSeconds }: ShortTokenKind<C>,
  { jti, ...claims }: Omit<C, "exp">,
  key: SigningKey,
): Promise<string> {
  return signJws(typ, { ...claims, exp: claims.iat + ttlSeconds, jti }, key);
}

/** Returns the parts of a token without verifying it. @throws {TokenError} `malformed` or `header` */
export function parseShortToken({ typ }: Pick<ShortTokenKind<never>, "typ">, token: string): UnverifiedJws {
  return parseJws(token, typ, SHORT_TOKEN_BYTES_MAX);
}

/**
 * Verifies signature, claims and times, and returns the claims. It accepts only an active key, because a thief of a
 * retired one could otherwise sign new tokens. For a visit token, the caller must compare `sub` and `aitJti` with the
 * identity token of the request, because the visit token of another agent would otherwise pass.
 *
 * @param authority the trusted issuer with its published keys, and the service that the token must name
 * @param nowSeconds Unix seconds
 * @throws {TokenError} with the reason; `unknown_kid` when no active key has that ID
 */
export async function verifyShortToken<C extends ShortTokenClaims>(
  { claims: schema, ttlSeconds, what }: ShortTokenKind<C>,
  jws: UnverifiedJws,
  authority: { issuer: string; audience: string; keys: VerificationKeys },
  nowSeconds: number,
): Promise<C> {
  const key = authority.keys.get(jws.kid);
  if (key?.status !== "active") throw new TokenError("unknown_kid", "The token's key is not an active one");
  await verifyJws(jws, key.publicKey);
  const claims = claimsIn(jws, schema, what);
  if (claims.iss !== authority.issuer) throw new TokenError("issuer", "The token was issued by another registry");
  if (claims.aud !== authority.audience) throw new TokenError("audience", "The token is for another proxy");
  if (claims.exp !== claims.iat + ttlSeconds) {
    throw new TokenError("claims", `The token does not have the lifetime of ${what}`);
  }
  checkTimes(claims, nowSeconds);
  if (parseDid(claims.sub)?.authority !== authorityOf(claims.iss)) {
    throw new TokenError("claims", "The token's DID is not of its issuer");
  }
  return claims;
}
