/** The agent identity token, AIT (D-20): its claims, signing and verification. Keys, issuer and time are parameters. */
import * as z from "zod";
import { authorityOf, isAgentDid, isHumanDid, parseDid } from "../did.ts";
import { isPublicKey } from "../ed25519.ts";
import { isUlid } from "../ids.ts";
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
import { LIMITS } from "../limits.ts";
import { isAgentName, parseFramework } from "../names.ts";

const DAY_SECONDS = 86_400;

export type AitClaims = z.output<typeof AitClaims>;
const AitClaims = z.strictObject({
  /** Origin of the registry that signed. */
  iss: z.string(),
  sub: z.string().refine(isAgentDid),
  ownerDid: z.string().refine(isHumanDid),
  name: z.string().refine(isAgentName),
  framework: z.string().refine((text) => parseFramework(text) === text),
  cnf: z.strictObject({
    jwk: z.strictObject({ kty: z.literal("OKP"), crv: z.literal("Ed25519"), x: z.string().refine(isPublicKey) }),
  }),
  iat: unixTime,
  nbf: unixTime,
  exp: unixTime,
  jti: z.string().refine(isUlid),
});

/** Content of a new AIT. Its times follow from `issuedAtSeconds` and `ttlDays`. */
export interface AitGrant extends Pick<AitClaims, "ownerDid" | "name" | "framework" | "jti"> {
  /** Origin of the registry. */
  issuer: string;
  agentDid: string;
  /** Ed25519 public key, base64url of 32 bytes. */
  publicKey: string;
  /** Time of issue, Unix seconds. */
  issuedAtSeconds: number;
  /** Whole days, 1 to 90. */
  ttlDays: number;
}

export function signAit(grant: AitGrant, key: SigningKey): Promise<string> {
  const claims: AitClaims = {
    iss: grant.issuer,
    sub: grant.agentDid,
    ownerDid: grant.ownerDid,
    name: grant.name,
    framework: grant.framework,
    cnf: { jwk: { kty: "OKP", crv: "Ed25519", x: grant.publicKey } },
    iat: grant.issuedAtSeconds,
    nbf: grant.issuedAtSeconds,
    exp: grant.issuedAtSeconds + grant.ttlDays * DAY_SECONDS,
    jti: grant.jti,
  };
  return signJws("AIT", claims, key);
}

export interface AitAuthority {
  /** Origin of the registry, as in `iss`. */
  issuer: string;
  /** The keys that the registry publishes. */
  keys: VerificationKeys;
}

/**
 * Verifies signature, claims and times of an AIT, in this order. Returns the claims.
 *
 * @param nowSeconds Unix seconds
 * @throws {TokenError} with the reason; `unknown_kid` when the authority has no key with that ID
 */
export async function verifyAit(token: string, authority: AitAuthority, nowSeconds: number): Promise<AitClaims> {
  const claims = await verifyAitSignature(parseAit(token), authority);
  checkTimes(claims, nowSeconds);
  return claims;
}

/**
 * Returns the parts of an AIT without verifying it, for example to find its key.
 *
 * @throws {TokenError} `malformed` or `header`
 */
export function parseAit(token: string): UnverifiedJws {
  return parseJws(token, "AIT", LIMITS.aitBytes);
}

/** Verifies signature and claims, but not the times. Returns the claims. @throws {TokenError} with the reason */
export async function verifyAitSignature(jws: UnverifiedJws, authority: AitAuthority): Promise<AitClaims> {
  const key = authority.keys.get(jws.kid);
  if (!key) throw new TokenError("unknown_kid", "The token's key is not published by the registry");
  await verifyJws(jws, key.publicKey);
  return readAitClaims(jws, authority.issuer);
}

/**
 * Returns the claims of an AIT without verifying its signature, for a caller that trusts the agent's key for another
 * reason.
 *
 * @param issuer the only issuer that the AIT may name (default: any issuer)
 * @throws {TokenError} `claims`, or `issuer`
 */
export function readAitClaims(jws: UnverifiedJws, issuer?: string): AitClaims {
  const claims = claimsIn(jws, AitClaims, "an AIT");
  if (issuer !== undefined && claims.iss !== issuer) {
    throw new TokenError("issuer", "The token was issued by another registry");
  }
  const authority = authorityOf(claims.iss);
  if (parseDid(claims.sub)?.authority !== authority || parseDid(claims.ownerDid)?.authority !== authority) {
    throw new TokenError("claims", "The token's DIDs are not of its issuer");
  }
  const days = (claims.exp - claims.iat) / DAY_SECONDS;
  if (!Number.isInteger(days) || days < LIMITS.aitTtlDaysMin || days > LIMITS.aitTtlDaysMax) {
    throw new TokenError(
      "claims",
      `The token's lifetime is not ${LIMITS.aitTtlDaysMin} to ${LIMITS.aitTtlDaysMax} days`,
    );
  }
  if (claims.nbf !== claims.iat) throw new TokenError("claims", "The token's nbf is not its iat");
  return claims;
}
