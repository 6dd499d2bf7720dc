/**
 * Shows that a proof binds a request to the agent, the service, the time and every signed part (D-24). Nonces:
 * nonce_test.ts.
 */
import { assert, assertEquals } from "@std/assert";
import { fromBase64Url, sha256, toBase64Url } from "../../../shared/protocol/base64url.ts";
import type { ErrorCode } from "../../../shared/protocol/errors.ts";
import { EMPTY_BODY_SHA256, HEADERS } from "../../../shared/protocol/proof.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { outcome, refused } from "../../support/registry_world.ts";
import { PROXY_URL, REGISTRY_URL, type RequestParts } from "../../support/world.ts";
import { malleated, openProxy } from "../proxy_world.ts";
import { type CastTest, inWorld, openCast } from "../cast.ts";

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

test("the timestamp is an integer of Unix seconds that differs by at most 300 s", async ({ w, a, b }, t) => {
  w.clock.step(500);
  const now = unixSeconds(w.clock.now());
  const skewed: [timestamp: string, status: string][] = [
    [String(now - 300), "202"],
    [String(now + 300), "202"],
    [String(now - 301), "401 PROXY_AUTH_TIMESTAMP_SKEW"],
    [String(now + 301), "401 PROXY_AUTH_TIMESTAMP_SKEW"],
    ["0", "401 PROXY_AUTH_TIMESTAMP_SKEW"],
    [String(w.clock.now()), "401 PROXY_AUTH_TIMESTAMP_SKEW"],
    ["9999999999999999", "401 PROXY_AUTH_TIMESTAMP_SKEW"],
  ];
  for (const [timestamp, status] of skewed) {
    await t.step(timestamp, async () => assertEquals(await outcome(await w.message(a, b, { timestamp })), status));
  }
  const invalid = ["", "abc", "12.5", "+5", `0${now}`, `${now}, ${now}`];
  for (const timestamp of invalid) {
    await t.step(`${timestamp.slice(0, 30)}, which is not a timestamp`, async () => {
      await refused(await w.message(a, b, { timestamp }), "PROXY_AUTH_INVALID_TIMESTAMP");
    });
  }
  await t.step("missing", async () => {
    await refused(await w.message(a, b, { headers: { [HEADERS.timestamp]: null } }), "PROXY_AUTH_INVALID_TIMESTAMP");
  });
});

test("a proof is refused when any signed part of the request is changed", async ({ w, a, b, socket }, t) => {
  const c = await w.agent();
  const { ait } = a.identity;
  const body = '{"message":"hi"}';
  const other = '{"message":"ho"}';
  const own = async (parts: RequestParts = {}) => (await w.signed(a, parts)).headers.get(HEADERS.proof) ?? "";
  const nonce = toBase64Url(w.random.bytes(18));
  const cases: [name: string, parts: RequestParts, code?: ErrorCode][] = [
    ["method", { signed: { method: "PUT" } }],
    ["path", { signed: { target: "/pair/start" } }],
    ["query", { signed: { target: "/hooks/agent?x=1" } }],
    ["another service", { signed: { origin: REGISTRY_URL } }],
    ["another service by its name", { signed: { origin: "https://evil.example" } }],
    ["the address with a port", { signed: { origin: `${PROXY_URL}:443` } }],
    ["wss for https", { signed: { origin: PROXY_URL.replace("https", "wss") } }],
    ["a byte of the body", { body, signed: { bodySha256: await sha256(other) } }],
    ["body and hash header, not the proof", { body: other, signed: { bodySha256: await sha256(body) } }],
    ["the hash header", { headers: { [HEADERS.bodySha256]: EMPTY_BODY_SHA256 } }],
    ["no hash header", { headers: { [HEADERS.bodySha256]: null } }],
    ["the hash header twice", { headers: { [HEADERS.bodySha256]: `${await sha256(body)}, ${await sha256(body)}` } }],
    ["a hash in hexadecimal", { headers: { [HEADERS.bodySha256]: "ab".repeat(32) } }],
    ["timestamp", { signed: { timestamp: String(unixSeconds(w.clock.now()) - 1) } }],
    ["nonce", { signed: { nonce: "another-nonce-1234" } }],
    ["recipient", { signed: { recipient: c.agent.did } }],
    ["no recipient signed", { signed: { recipient: "" } }],
    ["recipient taken out", { headers: { [HEADERS.recipient]: null } }],
    ["AIT", { signed: { aitSha256: await sha256(c.identity.ait) } }],
    ["another request's proof", { headers: { [HEADERS.proof]: await own() } }],
    ["no proof", { headers: { [HEADERS.proof]: null } }],
    ["an empty proof", { headers: { [HEADERS.proof]: "" } }],
    ["63 bytes", { headers: { [HEADERS.proof]: toBase64Url(new Uint8Array(63)) } }],
    ["65 bytes", { headers: { [HEADERS.proof]: toBase64Url(new Uint8Array(65)) } }],
    ["zeros", { headers: { [HEADERS.proof]: toBase64Url(new Uint8Array(64)) } }],
    ["the AIT's own signature", { headers: { [HEADERS.proof]: ait.split(".")[2] ?? "" } }],
    ["no nonce", { headers: { [HEADERS.nonce]: null } }, "PROXY_AUTH_INVALID_NONCE"],
    ["an empty nonce", { nonce: "" }, "PROXY_AUTH_INVALID_NONCE"],
    ["15 characters of nonce", { nonce: "x".repeat(15) }, "PROXY_AUTH_INVALID_NONCE"],
    ["129 characters of nonce", { nonce: "x".repeat(129) }, "PROXY_AUTH_INVALID_NONCE"],
    ["a nonce in standard base64", { nonce: `${"x".repeat(20)}+/==` }, "PROXY_AUTH_INVALID_NONCE"],
    ["the nonce twice", { nonce: `${nonce}, ${nonce}` }, "PROXY_AUTH_INVALID_NONCE"],
    ["a nonce with a dot", { nonce: `${nonce}.` }, "PROXY_AUTH_INVALID_NONCE"],
  ];
  for (const [name, parts, code = "PROXY_AUTH_INVALID_PROOF"] of cases) {
    await t.step(name, async () => {
      const text = await refused(await w.message(a, b, parts), code);
      if (code === "PROXY_AUTH_INVALID_PROOF") assert(text.includes(PROXY_URL), "the expected origin is named");
    });
  }
  const encodings: [name: string, encode: (proof: string) => string][] = [
    ["standard base64", (proof) => proof.replaceAll("-", "+").replaceAll("_", "/") + "=="],
    ["padding", (proof) => `${proof}==`],
    ["hexadecimal", (proof) => Array.from(fromBase64Url(proof) ?? [], (byte) => byte.toString(16)).join("")],
    ["the proof twice", (proof) => `${proof}, ${proof}`],
    ["S + L", malleated],
  ];
  for (const [name, encode] of encodings) {
    await t.step(`the valid proof in ${name}`, async () => {
      const parts = { body, recipient: b.agent.did, nonce: toBase64Url(w.random.bytes(18)) };
      const proof = encode(await own(parts));
      await refused(
        await w.message(a, b, { ...parts, headers: { [HEADERS.proof]: proof } }),
        "PROXY_AUTH_INVALID_PROOF",
      );
      assertEquals((await w.message(a, b, parts)).status, 202, "the same request, unchanged");
    });
  }
  assertEquals(socket.delivered.length, encodings.length);
});

test("a nonce is 16 to 128 base64url characters, compared and not decoded", async ({ w, a, b }) => {
  for (const nonce of ["x".repeat(16), "x".repeat(128), "_-_-_-_-_-_-_-_-_", "abcdefghijklmnopqrstuvwxyz0"]) {
    assertEquals((await w.message(a, b, { nonce })).status, 202, nonce);
  }
});

test("a proof does not fit another agent's AIT of the same key, and nonces are kept per agent", async ({ w, a, b }) => {
  const twin = await w.agent(a.owner, "twin", a.keys);
  await w.pair(twin, b);
  const nonce = "nonce-of-the-twins";
  const swapped = { headers: { Authorization: `Svc ${twin.identity.ait}` } };
  await refused(await w.message(a, b, { ...swapped, nonce }), "PROXY_AUTH_INVALID_PROOF");
  assertEquals((await w.message(a, b, { nonce })).status, 202);
  assertEquals((await w.message(twin, b, { nonce })).status, 202);
});

test("another spelling of the path is another path or not found", async ({ w, a, b, socket }, t) => {
  const forms = [
    "/hooks/agent/",
    "//hooks/agent",
    "/hooks/%61gent",
    "/hooks/agent?x=1",
    "/hooks/agent?",
    "/Hooks/Agent",
  ];
  for (const target of forms) {
    await t.step(target, async () => {
      const { status } = await w.message(a, b, { target, signed: { target: "/hooks/agent" } });
      assert(status === 401 || status === 404, `${status}`);
    });
  }
  assertEquals(socket.delivered, []);
  assertEquals(
    (await w.message(a, b, { target: "/hooks/agent?x=1" })).status,
    202,
    "signed and sent with the same path",
  );
});

Deno.test("a request without a body is signed with the hash of zero bytes", async () => {
  await using w = await openProxy();
  const a = await w.agent();
  const request = { method: "GET", target: "/v1/relay/connect" };
  const bodySha256 = await sha256("{}");
  const headers = { [HEADERS.bodySha256]: bodySha256 };
  await refused(
    await w.fetch(await w.signed(a, { ...request, signed: { bodySha256 }, headers })),
    "PROXY_AUTH_INVALID_PROOF",
  );
  const fits = await w.signed(a, request);
  assertEquals(fits.headers.get(HEADERS.bodySha256), EMPTY_BODY_SHA256);
  await refused(await w.fetch(fits), "PROXY_RELAY_UPGRADE_REQUIRED");
});

test("a signature with a non-canonical R is checked by the verifier and is never a 5xx", async ({ w, a, b }, t) => {
  const R = (bytes: number[]) => Uint8Array.from({ length: 32 }, (_, i) => bytes[i] ?? 0);
  const odd: [name: string, r: Uint8Array][] = [
    ["the neutral element", R([1])],
    ["order 2", Uint8Array.from({ length: 32 }, (_, i) => i === 0 ? 0xec : i === 31 ? 0x7f : 0xff)],
    ["order 4", R([])],
    ["not canonical", Uint8Array.from({ length: 32 }, (_, i) => i === 0 ? 0xee : i === 31 ? 0x7f : 0xff)],
    ["no point", R([2])],
    ["all ones", new Uint8Array(32).fill(0xff)],
  ];
  for (const [name, r] of odd) {
    await t.step(name, async () => {
      const nonce = toBase64Url(w.random.bytes(18));
      const bytes = fromBase64Url((await w.signed(a, { nonce })).headers.get(HEADERS.proof) ?? "") ?? new Uint8Array();
      for (const s of [bytes.slice(32), new Uint8Array(32)]) {
        const proof = toBase64Url(Uint8Array.from([...r, ...s]));
        await refused(
          await w.message(a, b, { nonce, headers: { [HEADERS.proof]: proof } }),
          "PROXY_AUTH_INVALID_PROOF",
        );
      }
    });
  }
});
