/** The revocation list of identity tokens, CRL (D-21): claims, signing, verification, and which of two is newer. */
import * as z from "zod";
import { authorityOf, isAgentDid } from "../did.ts";
import { isUlid } from "../ids.ts";
import { type Bytes, fromBase64Url, utf8Bytes } from "../base64url.ts";
import { verify } from "../ed25519.ts";
import { hasDuplicateKeys, partEnd } from "../json_text.ts";
import {
  checkTimes,
  readJwsHeader,
  type SigningKey,
  signJws,
  TokenError,
  UNIX_TIME_MAX,
  type VerificationKeys,
} from "./jws.ts";
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
    Number.isSafeInteger(revokedAt) && (revokedAt as number) >= 0 && (revokedAt as number) <= UNIX_TIME_MAX;
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

/** What stands before the entries, from the beginning of their member. */
const LIST = /\s*"revocations"\s*:\s*\[/y;
/** Longest entry, and longest text outside the entries. With more, a single `JSON.parse` blocks the process. */
const PART_CHARS = 65_536;

/** Decodes and parses the payload in slices. Returns its claims, with only the entries whose DID begins with `own`. */
async function readClaims(payload: Bytes, own: string, yieldToEventLoop: () => Promise<void>): Promise<CrlClaims> {
  const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const revocations: Revocation[] = [];
  /** `outside` is the text without the entries; `pending` was decoded, but not read yet. */
  let outside = "", pending = "", isBehind = false, isFirst = true;
  const leave = (chars: number) => {
    outside += pending.slice(0, chars);
    pending = pending.slice(chars);
  };
  const read = (piece: string) => {
    pending += piece;
    if (outside === "") leave(startOfEntries(pending));
    const end = outside === "" || isBehind ? -1 : endOfEntries(pending);
    if (end >= 0) {
      isBehind = pending[end] !== ",";
      const entries = JSON.parse(`[${pending.slice(0, end)}]`) as unknown[];
      if (entries.length === 0 && !(isBehind && isFirst)) throw new SyntaxError("An entry is missing");
      for (const entry of entries) {
        if (!isRevocation(entry)) throw new SyntaxError("An entry is not that of a CRL");
        if (entry.agentDid.startsWith(own)) revocations.push(entry);
      }
      isFirst = false;
      pending = pending.slice(isBehind ? end : end + 1);
    }
    if (isBehind) leave(pending.length);
    if (Math.max(outside.length, pending.length) > PART_CHARS) throw new SyntaxError("A part of the list is too long");
  };
  try {
    for (let at = 0; at < payload.length; at += SLICE) {
      const decoded = fromBase64Url(textOf(payload.subarray(at, at + SLICE)));
      if (!decoded) throw malformed("The list's payload is not base64url");
      read(utf8.decode(decoded, { stream: true }));
      await yieldToEventLoop();
    }
    read(utf8.decode());
    const parsed = CrlClaims.safeParse(JSON.parse(outside));
    if (!parsed.success || hasDuplicateKeys(outside)) throw new SyntaxError("The claims are not those of a CRL");
    return { ...parsed.data, revocations };
  } catch (error) {
    if (error instanceof TypeError) throw malformed("The list's payload is not UTF-8");
    if (!(error instanceof SyntaxError)) throw error;
    throw new TokenError("claims", "The list's claims are not those of a CRL");
  }
}

/**
 * Returns where the entries begin, or 0 if that is not yet in the text. Only a member of the outermost object counts,
 * because an inner object may have one of the same name.
 */
function startOfEntries(json: string): number {
  for (let at = json.indexOf("{"); at < json.length; at = partEnd(json, at + 1)) {
    LIST.lastIndex = at + 1;
    if (LIST.test(json)) return LIST.lastIndex;
  }
  return 0;
}

/** Returns where the last complete entry ends, at a comma or at the bracket behind the list, or -1 without one. */
function endOfEntries(json: string): number {
  let end = -1;
  for (let at = partEnd(json, 0); at < json.length; at = partEnd(json, at + 1)) {
    end = at;
    if (json[at] !== ",") break;
  }
  return end;
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
 * Tells whether `candidate` is older than `current`, because accepting such a list would undo revocations. Each list
 * holds every revocation up to its `seq`. Its `iat` does not count, because instances of a registry sign at different
 * times, and a verifier that a balancer leads to another instance would otherwise refuse its list.
 */
export function isCrlRollback(candidate: Pick<CrlClaims, "seq">, current: Pick<CrlClaims, "seq">): boolean {
  return candidate.seq < current.seq;
}
