/** The revocation list of identity tokens, CRL (D-21): claims, signing, verification, and which of two is newer. */
import * as z from "zod";
import { authorityOf, isAgentDid } from "../did.ts";
import { isUlid } from "../ids.ts";
import { type Bytes, fromBase64Url, utf8Bytes } from "../base64url.ts";
import { verify } from "../ed25519.ts";
import { hasDuplicateKeys } from "../json_text.ts";
import { checkTimes, readJwsHeader, type SigningKey, signJws, TokenError, type VerificationKeys } from "./jws.ts";
import { LIMITS } from "../limits.ts";

export const REVOCATION_REASONS = ["reissued", "agent_deleted"] as const;

export interface Revocation {
  /** `jti` of the revoked AIT. */
  jti: string;
  agentDid: string;
  reason: (typeof REVOCATION_REASONS)[number];
  /** Time of revocation, Unix seconds. */
  revokedAt: number;
}

/** Tells whether a value is an entry of a list. It uses no schema, because that would take long for 150,000 entries. */
export function isRevocation(value: unknown): value is Revocation {
  if (typeof value !== "object" || value === null) return false;
  const { jti, agentDid, reason, revokedAt } = value as Partial<Revocation>;
  return isUlid(jti) && isAgentDid(agentDid) && REVOCATION_REASONS.some((known) => known === reason) &&
    Number.isSafeInteger(revokedAt) && (revokedAt as number) >= 0;
}

export type CrlClaims = z.output<typeof CrlClaims>;
const CrlClaims = z.object({
  /** Origin of the registry that signed. */
  iss: z.string(),
  jti: z.string().refine(isUlid),
  /** Unix seconds. */
  iat: z.int().min(0),
  /** Unix seconds. */
  exp: z.int().min(0),
  /** Rises by one with every revocation. */
  seq: z.int().min(0).default(0),
  /** Newest first. */
  revocations: z.custom<Revocation[]>((value) => Array.isArray(value) && value.every(isRevocation)),
});

/** Content of a new list. Its `exp` follows from `issuedAtSeconds`. */
export interface CrlGrant extends Pick<CrlClaims, "jti" | "seq" | "revocations"> {
  /** Origin of the registry. */
  issuer: string;
  /** Time of issue, Unix seconds. */
  issuedAtSeconds: number;
}

export function signCrl(grant: CrlGrant, key: SigningKey): Promise<string> {
  const { issuer: iss, jti, issuedAtSeconds: iat, seq, revocations } = grant;
  const claims: CrlClaims = { iss, jti, iat, exp: iat + LIMITS.crlTtlSeconds, seq, revocations };
  return signJws("CRL", claims, key);
}

const DOT = 0x2e;
/** Characters of base64url decoded at once, about 600 entries: a multiple of four, so each slice decodes by itself. */
const SLICE = 131_072;
/** Longest header, in characters. With more, the search for its end takes longer in a list without a dot. */
const HEADER_CHARS = 1_024;
const SIGNATURE_CHARS = 86;

/**
 * Verifies a list with the active keys of the registry and returns its claims; retired keys do not sign lists. The
 * payload is read only after the signature has been verified, and in slices. Entries about agents of another authority
 * are left out, because a registry could otherwise revoke the agents of another one.
 *
 * @param token the compact JWS, as text or as its bytes
 * @param nowSeconds Unix seconds; `null` leaves the age of the list to the caller
 * @param yieldToEventLoop awaited between slices, because the longest list takes about 1 s
 * @throws {TokenError} with the reason
 */
export async function verifyCrl(
  token: string | Bytes,
  authority: { issuer: string; keys: VerificationKeys },
  nowSeconds: number | null,
  yieldToEventLoop: () => Promise<void> = () => Promise.resolve(),
): Promise<CrlClaims> {
  if (token.length > LIMITS.crlBytes) throw malformed(`The list is over ${LIMITS.crlBytes} bytes`);
  const bytes = typeof token === "string" ? utf8Bytes(token) : token;
  // Only both ends are searched, because a search of all bytes takes 23 ms in the longest list. A third dot is not
  // base64url, so it fails below.
  const first = bytes.subarray(0, HEADER_CHARS).indexOf(DOT);
  const last = bytes.length - 1 - SIGNATURE_CHARS;
  if (first < 1 || last - first < 2 || bytes[last] !== DOT) {
    throw malformed("The list is not three parts joined by dots, the last of 86 characters");
  }
  const kid = readJwsHeader(textOf(bytes.subarray(0, first)), "CRL");
  const signature = textOf(bytes.subarray(last + 1));
  if (fromBase64Url(signature)?.length !== LIMITS.signatureBytes) {
    throw malformed("The signature is not 64 bytes of base64url");
  }
  const key = authority.keys.get(kid);
  if (key?.status !== "active") throw new TokenError("unknown_kid", "The list's key is not an active one");
  await yieldToEventLoop();
  if (!(await verify(key.publicKey, signature, bytes.subarray(0, last)))) {
    throw new TokenError("signature", "The signature does not verify");
  }
  await yieldToEventLoop();
  const own = `did:svc:${authorityOf(authority.issuer)}:`;
  const claims = await readClaims(bytes.subarray(first + 1, last), own, yieldToEventLoop);
  if (claims.iss !== authority.issuer) throw new TokenError("issuer", "The list was issued by another registry");
  if (claims.exp !== claims.iat + LIMITS.crlTtlSeconds) {
    throw new TokenError("claims", "The list does not have the lifetime of a CRL");
  }
  if (nowSeconds !== null) checkTimes(claims, nowSeconds, "list");
  return claims;
}

/** Where the entries begin, and what is between two of them. */
const LIST = /[{,]\s*"revocations"\s*:\s*\[/, BETWEEN = /\}\s*,\s*\{/g;
/** Characters that are parsed at once, and most characters outside the entries. With more, a parse blocks the process. */
const GROUP = 262_144;

/** Decodes the payload in slices, and parses its entries in groups. Keeps only the entries whose DID begins with `own`. */
async function readClaims(payload: Bytes, own: string, yieldToEventLoop: () => Promise<void>): Promise<CrlClaims> {
  const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const revocations: Revocation[] = [];
  let text = "";
  try {
    for (let at = 0; at < payload.length; at += SLICE) {
      const decoded = fromBase64Url(textOf(payload.subarray(at, at + SLICE)));
      if (!decoded) throw malformed("The list's payload is not base64url");
      text += utf8.decode(decoded, { stream: true });
      await yieldToEventLoop();
    }
    text += utf8.decode();
    const head = LIST.exec(text.slice(0, GROUP));
    if (!head) throw new SyntaxError("The entries are missing");
    // An entry holds no array, so the first bracket ends the list.
    const start = head.index + head[0].length, end = text.indexOf("]", start);
    const outside = text.slice(0, start) + text.slice(end);
    if (outside.length > GROUP) throw new SyntaxError("The claims are too long");
    const parsed = CrlClaims.safeParse(JSON.parse(outside));
    if (!parsed.success || hasDuplicateKeys(outside)) throw new SyntaxError("The claims are not those of a CRL");
    for (let at = start; at < end;) {
      BETWEEN.lastIndex = at + GROUP;
      const between = BETWEEN.exec(text);
      const stop = between && between.index < end ? between.index + 1 : end;
      if (stop - at > 2 * GROUP) throw new SyntaxError("An entry is too long");
      for (const entry of JSON.parse(`[${text.slice(at, stop)}]`) as unknown[]) {
        if (!isRevocation(entry)) throw new SyntaxError("An entry is not that of a CRL");
        if (entry.agentDid.startsWith(own)) revocations.push(entry);
      }
      at = stop < end ? BETWEEN.lastIndex - 1 : end;
      await yieldToEventLoop();
    }
    return { ...parsed.data, revocations };
  } catch (error) {
    if (error instanceof TypeError) throw malformed("The list's payload is not UTF-8");
    if (!(error instanceof SyntaxError)) throw error;
    throw new TokenError("claims", "The list's claims are not those of a CRL");
  }
}

/**
 * Returns bytes as a text with one character per byte. A byte beyond ASCII becomes a character that is not base64url,
 * so it is refused later.
 */
function textOf(bytes: Bytes): string {
  return new TextDecoder("latin1").decode(bytes);
}

function malformed(message: string): TokenError {
  return new TokenError("malformed", message);
}

/**
 * Tells whether `candidate` is older than `current` by `seq`, and by `iat` for the same `seq`. Accepting such a list
 * would undo revocations.
 */
export function isCrlRollback(
  candidate: Pick<CrlClaims, "seq" | "iat">,
  current: Pick<CrlClaims, "seq" | "iat">,
): boolean {
  return candidate.seq < current.seq || (candidate.seq === current.seq && candidate.iat < current.iat);
}
