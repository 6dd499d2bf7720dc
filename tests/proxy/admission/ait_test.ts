/**
 * Shows which AITs the proxy accepts (D-20): those that the registry signed, in exactly their form. Every other token
 * gets the same error code.
 */
import { assertEquals } from "@std/assert";
import { toBase64Url } from "../../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import type { ErrorCode } from "../../../shared/protocol/errors.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { outcome, refused } from "../../support/registry_world.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { signedToken } from "../../support/tokens.ts";
import { aitWith, claimsOf, get, openProxy, registryKey, withAit } from "../proxy_world.ts";

/** A world with one agent that may list its peers. */
async function cast(): Promise<{ w: World; a: TestAgent; kid: string; key: CryptoKey }> {
  const w = await openProxy();
  const a = await w.agent();
  const { kid, privateKey } = await registryKey(w);
  return { w, a, kid, key: privateKey };
}

/** Sends a request of the agent with this AIT. Returns the error code, or the status when there is none. */
async function ask(w: World, agent: TestAgent, ait: string): Promise<string> {
  return await outcome(await get(w, withAit(agent, ait), "/pair/peers"));
}

const INVALID = "401 PROXY_AUTH_INVALID_AIT";

Deno.test("the Authorization header is the scheme Svc and one token", async (t) => {
  const { w, a } = await cast();
  await using _ = w;
  const { ait } = a.identity;
  const cases: [name: string, authorization: string | null, code: ErrorCode | null][] = [
    ["none", null, "PROXY_AUTH_MISSING_TOKEN"],
    ["Bearer", `Bearer ${ait}`, "PROXY_AUTH_INVALID_SCHEME"],
    ["the scheme alone", "Svc", "PROXY_AUTH_INVALID_SCHEME"],
    ["the scheme and a blank", "Svc ", "PROXY_AUTH_INVALID_SCHEME"],
    ["two tokens", "Svc a b", "PROXY_AUTH_INVALID_SCHEME"],
    ["the AIT twice", `Svc ${ait} ${ait}`, "PROXY_AUTH_INVALID_SCHEME"],
    ["no blank", `Svc${ait}`, "PROXY_AUTH_INVALID_SCHEME"],
    ["a comma", `Svc ${ait},${ait}`, "PROXY_AUTH_INVALID_SCHEME"],
    ["the header twice", `Svc ${ait}, Svc ${ait}`, "PROXY_AUTH_INVALID_SCHEME"],
    ["one short token", "Svc a.b.c", "PROXY_AUTH_INVALID_AIT"],
    ["another case", `sVC ${ait}`, null],
    ["more blanks", `Svc   ${ait}`, null],
  ];
  for (const [name, authorization, code] of cases) {
    await t.step(name, async () => {
      const headers = { Authorization: authorization };
      const answer = await w.fetch(await w.signed(a, { method: "GET", target: "/pair/peers", headers }));
      if (code) await refused(answer, code);
      else assertEquals(answer.status, 200);
    });
  }
});

Deno.test("a header member other than alg, typ and kid is refused, and no URL in it is fetched", async (t) => {
  const { w, a, kid } = await cast();
  await using _ = w;
  const attacker = await keyPairFromSeed(new Uint8Array(32).fill(9));
  const jwk = { kty: "OKP", crv: "Ed25519", x: attacker.publicKey };
  const own = { alg: "EdDSA", typ: "AIT", kid };
  const foreign: [name: string, header: object][] = [
    ["jwk", { ...own, jwk }],
    ["jku", { ...own, jku: "https://canary.example/keys" }],
    ["x5u", { ...own, x5u: "https://canary.example/cert" }],
    ["x5c", { ...own, x5c: ["AAAA"] }],
    ["an unknown kid", { ...own, kid: "unknown" }],
    ["the kid alone", own],
  ];
  const { fetch } = globalThis;
  let fetched = 0;
  globalThis.fetch = () => (fetched++, Promise.reject(new Error("no fetch is allowed")));
  try {
    for (const [name, header] of foreign) {
      await t.step(`${name}, signed with another key`, async () => {
        assertEquals(
          await ask(w, a, await signedToken(header, claimsOf(a.identity.ait), attacker.privateKey)),
          INVALID,
        );
      });
    }
  } finally {
    globalThis.fetch = fetch;
  }
  assertEquals(fetched, 0);
});

Deno.test("an accepted AIT is refused once its exp is reached", async () => {
  const { w, a } = await cast();
  await using _ = w;
  const iat = unixSeconds(w.clock.now()) - 86_400 + 10;
  const ait = await aitWith(w, a, { iat, nbf: iat, exp: iat + 86_400 });
  assertEquals(await ask(w, a, ait), "200");
  w.clock.step(9_000);
  assertEquals(await ask(w, a, ait), "200");
  w.clock.step(1_000);
  assertEquals(await ask(w, a, ait), INVALID);
});

Deno.test("an AIT is refused when its issuer is another registry or its claims are not exactly the AIT claims", async (t) => {
  const { w, a, kid } = await cast();
  await using _ = w;
  const { sub, ownerDid, cnf } = claimsOf(a.identity.ait);
  const cases: [name: string, claims: Record<string, unknown>][] = [
    ["another issuer", { iss: "https://other.example" }],
    ["sub a human", { sub: ownerDid }],
    ["sub of another authority", { sub: sub.replace("registry.example.test", "other.example") }],
    ["x of small order", {
      cnf: { jwk: { ...cnf.jwk, x: toBase64Url(Uint8Array.from({ length: 32 }, (_, i) => i ? 0 : 1)) } },
    }],
    ["one claim more", { role: "admin" }],
  ];
  for (const [name, claims] of cases) {
    await t.step(name, async () => assertEquals(await ask(w, a, await aitWith(w, a, claims)), INVALID));
  }
  await t.step("another key with the same kid", async () => {
    const other = await keyPairFromSeed(new Uint8Array(32).fill(9));
    const forged = await signedToken({ alg: "EdDSA", typ: "AIT", kid }, claimsOf(a.identity.ait), other.privateKey);
    assertEquals(await ask(w, a, forged), INVALID);
  });
});
