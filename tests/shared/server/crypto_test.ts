/**
 * Shows that the services verify signatures as the protocol package does: the same result for every Wycheproof and RFC
 * 8032 vector, and for signatures that differ in a bit.
 */
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { sha256, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { importPublicKey, keyPairFromSeed, sign, verify as verifyAnywhere } from "../../../shared/protocol/ed25519.ts";
import { EMPTY_BODY_SHA256 } from "../../../shared/protocol/proof.ts";
import { digest, equalDigests, readPublicKey, verify } from "../../../shared/server/crypto.ts";
import { sharedVectors } from "../../support/vectors.ts";

Deno.test("the digest of a secret is base64url SHA-256 of the secret with its prefix", async () => {
  assertEquals(digest("abc"), "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
  assertEquals([digest(""), digest(new Uint8Array())], [EMPTY_BODY_SHA256, EMPTY_BODY_SHA256]);
  assertEquals(digest("caf\u00e9"), await sha256(utf8Bytes("caf\u00e9")));
  assertNotEquals(digest("svc_pat_AAAA"), digest("svc_agt_AAAA"));
});

Deno.test("the comparison of digests is equality, also of texts of different length", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "\0", "é"), maxLength: 3 });
  fc.assert(
    fc.property(text, text, (a, b) => {
      assertEquals(equalDigests(a, b), a === b);
      assert(equalDigests(a, `${a}`));
      assert(!equalDigests(a, `${a}\0`));
    }),
    { seed: 1, numRuns: 500 },
  );
});

const WYCHEPROOF = sharedVectors("wycheproof-ed25519"), RFC_8032 = sharedVectors("rfc8032");

Deno.test("verification returns the stated result for every Wycheproof vector", { ignore: !WYCHEPROOF }, () => {
  let checked = 0;
  for (const { publicKey, tests } of WYCHEPROOF?.testGroups ?? []) {
    const key = readPublicKey(toBase64Url(Uint8Array.fromHex(publicKey.pk)));
    for (const { tcId, comment, msg, sig, result } of tests) {
      const valid = verify(key, toBase64Url(Uint8Array.fromHex(sig)), Uint8Array.fromHex(msg));
      assertEquals(valid, result === "valid", `tcId ${tcId} ${comment}`);
      checked++;
    }
  }
  assertEquals([checked, WYCHEPROOF?.numberOfTests], [151, 151]);
});

Deno.test("verification agrees with RFC 8032", { ignore: !RFC_8032 }, () => {
  assert(RFC_8032?.length);
  for (const { pub, msg, sig } of RFC_8032) {
    const key = readPublicKey(toBase64Url(Uint8Array.fromHex(pub)));
    assert(verify(key, toBase64Url(Uint8Array.fromHex(sig)), Uint8Array.fromHex(msg)));
  }
});

Deno.test("verification agrees with the protocol package for valid, changed and random signatures", async () => {
  const pair = await keyPairFromSeed(new Uint8Array(32).fill(7));
  const here = readPublicKey(pair.publicKey);
  const there = await importPublicKey(pair.publicKey);
  const message = fc.uint8Array({ minLength: 1, maxLength: 80 }).map((bytes) => new Uint8Array(bytes));
  const any = fc.uint8Array({ minLength: 64, maxLength: 64 });
  await fc.assert(
    fc.asyncProperty(message, any, fc.nat(511), async (signed, random, bit) => {
      const signature = Uint8Array.fromBase64(await sign(pair.privateKey, signed), { alphabet: "base64url" });
      const flipped = signature.map((byte, i) => i === bit >> 3 ? byte ^ 1 << (bit & 7) : byte);
      for (const [bytes, valid] of [[signature, true], [flipped, false], [random, false]] as const) {
        const text = toBase64Url(bytes);
        assertEquals([verify(here, text, signed), await verifyAnywhere(there, text, signed)], [valid, valid]);
      }
    }),
    { seed: 1, numRuns: 40 },
  );
});

Deno.test("verification is false for a malformed signature", async () => {
  const pair = await keyPairFromSeed(new Uint8Array(32).fill(7));
  const message = utf8Bytes("a");
  const signature = await sign(pair.privateKey, message);
  const key = readPublicKey(pair.publicKey);
  assert(verify(key, signature, message));
  for (const text of ["", "AAAA", `${signature}=`, ` ${signature}`, signature.slice(1), `${signature}A`, "\n"]) {
    assertEquals(verify(key, text, message), false);
  }
});

Deno.test("public key import refuses what is not 32 bytes of base64url", () => {
  for (const text of ["", "AAAA", "A".repeat(42), "A".repeat(44), `${"A".repeat(43)}=`, "A".repeat(42) + "B"]) {
    assertThrows(() => readPublicKey(text), TypeError);
  }
});
