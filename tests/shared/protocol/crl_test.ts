/**
 * Shows which revocation lists are accepted (D-21): the vectors, a round trip, invalid and foreign lists. Also which of
 * two lists is a rollback.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { CompactSign } from "jose";
import { fromBase64Url, toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { isCrlRollback, REVOCATION_REASONS, signCrl, verifyCrl } from "../../../shared/protocol/signed/crl.ts";
import { importPublicKey, keyPairFromSeed, sign } from "../../../shared/protocol/ed25519.ts";
import { TokenError, type TokenRefusal } from "../../../shared/protocol/signed/jws.ts";
import { readKeyDocument } from "../../../shared/protocol/signed/key_document.ts";
import { steps } from "../../support/steps.ts";
import { vectors } from "../../support/vectors.ts";
import { agentDid, ulid } from "./arbitraries.ts";

const { issuer, now, keys, valid, invalid } = vectors("crl");
const pair = await keyPairFromSeed(new Uint8Array(32).fill(1));
const publicKey = await importPublicKey(pair.publicKey);
const signer = { kid: "test-1", privateKey: pair.privateKey };
const authority = {
  issuer,
  keys: new Map([
    ["test-1", { status: "active" as const, publicKey }],
    ["test-0", { status: "retired" as const, publicKey }],
  ]),
};

const ENTRY = {
  jti: "01KHYQ5H00DDDDDDDDDDDDDDDD",
  agentDid: "did:svc:registry.example.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA",
  reason: "reissued" as const,
  revokedAt: now - 65,
};
const CLAIMS = {
  iss: issuer,
  jti: "01KHYQ5H00GGGGGGGGGGGGGGGG",
  iat: now - 60,
  exp: now + 840,
  seq: 1,
  revocations: [ENTRY],
};

const ownDid = ulid.map((id) => `did:svc:registry.example.test:agent:${id}`);

/** Signs any claims with the published key. */
function signed(claims: object, header: object = {}): Promise<string> {
  return signedText(JSON.stringify(claims), header);
}

function signedText(json: string, header: object = {}): Promise<string> {
  return new CompactSign(utf8Bytes(json))
    .setProtectedHeader({ alg: "EdDSA", typ: "CRL", kid: "test-1", ...header }).sign(pair.privateKey);
}

async function refusal(token: string, at = now): Promise<TokenRefusal> {
  return (await assertRejects(() => verifyCrl(token, authority, at), TokenError)).reason;
}

/** Puts white space into a text, so that the first slice that is decoded ends with it. */
function endingASlice(text: string, rest: string): string {
  const SLICE_BYTES = 131_072 / 4 * 3, at = text.indexOf(ENTRIES) + ENTRIES.length;
  // One side of the entries alone would be too long.
  const spaces = SLICE_BYTES - text.length, before = Math.min(spaces, 60_000);
  return text.slice(0, at).replace(ENTRIES, " ".repeat(before) + ENTRIES) + " ".repeat(spaces - before) +
    text.slice(at) +
    rest;
}

const ENTRIES = '"revocations":[';

Deno.test("CRL verification returns the claims of the valid vectors", async (t) => {
  const vectorKeys = await readKeyDocument(keys);
  assert(vectorKeys);
  await steps(t, valid, async ({ token }) => {
    assertEquals(await verifyCrl(token, { issuer, keys: vectorKeys }, now), payloadOf(token));
  });
});

Deno.test("CRL verification refuses the invalid vectors", async (t) => {
  const vectorKeys = await readKeyDocument(keys);
  assert(vectorKeys);
  await steps(t, invalid, async ({ token, reason }) => {
    const verdict = verifyCrl(token, { issuer, keys: vectorKeys }, now);
    assertEquals((await assertRejects(() => verdict, TokenError)).reason, reason);
  });
});

Deno.test("CRL signing writes header and claims of the valid vectors", async () => {
  for (const { token } of valid) {
    const { iss, jti, iat, seq, revocations } = payloadOf(token);
    const ours = await signCrl({ issuer: iss, jti, issuedAtSeconds: iat, seq, revocations }, signer);
    assertEquals(ours.split(".").slice(0, 2), token.split(".").slice(0, 2));
  }
});

Deno.test("CRL verification returns the claims that were signed", async () => {
  const grant = fc.record({
    jti: ulid,
    issuedAtSeconds: fc.integer({ min: 946_684_800, max: 4_102_444_800 }),
    seq: fc.maxSafeNat(),
    revocations: fc.array(
      fc.record({ jti: ulid, agentDid: ownDid, reason: fc.constantFrom(...REVOCATION_REASONS), revokedAt: fc.nat() }),
      { maxLength: 10 },
    ),
  });
  await fc.assert(
    fc.asyncProperty(grant, async (given) => {
      const { jti, issuedAtSeconds: iat, seq, revocations } = given;
      const token = await signCrl({ issuer, ...given }, signer);
      const expected = { iss: issuer, jti, iat, exp: iat + 900, seq, revocations };
      assertEquals(await verifyCrl(token, authority, iat), expected);
      assertEquals(await refusal(token, iat + 900), "expired");
    }),
    { seed: 1, numRuns: 40 },
  );
});

Deno.test("CRL verification leaves out entries about agents of another authority", async () => {
  const foreign = fc.array(agentDid.filter((did) => !did.startsWith("did:svc:registry.example.test:")), {
    maxLength: 5,
  });
  await fc.assert(
    fc.asyncProperty(foreign, async (dids) => {
      const others = [...dids, "did:svc:registry.example.test.evil:agent:01KHYQ5H00AAAAAAAAAAAAAAAA"];
      const revocations = [
        ENTRY,
        ...others.map((agentDid) => ({ ...ENTRY, agentDid, reason: "agent_deleted" })),
        ENTRY,
      ];
      const read = await verifyCrl(await signed({ ...CLAIMS, revocations }), authority, now);
      assertEquals(read.revocations, [ENTRY, ENTRY]);
    }),
    { numRuns: 30 },
  );
});

Deno.test("CRL verification counts a missing seq as 0", async () => {
  const { seq: _, ...claims } = CLAIMS;
  assertEquals(await verifyCrl(await signed(claims), authority, now), { ...claims, seq: 0 });
});

Deno.test("CRL verification refuses a key that is not active or not published", async () => {
  assertEquals(await refusal(await signed(CLAIMS, { kid: "test-0" })), "unknown_kid");
  assertEquals(await refusal(await signed(CLAIMS, { kid: "test-2" })), "unknown_kid");
  assertEquals(await refusal(await signed(CLAIMS, { kid: "constructor" })), "unknown_kid");
});

Deno.test("CRL verification refuses another typ and an additional header member", async () => {
  assertEquals(await refusal(await signed(CLAIMS, { typ: "crl" })), "header");
  assertEquals(await refusal(await signed(CLAIMS, { cty: "x" })), "header");
});

Deno.test("CRL verification refuses claims that are not a CRL's, also correctly signed", async (t) => {
  const entry = (change: object) => ({ revocations: [{ ...ENTRY, ...change }] });
  const rows: [name: string, change: object][] = [
    ["no iss", { iss: undefined }],
    ["no jti", { jti: undefined }],
    ["jti in lower case", { jti: CLAIMS.jti.toLowerCase() }],
    ["no iat", { iat: undefined }],
    ["iat as text", { iat: `${now}` }],
    ["no exp", { exp: undefined }],
    ["exp 1e308", { exp: 1e308 }],
    ["a longer life than that of a list", { exp: CLAIMS.iat + 901 }],
    ["a shorter life than that of a list", { exp: CLAIMS.iat + 899 }],
    ["seq as text", { seq: "1" }],
    ["seq null", { seq: null }],
    ["a negative seq", { seq: -1 }],
    ["seq with a fraction", { seq: 1.5 }],
    ["revocations null", { revocations: null }],
    ["revocations as an object", { revocations: { 0: ENTRY } }],
    ["revocations of texts", { revocations: [ENTRY.jti] }],
    ["an entry without jti", entry({ jti: undefined })],
    ["an entry whose jti is not a ULID", entry({ jti: "abc" })],
    ["an entry of a human", entry({ agentDid: ENTRY.agentDid.replace("agent", "human") })],
    ["an entry without agentDid", entry({ agentDid: undefined })],
    ["an entry with another reason", entry({ reason: "other" })],
    ["an entry without reason", entry({ reason: undefined })],
    ["an entry whose revokedAt is a date", entry({ revokedAt: "2026-02-21T00:00:00Z" })],
    ["an entry whose revokedAt is no date", entry({ revokedAt: Number.MAX_SAFE_INTEGER })],
    ["an entry without revokedAt", entry({ revokedAt: undefined })],
    ["one bad entry behind a good one", { revocations: [ENTRY, {}] }],
  ];
  await steps(t, rows, async ([, change]) => {
    assertEquals(await refusal(await signed({ ...CLAIMS, ...change })), "claims");
  });
});

Deno.test("CRL verification refuses a text that JSON.parse refuses, and one that two readers could read in two ways", async (t) => {
  const { revocations: _, ...claims } = CLAIMS;
  const head = JSON.stringify(claims).slice(0, -1), entry = JSON.stringify(ENTRY);
  const long = `${"x".repeat(600_000)}`;
  const rows: [name: string, json: string][] = [
    ["deeper entries", `${head},"a":{"revocations":[${entry}]}}`],
    ["an escaped name", `${head},"revo\\u0063ations":[${entry}]}`],
    ["the entries twice", `${head},"revocations":[${entry}],"revocations":[${entry}]}`],
    ["a claim twice", `${head},"revocations":[${entry}],"iss":"x"}`],
    ["a comma before the first entry", `${head},"revocations":[,${entry}]}`],
    ["a comma behind many entries", `${head},"revocations":[${`${entry},`.repeat(2_000)}]}`],
    ["a comma after the last entry", `${head},"revocations":[${entry},]}`],
    ["two commas", `${head},"revocations":[${entry},,${entry}]}`],
    ["no comma between", `${head},"revocations":[${entry} ${entry}]}`],
    ["the wrong bracket", `${head},"revocations":[${entry}}}`],
    ["entries that do not end", `${head},"revocations":[${entry}`],
    ["a text that does not end", `${head},"revocations":[${entry}]`],
    ["more after the end", `${head},"revocations":[${entry}]} x`],
    ["the entries only in another member", `${head},"a":{"revocations":[${entry}]},"revocations":{}}`],
    ["an outer array", `[${head},"revocations":[${entry}]}]`],
    ["nothing", " "],
    ["an entry that is too long", `${head},"revocations":[${entry.slice(0, -1)},"x":"${long}"}]}`],
    ["claims that are too long", `${head},"x":"${long}","revocations":[${entry}]}`],
    ["claims behind the entries that are too long", `${head},"revocations":[${entry}],"x":"${long}"}`],
    ["a comma behind the last entry of the first slice", endingASlice(`${head},"revocations":[${entry},`, "]}")],
    ["a comma before all entries of the second slice", endingASlice(`${head},"revocations":[`, `,${entry}]}`)],
  ];
  await steps(t, rows, async ([, json]) => assertEquals(await refusal(await signedText(json)), "claims"));
});

Deno.test("CRL verification accepts white space, unknown members and any order, in lists of any length", async () => {
  const { revocations: _, ...claims } = CLAIMS;
  for (const count of [0, 1, 2, 700, 1_500]) {
    const entries = Array.from({ length: count }, (_, i) => ({
      ...ENTRY,
      jti: `01KHYQ5H00${String(i).padStart(16, "0")}`,
      note: ["x]", '"},{"', "\\", "é€👋", "[{"][i % 5],
      more: [{ revocations: [ENTRY, {}] }, [], i],
    }));
    for (const indent of [undefined, 1]) {
      const texts = [{ ...claims, revocations: entries }, {
        x: { revocations: [1], y: "],[" },
        revocations: entries,
        ...claims,
      }];
      for (const text of texts.map((value) => JSON.stringify(value, null, indent))) {
        assertEquals((await verifyCrl(await signedText(text), authority, now)).revocations, entries);
      }
    }
  }
});

Deno.test("CRL verification checks exp without leeway and iat with 60 s", async () => {
  const token = await signed(CLAIMS);
  await verifyCrl(token, authority, CLAIMS.exp - 1);
  assertEquals(await refusal(token, CLAIMS.exp), "expired");
  await verifyCrl(token, authority, CLAIMS.iat - 60);
  assertEquals(await refusal(token, CLAIMS.iat - 61), "not_yet_valid");
});

Deno.test("a list with a lower seq is a rollback, one of the same seq is none", () => {
  for (const [seq, isOlder] of [[4, true], [5, false], [6, false]] as const) {
    assertEquals(isCrlRollback({ seq }, { seq: 5 }), isOlder);
  }
});

function payloadOf(token: string): typeof CLAIMS {
  const bytes = fromBase64Url(token.split(".")[1] ?? "") ?? new Uint8Array();
  return JSON.parse(new TextDecoder().decode(bytes));
}

Deno.test("CRL verification reads a list in slices and yields to the event loop between them", async () => {
  const revocations = Array.from({ length: 10_000 }, (_, i) => ({
    ...ENTRY,
    jti: `01KHYQ5H00${String(i).padStart(16, "0")}`,
  }));
  const token = await signCrl({ issuer, jti: CLAIMS.jti, issuedAtSeconds: now, seq: 10_000, revocations }, signer);
  let turns = 0;
  const list = await verifyCrl(utf8Bytes(token), authority, now, () => Promise.resolve(void turns++));
  assertEquals(list.revocations, revocations);
  assert(turns > token.length / 200_000, `${turns} turns for ${token.length} bytes`);
});

Deno.test("CRL verification refuses a list over 32 MiB and a text that is not a token before any other work", async () => {
  const turn = () => Promise.reject(new Error("there was work"));
  const token = await signed(CLAIMS);
  const [header = "", payload = "", signature = ""] = token.split(".");
  const texts = [
    "A".repeat(33_554_433),
    "A".repeat(33_554_432),
    `${"A".repeat(2_000)}.${payload}.${signature}`,
    `${header}.${payload}`,
    `${header}..${signature}`,
    `${header}.${payload}.${signature}A`,
    `${header}.${payload}.${signature.slice(1)}`,
    `.${payload}.${signature}`,
  ];
  for (const text of texts) {
    const error = await assertRejects(() => verifyCrl(text, authority, now, turn), TokenError);
    assertEquals(error.reason, "malformed");
  }
});

Deno.test("CRL verification refuses a signed payload that is not base64url, not UTF-8 or has a fourth part", async () => {
  const header = toBase64Url(utf8Bytes(JSON.stringify({ alg: "EdDSA", typ: "CRL", kid: "test-1" })));
  const payload = toBase64Url(utf8Bytes(JSON.stringify(CLAIMS)));
  const notUtf8 = toBase64Url(new Uint8Array([...utf8Bytes('{"revocations":["'), 0xff, ...utf8Bytes('"]}')]));
  const cutUtf8 = toBase64Url(new Uint8Array([...utf8Bytes(JSON.stringify(CLAIMS)), 0xc3]));
  for (const bad of [`${payload}=`, `${payload}.${payload}`, `${payload}\u00e9`, `A${payload}A`, notUtf8, cutUtf8]) {
    const message = utf8Bytes(`${header}.${bad}`);
    const token = `${header}.${bad}.${await sign(pair.privateKey, message)}`;
    assertEquals(["malformed", "claims"].includes(await refusal(token)), true, bad.slice(-20));
  }
});
