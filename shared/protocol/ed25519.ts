/**
 * Ed25519 (RFC 8032) with WebCrypto: accepted public keys, signing and verification. Public keys are base64url of 32
 * bytes. A key of small order is refused, because one constant signature verifies with it for every message.
 */
import { Point } from "@noble/ed25519";
import { type Bytes, fromBase64Url, toBase64Url } from "./base64url.ts";

const ALGORITHM = "Ed25519";
/** DER prefix of a PKCS #8 Ed25519 private key (RFC 8410). The seed follows it. */
const PKCS8_PREFIX = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/** A key of WebCrypto. The types of Node 20 and 22 have no global of this name, so programs would not compile with it. */
export type CryptoKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;

/** Tells whether a public key is accepted: base64url of 32 bytes, canonical, on the curve, not of small order. */
export function isPublicKey(value: unknown): value is string {
  if (typeof value !== "string" || value.length !== 43) return false;
  const bytes = fromBase64Url(value);
  if (bytes?.length !== 32) return false;
  try {
    return !Point.fromBytes(bytes, false).isSmallOrder();
  } catch {
    return false;
  }
}

/**
 * Returns the key object of a public key, for `verify()`.
 *
 * @throws {TypeError} when the text is not base64url of 32 bytes
 */
export function importPublicKey(publicKey: string): Promise<CryptoKey> {
  const bytes = fromBase64Url(publicKey);
  if (bytes?.length !== 32) throw new TypeError("Cannot import the public key: not 32 bytes of base64url");
  return crypto.subtle.importKey("raw", bytes, ALGORITHM, true, ["verify"]);
}

export interface KeyPair {
  publicKey: string;
  /** base64url of the 32-byte seed, which is a secret. */
  seed: string;
  /** The key that signs. It cannot be exported. */
  privateKey: CryptoKey;
}

/** Returns the key pair of a 32-byte seed. @throws {TypeError} when the seed is not 32 bytes */
export async function keyPairFromSeed(seed: Uint8Array): Promise<KeyPair> {
  if (seed.length !== 32) throw new TypeError("Cannot make a key pair: the seed is not 32 bytes");
  const pkcs8 = new Uint8Array([...PKCS8_PREFIX, ...seed]);
  // Only this import can be exported, because the public key is read from it. The key that is returned cannot.
  const jwk = await crypto.subtle.exportKey(
    "jwk",
    await crypto.subtle.importKey("pkcs8", pkcs8, ALGORITHM, true, ["sign"]),
  );
  const privateKey = await crypto.subtle.importKey("pkcs8", pkcs8, ALGORITHM, false, ["sign"]);
  pkcs8.fill(0);
  return { publicKey: jwk.x ?? "", seed: toBase64Url(seed), privateKey };
}

/** Returns the signature of a message, base64url of 64 bytes. */
export async function sign(privateKey: CryptoKey, message: Bytes): Promise<string> {
  return toBase64Url(new Uint8Array(await crypto.subtle.sign(ALGORITHM, privateKey, message)));
}

/** Tells whether a base64url signature verifies. A malformed signature does not. */
export async function verify(publicKey: CryptoKey, signature: string, message: Bytes): Promise<boolean> {
  const bytes = fromBase64Url(signature);
  if (bytes?.length !== 64) return false;
  return await crypto.subtle.verify(ALGORITHM, publicKey, bytes, message);
}
