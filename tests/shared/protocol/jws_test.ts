/**
 * Shows which tokens are never accepted, regardless of the signer: header variants and token shapes. All run through
 * verifyAit(), with a published key and an otherwise valid payload.
 */
import { assert, assertEquals, assertRejects, fail } from "@std/assert";
import fc from "fast-check";
import { CompactSign, compactVerify } from "jose";
import { signAit, verifyAit } from "../../../shared/protocol/signed/ait.ts";
import { fromBase64Url, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { importPublicKey, keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { parseJws, TokenError, type TokenRefusal } from "../../../shared/protocol/signed/jws.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { steps } from "../../support/steps.ts";
import { signedToken, WRONG_ALGS } from "../../support/tokens.ts";
import { vectors } from "../../support/vectors.ts";
import { codePoints } from "./arbitraries.ts";

const { issuer, now, valid } = vectors("ait");
const claims = valid[0]?.claims ?? fail();
const PAYLOAD = JSON.stringify(claims);
const HEADER = { alg: "EdDSA", typ: "AIT", kid: "test-1" };

const pair = await keyPairFromSeed(new Uint8Array(32).fill(1));
const attacker = await keyPairFromSeed(new Uint8Array(32).fill(2));
const publicKey = await importPublicKey(pair.publicKey);
const authority = { issuer, keys: new Map([["test-1", { status: "active" as const, publicKey }]]) };
const token = await forge(HEADER);
const [headerPart, payloadPart, signaturePart] = token.split(".") as [string, string, string];

/** Signs any header over any payload text. */
async function forge(header: unknown, payload = PAYLOAD, key = pair.privateKey): Promise<string> {
  return await signedToken(header, payload, key);
}

async function refusal(text: string): Promise<TokenRefusal> {
  return (await assertRejects(() => verifyAit(text, authority, now), TokenError)).reason;
}

Deno.test("AIT verification accepts the header alg, typ, kid in any order", async () => {
  assertEquals(await verifyAit(token, authority, now), claims);
  const { alg, typ, kid } = HEADER;
  assertEquals(await verifyAit(await forge({ kid, typ, alg }), authority, now), claims);
});

Deno.test("AIT verification refuses any other alg with any signature", async (t) => {
  const hmacKey = await crypto.subtle.importKey(
    "raw",
    fromBase64Url(pair.publicKey) ?? new Uint8Array(),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  for (const alg of WRONG_ALGS) {
    await t.step(JSON.stringify(alg), async () => {
      const forged = await forge({ ...HEADER, alg });
      const signed = forged.slice(0, forged.lastIndexOf("."));
      const hmac = new Uint8Array(await crypto.subtle.sign("HMAC", hmacKey, utf8Bytes(signed)));
      assertEquals(await refusal(forged), "header");
      assertEquals(await refusal(`${signed}.${signaturePart}`), "header");
      assertEquals(await refusal(`${signed}.`), "malformed");
      assertEquals(await refusal(`${signed}.${toBase64Url(hmac)}`), "malformed");
      assertEquals(await refusal(`${signed}.${toBase64Url(new Uint8Array([...hmac, ...hmac]))}`), "header");
    });
  }
});

Deno.test("AIT verification refuses a header member that names another key", async (t) => {
  const jwk = { kty: "OKP", crv: "Ed25519", x: attacker.publicKey };
  const rows: [name: string, member: object][] = [
    ["jwk", { jwk }],
    ["jku", { jku: "https://evil.example.test/keys.json" }],
    ["x5u", { x5u: "https://evil.example.test/cert.pem" }],
    ["x5c", { x5c: ["MIIB"] }],
    ["x5t", { x5t: "AAAA" }],
  ];
  await steps(t, rows, async ([, member]) => {
    assertEquals(await refusal(await forge({ ...HEADER, ...member }, PAYLOAD, attacker.privateKey)), "header");
    assertEquals(await refusal(await forge({ ...HEADER, ...member })), "header");
  });
});

Deno.test("AIT verification refuses each malformed header", async (t) => {
  const { alg, typ, kid } = HEADER;
  const rows: [name: string, header: unknown][] = [
    ["crit of a known name", { ...HEADER, crit: ["exp"] }],
    ["crit b64 with b64 false", { ...HEADER, crit: ["b64"], b64: false }],
    ["b64 false without crit", { ...HEADER, b64: false }],
    ["an unknown member", { ...HEADER, x: null }],
    ["a member __proto__", `{"__proto__":{},${JSON.stringify(HEADER).slice(1)}`],
    ["its members under __proto__", `{"__proto__":${JSON.stringify(HEADER)},"a":1,"b":2}`],
    ["no typ", { alg, kid }],
    ["typ ait", { ...HEADER, typ: "ait" }],
    ["typ application/AIT", { ...HEADER, typ: "application/AIT" }],
    ["typ of another type", { ...HEADER, typ: 1 }],
    ["typ as a list", { ...HEADER, typ: ["AIT"] }],
    ["no alg", { typ, kid }],
    ["an empty kid", { ...HEADER, kid: "" }],
    ["a kid of another type", { ...HEADER, kid: 1 }],
    ["a member named twice", `{"alg":"EdDSA","alg":"EdDSA","typ":"AIT","kid":"test-1"}`],
    ["a member named twice, once escaped", `{"alg":"none","\\u0061lg":"EdDSA","typ":"AIT","kid":"test-1"}`],
    ["a list", [HEADER]],
    ["null", null],
    ["a text", '"EdDSA"'],
    ["no JSON", "{alg:EdDSA}"],
    ["a BOM in front", `\ufeff${JSON.stringify(HEADER)}`],
  ];
  for (const [name, header] of rows) {
    await t.step(name, async () => assertEquals(await refusal(await forge(header)), "header"));
  }
});

Deno.test("AIT verification refuses a kid that is not published, inherited names too", async () => {
  for (const kid of ["test-2", "TEST-1", "test-1 ", "constructor", "__proto__", "../test-1"]) {
    assertEquals(await refusal(await forge({ ...HEADER, kid })), "unknown_kid");
  }
});

Deno.test("AIT verification refuses another key's signature under a published kid", async () => {
  assertEquals(await refusal(await forge(HEADER, PAYLOAD, attacker.privateKey)), "signature");
});

Deno.test("AIT verification refuses one flipped bit in header, payload or signature, and in the text of the token", async () => {
  const parts = [headerPart, payloadPart, signaturePart].map((part) => fromBase64Url(part) ?? new Uint8Array());
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(0, 1, 2), fc.nat(), async (which, bit) => {
      const flipped = parts.map((bytes, i) => toBase64Url(i === which ? flip(bytes, bit) : bytes));
      assert(await refusal(flipped.join(".")));
      assert(await refusal(String.fromCharCode(...flip(utf8Bytes(token), bit))));
    }),
    { seed: 1, numRuns: 100 },
  );
});

Deno.test("AIT verification refuses each malformed token", async (t) => {
  const protectedPart = { protected: headerPart, signature: signaturePart };
  const rows: [name: string, text: string][] = [
    ["nothing", ""],
    ["one part", headerPart],
    ["four parts", `${token}.`],
    ["100 dots", ".".repeat(100)],
    ["an empty header", `.${payloadPart}.${signaturePart}`],
    ["an empty payload", `${headerPart}..${signaturePart}`],
    ["an empty signature", `${headerPart}.${payloadPart}.`],
    ["flattened JSON", JSON.stringify({ payload: payloadPart, ...protectedPart })],
    ["a space in front", ` ${token}`],
    ["a space at the end", `${token} `],
    ["a line feed inside", token.replace(".", ".\n")],
    ["a line feed at the end", `${token}\n`],
    ["padding", `${token}=`],
    ["the standard alphabet", `${headerPart}.${payloadPart}.${"+".repeat(86)}`],
    ["a signature of 63 bytes", `${headerPart}.${payloadPart}.${"A".repeat(84)}`],
    ["a signature of 65 bytes", `${headerPart}.${payloadPart}.${"A".repeat(87)}`],
    ["a header that is not UTF-8", `${toBase64Url(new Uint8Array([0x7b, 0xff]))}.${payloadPart}.${signaturePart}`],
  ];
  for (const [name, text] of rows) await t.step(name, async () => assert(await refusal(text)));
});

Deno.test("AIT verification refuses random texts", async () => {
  const unit = fc.constantFrom(...'AZaz09-_..={}" \n\0é');
  const parts = fc.array(fc.base64String({ maxLength: 40 }).map((s) => s.replace(/[+/=]/g, "_")), { maxLength: 6 });
  const text = fc.oneof(
    fc.string({ unit, maxLength: 120 }),
    codePoints,
    parts.map((p) => p.join(".")),
  );
  await fc.assert(fc.asyncProperty(text, async (random) => assert(await refusal(random))), {
    seed: 1,
    numRuns: 1_000,
  });
});

Deno.test("AIT verification refuses a signed payload that is not a claims object", async (t) => {
  const rows: [name: string, payload: string, reason: TokenRefusal][] = [
    ["null", "null", "claims"],
    ["a list", "[]", "claims"],
    ["a text", '"x"', "claims"],
    ["a number", "1", "claims"],
    ["an empty object", "{}", "claims"],
    ["a list of the claims", `[${PAYLOAD}]`, "claims"],
    ["no JSON", "x", "claims"],
    ["half of the claims", PAYLOAD.slice(0, -1), "claims"],
    ["the claims twice", PAYLOAD + PAYLOAD, "claims"],
    ["a BOM in front", `\ufeff${PAYLOAD}`, "claims"],
    ["a text of 1 MiB", JSON.stringify("x".repeat(2 ** 20)), "malformed"],
    ["a claim named twice", PAYLOAD.replace("{", `{"jti":"${claims.jti}",`), "claims"],
    ["a claim named twice, once escaped", PAYLOAD.replace("{", `{"\\u006ati":"${claims.jti}",`), "claims"],
    ["a member of cnf.jwk named twice", PAYLOAD.replace('"kty"', '"kty":"OKP","kty"'), "claims"],
  ];
  for (const [name, payload, reason] of rows) {
    await t.step(name, async () => assertEquals(await refusal(await forge(HEADER, payload)), reason));
  }
});

Deno.test("AIT verification refuses a payload that is not UTF-8", async () => {
  const signed = new CompactSign(new Uint8Array([0x7b, 0xff, 0x7d])).setProtectedHeader(HEADER);
  assertEquals(await refusal(await signed.sign(pair.privateKey)), "malformed");
});

Deno.test("AIT verification accepts a token of 8 KiB, and refuses one byte more", async () => {
  assertEquals(LIMITS.aitBytes, 8192);
  const sizes = new Map<number, string>();
  for (let blanks = 5_000; sizes.size < 2 && blanks < 6_500; blanks++) {
    for (const gap of ["", " ", "  "]) {
      const text = await forge(`{${gap}${JSON.stringify(HEADER).slice(1)}`, PAYLOAD + " ".repeat(blanks));
      if (text.length === 8192 || text.length === 8193) sizes.set(text.length, text);
    }
  }
  assertEquals(await verifyAit(sizes.get(8192) ?? fail(), authority, now), claims);
  assertEquals(await refusal(sizes.get(8193) ?? fail()), "malformed");
  assertEquals(await refusal(await forge(HEADER, PAYLOAD + " ".repeat(60 * 1024))), "malformed");
});

Deno.test("a token error has a reason without any part of the token", async () => {
  for (const text of [await forge(HEADER, PAYLOAD, attacker.privateKey), `${token}x`, await forge(HEADER, "{}")]) {
    const { name, message } = await assertRejects(() => verifyAit(text, authority, now), TokenError);
    assertEquals(name, "TokenError");
    assert(!text.split(".").some((part) => message.includes(part)) && !message.includes(claims.jti));
  }
});

Deno.test("JWS parsing returns the kid and the unchanged payload", async () => {
  const payload = `{ "iss" :1e0 }`;
  const text = await forge(HEADER, payload);
  assertEquals(parseJws(text, "AIT", 8192), { token: text, kid: "test-1", payloadJson: payload });
});

Deno.test("AIT signing writes the token that jose writes and verifies", async () => {
  const { cnf, sub, ownerDid, name, framework, jti, iat } = claims;
  const grant = { issuer, agentDid: sub, ownerDid, name, framework, publicKey: cnf.jwk.x, jti };
  const ours = await signAit({ ...grant, issuedAtSeconds: iat, ttlDays: 30 }, { kid: "test-1", ...pair });
  const theirs = await new CompactSign(utf8Bytes(PAYLOAD)).setProtectedHeader(HEADER).sign(pair.privateKey);
  assertEquals([ours, ours], [theirs, token]);
  assertEquals((await compactVerify(ours, publicKey)).protectedHeader, HEADER);
});

function flip(bytes: Uint8Array, bit: number): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(bytes);
  const at = (bit >> 3) % copy.length;
  copy[at] = (copy[at] ?? 0) ^ (1 << (bit & 7));
  return copy;
}
