/**
 * Shows which public keys are accepted and that signing and verification are Ed25519. The Wycheproof and RFC 8032
 * vectors run through the project's own functions when they are next to the project.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Point } from "@noble/ed25519";
import fc from "fast-check";
import { fromBase64Url, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { importPublicKey, isPublicKey, keyPairFromSeed, sign, verify } from "../../../shared/protocol/ed25519.ts";
import { sharedVectors, vectors } from "../../support/vectors.ts";

const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
const SEED = new Uint8Array(32).fill(7);
const hex = (text: string) => Uint8Array.fromHex(text);

/** y of every point whose order divides 8. */
const SMALL_ORDER_Y = [
  0n,
  1n,
  P - 1n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
];

const WYCHEPROOF = sharedVectors("wycheproof-ed25519"), RFC_8032 = sharedVectors("rfc8032");

Deno.test("verification returns the stated result for every Wycheproof vector", { ignore: !WYCHEPROOF }, async () => {
  let checked = 0;
  for (const { publicKey, tests } of WYCHEPROOF?.testGroups ?? []) {
    const key = await importPublicKey(toBase64Url(hex(publicKey.pk)));
    for (const { tcId, comment, msg, sig, result } of tests) {
      const valid = await verify(key, toBase64Url(hex(sig)), hex(msg));
      assertEquals(valid, result === "valid", `tcId ${tcId} ${comment}`);
      checked++;
    }
  }
  assertEquals([checked, WYCHEPROOF?.numberOfTests], [151, 151]);
});

Deno.test("key pairs, signing and verification agree with RFC 8032", { ignore: !RFC_8032 }, async () => {
  assert(RFC_8032?.length);
  for (const { priv, pub, msg, sig } of RFC_8032) {
    const pair = await keyPairFromSeed(hex(priv));
    assertEquals([pair.publicKey, pair.seed], [toBase64Url(hex(pub)), toBase64Url(hex(priv))]);
    assertEquals(await sign(pair.privateKey, hex(msg)), toBase64Url(hex(sig)));
    assert(isPublicKey(pair.publicKey));
    assert(await verify(await importPublicKey(pair.publicKey), toBase64Url(hex(sig)), hex(msg)));
  }
});

Deno.test("the public key check refuses every small-order point in every encoding", async (t) => {
  const encodings = SMALL_ORDER_Y.flatMap((y) => y < 19n ? [y, y + P] : [y])
    .flatMap((y) => [encode(y), encode(y, 0x80)]);
  assertEquals(encodings.length, 14);
  for (const bytes of encodings) {
    await t.step(toBase64Url(bytes), () => {
      assert(Point.fromBytes(bytes, true).isSmallOrder());
      assertEquals(isPublicKey(toBase64Url(bytes)), false);
    });
  }
});

Deno.test("the public key check refuses every y that is not below p", () => {
  for (let y = P; y < 2n ** 255n; y++) {
    assertEquals([isPublicKey(toBase64Url(encode(y))), isPublicKey(toBase64Url(encode(y, 0x80)))], [false, false]);
  }
});

Deno.test("the public key check accepts exactly the canonical points outside the small subgroup", () => {
  const y = fc.oneof(fc.bigInt({ min: 0n, max: 40n }), fc.bigInt({ min: 0n, max: 2n ** 255n - 1n }));
  fc.assert(
    fc.property(y, fc.constantFrom(0, 0x80), (value, sign) => {
      assertEquals(isPublicKey(toBase64Url(encode(value, sign))), value < P && isOnCurve(value) && !isSmall(value));
    }),
    { seed: 1, numRuns: 200 },
  );
});

Deno.test("the public key check refuses each malformed key", async (t) => {
  const key = (await keyPairFromSeed(SEED)).publicKey;
  const bytes = fromBase64Url(key) ?? new Uint8Array();
  const standard = btoa(String.fromCharCode(...encode(3n, 0).fill(0xfb)));
  const rows: [name: string, value: unknown][] = [
    ["nothing", ""],
    ["31 bytes", toBase64Url(bytes.slice(1))],
    ["33 bytes", toBase64Url(new Uint8Array([...bytes, 0]))],
    ["64 bytes", toBase64Url(new Uint8Array([...bytes, ...bytes]))],
    ["padding", `${key}=`],
    ["the standard alphabet", standard.slice(0, 43)],
    ["hex", Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")],
    ["trailing bits", key.slice(0, -1) + String.fromCharCode(key.charCodeAt(42) + 1)],
    ["white space in front", ` ${key}`],
    ["white space in place of a character", ` ${key.slice(1)}`],
    ["a line feed at the end", `${key}\n`],
    ["y = 2, which is on no point", toBase64Url(encode(2n))],
    ["y = 7, which is on no point", toBase64Url(encode(7n))],
    ["ones only", toBase64Url(new Uint8Array(32).fill(0xff))],
    ["100 KiB", "A".repeat(102_400)],
    ["a number", 1],
    ["null", null],
    ["undefined", undefined],
    ["bytes", bytes],
    ["a JWK", { kty: "OKP", crv: "Ed25519", x: key }],
  ];
  assert(isPublicKey(key));
  for (const [name, value] of rows) await t.step(name, () => assertEquals(isPublicKey(value), false));
});

Deno.test("public key import refuses what is not 32 bytes of base64url", async () => {
  for (const text of ["", "AAAA", "A".repeat(42), "A".repeat(44), `${"A".repeat(43)}=`, "A".repeat(42) + "B"]) {
    await assertRejects(async () => await importPublicKey(text), TypeError);
  }
});

Deno.test("key pairs from seeds are those of the vectors", async () => {
  for (const { seed, x } of [vectors("proof").agentKey, vectors("registration").agentKey]) {
    const pair = await keyPairFromSeed(fromBase64Url(seed) ?? new Uint8Array());
    assertEquals([pair.publicKey, pair.seed], [x, seed]);
  }
});

Deno.test("a key pair from a seed has a private key that cannot be exported", async () => {
  const { privateKey } = await keyPairFromSeed(SEED);
  assertEquals([privateKey.extractable, privateKey.usages], [false, ["sign"]]);
});

Deno.test("a key pair is refused when the seed is not 32 bytes", async () => {
  for (const length of [0, 31, 33, 64]) {
    await assertRejects(() => keyPairFromSeed(new Uint8Array(length)), TypeError);
  }
});

Deno.test("verification accepts a signature and refuses one that differs in a bit", async () => {
  const pair = await keyPairFromSeed(SEED);
  const key = await importPublicKey(pair.publicKey);
  const message = fc.uint8Array({ minLength: 1, maxLength: 80 }).map((bytes) => new Uint8Array(bytes));
  await fc.assert(
    fc.asyncProperty(message, fc.nat(511), fc.nat(), async (signed, sigBit, messageBit) => {
      const signature = await sign(pair.privateKey, signed);
      assertEquals(fromBase64Url(signature)?.length, 64);
      assert(await verify(key, signature, signed));
      assert(!await verify(key, toBase64Url(flip(fromBase64Url(signature) ?? new Uint8Array(64), sigBit)), signed));
      assert(!await verify(key, signature, flip(signed, messageBit % (signed.length * 8))));
    }),
    { seed: 1, numRuns: 150 },
  );
});

Deno.test("verification refuses a signature whose S was raised by the group order", async () => {
  const pair = await keyPairFromSeed(SEED);
  const message = utf8Bytes("svc");
  const bytes = fromBase64Url(await sign(pair.privateKey, message)) ?? new Uint8Array(64);
  const raised = new Uint8Array([...bytes.slice(0, 32), ...encode(decode(bytes.slice(32)) + L)]);
  assertEquals(await verify(await importPublicKey(pair.publicKey), toBase64Url(raised), message), false);
});

Deno.test("verification is false and does not throw for a malformed signature", async () => {
  const key = await importPublicKey((await keyPairFromSeed(SEED)).publicKey);
  const good = toBase64Url(new Uint8Array(64));
  for (
    const text of ["", "x", "!", good.slice(1), `${good}A`, `${good}==`, ` ${good}`, good.slice(0, -1) + "B", good]
  ) {
    assertEquals(await verify(key, text, utf8Bytes("svc")), false);
  }
});

/** 32 bytes, little-endian. `sign` is or-ed into the last byte. */
function encode(y: bigint, sign = 0): Uint8Array<ArrayBuffer> {
  const bytes = Uint8Array.from({ length: 32 }, (_, i) => Number((y >> BigInt(8 * i)) & 0xffn));
  bytes[31] = (bytes[31] ?? 0) | sign;
  return bytes;
}

function decode(bytes: Uint8Array): bigint {
  return bytes.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n);
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (let square = base % P, rest = exponent; rest > 0n; rest >>= 1n, square = square * square % P) {
    if (rest & 1n) result = result * square % P;
  }
  return result;
}

/** True when x² = (y² − 1) / (d·y² + 1) has a root, with d = −121665 / 121666. */
function isOnCurve(y: bigint): boolean {
  const d = (P - 121665n) * power(121666n, P - 2n) % P;
  const xx = (y * y - 1n + P) * power(d * y * y + 1n, P - 2n) % P;
  return xx === 0n || power(xx, (P - 1n) / 2n) === 1n;
}

function isSmall(y: bigint): boolean {
  return SMALL_ORDER_Y.includes(y);
}

function flip(bytes: Uint8Array, bit: number): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytes);
  copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  return copy;
}
