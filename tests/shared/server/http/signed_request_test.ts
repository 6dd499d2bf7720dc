/**
 * Shows how the headers of a signed request are read (D-13, D-24): the one token of its scheme, the timestamp within
 * the skew, and whether the proof is valid for exactly the request sent, for an accepted origin.
 */
import { assertEquals } from "@std/assert";
import { type Bytes, utf8Bytes } from "../../../../shared/protocol/base64url.ts";
import { keyPairFromSeed, sign } from "../../../../shared/protocol/ed25519.ts";
import { canonicalProof, EMPTY_BODY_SHA256, HEADERS, type ProofFields } from "../../../../shared/protocol/proof.ts";
import type { RequestContext } from "../../../../shared/server/http/route.ts";
import { digest, readPublicKey } from "../../../../shared/server/crypto.ts";
import { authorizationToken, holdsProof, requestTimestamp } from "../../../../shared/server/http/signed_request.ts";

Deno.test("the authorization token is the only token of the scheme in any case, or null", async (t) => {
  const cases: [name: string, value: string | null, token: string | null][] = [
    ["no header", null, null],
    ["as it is sent", "Svc a.b.c", "a.b.c"],
    ["lower case", "svc a.b.c", "a.b.c"],
    ["upper case", "SVC a.b.c", "a.b.c"],
    ["several blanks", "Svc    a.b.c", "a.b.c"],
    ["outer blanks, which HTTP trims", "  Svc a.b.c \t", "a.b.c"],
    ["another scheme", "Bearer a.b.c", ""],
    ["the scheme alone", "Svc", ""],
    ["no blank between", "Svca.b.c", ""],
    ["a tab between", "Svc\ta.b.c", ""],
    ["two tokens", "Svc a b", ""],
    ["two tokens and a comma", "Svc a, b", ""],
    ["a comma", "Svc a,b", ""],
    ["the header twice", "Svc a, Svc b", ""],
    ["a token and a parameter", "Svc a.b.c;x=1 y", ""],
    ["a prefix of the scheme", "Sv a.b.c", ""],
    ["empty", "", ""],
  ];
  for (const [name, value, token] of cases) {
    await t.step(name, () => {
      const headers = new Headers(value === null ? {} : { Authorization: value });
      assertEquals(authorizationToken(headers, "Svc"), token);
    });
  }
  await t.step("the other scheme", () => {
    assertEquals(authorizationToken(new Headers({ Authorization: "bearer x" }), "Bearer"), "x");
  });
});

Deno.test("the request timestamp is accepted within 300 s of now in whole seconds", async (t) => {
  const seconds = 1_771_632_060;
  const cases: [name: string, value: string | null, expected: number | "invalid" | "skew"][] = [
    ["now", String(seconds), seconds],
    ["300 s back", String(seconds - 300), seconds - 300],
    ["300 s ahead", String(seconds + 300), seconds + 300],
    ["301 s back", String(seconds - 301), "skew"],
    ["301 s ahead", String(seconds + 301), "skew"],
    ["zero", "0", "skew"],
    ["milliseconds", String(seconds * 1000), "skew"],
    ["16 digits", "9999999999999999", "skew"],
    ["17 digits", "99999999999999999", "invalid"],
    ["400 digits", "1".repeat(400), "invalid"],
    ["missing", null, "invalid"],
    ["empty", "", "invalid"],
    ["a word", "abc", "invalid"],
    ["a fraction", `${seconds}.5`, "invalid"],
    ["negative", `-${seconds}`, "invalid"],
    ["signed", `+${seconds}`, "invalid"],
    ["a leading zero", `0${seconds}`, "invalid"],
    ["hexadecimal", "0x69990b3c", "invalid"],
    ["an exponent", "1e9", "invalid"],
    ["two values", `${seconds}, ${seconds}`, "invalid"],
    ["an inner blank", `${seconds} 1`, "invalid"],
  ];
  for (const [name, value, expected] of cases) {
    await t.step(name, () => {
      const headers = new Headers(value === null ? {} : { [HEADERS.timestamp]: value });
      for (const ms of [0, 500, 999]) assertEquals(requestTimestamp(headers, seconds * 1000 + ms), expected);
    });
  }
});

const pair = await keyPairFromSeed(new Uint8Array(32).fill(7));
const publicKey = readPublicKey(pair.publicKey);
const ORIGINS = ["https://proxy.example", "http://127.0.0.1:8787"];
const BODY = utf8Bytes('{"message":"hi"}');
const SIGNED: ProofFields = {
  method: "POST",
  origin: "https://proxy.example",
  target: "/hooks/agent?x=1",
  timestamp: "1771632060",
  nonce: "nonce-of-the-request",
  bodySha256: digest(BODY),
  recipient: "did:svc:r.example:agent:01KHYQ5H00AAAAAAAAAAAAAAAA",
  aitSha256: digest("an AIT"),
};

interface Sent extends ProofFields {
  body: Bytes;
  proof: string;
}

/** Whether the proof is valid for a request. */
async function holds(sent: Partial<Sent>, origins = ORIGINS): Promise<boolean> {
  const signed = { ...SIGNED, origin: sent.origin ?? SIGNED.origin };
  const proof = await sign(pair.privateKey, utf8Bytes(canonicalProof(signed)));
  const all: Sent = { body: BODY, proof, ...SIGNED, ...sent };
  const headers = {
    [HEADERS.timestamp]: all.timestamp,
    [HEADERS.nonce]: all.nonce,
    [HEADERS.bodySha256]: all.bodySha256,
    [HEADERS.recipient]: all.recipient,
    [HEADERS.proof]: all.proof,
  };
  const request = new Request(`https://proxy.example${all.target}`, { method: all.method, headers });
  const exchange: RequestContext = {
    request,
    requestId: "a-request-id",
    peer: { from: "process" },
    ip: "process",
    target: all.target,
    body: all.body,
    responseHeaders: new Map(),
  };
  return holdsProof(exchange, publicKey, all.aitSha256, origins);
}

Deno.test("the proof check is true for the signed request at any accepted origin", async () => {
  assertEquals(await holds({}), true);
  assertEquals(await holds({ origin: "http://127.0.0.1:8787" }), true);
  assertEquals(await holds({ origin: "http://127.0.0.1:8787" }, ["https://proxy.example"]), false);
  assertEquals(await holds({ origin: "https://evil.example" }), false);
  assertEquals(await holds({}, []), false);
});

Deno.test("the proof check is false when any signed part is changed", async (t) => {
  const other = await keyPairFromSeed(new Uint8Array(32).fill(8));
  const foreign = await sign(other.privateKey, utf8Bytes(canonicalProof(SIGNED)));
  const own = await sign(pair.privateKey, utf8Bytes(canonicalProof(SIGNED)));
  const cases: [name: string, sent: Partial<Sent>][] = [
    ["method", { method: "DELETE" }],
    ["path", { target: "/hooks/Agent?x=1" }],
    ["query", { target: "/hooks/agent?x=2" }],
    ["no query", { target: "/hooks/agent" }],
    ["timestamp", { timestamp: "1771632061" }],
    ["nonce", { nonce: "nonce-of-the-requesT" }],
    ["recipient", { recipient: SIGNED.recipient.replace("AA", "AB") }],
    ["no recipient", { recipient: "" }],
    ["AIT", { aitSha256: digest("another AIT") }],
    ["a byte of the body", { body: utf8Bytes('{"message":"Hi"}') }],
    ["the body hash", { bodySha256: EMPTY_BODY_SHA256 }],
    ["body and body hash", { body: new Uint8Array(), bodySha256: EMPTY_BODY_SHA256 }],
    ["no body hash", { bodySha256: "" }],
    ["another key", { proof: foreign }],
    ["no proof", { proof: "" }],
    ["a proof twice", { proof: `${own}, ${own}` }],
    ["padding", { proof: `${own}==` }],
    ["a proof cut short", { proof: own.slice(0, -2) }],
  ];
  for (const [name, sent] of cases) await t.step(name, async () => assertEquals(await holds(sent), false));
});
