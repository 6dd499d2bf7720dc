/**
 * Hashing and verifying in the services, on the thread that asks: WebCrypto hands each call to another one, which costs
 * more than the work (D-105). What is accepted is what shared/protocol accepts (D-09). Makes no keys and signs nothing.
 */
import { createPublicKey, hash, type KeyObject, verify as verifyHere } from "node:crypto";
import { type Bytes, fromBase64Url } from "../protocol/base64url.ts";

/** base64url SHA-256 of a text (as UTF-8) or of bytes; also the digest under which a secret is kept (D-08). */
export function digest(data: string | Uint8Array): string {
  return hash("sha256", data, "base64url");
}

/**
 * Makes a checked public key ready to verify.
 *
 * @throws {TypeError} when it is not 32 bytes of base64url
 */
export function readPublicKey(publicKey: string): KeyObject {
  if (fromBase64Url(publicKey)?.length !== 32) {
    throw new TypeError("Cannot read the public key: not 32 bytes of base64url");
  }
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: publicKey }, format: "jwk" });
}

/** Verifies a base64url signature; any malformed one is simply wrong. */
export function verify(publicKey: KeyObject, signature: string, message: Bytes): boolean {
  const bytes = fromBase64Url(signature);
  return bytes?.length === 64 && verifyHere(null, message, publicKey, bytes);
}

/** A key part made from a text that a user chose: fixed length, no meaning of its own. */
export function hashKeyPart(text: string): string {
  return digest(text);
}
