/**
 * The certificate-style revocation list of identity tokens, CRL (D-21): claims, signing, verifying.
 * Which list is newer than another is decided here too; keeping one is the proxy's business.
 */
import * as z from "zod";
import { isAgentDid } from "./did.ts";
import { isUlid } from "./ids.ts";
import { parseJws, type SigningKey, signJws, TokenError, type VerificationKeys, verifyJws } from "./jws.ts";
import { LIMITS } from "./limits.ts";

/** Why an AIT was revoked. */
export const REVOCATION_REASONS = ["reissued", "agent_deleted"] as const;

/** A revoked AIT. `revokedAt` is unix seconds. */
export interface Revocation {
  jti: string;
  agentDid: string;
  reason: (typeof REVOCATION_REASONS)[number];
  revokedAt: number;
}

/** True for an entry of a list. Plain code: a list may have ten thousand, and who reads them has other work waiting. */
export function isRevocation(value: unknown): value is Revocation {
  if (typeof value !== "object" || value === null) return false;
  const { jti, agentDid, reason, revokedAt } = value as Partial<Revocation>;
  return isUlid(jti) && isAgentDid(agentDid) && REVOCATION_REASONS.some((known) => known === reason) &&
    Number.isSafeInteger(revokedAt) && (revokedAt as number) >= 0;
}

const CrlClaims = z.object({
  iss: z.string(),
  jti: z.string().refine(isUlid),
  iat: z.int().min(0),
  exp: z.int().min(0),
  seq: z.int().min(0).default(0),
  revocations: z.custom<Revocation[]>((value) => Array.isArray(value) && value.every(isRevocation)),
});

/** The claims of a CRL. `seq` rises with every revocation; entries are newest first. */
export type CrlClaims = z.infer<typeof CrlClaims>;

/** What a new list says; `exp` follows from `issuedAtSeconds`. */
export interface CrlGrant {
  issuer: string;
  jti: string;
  issuedAtSeconds: number;
  seq: number;
  revocations: Revocation[];
}

/** Signs a list that is valid for 900 s. */
export function signCrl(grant: CrlGrant, key: SigningKey): Promise<string> {
  const claims: CrlClaims = {
    iss: grant.issuer,
    jti: grant.jti,
    iat: grant.issuedAtSeconds,
    exp: grant.issuedAtSeconds + LIMITS.crlTtlSeconds,
    seq: grant.seq,
    revocations: grant.revocations,
  };
  return signJws("CRL", claims, key);
}

/**
 * Verifies a list with the registry's active keys; a retired key signs no lists.
 *
 * @param nowSeconds unix seconds
 * @param breathe awaited between the parts of the work: a long list takes tens of milliseconds
 * @throws {TokenError} with the reason
 */
export async function verifyCrl(
  token: string,
  authority: { issuer: string; keys: VerificationKeys },
  nowSeconds: number,
  breathe: () => Promise<void> = () => Promise.resolve(),
): Promise<CrlClaims> {
  const jws = parseJws(token, "CRL", LIMITS.crlBytes);
  const key = authority.keys.get(jws.kid);
  if (key?.status !== "active") throw new TokenError("unknown_kid", "The list's key is not an active one");
  await breathe();
  const claimed = await verifyJws(jws, key.publicKey);
  await breathe();
  const parsed = CrlClaims.safeParse(claimed);
  if (!parsed.success) throw new TokenError("claims", "The list's claims are not those of a CRL");
  const claims = parsed.data;
  if (claims.iss !== authority.issuer) throw new TokenError("issuer", "The list is of another registry");
  if (claims.exp !== claims.iat + LIMITS.crlTtlSeconds) {
    throw new TokenError("claims", "The list's lifetime is not the one of a CRL");
  }
  if (nowSeconds >= claims.exp) throw new TokenError("expired", "The list has expired");
  if (claims.iat > nowSeconds + LIMITS.tokenLeewaySeconds) {
    throw new TokenError("not_yet_valid", "The list is from the future");
  }
  return claims;
}

/** True when `candidate` is older than `current` by (`seq`, `iat`): a rollback (D-62). */
export function isCrlRollback(
  candidate: Pick<CrlClaims, "seq" | "iat">,
  current: Pick<CrlClaims, "seq" | "iat">,
): boolean {
  return candidate.seq < current.seq || (candidate.seq === current.seq && candidate.iat < current.iat);
}
