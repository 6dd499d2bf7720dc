/**
 * Digests and signature verification of the services. They are synchronous, because WebCrypto moves each call to
 * another thread, which costs more than the work itself. They accept what shared/protocol accepts.
 */
import { createPublicKey, hash, type KeyObject, timingSafeEqual, verify as verifyHere } from "node:crypto";
import { type Bytes, fromBase64Url, utf8Bytes } from "../protocol/base64url.ts";

/**
 * Returns the base64url SHA-256 of a text (as UTF-8) or of bytes. Secrets are stored as this digest. A user's text
 * becomes part of a store key only as this digest, because the store refuses a key that is too long.
 */
export function digest(data: string | Uint8Array): string {
  return hash("sha256", data, "base64url");
}

/** Returns the hexadecimal SHA-256 of a text (as UTF-8). Hexadecimal leaves less garbage than other encodings. */
export function hexDigest(text: string): string {
  return hash("sha256", text, "hex");
}

/**
 * Compares two digests in a time that does not depend on where they differ, because the time would otherwise tell an
 * attacker how much of a secret is right.
 */
export function equalDigests(a: string, b: string): boolean {
  const [left, right] = [utf8Bytes(a), utf8Bytes(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

/**
 * Returns the key object of a public key, for `verify()`.
 *
 * @throws {TypeError} when the text is not base64url of 32 bytes
 */
export function readPublicKey(publicKey: string): KeyObject {
  if (fromBase64Url(publicKey)?.length !== 32) {
    throw new TypeError("Cannot read the public key: not 32 bytes of base64url");
  }
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: publicKey }, format: "jwk" });
}

/** Tells whether a base64url signature verifies. A malformed signature does not. */
export function verify(publicKey: KeyObject, signature: string, message: Bytes): boolean {
  const bytes = fromBase64Url(signature);
  return bytes?.length === 64 && verifyHere(null, message, publicKey, bytes);
}
