/**
 * Shows that a key document is read completely or not at all: with one invalid member, none of its keys is used. jose
 * reads the valid document unchanged.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { createLocalJWKSet } from "jose";
import { jsonText } from "./arbitraries.ts";
import { toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { keyPairFromSeed, sign, verify } from "../../../shared/protocol/ed25519.ts";
import { readKeyDocument } from "../../../shared/protocol/signed/key_document.ts";

const pair = await keyPairFromSeed(new Uint8Array(32).fill(1));
const other = await keyPairFromSeed(new Uint8Array(32).fill(2));
const KEY = { kid: "k1", kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", x: pair.publicKey, status: "active" };
const RETIRED = { ...KEY, kid: "k0", x: other.publicKey, status: "retired" };

Deno.test("key document parsing imports active and retired keys by kid", async () => {
  const keys = await readKeyDocument({ keys: [KEY, RETIRED] });
  assert(keys);
  assertEquals([...keys].map(([kid, { status }]) => [kid, status]), [["k1", "active"], ["k0", "retired"]]);
  for (const [kid, { privateKey }] of [["k1", pair], ["k0", other]] as const) {
    const key = keys.get(kid);
    assert(key && await verify(key.publicKey, await sign(privateKey, utf8Bytes("svc")), utf8Bytes("svc")));
  }
});

Deno.test("key document parsing reads the keys that jose reads", async () => {
  const document = { keys: [KEY, RETIRED] };
  assertEquals((await readKeyDocument(document))?.size, 2);
  const key = await createLocalJWKSet(document)({ alg: "EdDSA", kid: "k0" });
  assert(await verify(key, await sign(other.privateKey, utf8Bytes("svc")), utf8Bytes("svc")));
});

Deno.test("key document parsing gives every key of a document or none, with any JSON in place of a member", async () => {
  const place = fc.constantFrom(...Object.keys(KEY) as (keyof typeof KEY)[], "d", "more");
  await fc.assert(fc.asyncProperty(place, jsonText, async (name, text) => {
    const keys = await readKeyDocument({ keys: [RETIRED, { ...KEY, [name]: JSON.parse(text) }] });
    if (keys !== null) assertEquals([keys.size, keys.get("k0")?.status], [2, "retired"]);
  }));
  await fc.assert(fc.asyncProperty(jsonText, async (text) => {
    assertEquals(await readKeyDocument(JSON.parse(text)), null);
  }));
});

Deno.test("key document parsing looks at no key of a document with too many", async () => {
  const tooMany = Array(65).fill({
    get x(): string {
      throw new Error("a key was looked at");
    },
  });
  assertEquals(await readKeyDocument({ keys: tooMany }), null);
  assertEquals(
    (await readKeyDocument({ keys: Array.from({ length: 64 }, (_, i) => ({ ...KEY, kid: `k${i}` })) }))?.size,
    64,
  );
});

Deno.test("key document parsing returns no key of each malformed document", async (t) => {
  const withKey = (change: object) => ({ keys: [RETIRED, { ...KEY, ...change }] });
  const rows: [name: string, value: unknown][] = [
    ["with a kid listed twice", { keys: [KEY, { ...RETIRED, kid: "k1" }] }],
    ["with the same key listed twice", { keys: [KEY, KEY] }],
    ["with a private member", withKey({ d: pair.seed })],
    ["with an empty private member", withKey({ d: "" })],
    ["with no keys", { keys: [] }],
    ["without keys", {}],
    ["with keys of another type", { keys: KEY }],
    ["with 65 keys", { keys: Array.from({ length: 65 }, (_, i) => ({ ...KEY, kid: `k${i}` })) }],
    ["with a null key", { keys: [KEY, null] }],
    ["with x of 31 bytes", withKey({ x: toBase64Url(new Uint8Array(31).fill(1)) })],
    ["without x", withKey({ x: undefined })],
    ["with kty EC", withKey({ kty: "EC" })],
    ["with crv X25519", withKey({ crv: "X25519" })],
    ["with alg ES256", withKey({ alg: "ES256" })],
    ["with alg Ed25519", withKey({ alg: "Ed25519" })],
    ["without alg", withKey({ alg: undefined })],
    ["with use enc", withKey({ use: "enc" })],
    ["without use", withKey({ use: undefined })],
    ["with an empty kid", withKey({ kid: "" })],
    ["with a kid of another type", withKey({ kid: 1 })],
    ["without kid", withKey({ kid: undefined })],
    ["with another status", withKey({ status: "revoked" })],
    ["without status", withKey({ status: undefined })],
    ["that is null", null],
    ["that is a list", [KEY]],
    ["that is HTML", "<!doctype html>"],
    ["that is undefined", undefined],
  ];
  for (const [name, value] of rows) await t.step(name, async () => assertEquals(await readKeyDocument(value), null));
});
