/**
 * Shows which visit tokens are accepted (D-282): the vectors, here and with `jose` as a second verifier, and a round trip.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "fast-check";
import { importJWK, jwtVerify } from "jose";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { TokenError, type TokenRefusal } from "../../../shared/protocol/signed/jws.ts";
import { readKeyDocument } from "../../../shared/protocol/signed/key_document.ts";
import {
  ADM,
  parseShortToken,
  SHORT_TOKEN_BYTES_MAX,
  signShortToken,
  verifyShortToken,
  VIS,
  type VisitTokenClaims,
} from "../../../shared/protocol/signed/short_token.ts";
import { vectors } from "../../support/vectors.ts";
import { anyText, ulid } from "./arbitraries.ts";

const { issuer, audience, now, keys, valid, invalid } = vectors("visit-token");
const published = await readKeyDocument(keys);
assert(published);
const authority = { issuer, audience, keys: published };
const { privateKey } = await keyPairFromSeed(new Uint8Array(32).fill(1));
const signer = { kid: "test-1", privateKey };

async function verified(token: string, at = now): Promise<VisitTokenClaims> {
  return await verifyShortToken(VIS, parseShortToken(VIS, token), authority, at);
}

async function refusal(token: string, at = now): Promise<TokenRefusal> {
  return (await assertRejects(() => verified(token, at), TokenError)).reason;
}

/** The answer of `jose`, with the rules of the token that it has no option for. */
async function joseAccepts(token: string): Promise<boolean> {
  try {
    const key = async ({ kid }: { kid?: string }) => {
      const found = keys.keys.find((candidate) => candidate.kid === kid && candidate.status === "active");
      if (!found) throw new Error("no active key");
      return await importJWK(found);
    };
    const { payload, protectedHeader } = await jwtVerify(token, key, {
      algorithms: ["EdDSA"],
      typ: "VIS",
      issuer,
      audience,
      currentDate: new Date(now * 1000),
      requiredClaims: ["iss", "sub", "aud", "proxy", "aitJti", "iat", "exp", "jti"],
    });
    const { iat = 0, exp = 0, proxy, aitJti } = payload;
    return token.length <= 2048 && Object.keys(protectedHeader).length === 3 && Object.keys(payload).length === 8 &&
      exp === iat + 300 && iat <= now + 60 && /^did:svc:b\.example:agent:/.test(payload.sub ?? "") &&
      String(aitJti).length === 26 && payload.jti?.length === 26 && typeof proxy === "string" && proxy.length <= 150 &&
      /^https?:/.test(proxy) && new URL(proxy).origin === proxy &&
      parseShortToken(VIS, token).payloadJson.match(/"aud":/g)?.length === 1;
  } catch {
    return false;
  }
}

Deno.test("visit token verification returns the claims of the valid vectors, as jose does", async (t) => {
  for (const { name, token, claims } of valid) {
    await t.step(name, async () => {
      assertEquals(await verified(token), claims as VisitTokenClaims);
      assertEquals(await joseAccepts(token), true);
    });
  }
});

Deno.test("visit token verification refuses the invalid vectors with their reasons, as jose does", async (t) => {
  assert(invalid.length >= 30);
  for (const { name, token, reason } of invalid) {
    await t.step(name, async () => {
      assertEquals(await refusal(token), reason as TokenRefusal);
      assertEquals(await joseAccepts(token), false);
    });
  }
});

Deno.test("visit token signing writes header and claims of the valid vector", async () => {
  const [first] = valid;
  assert(first);
  const { exp: _computed, ...claims } = first.claims;
  assertEquals(await signShortToken(VIS, claims, signer), first.token);
});

Deno.test("a visit token counts from 60 s before its issue until its expiry, and not as an admin token", async () => {
  const sub = valid[0]?.claims.sub ?? "";
  const times = fc.integer({ min: 946_684_800, max: 4_102_444_800 });
  await fc.assert(
    fc.asyncProperty(times, ulid, async (issuedAtSeconds, jti) => {
      const claims = { iss: issuer, sub, aud: audience, proxy: issuer, aitJti: jti, iat: issuedAtSeconds, jti };
      const token = await signShortToken(VIS, claims, signer);
      assertEquals((await verified(token, issuedAtSeconds - 60)).jti, jti);
      assertEquals((await verified(token, issuedAtSeconds + 299)).exp, issuedAtSeconds + 300);
      assertEquals(await refusal(token, issuedAtSeconds - 61), "not_yet_valid");
      assertEquals(await refusal(token, issuedAtSeconds + 300), "expired");
      const asAdmin = () => verifyShortToken(ADM, parseShortToken(VIS, token), authority, issuedAtSeconds);
      assertEquals((await assertRejects(asAdmin, TokenError)).reason, "claims");
    }),
    { seed: 1, numRuns: 50 },
  );
});

Deno.test("visit token verification refuses any other text with a token error, and a long one unread", async () => {
  const token = valid[0]?.token ?? "";
  const changed = fc.tuple(fc.nat(token.length - 1), anyText).map(([at, text]) =>
    token.slice(0, at) + text + token.slice(at + 1)
  ).filter((text) => text !== token);
  await fc.assert(
    fc.asyncProperty(fc.oneof(anyText, changed), async (text) => void await refusal(text)),
    { seed: 1, numRuns: 300 },
  );
  assertThrows(() => parseShortToken(VIS, "A".repeat(SHORT_TOKEN_BYTES_MAX + 1)), TokenError, "2048");
  assertThrows(() => parseShortToken(VIS, "A".repeat(10_000_000)), TokenError, "2048");
});
