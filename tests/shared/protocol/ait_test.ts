/**
 * Shows which AITs are accepted (D-20): the vectors, a round trip, invalid claims that a published key signed, and the
 * times between which a token is valid.
 */
import { assert, assertEquals, assertRejects, assertThrows, fail } from "@std/assert";
import fc from "fast-check";
import { CompactSign } from "jose";
import { type AitGrant, signAit, verifyAit } from "../../../shared/protocol/signed/ait.ts";
import { utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { importPublicKey, keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { checkTimes, TokenError, type TokenRefusal } from "../../../shared/protocol/signed/jws.ts";
import { readKeyDocument } from "../../../shared/protocol/signed/key_document.ts";
import { isAgentName, parseFramework } from "../../../shared/protocol/names.ts";
import { steps } from "../../support/steps.ts";
import { vectors } from "../../support/vectors.ts";
import { authority as host, codePoints, ulid } from "./arbitraries.ts";

const DAY = 86_400;
const { issuer, now, keys, valid, invalid } = vectors("ait");
const claims = valid[0]?.claims ?? fail();
const HEADER = { alg: "EdDSA", typ: "AIT", kid: "test-1" };

const pair = await keyPairFromSeed(new Uint8Array(32).fill(1));
const signer = { kid: "test-1", privateKey: pair.privateKey };
const published = new Map([
  ["test-1", { status: "active" as const, publicKey: await importPublicKey(pair.publicKey) }],
  ["test-0", { status: "retired" as const, publicKey: await importPublicKey(pair.publicKey) }],
]);
const authority = { issuer, keys: published };

/** Signs any payload text with the published key. */
function signed(payload: string, kid = "test-1"): Promise<string> {
  return new CompactSign(utf8Bytes(payload)).setProtectedHeader({ ...HEADER, kid }).sign(pair.privateKey);
}

async function refusal(token: string, at = now, of: { issuer: string; keys: typeof published } = authority) {
  return (await assertRejects(() => verifyAit(token, of, at), TokenError)).reason;
}

Deno.test("AIT verification returns the claims of the valid vectors", async (t) => {
  const vectorKeys = await readKeyDocument(keys) ?? fail();
  for (const { name, token, claims } of valid) {
    await t.step(name, async () => assertEquals(await verifyAit(token, { issuer, keys: vectorKeys }, now), claims));
  }
});

Deno.test("AIT verification refuses the invalid vectors", async (t) => {
  const vectorKeys = await readKeyDocument(keys) ?? fail();
  await steps(t, invalid, async ({ token, reason }) => {
    const verdict = verifyAit(token, { issuer, keys: vectorKeys }, now);
    assertEquals((await assertRejects(() => verdict, TokenError)).reason, reason);
  });
});

Deno.test("AIT signing writes header and claims of the valid vectors", async () => {
  for (const { token, claims } of valid) {
    const ours = await signAit(grantOf(claims), signer);
    assertEquals(ours.split(".").slice(0, 2), token.split(".").slice(0, 2));
  }
});

Deno.test("AIT verification returns the claims that were signed", async () => {
  const grant: fc.Arbitrary<AitGrant> = fc.record({
    authority: host,
    agent: ulid,
    owner: ulid,
    name: fc.stringMatching(/^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/).filter(isAgentName),
    framework: codePoints.filter((text) => parseFramework(text) === text),
    jti: ulid,
    issuedAtSeconds: fc.integer({ min: 946_684_800, max: 4_102_444_800 }),
    ttlDays: fc.integer({ min: 1, max: 90 }),
  }).map(({ authority, agent, owner, ...rest }) => ({
    ...rest,
    issuer: `https://${authority}`,
    agentDid: `did:svc:${authority}:agent:${agent}`,
    ownerDid: `did:svc:${authority}:human:${owner}`,
    publicKey: claims.cnf.jwk.x,
  }));
  await fc.assert(
    fc.asyncProperty(grant, async (given) => {
      const { issuer, issuedAtSeconds: iat, ttlDays } = given;
      const token = await signAit(given, signer);
      const verified = await verifyAit(token, { issuer, keys: published }, iat);
      assertEquals(grantOf(verified), given);
      assertEquals([verified.iat, verified.nbf, verified.exp], [iat, iat, iat + ttlDays * DAY]);
      assertEquals(await refusal(token, verified.exp, { issuer, keys: published }), "expired");
      assert(token.length <= 8192);
    }),
    { seed: 1, numRuns: 40 },
  );
});

Deno.test("AIT verification accepts a retired key", async () => {
  assertEquals(await verifyAit(await signed(JSON.stringify(claims), "test-0"), authority, now), claims);
});

Deno.test("AIT verification refuses claims that are not an AIT's, also correctly signed", async (t) => {
  const { cnf, sub, ownerDid, iat, nbf, exp } = claims;
  const { jwk } = cnf;
  const jwkWith = (member: object) => ({ cnf: { jwk: { ...jwk, ...member } } });
  const inherited = JSON.parse('{"__proto__":{}}') as object;
  const rows: [name: string, change: object, reason?: TokenRefusal][] = [
    ["iss with a slash", { iss: `${issuer}/` }, "issuer"],
    ["iss in upper case", { iss: issuer.toUpperCase() }, "issuer"],
    ["iss with its port", { iss: `${issuer}:443` }, "issuer"],
    ["no iss", { iss: undefined }],
    ["iss as a list", { iss: [issuer] }],
    ["no sub", { sub: undefined }],
    ["sub with a ULID of 27 characters", { sub: `${sub}A` }],
    ["sub as a list", { sub: [sub] }],
    ["no ownerDid", { ownerDid: undefined }],
    ["ownerDid of an agent", { ownerDid: sub }],
    ["ownerDid of another authority", { ownerDid: ownerDid.replace("registry.", "evil.") }],
    ["no name", { name: undefined }],
    ["a name with a slash", { name: "../evil" }],
    ["a name of 65 characters", { name: "a".repeat(65) }],
    ["no framework", { framework: undefined }],
    ["an untrimmed framework", { framework: " generic" }],
    ["a framework of 33 characters", { framework: "a".repeat(33) }],
    ["a framework with a control character", { framework: "a\nb" }],
    ["cnf without jwk", { cnf: {} }],
    ["cnf with a further member", { cnf: { jwk, kid: "x" } }],
    ["cnf with a member __proto__", { cnf: { jwk, ...inherited } }],
    ["cnf as a thumbprint", { cnf: { jkt: jwk.x } }],
    ["cnf.jwk with a further member", jwkWith({ use: "sig" })],
    ["cnf.jwk with a member __proto__", jwkWith(inherited)],
    ["cnf.jwk of kty EC", jwkWith({ kty: "EC" })],
    ["cnf.jwk of crv X25519", jwkWith({ crv: "X25519" })],
    ["cnf.jwk without x", jwkWith({ x: undefined })],
    ["no iat", { iat: undefined }],
    ["iat as text", { iat: `${iat}` }],
    ["iat with a fraction", { iat: iat + 0.5, nbf: nbf + 0.5, exp: exp + 0.5 }],
    ["iat 3600 s ahead", { iat: now + 3600, nbf: now + 3600, exp: now + 3600 + 30 * DAY }, "not_yet_valid"],
    ["no nbf", { nbf: undefined }],
    ["nbf 120 s ahead", { nbf: now + 120 }],
    ["nbf a second before iat", { nbf: iat - 1 }],
    ["no exp", { exp: undefined }],
    ["exp as text", { exp: `${exp}` }],
    ["exp 1e308", { exp: 1e308 }],
    ["exp with a fraction", { exp: exp + 0.5 }],
    ["exp negative", { exp: -1 }],
    ["exp null", { exp: null }],
    ["a lifetime of 0 days", { exp: iat }],
    ["a lifetime of a day and a second", { exp: iat + DAY + 1 }],
    ["exp before iat", { exp: iat - DAY }],
    ["no jti", { jti: undefined }],
    ["aud", { aud: "https://proxy.example.test" }],
    ["a claim __proto__", inherited],
    ["a claim constructor", { constructor: 1 }],
  ];
  await steps(t, rows, async ([, change, reason]) => {
    const token = await signed(JSON.stringify({ ...claims, ...change }));
    assertEquals(await refusal(token), reason ?? "claims");
  });
});

Deno.test("AIT verification refuses every DID when its issuer has no authority", async () => {
  for (const iss of ["http://[::1]:8787", "https://registry.example.test."]) {
    const token = await signed(JSON.stringify({ ...claims, iss }));
    assertEquals(await refusal(token, now, { issuer: iss, keys: published }), "claims");
  }
});

Deno.test("AIT verification checks exp without leeway, and nbf and iat with 60 s", async (t) => {
  const token = await signed(JSON.stringify(claims));
  const { iat, exp } = claims;
  const rows: [name: string, at: number, expected: TokenRefusal | "valid"][] = [
    ["a second before exp", exp - 1, "valid"],
    ["at exp", exp, "expired"],
    ["a second after exp", exp + 1, "expired"],
    ["at iat", iat, "valid"],
    ["60 s before iat", iat - 60, "valid"],
    ["61 s before iat", iat - 61, "not_yet_valid"],
    ["an hour before iat", iat - 3600, "not_yet_valid"],
  ];
  await steps(t, rows, async ([, at, expected]) => {
    if (expected !== "valid") return assertEquals(await refusal(token, at), expected);
    assertEquals(await verifyAit(token, authority, at), claims);
  });
});

Deno.test("the AIT time check accepts or refuses a token that was verified before", () => {
  const { iat, exp } = claims;
  checkTimes({ iat, exp }, exp - 1);
  checkTimes({ iat, exp }, iat - 60);
  assertEquals(assertThrows(() => checkTimes({ iat, exp }, exp), TokenError).reason, "expired");
  assertEquals(assertThrows(() => checkTimes({ iat, exp }, iat - 61), TokenError).reason, "not_yet_valid");
});

function grantOf(of: typeof claims): AitGrant {
  return {
    issuer: of.iss,
    agentDid: of.sub,
    ownerDid: of.ownerDid,
    name: of.name,
    framework: of.framework,
    publicKey: of.cnf.jwk.x,
    jti: of.jti,
    issuedAtSeconds: of.iat,
    ttlDays: (of.exp - of.iat) / DAY,
  };
}
