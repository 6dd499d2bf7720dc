/**
 * HPKE base mode of RFC 9180 with X25519, HKDF-SHA256 and AES-128-GCM, over WebCrypto alone: shows what a reader without this
 * project and without its library needs to open a sealed body.
 */

type Bytes = Uint8Array<ArrayBuffer>;

const utf8 = (text: string): Bytes => new TextEncoder().encode(text);
const join = (...parts: Uint8Array[]): Bytes => new Uint8Array(parts.flatMap((part) => [...part]));
/** A number as two bytes. */
const two = (n: number) => Uint8Array.of(n >> 8, n & 255);
const KEM_ID = join(utf8("KEM"), two(0x20)), SUITE_ID = join(utf8("HPKE"), two(0x20), two(1), two(1));
const X25519_PKCS8 = Uint8Array.of(0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20);

async function hmac(key: Bytes, data: Bytes): Promise<Bytes> {
  const hash = { name: "HMAC", hash: "SHA-256" };
  // WebCrypto takes no empty key; HMAC pads it with zeros.
  const secret = await crypto.subtle.importKey("raw", key.length === 0 ? new Uint8Array(32) : key, hash, false, [
    "sign",
  ]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", secret, data));
}

const extract = (suite: Bytes, salt: Bytes, label: string, ikm: Bytes) =>
  hmac(salt, join(utf8("HPKE-v1"), suite, utf8(label), ikm));

/** Up to 32 bytes. */
async function expand(suite: Bytes, prk: Bytes, label: string, info: Bytes, length: number): Promise<Bytes> {
  const data = join(two(length), utf8("HPKE-v1"), suite, utf8(label), info, Uint8Array.of(1));
  return (await hmac(prk, data)).slice(0, length);
}

/** Opens one ciphertext, the first of its context. @throws when it was not sealed like this */
export async function hpkeOpen(
  { privateKey, publicKey, enc, info, aad, ct }: Record<
    "privateKey" | "publicKey" | "enc" | "info" | "aad" | "ct",
    Bytes
  >,
): Promise<Bytes> {
  const own = await crypto.subtle.importKey("pkcs8", join(X25519_PKCS8, privateKey), "X25519", false, ["deriveBits"]);
  const other = await crypto.subtle.importKey("raw", enc, "X25519", false, []);
  const dh = new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: other }, own, 256));
  const none = new Uint8Array();
  const shared = await expand(
    KEM_ID,
    await extract(KEM_ID, none, "eae_prk", dh),
    "shared_secret",
    join(enc, publicKey),
    32,
  );
  const context = join(
    Uint8Array.of(0),
    await extract(SUITE_ID, none, "psk_id_hash", none),
    await extract(SUITE_ID, none, "info_hash", info),
  );
  const secret = await extract(SUITE_ID, shared, "secret", none);
  const key = await crypto.subtle.importKey(
    "raw",
    await expand(SUITE_ID, secret, "key", context, 16),
    "AES-GCM",
    false,
    ["decrypt"],
  );
  const iv = await expand(SUITE_ID, secret, "base_nonce", context, 12);
  return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv, additionalData: aad }, key, ct));
}
