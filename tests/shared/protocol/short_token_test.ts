/**
 * Shows which short tokens are accepted, of both kinds (D-172, D-282): the vectors, here and with `jose` as a second verifier, a
 * round trip, and that no token of another kind passes for one.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "fast-check";
import { importJWK, type JWTPayload, jwtVerify } from "jose";
import {
  ADM,
  type AdminTokenClaims,
  parseShortToken,
  SHORT_TOKEN_BYTES_MAX,
  type ShortTokenKind,
  signShortToken,
  verifyShortToken,
  VIS,
  type VisitTokenClaims,
} from "../../../shared/protocol/signed/short_token.ts";
import { signAit, verifyAit } from "../../../shared/protocol/signed/ait.ts";
import { signCrl, verifyCrl } from "../../../shared/protocol/signed/crl.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { TokenError, type TokenRefusal } from "../../../shared/protocol/signed/jws.ts";
import { readKeyDocument } from "../../../shared/protocol/signed/key_document.ts";
import { steps } from "../../support/steps.ts";
import { vectors } from "../../support/vectors.ts";
import { anyText, ulid } from "./arbitraries.ts";

const { privateKey, publicKey } = await keyPairFromSeed(new Uint8Array(32).fill(1));
const signer = { kid: "test-1", privateKey };
const JTI = "01KHYQ5H00HHHHHHHHHHHHHHHH";

type Claims = AdminTokenClaims | VisitTokenClaims;
type Vectors = Omit<ReturnType<typeof vectors<"admin-token">>, "valid"> & {
  valid: { name: string; token: string; claims: object }[];
};

/** Declares the tests of a kind. `obeys` has the rules of its claims, for which `jose` has no option. */
async function tests<C extends Claims>(
  kind: ShortTokenKind<C>,
  { issuer, audience, now, keys, valid, invalid }: Vectors,
  obeys: (payload: JWTPayload) => boolean,
): Promise<void> {
  const { typ, what } = kind;
  const published = await readKeyDocument(keys);
  const [first] = valid;
  assert(published && first);
  const { exp: _computed, ...given } = first.claims as C;
  const authority = { issuer, audience, keys: published };
  const verified = (token: string, at = now): Promise<C> =>
    verifyShortToken(kind, parseShortToken(kind, token), authority, at);
  const refusal = async (token: string, at = now): Promise<TokenRefusal> =>
    (await assertRejects(async () => await verified(token, at), TokenError)).reason;
  const joseAccepts = async (token: string): Promise<boolean> => {
    const key = async ({ kid }: { kid?: string }) => {
      const found = keys.keys.find((candidate) => candidate.kid === kid && candidate.status === "active");
      if (!found) throw new Error("no active key");
      return await importJWK(found);
    };
    try {
      const { payload, protectedHeader } = await jwtVerify(token, key, {
        algorithms: ["EdDSA"],
        typ,
        issuer,
        audience,
        currentDate: new Date(now * 1000),
        requiredClaims: Object.keys(first.claims),
      });
      const { iat = 0, exp = 0, aud, jti } = payload;
      return token.length <= 2048 && Object.keys(protectedHeader).length === 3 && protectedHeader.typ === typ &&
        Object.keys(payload).length === Object.keys(first.claims).length && exp === iat + 300 && iat <= now + 60 &&
        Number.isInteger(iat) && aud === audience && jti?.length === 26 && obeys(payload) &&
        parseShortToken(kind, token).payloadJson.match(/"aud":/g)?.length === 1;
    } catch {
      return false;
    }
  };

  Deno.test(`verification of ${what} returns the claims of the valid vectors, as jose does`, async (t) => {
    await steps(t, valid, async ({ token, claims }) => {
      assertEquals(await verified(token), claims as C);
      assertEquals(await joseAccepts(token), true);
    });
  });

  Deno.test(`verification of ${what} refuses the invalid vectors with their reasons, as jose does`, async (t) => {
    assert(invalid.length >= 30);
    await steps(t, invalid, async ({ token, reason }) => {
      assertEquals(await refusal(token), reason as TokenRefusal);
      assertEquals(await joseAccepts(token), false);
    });
  });

  Deno.test(`signing of ${what} writes header and claims of the valid vector`, async () => {
    assertEquals(await signShortToken(kind, given, signer), first.token);
  });

  Deno.test(`${what} counts from 60 s before its issue until its expiry`, async () => {
    const times = fc.integer({ min: 946_684_800, max: 4_102_444_800 });
    await fc.assert(
      fc.asyncProperty(times, ulid, async (iat, jti) => {
        const token = await signShortToken(kind, { ...given, iat, jti }, signer);
        assertEquals<unknown>(await verified(token, iat - 60), { ...given, iat, exp: iat + 300, jti });
        assertEquals((await verified(token, iat + 299)).jti, jti);
        assertEquals(await refusal(token, iat - 61), "not_yet_valid");
        assertEquals(await refusal(token, iat + 300), "expired");
      }),
      { seed: 1, numRuns: 50 },
    );
  });

  Deno.test(`verification of ${what} refuses any other text with a token error`, async () => {
    const { token } = first;
    const changed = fc.tuple(fc.nat(token.length - 1), anyText).map(([at, text]) =>
      token.slice(0, at) + text + token.slice(at + 1)
    ).filter((text) => text !== token);
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyText, changed), async (text) => void await refusal(text)),
      { seed: 1, numRuns: 300 },
    );
  });

  Deno.test(`${what} has at most 2,048 characters`, () => {
    const [header = "", , signature = ""] = first.token.split(".");
    const ofLength = (length: number) =>
      `${header}.${"A".repeat(length - header.length - signature.length - 2)}.${signature}`;
    const fits = [2048, 2047, 2046].map(ofLength).find((text) => (text.split(".")[1]?.length ?? 0) % 4 !== 1);
    assertEquals(parseShortToken(kind, fits ?? "").kid, "test-1");
    for (const long of [ofLength(SHORT_TOKEN_BYTES_MAX + 1), "A".repeat(10_000_000)]) {
      assertThrows(() => parseShortToken(kind, long), TokenError, "2048");
    }
  });

  Deno.test(`${what} never passes for a token of another kind with the same key, or the other way`, async () => {
    const { sub } = given;
    const agentDid = sub.replace("human", "agent"), ownerDid = sub.replace("agent", "human");
    const grant = { issuer, agentDid, ownerDid, name: "alpha", framework: "generic", publicKey, jti: JTI };
    const ait = await signAit({ ...grant, issuedAtSeconds: now, ttlDays: 1 }, signer);
    const crl = await signCrl({ issuer, jti: JTI, issuedAtSeconds: now, seq: 1, revocations: [] }, signer);
    const own = await signShortToken(kind, { ...given, iat: now, jti: JTI }, signer);
    assertEquals([await refusal(ait), await refusal(crl)], ["header", "header"]);
    for (const verify of [verifyAit, verifyCrl]) {
      assertEquals((await assertRejects(() => verify(own, authority, now), TokenError)).reason, "header");
    }
    const other: ShortTokenKind<Claims> = typ === "ADM" ? VIS : ADM;
    const asOther = () => verifyShortToken(other, parseShortToken(kind, own), authority, now);
    assertEquals((await assertRejects(asOther, TokenError)).reason, "claims");
    assertEquals([(await verified(own)).jti, (await verifyAit(ait, authority, now)).jti], [JTI, JTI]);
  });
}

await tests(
  ADM,
  vectors("admin-token"),
  ({ sub = "", scope }) =>
    JSON.stringify(scope) === '["relay.read"]' && /^did:svc:registry\.example\.test:human:/.test(sub),
);

await tests(
  VIS,
  vectors("visit-token"),
  ({ sub = "", proxy, aitJti }) =>
    /^did:svc:b\.example:agent:/.test(sub) && String(aitJti).length === 26 && typeof proxy === "string" &&
    proxy.length <= 150 && /^https?:/.test(proxy) && new URL(proxy).origin === proxy,
);
