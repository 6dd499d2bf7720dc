/**
 * The form of every signed token (D-20): a compact JWS with EdDSA whose header has exactly `alg`, `typ` and `kid`.
 * `jose` checks the signature.
 */
import { CompactSign, compactVerify } from "jose";
import * as z from "zod";
import { fromBase64Url, utf8Bytes } from "../base64url.ts";
import type { CryptoKey } from "../ed25519.ts";
import { hasDuplicateKeys, parseOrThrow } from "../json_text.ts";
import { LIMITS } from "../limits.ts";

/** Why a token was rejected. After `unknown_kid`, a retry can succeed once newer keys are known. */
export type TokenRefusal =
  | "malformed"
  | "header"
  | "unknown_kid"
  | "signature"
  | "claims"
  | "issuer"
  | "audience"
  | "expired"
  | "not_yet_valid";

/** A token was rejected. `message` is for people and contains no part of the token. */
export class TokenError extends Error {
  override name = "TokenError";
  constructor(readonly reason: TokenRefusal, message: string) {
    super(message);
  }
}

/** A private key and the `kid` of its published public key. */
export interface SigningKey {
  kid: string;
  privateKey: CryptoKey;
}

/** A published key. A retired one verifies no revocation list, because a thief of it could undo revocations. */
export interface VerificationKey {
  /** `retired` when the key no longer signs. */
  status: "active" | "retired";
  publicKey: CryptoKey;
}

export type VerificationKeys = ReadonlyMap<string, VerificationKey>;

export interface UnverifiedJws {
  token: string;
  /** ID of the key that signed, as the header names it. */
  kid: string;
  /** The decoded payload, unchanged. */
  payloadJson: string;
}

export function signJws(typ: string, claims: object, key: SigningKey): Promise<string> {
  return new CompactSign(utf8Bytes(JSON.stringify(claims)))
    .setProtectedHeader({ alg: "EdDSA", typ, kid: key.kid })
    .sign(key.privateKey);
}

/** Returns the parts of a token without verifying it. @throws {TokenError} `malformed` or `header` */
export function parseJws(token: string, typ: string, maxBytes: number): UnverifiedJws {
  if (token.length > maxBytes) throw new TokenError("malformed", `The token is over ${maxBytes} bytes`);
  const [header, payload, signature, ...more] = token.split(".");
  if (!header || !payload || signature === undefined || more.length > 0) {
    throw new TokenError("malformed", "The token is not three parts joined by dots");
  }
  if (fromBase64Url(signature)?.length !== 64) {
    throw new TokenError("malformed", "The signature is not 64 bytes of base64url");
  }
  return { token, kid: readJwsHeader(header, typ), payloadJson: decodeText(payload) };
}

/**
 * Checks the header of a token strictly, and returns its `kid`.
 *
 * @param header base64url, as in the token
 * @throws {TokenError} `malformed` or `header`
 */
export function readJwsHeader(header: string, typ: string): string {
  const headerJson = decodeText(header);
  const members = parseObject(headerJson, "header");
  if (hasDuplicateKeys(headerJson)) throw new TokenError("header", "The header has a duplicate member");
  const { alg, kid } = members;
  if (alg !== "EdDSA") throw new TokenError("header", "The header's alg is not EdDSA");
  if (members.typ !== typ) throw new TokenError("header", `The header's typ is not ${typ}`);
  if (typeof kid !== "string" || kid === "") throw new TokenError("header", "The header has no kid");
  if (Object.keys(members).length !== 3) {
    throw new TokenError("header", "The header has members other than alg, typ and kid");
  }
  return kid;
}

/** Verifies the signature with a published key. @throws {TokenError} `signature` */
export async function verifyJws(jws: UnverifiedJws, key: CryptoKey): Promise<void> {
  try {
    await compactVerify(jws.token, key, { algorithms: ["EdDSA"] });
  } catch {
    throw new TokenError("signature", "The signature does not verify");
  }
}

/** The last second of the year 9999. Without a bound, the program that shows such a time as a date would end. */
export const UNIX_TIME_MAX = 253_402_300_799;

/** Unix seconds, up to the year 9999. */
export const unixTime: z.ZodInt = z.int().min(0).max(UNIX_TIME_MAX);

/**
 * Returns the claims of a token. The schema must refuse unknown members, because two readers that know different claims
 * would disagree about the same token.
 *
 * @param what names the token in the message of an error
 * @throws {TokenError} `claims`
 */
export function claimsIn<C>({ payloadJson }: UnverifiedJws, schema: z.ZodType<C>, what: string): C {
  const payload = parseObject(payloadJson, "claims");
  // A duplicate claim is refused, because two readers could use different values of it.
  if (hasDuplicateKeys(payloadJson)) throw new TokenError("claims", "The token has a duplicate claim");
  const { data, error } = schema.safeParse(payload);
  if (data !== undefined) return data;
  const where = error?.issues[0]?.path.join(".") || "the claims";
  throw new TokenError("claims", `The token's claims are not those of ${what} (${where})`);
}

/**
 * Checks the times of verified claims. A cached token needs this check at every use, because it may have expired since.
 *
 * @throws {TokenError} `expired` from `exp` on, `not_yet_valid` more than 60 s before `iat`
 */
export function checkTimes({ iat, exp }: { iat: number; exp: number }, nowSeconds: number, what = "token"): void {
  if (nowSeconds >= exp) throw new TokenError("expired", `The ${what} has expired`);
  if (iat > nowSeconds + LIMITS.tokenLeewaySeconds) {
    throw new TokenError("not_yet_valid", `The ${what} is not valid yet`);
  }
}

function decodeText(part: string): string {
  const bytes = fromBase64Url(part);
  if (!bytes) throw new TokenError("malformed", "A part of the token is not base64url");
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new TokenError("malformed", "A part of the token is not UTF-8");
  }
}

function parseObject(json: string, reason: "header" | "claims"): Record<string, unknown> {
  const value = parseOrThrow(json, () => new TokenError(reason, `The ${reason} are not JSON`));
  if (typeof value !== "object" || value === null) {
    throw new TokenError(reason, `The ${reason} are not a JSON object`);
  }
  return value as Record<string, unknown>;
}
