/**
 * Shows which AITs the proxy accepts (D-20): those that the registry signed, in exactly their form. Every other token
 * gets the same error code.
 */
import { assert, assertEquals } from "@std/assert";
import { createHmac } from "node:crypto";
import { fromBase64Url, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import type { ErrorCode } from "../../../shared/protocol/errors.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { outcome, refused } from "../../support/registry_world.ts";
import { REGISTRY_URL, type TestAgent, type World } from "../../support/world.ts";
import { signedToken, WRONG_ALGS } from "../../support/tokens.ts";
import { aitWith, claimsOf, get, malleated, openProxy, registryKey, withAit } from "../proxy_world.ts";

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

Deno.test("an AIT is accepted when it is unchanged", async () => {
  const { w, a } = await cast();
  await using _ = w;
  assertEquals(await ask(w, a, a.identity.ait), "200");
  assertEquals(await ask(w, a, await aitWith(w, a)), "200");
});

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

Deno.test("an AIT with another alg is refused, with any signature", async () => {
  const { w, a, kid, key } = await cast();
  await using _ = w;
  const { keys } = await (await w.fetch(`${REGISTRY_URL}/.well-known/svc-keys.json`)).json();
  const publicKey = fromBase64Url(keys[0].x) ?? new Uint8Array();
  for (const alg of WRONG_ALGS) {
    const own = await signedToken({ alg, typ: "AIT", kid }, claimsOf(a.identity.ait), key);
    const signed = own.slice(0, own.lastIndexOf("."));
    const hmac = createHmac("sha256", publicKey).update(signed).digest("base64url");
    const original = a.identity.ait.split(".")[2];
    for (const forged of [own, `${signed}.`, `${signed}.${hmac}`, `${signed}.${original}`]) {
      assertEquals(await ask(w, a, forged), INVALID, `${alg}`);
    }
  }
});

Deno.test("a header member other than alg, typ and kid is refused, and no URL in it is fetched", async (t) => {
  const { w, a, kid, key } = await cast();
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
  const odd: [name: string, header: unknown][] = [
    ["jwk of ours", { ...own, jwk: {} }],
    ["crit exp", { ...own, crit: ["exp"] }],
    ["crit empty", { ...own, crit: [] }],
    ["crit b64", { ...own, crit: ["b64"], b64: false }],
    ["crit a text", { ...own, crit: "x" }],
    ["crit unknown", { ...own, crit: ["unknown"] }],
    ["b64", { ...own, b64: false }],
    ["zip", { ...own, zip: "DEF" }],
    ["cty", { ...own, cty: "JWT" }],
    ["no typ", { alg: "EdDSA", kid }],
    ["typ JWT", { ...own, typ: "JWT" }],
    ["typ at+jwt", { ...own, typ: "at+jwt" }],
    ["typ ait", { ...own, typ: "ait" }],
    ["typ application/AIT", { ...own, typ: "application/AIT" }],
    ["typ CRL", { ...own, typ: "CRL" }],
    ["typ a number", { ...own, typ: 1 }],
    ["no kid", { alg: "EdDSA", typ: "AIT" }],
    ["kid a number", { ...own, kid: 1 }],
    ["kid constructor", { ...own, kid: "constructor" }],
    ["alg named twice", `{"alg":"none","alg":"EdDSA","typ":"AIT","kid":"${kid}"}`],
    ["an array", ["EdDSA"]],
    ["null", "null"],
    ["no JSON", "{"],
  ];
  for (const [name, header] of odd) {
    await t.step(
      name,
      async () => assertEquals(await ask(w, a, await signedToken(header, claimsOf(a.identity.ait), key)), INVALID),
    );
  }
});

Deno.test("an AIT is refused when any bit of it is flipped", async () => {
  const { w, a } = await cast();
  await using _ = w;
  const parts = a.identity.ait.split(".").map((part) => fromBase64Url(part) ?? new Uint8Array());
  for (let i = 0; i < 300; i++) {
    const flipped = parts.map((part) => part.slice());
    const part = flipped[i % 3] ?? new Uint8Array();
    const [high = 0, low = 0, bit = 0] = w.random.bytes(3);
    const at = (high * 256 + low) % part.length;
    part[at] = (part[at] ?? 0) ^ (1 << (bit % 8));
    assertEquals(await ask(w, a, flipped.map(toBase64Url).join(".")), INVALID);
  }
});

Deno.test("a signature with S + L is not accepted as a second signature of the same AIT", async () => {
  const { w, a } = await cast();
  await using _ = w;
  const [header, payload, signature = ""] = a.identity.ait.split(".");
  assertEquals(await ask(w, a, `${header}.${payload}.${malleated(signature)}`), INVALID);
});

Deno.test("only three base64url parts joined by dots are accepted as an AIT", async (t) => {
  const { w, a } = await cast();
  await using _ = w;
  const { ait } = a.identity;
  const [header = "", payload = "", signature = ""] = ait.split(".");
  const flattened = JSON.stringify({ protected: header, payload, signature });
  for (const json of [flattened, JSON.stringify({ payload, signatures: [{ protected: header, signature }] })]) {
    assertEquals(await ask(w, a, json), "401 PROXY_AUTH_INVALID_SCHEME", "a comma separates two header values");
  }
  const cases: [name: string, token: string][] = [
    ["flattened JSON as base64url", toBase64Url(utf8Bytes(flattened))],
    ["a brace inside", `${header}.{${payload}.${signature}`],
    ["a quote inside", `${header}."${payload}".${signature}`],
    ["a dot as %2E", `${header}%2E${payload}%2E${signature}`],
    ["padding", `${header}.${payload}.${signature}=`],
    ["1 dot", `${header}.${payload}`],
    ["2 dots, nothing between", ".."],
    ["no signature", `${header}.${payload}.`],
    ["no payload", `${header}..${signature}`],
    ["no header", `.${payload}.${signature}`],
    ["3 dots", `${ait}.`],
    ["4 dots, as a JWE", `${header}.${payload}.${signature}.${payload}.${signature}`],
    ["100 dots", ".".repeat(100)],
    ["the AIT twice", `${ait}.${ait}`],
    ["trailing bits", `${header}.${payload}.${signature.slice(0, -1)}${signature.endsWith("B") ? "C" : "B"}`],
    ["standard base64", `${header}.${payload}.${signature.slice(0, -1)}+`],
  ];
  for (const [name, text] of cases) await t.step(name, async () => assertEquals(await ask(w, a, text), INVALID));
});

Deno.test("an AIT is valid from nbf and iat with 60 s of tolerance until exp without tolerance", async (t) => {
  const { w, a } = await cast();
  await using _ = w;
  const now = unixSeconds(w.clock.now());
  const DAY = 86_400;
  const from = (iat: number) => ({ iat, nbf: iat, exp: iat + DAY });
  const cases: [name: string, claims: Record<string, unknown>, believed: boolean][] = [
    ["exp a second ago", from(now - DAY - 1), false],
    ["exp now", from(now - DAY), false],
    ["exp in a second", from(now - DAY + 1), true],
    ["issued in 60 s", from(now + 60), true],
    ["issued in 61 s", from(now + 61), false],
    ["issued in an hour", from(now + 3600), false],
    ["nbf in 120 s", { nbf: now + 120 }, false],
    ["nbf a second before iat", { ...from(now), nbf: now - 1 }, false],
    ["exp a text", { exp: String(now + DAY) }, false],
    ["exp 1e308", { exp: 1e308 }, false],
    ["exp negative", { exp: -1 }, false],
    ["exp a fraction", { exp: now + DAY + 0.5 }, false],
    ["no exp", { exp: undefined }, false],
    ["no iat", { iat: undefined }, false],
    ["no nbf", { nbf: undefined }, false],
    ["91 days", { ...from(now), exp: now + 91 * DAY }, false],
    ["90 days", { ...from(now), exp: now + 90 * DAY }, true],
    ["half a day", { ...from(now), exp: now + DAY / 2 }, false],
  ];
  for (const [name, claims, believed] of cases) {
    await t.step(
      name,
      async () => assertEquals(await ask(w, a, await aitWith(w, a, claims)), believed ? "200" : INVALID),
    );
  }
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
  const jwk = { ...cnf.jwk };
  const zeros = (n: number) => toBase64Url(new Uint8Array(n));
  const cases: [name: string, claims: Record<string, unknown>][] = [
    ["another issuer", { iss: "https://other.example" }],
    ["the issuer with a slash", { iss: `${REGISTRY_URL}/` }],
    ["the issuer in upper case", { iss: REGISTRY_URL.toUpperCase() }],
    ["no issuer", { iss: undefined }],
    ["an issuer in an array", { iss: [REGISTRY_URL] }],
    ["sub a human", { sub: ownerDid }],
    ["sub of another authority", { sub: sub.replace("registry.example.test", "other.example") }],
    ["owner of another authority", { ownerDid: ownerDid.replace("registry.example.test", "other.example") }],
    ["owner an agent", { ownerDid: sub }],
    ["sub in lower case", { sub: sub.toLowerCase() }],
    ["sub one character longer", { sub: `${sub}A` }],
    ["sub with six parts", { sub: `${sub}:x` }],
    ["no cnf", { cnf: undefined }],
    ["a private key", { cnf: { jwk: { ...jwk, d: zeros(32) } } }],
    ["another member of cnf", { cnf: { jwk, jku: "https://canary.example" } }],
    ["kty EC", { cnf: { jwk: { ...jwk, kty: "EC" } } }],
    ["crv X25519", { cnf: { jwk: { ...jwk, crv: "X25519" } } }],
    ["x of 31 bytes", { cnf: { jwk: { ...jwk, x: zeros(31) } } }],
    ["x of 33 bytes", { cnf: { jwk: { ...jwk, x: zeros(33) } } }],
    ["x of small order", {
      cnf: { jwk: { ...jwk, x: toBase64Url(Uint8Array.from({ length: 32 }, (_, i) => i ? 0 : 1)) } },
    }],
    ["x not canonical", { cnf: { jwk: { ...jwk, x: toBase64Url(new Uint8Array(32).fill(0xff)) } } }],
    ["jti no ULID", { jti: "1" }],
    ["a name that is none", { name: "../x" }],
    ["one claim more", { role: "admin" }],
    ["no name", { name: undefined }],
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

Deno.test("a payload that is not a claims object is refused although the registry signed it", async (t) => {
  const { w, a, kid, key } = await cast();
  await using _ = w;
  const claims = JSON.stringify(claimsOf(a.identity.ait));
  const twice = claims.replace("{", `{"sub":"${a.agent.did}",`);
  const payloads = [
    "null",
    "[]",
    '"x"',
    "1",
    "true",
    "{}",
    "{",
    "",
    `"${"x".repeat(5000)}"`,
    twice,
    `${claims} x`,
    `\ufeff${claims}`,
  ];
  for (const payload of payloads) {
    await t.step(payload.slice(0, 30), async () => {
      assertEquals(await ask(w, a, await signedToken({ alg: "EdDSA", typ: "AIT", kid }, payload, key)), INVALID);
    });
  }
});

Deno.test("an AIT over 8 KiB or a header of 60 KiB is refused before it is parsed", async () => {
  const { w, a, kid, key } = await cast();
  await using _ = w;
  const claims = JSON.stringify(claimsOf(a.identity.ait));
  const sized = async (bytes: number) => {
    // Insignificant JSON white space fills the payload until the token has the required size.
    for (let pad = Math.floor((bytes - 400) * 0.7); pad < bytes; pad++) {
      const long = await signedToken({ alg: "EdDSA", typ: "AIT", kid }, claims + " ".repeat(pad - claims.length), key);
      if (long.length >= bytes) return long;
    }
    throw new Error("unreachable");
  };
  const fits = await sized(8190);
  assert(fits.length <= 8192, `${fits.length}`);
  assertEquals(await ask(w, a, fits), "200");
  assertEquals(await ask(w, a, await sized(8193)), INVALID);
  assertEquals(await ask(w, a, "x".repeat(60_000)), INVALID);
  assertEquals(await ask(w, a, ".".repeat(60_000)), INVALID);
});

Deno.test("random bytes are never accepted as an AIT", async () => {
  const { w, a } = await cast();
  await using _ = w;
  for (let i = 0; i < 1000; i++) {
    const text = Array.from(w.random.bytes(i % 200), (byte) => String.fromCharCode(0x21 + byte % 94)).join("");
    const result = await ask(w, a, text.replaceAll(",", "."));
    assert(result === INVALID || text === "" && result === "401 PROXY_AUTH_INVALID_SCHEME", result);
  }
});
