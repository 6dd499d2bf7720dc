/**
 * The admin token, ADM (D-172): with it an admin reads the relay state of a proxy. The registry signs it for one proxy and
 * five minutes. It cannot be revoked and it changes nothing. Keys, addresses and time are parameters.
 */
import * as z from "zod";
import { authorityOf, isHumanDid, parseDid } from "../did.ts";
import { isUlid } from "../ids.ts";
import { hasDuplicateKeys } from "../json_text.ts";
import { LIMITS } from "../limits.ts";
import {
  parseJws,
  type SigningKey,
  signJws,
  TokenError,
  type UnverifiedJws,
  type VerificationKeys,
  verifyJws,
} from "./jws.ts";

/** With more, a bad token costs more to decode before it is refused. */
const TOKEN_BYTES_MAX = 2_048;

/** Unix seconds. */
const unixTime = z.int().min(0).max(253_402_300_799);

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

/** The trusted issuer with its published keys, and the proxy that the token must name. */
export interface AdminTokenAuthority {
  /** Origin of the registry, as in `iss`. */
  issuer: string;
  /** Origin of the proxy, as in `aud`. */
  audience: string;
  /** Published keys of the registry. */
  keys: VerificationKeys;
}

/**
 * Returns the parts of an admin token without verifying it.
 *
 * @throws {TokenError} `malformed` or `header`
 */
export function parseAdminToken(token: string): UnverifiedJws {
  return parseJws(token, "ADM", TOKEN_BYTES_MAX);
}

/**
 * Verifies signature, claims and times with an active key. Retired keys do not sign admin tokens. Returns the claims.
 *
 * @param nowSeconds Unix seconds
 * @throws {TokenError} with the reason; `unknown_kid` when no active key has that ID
 */
export async function verifyAdminToken(
  jws: UnverifiedJws,
  authority: AdminTokenAuthority,
  nowSeconds: number,
): Promise<AdminTokenClaims> {
  const key = authority.keys.get(jws.kid);
  if (key?.status !== "active") throw new TokenError("unknown_kid", "The token's key is not an active one");
  const payload = await verifyJws(jws, key.publicKey);
  // Two readers of a duplicate claim could use different values.
  if (hasDuplicateKeys(jws.payloadJson)) throw new TokenError("claims", "The token has a duplicate claim");
  const parsed = AdminTokenClaims.safeParse(payload);
  if (!parsed.success) {
    const where = parsed.error.issues[0]?.path.join(".") || "the claims";
    throw new TokenError("claims", `The token's claims are not those of an admin token (${where})`);
  }
  const claims = parsed.data;
  if (claims.iss !== authority.issuer) throw new TokenError("issuer", "The token was issued by another registry");
  if (claims.aud !== authority.audience) throw new TokenError("audience", "The token is for another proxy");
  if (parseDid(claims.sub)?.authority !== authorityOf(claims.iss)) {
    throw new TokenError("claims", "The token's DID is not of its issuer");
  }
  if (claims.exp !== claims.iat + LIMITS.adminTokenTtlSeconds) {
    throw new TokenError("claims", "The token does not have the lifetime of an admin token");
  }
  if (nowSeconds >= claims.exp) throw new TokenError("expired", "The token has expired");
  if (claims.iat > nowSeconds + LIMITS.tokenLeewaySeconds) {
    throw new TokenError("not_yet_valid", "The token is not valid yet");
  }
  return claims;
}
