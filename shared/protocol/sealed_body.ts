/**
 * Sealed payloads (D-151): the body of a message that only its recipient can read. The key is the agent's own Ed25519
 * key, converted to X25519, because a ticket has proved that one already, while a second key would come from a server,
 * which could name a key of its own. HPKE draws its ephemeral key by itself, so that is the only randomness that is not
 * a parameter.
 */
import { etc, Point } from "@noble/ed25519";
import {
  AEAD_AES_128_GCM,
  CipherSuite,
  type KDF,
  KDF_HKDF_SHA256,
  KEM_DHKEM_X25519_HKDF_SHA256,
  type KeyPair as OpeningKeyPair,
} from "hpke";
import { type Bytes, fromBase64Url, joinedBytes, sha256, toBase64Url, utf8Bytes } from "./base64url.ts";
import type { CryptoKey, KeyPair } from "./ed25519.ts";
import { givenHashes } from "./hashes.ts";
import { tryParse } from "./json_text.ts";
import { LIMITS } from "./limits.ts";

const byLibrary = KDF_HKDF_SHA256();
const FIRST_BLOCK = Uint8Array.of(1);
/** HKDF with the hashes that the program has supplied, or else with those of the library. */
const kdf: KDF = {
  ...byLibrary,
  async Extract(salt, input) {
    return givenHashes()?.hmacSha256(salt, input) ?? await byLibrary.Extract(salt, input);
  },
  async Expand(key, info, length) {
    const given = givenHashes();
    // This suite needs only one block. A longer output takes several, so it is left to the library.
    if (given === null || length > byLibrary.Nh) return await byLibrary.Expand(key, info, length);
    return given.hmacSha256(key, joinedBytes([info, FIRST_BLOCK])).slice(0, length);
  },
};

export const SEAL_SUITE: CipherSuite<CryptoKey> = new CipherSuite(
  // The KEM has a KDF of its own. It is replaced too, because half of the hashes would otherwise still be computed on
  // another thread, which takes longer.
  () => Object.assign(KEM_DHKEM_X25519_HKDF_SHA256(), { kdf }),
  () => kdf,
  AEAD_AES_128_GCM,
);

const FIRST_LINE = "SVC-SEALED-V1";
const BEFORE_ENC = '{"svcSealed":1,"enc":"', BEFORE_CT = '","ct":"', END = '"}';
const ENC_LENGTH = 43;
/** Random bytes in front of each payload. With fewer, a relay that knows the hash could guess a short payload. */
export const SALT_BYTES = 32;
const HEAD_BYTES = SALT_BYTES + 4;
/** Shortest plaintext after padding. With less, a relay could tell one short text from another by its length. */
const LEAST_BYTES = 256;
const MOST_BYTES = HEAD_BYTES + LIMITS.payloadBytes;

/** The values to which a sealed body is bound: with any other value it does not open. */
export interface SealBinding {
  /** DID of the sender, because another agent could otherwise pass on the body as its own. */
  from: string;
  to: string;
  /** The text of the signed context, because the body could otherwise be moved into another message. */
  context: string;
}

/** The key that opens what is sealed to one agent. */
export type OpeningKey = OpeningKeyPair<CryptoKey>;

/** Returns the X25519 public key, 32 bytes, of an Ed25519 public key that `isPublicKey` accepts. */
export function x25519PublicKey(publicKey: string): Bytes {
  const bytes = fromBase64Url(publicKey);
  if (bytes?.length !== 32) throw new TypeError("Cannot map the public key: not 32 bytes of base64url");
  const { y } = Point.fromBytes(bytes, false).toAffine();
  const u = etc.mod((1n + y) * etc.invert(etc.mod(1n - y), Point.CURVE().p));
  return Uint8Array.from({ length: 32 }, (_, i) => Number(u >> BigInt(8 * i) & 0xffn));
}

/** Returns the X25519 private key of an Ed25519 seed: 32 bytes, a secret. */
export async function x25519PrivateKey(seed: Bytes): Promise<Bytes> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-512", seed));
  const key = hash.slice(0, 32);
  hash.fill(0);
  key[0] = (key[0] ?? 0) & 248;
  key[31] = (key[31] ?? 0) & 127 | 64;
  return key;
}

/** Returns the key that opens what is sealed to an agent. @throws {TypeError} when the seed is not 32 bytes */
export async function openingKey({ seed, publicKey }: Pick<KeyPair, "seed" | "publicKey">): Promise<OpeningKey> {
  const bytes = fromBase64Url(seed);
  if (bytes?.length !== 32) throw new TypeError("Cannot make the key: the seed is not 32 bytes");
  const raw = await x25519PrivateKey(bytes);
  const privateKey = await SEAL_SUITE.DeserializePrivateKey(raw, false);
  raw.fill(0);
  return { privateKey, publicKey: await SEAL_SUITE.DeserializePublicKey(x25519PublicKey(publicKey)) };
}

/**
 * Returns the padded length of a plaintext, so that the length tells little about it: 256 bytes for a short one, and
 * above that the scheme Padmé, which adds at most 12 %.
 */
export function paddedLength(bytes: number): number {
  if (bytes <= LEAST_BYTES) return LEAST_BYTES;
  const e = Math.floor(Math.log2(bytes)), s = Math.floor(Math.log2(e)) + 1, step = 2 ** (e - s);
  return Math.min(Math.ceil(bytes / step) * step, MOST_BYTES);
}

/** A payload with the random bytes that are sealed with it. */
export interface SaltedPayload {
  payload: string;
  salt: Bytes;
}

/**
 * Returns the hash with which sender and recipient name a sealed payload. It covers the salt, because a short payload
 * could otherwise be guessed.
 */
export function payloadHash({ payload, salt }: SaltedPayload): Promise<string> {
  return sha256(joinedBytes([salt, utf8Bytes(payload)]));
}

/**
 * Returns the body of a message that only the owner of a public key can read.
 *
 * @param salt 32 random bytes
 * @throws {RangeError} for a payload over the limit
 */
export async function sealPayload(
  { payload, salt }: SaltedPayload,
  publicKey: string,
  binding: SealBinding,
): Promise<string> {
  const text = utf8Bytes(payload);
  if (salt.length !== SALT_BYTES) throw new RangeError(`The salt has not ${SALT_BYTES} bytes`);
  if (text.length > LIMITS.payloadBytes) throw new RangeError(`The payload is over ${LIMITS.payloadBytes} bytes`);
  const plain = new Uint8Array(paddedLength(HEAD_BYTES + text.length));
  plain.set(salt);
  new DataView(plain.buffer).setUint32(SALT_BYTES, text.length);
  plain.set(text, HEAD_BYTES);
  const key = await SEAL_SUITE.DeserializePublicKey(x25519PublicKey(publicKey));
  const { encapsulatedSecret, ciphertext } = await SEAL_SUITE.Seal(key, plain, boundTo(binding));
  return BEFORE_ENC + toBase64Url(encapsulatedSecret) + BEFORE_CT + toBase64Url(ciphertext) + END;
}

/** Tells whether a body says that it is sealed, even if its form is wrong. */
export function isSealed(body: string): boolean {
  const value = tryParse(body);
  return typeof value === "object" && value !== null && Object.hasOwn(value, "svcSealed");
}

/** Returns the payload of a sealed body, or `null` for any text not sealed to this key and for this message. */
export async function openPayload(body: string, key: OpeningKey, binding: SealBinding): Promise<SaltedPayload | null> {
  const parts = partsOf(body);
  if (parts === null) return null;
  let plain: Uint8Array;
  try {
    plain = await SEAL_SUITE.Open(key, parts.enc, parts.ct, boundTo(binding));
  } catch {
    // Only the body comes from outside, so any failure means that it was not sealed to this key and binding.
    return null;
  }
  if (plain.length < HEAD_BYTES) return null;
  const end = HEAD_BYTES + new DataView(plain.buffer, plain.byteOffset).getUint32(SALT_BYTES);
  if (end > plain.length || plain.subarray(end).some((byte) => byte !== 0)) return null;
  try {
    const payload = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(plain.subarray(HEAD_BYTES, end));
    JSON.parse(payload);
    return { payload, salt: plain.slice(0, SALT_BYTES) };
  } catch {
    return null;
  }
}

/** Compares the text byte for byte, because another spelling of the same body would have another hash in the proof. */
function partsOf(body: string): { enc: Bytes; ct: Bytes } | null {
  const middle = BEFORE_ENC.length + ENC_LENGTH, start = middle + BEFORE_CT.length;
  if (body.length > LIMITS.hookBodyBytes || !body.startsWith(BEFORE_ENC) || !body.endsWith(END)) return null;
  if (body.slice(middle, start) !== BEFORE_CT) return null;
  const enc = fromBase64Url(body.slice(BEFORE_ENC.length, middle)), ct = fromBase64Url(body.slice(start, -END.length));
  return enc === null || ct === null ? null : { enc, ct };
}

function boundTo({ from, to, context }: SealBinding): { info: Bytes; aad: Bytes } {
  return { info: utf8Bytes([FIRST_LINE, from, to].join("\n")), aad: utf8Bytes(context) };
}
