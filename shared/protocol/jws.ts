/**
 * The one JWS profile of this network (D-20, D-21): compact, EdDSA, a header of exactly `alg`, `typ` and `kid`.
 * Shared by identity tokens and revocation lists. The signature itself is checked by `jose`.
 */
import { CompactSign, compactVerify } from "jose";
import { fromBase64Url, utf8Bytes } from "./base64url.ts";
import { hasDuplicateKeys } from "./json_text.ts";

/** Why a token was refused. Only `unknown_kid` may be worth a second try with fresher keys. */
export type TokenRefusal =
  | "malformed"
  | "header"
  | "unknown_kid"
  | "signature"
  | "claims"
  | "issuer"
  | "expired"
  | "not_yet_valid";

/** A token that must not be believed. `message` is for people and holds nothing of the token. */
export class TokenError extends Error {
  /** Name of the class. */
  override name = "TokenError";
  /** Creates an error with a reason. */
  constructor(readonly reason: TokenRefusal, message: string) {
    super(message);
  }
}

/** What may sign: a private key and the `kid` under which its public half is published. */
export interface SigningKey {
  /** ID of the signing key. */
  kid: string;
  /** Private key, Ed25519. */
  privateKey: CryptoKey;
}

/** A published key that verifies. Retired keys verify identity tokens but no revocation lists. */
export interface VerificationKey {
  /** Whether the key still signs. */
  status: "active" | "retired";
  /** Public key, Ed25519. */
  publicKey: CryptoKey;
}

/** Published keys by `kid`. */
export type VerificationKeys = ReadonlyMap<string, VerificationKey>;

/** A token taken apart, not yet believed. */
export interface UnverifiedJws {
  /** The compact JWS. */
  token: string;
  /** ID of the key that signed, as the header names it. */
  kid: string;
  /** The payload as its signer wrote it. */
  payloadJson: string;
}

/** Signs claims as compact JWS with the profile's header. */
export function signJws(typ: string, claims: object, key: SigningKey): Promise<string> {
  return new CompactSign(utf8Bytes(JSON.stringify(claims)))
    .setProtectedHeader({ alg: "EdDSA", typ, kid: key.kid })
    .sign(key.privateKey);
}

/**
 * Takes a token apart, strictly.
 *
 * @throws {TokenError} `malformed` or `header`
 */
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
 * Reads the header of a token, strictly. Returns its `kid`.
 *
 * @param header base64url, as in the token
 * @throws {TokenError} `malformed` or `header`
 */
export function readJwsHeader(header: string, typ: string): string {
  const headerJson = decodeText(header);
  const members = parseObject(headerJson, "header");
  if (hasDuplicateKeys(headerJson)) throw new TokenError("header", "The header names a member twice");
  const { alg, kid } = members;
  if (alg !== "EdDSA") throw new TokenError("header", "The header's alg is not EdDSA");
  if (members.typ !== typ) throw new TokenError("header", `The header's typ is not ${typ}`);
  if (typeof kid !== "string" || kid === "") throw new TokenError("header", "The header has no kid");
  if (Object.keys(members).length !== 3) {
    throw new TokenError("header", "The header has members besides alg, typ and kid");
  }
  return kid;
}

/**
 * Checks the signature with a published key and gives the payload object.
 *
 * @throws {TokenError} `signature`, or `claims` when the payload is no object
 */
export async function verifyJws(jws: UnverifiedJws, key: CryptoKey): Promise<Record<string, unknown>> {
  try {
    await compactVerify(jws.token, key, { algorithms: ["EdDSA"] });
  } catch {
    throw new TokenError("signature", "The signature does not verify");
  }
  return parseObject(jws.payloadJson, "claims");
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
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new TokenError(reason, `The ${reason} are not JSON`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TokenError(reason, `The ${reason} are not a JSON object`);
  }
  return value as Record<string, unknown>;
}
