/**
 * Shows which short tokens are accepted, by the admin token (D-172): the vectors, here and with `jose` as a second verifier, a round trip, and
 * that no token of another kind passes for one.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "fast-check";
import { importJWK, jwtVerify } from "jose";
import {
  ADM,
  type AdminTokenClaims,
  parseShortToken,
  signShortToken,
  verifyShortToken,
} from "../../../shared/protocol/signed/short_token.ts";
import { signAit, verifyAit } from "../../../shared/protocol/signed/ait.ts";
import { signCrl, verifyCrl } from "../../../shared/protocol/signed/crl.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { TokenError, type TokenRefusal } from "../../../shared/protocol/signed/jws.ts";
import { readKeyDocument } from "../../../shared/protocol/signed/key_document.ts";
import { vectors } from "../../support/vectors.ts";
import { anyText, ulid } from "./arbitraries.ts";

const { issuer, audience, now, keys, valid, invalid } = vectors("admin-token");
const published = await readKeyDocument(keys);
assert(published);
const authority = { issuer, audience, keys: published };
const { privateKey, publicKey } = await keyPairFromSeed(new Uint8Array(32).fill(1));
const signer = { kid: "test-1", privateKey };
const SUB = "did:svc:registry.example.test:human:01KHYQ5H00AAAAAAAAAAAAAAAA";
const JTI = "01KHYQ5H00HHHHHHHHHHHHHHHH";

function signed(jti: string, iat: number): Promise<string> {
  return signShortToken(ADM, { iss: issuer, sub: SUB, aud: audience, scope: ["relay.read"], iat, jti }, signer);
}

async function verified(token: string, at = now): Promise<AdminTokenClaims> {
  return await verifyShortToken(ADM, parseShortToken(ADM, token), authority, at);
}

async function refusal(token: string, at = now): Promise<TokenRefusal> {
  return (await assertRejects(() => verified(token, at), TokenError)).reason;
}

/** The verdict of `jose`, with the rules of the token that it has no option for. */
async function joseAccepts(token: string): Promise<boolean> {
  try {
    const { payload, protectedHeader } = await jwtVerify(
      token,
      async ({ kid }) => {
        const key = keys.keys.find((candidate) => candidate.kid === kid && candidate.status === "active");
        if (!key) throw new Error("no active key");
        return await importJWK(key);
      },
      {
        algorithms: ["EdDSA"],
        typ: "ADM",
        issuer,
        audience,
        currentDate: new Date(now * 1000),
        requiredClaims: ["iss", "sub", "aud", "scope", "iat", "exp", "jti"],
      },
    );
    const { iat = 0, exp = 0 } = payload;
    return token.length <= 2048 && Object.keys(protectedHeader).length === 3 && Object.keys(payload).length === 7 &&
      JSON.stringify(payload.scope) === '["relay.read"]' && exp === iat + 300 && iat <= now + 60 &&
      payload.aud === audience && protectedHeader.typ === "ADM" && Number.isInteger(iat) &&
      /^did:svc:registry\.example\.test:human:/.test(payload.sub ?? "") && payload.jti?.length === 26 &&
      parseShortToken(ADM, token).payloadJson.match(/"aud":/g)?.length === 1;
  } catch {
    return false;
  }
}

Deno.test("admin token verification returns the claims of the valid vectors, as jose does", async (t) => {
  for (const { name, token, claims } of valid) {
    await t.step(name, async () => {
      assertEquals(await verified(token), claims as AdminTokenClaims);
      assertEquals(await joseAccepts(token), true);
    });
  }
});

Deno.test("admin token verification refuses the invalid vectors with their reasons, as jose does", async (t) => {
  assert(invalid.length >= 30);
  for (const { name, token, reason } of invalid) {
    await t.step(name, async () => {
      assertEquals(await refusal(token), reason as TokenRefusal);
      assertEquals(await joseAccepts(token), false);
    });
  }
});

Deno.test("admin token signing writes header and claims of the valid vector", async () => {
  const [first] = valid;
  assert(first);
  assertEquals(await signed(JTI, first.claims.iat), first.token);
});

Deno.test("admin token verification accepts a token from 60 s before its issue until its expiry", async () => {
  const times = fc.integer({ min: 946_684_800, max: 4_102_444_800 });
  await fc.assert(
    fc.asyncProperty(times, ulid, async (issuedAtSeconds, jti) => {
      const token = await signed(jti, issuedAtSeconds);
      const exp = issuedAtSeconds + 300;
      const expected = { iss: issuer, sub: SUB, aud: audience, scope: ["relay.read"], iat: issuedAtSeconds, exp, jti };
      assertEquals<unknown>(await verified(token, issuedAtSeconds - 60), expected);
      assertEquals<unknown>(await verified(token, exp - 1), expected);
      assertEquals(await refusal(token, issuedAtSeconds - 61), "not_yet_valid");
      assertEquals(await refusal(token, exp), "expired");
    }),
    { seed: 1, numRuns: 50 },
  );
});

Deno.test("admin token verification refuses any other text with a token error", async () => {
  const [first] = valid;
  assert(first);
  const { token } = first;
  const changed = fc.tuple(fc.nat(token.length - 1), anyText).map(([at, text]) =>
    token.slice(0, at) + text + token.slice(at + 1)
  ).filter((text) => text !== token);
  await fc.assert(
    fc.asyncProperty(fc.oneof(anyText, changed), async (text) => void await refusal(text)),
    { seed: 1, numRuns: 300 },
  );
});

Deno.test("an admin token has at most 2,048 characters", () => {
  const [first] = valid;
  const [header = "", , signature = ""] = first?.token.split(".") ?? [];
  const ofLength = (length: number) =>
    `${header}.${"A".repeat(length - header.length - signature.length - 2)}.${signature}`;
  const fits = [2048, 2047, 2046].map(ofLength).find((text) => (text.split(".")[1]?.length ?? 0) % 4 !== 1);
  assertEquals(parseShortToken(ADM, fits ?? "").kid, "test-1");
  assertThrows(() => parseShortToken(ADM, ofLength(2049)), TokenError, "2048");
  assertThrows(() => parseShortToken(ADM, "A".repeat(10_000_000)), TokenError, "2048");
});

Deno.test("tokens of the three kinds never pass for each other with the same key", async () => {
  const agentDid = SUB.replace("human", "agent");
  const ait = await signAit({
    issuer,
    agentDid,
    ownerDid: SUB,
    name: "alpha",
    framework: "generic",
    publicKey,
    jti: JTI,
    issuedAtSeconds: now,
    ttlDays: 1,
  }, signer);
  const crl = await signCrl({ issuer, jti: JTI, issuedAtSeconds: now, seq: 1, revocations: [] }, signer);
  const adm = await signed(JTI, now);
  assertEquals([await refusal(ait), await refusal(crl)], ["header", "header"]);
  const asAit = await assertRejects(() => verifyAit(adm, authority, now), TokenError);
  const asCrl = await assertRejects(() => verifyCrl(adm, authority, now), TokenError);
  assertEquals([asAit.reason, asCrl.reason], ["header", "header"]);
  assertEquals((await verified(adm)).jti, JTI);
  assertEquals((await verifyAit(ait, authority, now)).jti, JTI);
});
