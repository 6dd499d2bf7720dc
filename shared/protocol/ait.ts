/**
 * The agent identity token, AIT (D-20): claims, signing, verifying.
 * Keys, issuer and the moment of judgement are handed in.
 */
import * as z from "zod";
import { authorityOf, isAgentDid, isHumanDid, parseDid } from "./did.ts";
import { isPublicKey } from "./ed25519.ts";
import { isUlid } from "./ids.ts";
import {
  parseJws,
  type SigningKey,
  signJws,
  TokenError,
  type UnverifiedJws,
  type VerificationKeys,
  verifyJws,
} from "./jws.ts";
import { hasDuplicateKeys } from "./json_text.ts";
import { LIMITS } from "./limits.ts";
import { isAgentName, parseFramework } from "./names.ts";
import type { Shape } from "./shape.ts";

const DAY_SECONDS = 86_400;
const unixTime = z.int().min(0).max(253_402_300_799);

const AitShape: Shape<AitClaims> = z.strictObject({
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

/** The claims of an AIT. Times are unix seconds; `cnf.jwk.x` is the agent's public key. */
export interface AitClaims {
  /** Origin of the registry that signed. */
  iss: string;
  /** DID of the agent. */
  sub: string;
  /** DID of the agent's owner. */
  ownerDid: string;
  /** Name of the agent. */
  name: string;
  /** Framework label. */
  framework: string;
  /** Public key of the agent, with which it proves possession. */
  cnf: { jwk: { kty: "OKP"; crv: "Ed25519"; x: string } };
  /** Time of issue, Unix seconds. */
  iat: number;
  /** Start of validity, Unix seconds. */
  nbf: number;
  /** Time of expiry, Unix seconds. */
  exp: number;
  /** ULID of the token. */
  jti: string;
}

/** What a new AIT says; times follow from `issuedAtSeconds` and `ttlDays`. */
export interface AitGrant {
  /** Origin of the registry. */
  issuer: string;
  /** DID of the agent. */
  agentDid: string;
  /** DID of the agent's owner. */
  ownerDid: string;
  /** Name of the agent. */
  name: string;
  /** Framework label. */
  framework: string;
  /** Ed25519 public key, base64url of 32 bytes. */
  publicKey: string;
  /** ULID of the new token. */
  jti: string;
  /** Time of issue, Unix seconds. */
  issuedAtSeconds: number;
  /** Whole days, 1 to 90. */
  ttlDays: number;
}

/** Signs an AIT. */
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

/** Who verifies: the issuer that is trusted and its published keys. */
export interface AitAuthority {
  /** Origin of the registry, as in `iss`. */
  issuer: string;
  /** Published keys of the registry. */
  keys: VerificationKeys;
}

/**
 * Verifies signature, then claims, then times, and gives the claims.
 *
 * @param nowSeconds unix seconds
 * @throws {TokenError} with the reason; `unknown_kid` when no key of that name is published
 */
export async function verifyAit(token: string, authority: AitAuthority, nowSeconds: number): Promise<AitClaims> {
  const claims = await verifyAitSignature(parseAit(token), authority);
  checkAitTimes(claims, nowSeconds);
  return claims;
}

/**
 * Takes an AIT apart without believing it, for the name of its key.
 *
 * @throws {TokenError} `malformed` or `header`
 */
export function parseAit(token: string): UnverifiedJws {
  return parseJws(token, "AIT", LIMITS.aitBytes);
}

/**
 * Verifies signature and claims; the times are still to be judged.
 *
 * @throws {TokenError} with the reason
 */
export async function verifyAitSignature(jws: UnverifiedJws, authority: AitAuthority): Promise<AitClaims> {
  const key = authority.keys.get(jws.kid);
  if (!key) throw new TokenError("unknown_kid", "The token's key is not published by the registry");
  const payload = await verifyJws(jws, key.publicKey);
  // Two readers of a claim that is named twice could see different ones.
  if (hasDuplicateKeys(jws.payloadJson)) throw new TokenError("claims", "The token names a claim twice");
  return parseAitClaims(payload, authority.issuer);
}

/**
 * Judges the times of verified claims; a token kept after its verification is judged by this at every use.
 *
 * @throws {TokenError} `expired` from `exp` on, `not_yet_valid` more than 60 s before `nbf` or `iat`
 */
export function checkAitTimes(claims: Pick<AitClaims, "iat" | "nbf" | "exp">, nowSeconds: number): void {
  if (nowSeconds >= claims.exp) throw new TokenError("expired", "The token has expired");
  if (Math.max(claims.nbf, claims.iat) > nowSeconds + LIMITS.tokenLeewaySeconds) {
    throw new TokenError("not_yet_valid", "The token is not valid yet");
  }
}

function parseAitClaims(payload: Record<string, unknown>, issuer: string): AitClaims {
  const parsed = AitShape.safeParse(payload);
  if (!parsed.success) {
    const where = parsed.error.issues[0]?.path.join(".") || "the claims";
    throw new TokenError("claims", `The token's claims are not those of an AIT (${where})`);
  }
  const claims = parsed.data;
  if (claims.iss !== issuer) throw new TokenError("issuer", "The token is of another registry");
  const authority = authorityOf(issuer);
  if (parseDid(claims.sub)?.authority !== authority || parseDid(claims.ownerDid)?.authority !== authority) {
    throw new TokenError("claims", "The token's DIDs are not of its issuer");
  }
  const days = (claims.exp - claims.iat) / DAY_SECONDS;
  if (!Number.isInteger(days) || days < LIMITS.aitTtlDaysMin || days > LIMITS.aitTtlDaysMax) {
    throw new TokenError("claims", "The token's lifetime is not 1 to 90 days");
  }
  if (claims.nbf !== claims.iat) throw new TokenError("claims", "The token's nbf is not its iat");
  return claims;
}
