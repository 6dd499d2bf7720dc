/**
 * Shows how the proxy caches the registry's key document: one fetch at a time, a limited reuse while the registry
 * fails, and no replacement by an invalid document.
 */
import { assert, assertEquals } from "@std/assert";
import { toBase64Url, utf8Bytes } from "../../../shared/protocol/base64url.ts";
import { keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import type { KeyDocument, PublishedKey } from "../../../shared/protocol/signed/key_document.ts";
import { outcome, tally } from "../../support/registry_world.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { signedToken } from "../../support/tokens.ts";
import { claimsOf, endsAfter, get, openProxy, RegistryCalls, restart, withAit } from "../proxy_world.ts";
import { until } from "../../support/until.ts";
import { inWorld } from "../cast.ts";

const MINUTE_MS = 60_000;
// The cap of an answer with keys.
const MOST_BYTES = 2 ** 20;

/** The requests of the proxy for the key document. */
class Keys extends RegistryCalls {
  constructor(w: World) {
    super(w, "/.well-known/svc-keys.json");
  }

  get fetches(): number {
    return this.asked.length;
  }

  /** Answers with this document from now on. */
  publish(document: unknown, headers: Record<string, string> = {}): void {
    this.answer = () => Response.json(document, { headers });
  }
}

async function cast(
  proxy: { registryKeysTtlMs?: number } = {},
): Promise<{ w: World; a: TestAgent; keys: Keys; own: PublishedKey }> {
  const w = await openProxy({ proxy });
  const keys = new Keys(w);
  const a = await w.agent();
  const [own] = (await w.registry.deps.signing.document()).keys;
  assert(own);
  return { w, a, keys, own };
}

async function ask(w: World, agent: TestAgent): Promise<string> {
  return await outcome(await get(w, agent, "/pair/peers"));
}

const UNAVAILABLE = "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE";
const INVALID = "401 PROXY_AUTH_INVALID_AIT";

/** Adds a second registry key, and an AIT of the agent that it signed. */
async function second(
  a: TestAgent,
  kid = "key-2",
): Promise<{ key: PublishedKey; agent: TestAgent; privateKey: CryptoKey }> {
  const pair = await keyPairFromSeed(new Uint8Array(32).fill(42));
  const key: PublishedKey = {
    kid,
    kty: "OKP",
    crv: "Ed25519",
    alg: "EdDSA",
    use: "sig",
    x: pair.publicKey,
    status: "active",
  };
  const ait = await signedToken({ alg: "EdDSA", typ: "AIT", kid }, claimsOf(a.identity.ait), pair.privateKey);
  return { key, agent: withAit(a, ait), privateKey: pair.privateKey };
}

type Run = (all: Awaited<ReturnType<typeof cast>>, t: Deno.TestContext) => Promise<void>;
const test = (name: string, run: Run) => Deno.test(name, inWorld(cast, run));

Deno.test("the keys are fetched once and used until the shorter of the two lifetimes ends", async (t) => {
  const cases: [name: string, cacheControl: string | null, ttlMs: number, freshMs: number][] = [
    ["max-age is shorter", "public, max-age=60", 300_000, 60_000],
    ["the setting is shorter", "public, max-age=300", 2_000, 2_000],
    ["no max-age", null, 120_000, 120_000],
    ["another order of directives", "max-age=30, public", 300_000, 30_000],
  ];
  for (const [name, cacheControl, registryKeysTtlMs, freshMs] of cases) {
    await t.step(name, async () => {
      const { w, a, keys, own } = await cast({ registryKeysTtlMs });
      await using _ = w;
      keys.publish({ keys: [own] }, cacheControl ? { "Cache-Control": cacheControl } : {});
      for (let i = 0; i < 5; i++) assertEquals(await ask(w, a), "200");
      w.clock.step(freshMs - 1);
      assertEquals([await ask(w, a), keys.fetches], ["200", 1]);
      w.clock.step(1);
      assertEquals([await ask(w, a), await ask(w, a), keys.fetches], ["200", "200", 2]);
    });
  }
});

test("concurrent requests cause one fetch", async ({ w, a, keys }) => {
  const answers = await tally(Array.from({ length: 20 }, () => get(w, a, "/pair/peers")));
  assertEquals([answers, keys.fetches], [{ "200": 20 }, 1]);
});

test("a new key is accepted at its first use after one fetch, and the old key still is", async ({ w, a, keys, own }) => {
  assertEquals(await ask(w, a), "200");
  const { key, agent } = await second(a);
  keys.publish({ keys: [key, { ...own, status: "retired" }] });
  assertEquals([await ask(w, agent), keys.fetches], ["200", 2]);
  assertEquals([await ask(w, a), await ask(w, agent), keys.fetches], ["200", "200", 2]);
});

test("a key that follows another new one within 30 s is accepted too, and invented ones still cost one fetch", async ({ w, a, keys, own }) => {
  assertEquals(await ask(w, a), "200");
  const published = [own];
  for (const kid of ["key-2", "key-3", "key-4"]) {
    const { key, agent } = await second(a, kid);
    published.unshift(key);
    keys.publish({ keys: published });
    assertEquals([await ask(w, agent), keys.fetches], ["200", published.length], kid);
    w.clock.step(5_000);
  }
  const before = keys.fetches;
  for (let i = 0; i < 5; i++) assertEquals(await ask(w, (await second(a, `invented-${i}`)).agent), INVALID);
  assertEquals(keys.fetches, before, "after three in a row");
  w.clock.step(30_000);
  for (let i = 0; i < 5; i++) assertEquals(await ask(w, (await second(a, `invented-${i}`)).agent), INVALID);
  assertEquals(keys.fetches, before + 1);
});

test("agents that bring a new key at once share a fetch, and count as one search", async ({ w, a, keys, own }) => {
  const agents = [a, await w.agent(), await w.agent(), await w.agent()];
  for (const agent of agents) assertEquals(await ask(w, agent), "200");
  const published = [own];
  for (const kid of ["key-2", "key-3"]) {
    const all = await Promise.all(agents.map((agent) => second(agent, kid)));
    published.push(all[0]?.key ?? own);
    keys.publish({ keys: published });
    assertEquals(await tally(all.map(({ agent }) => get(w, agent, "/pair/peers"))), { "200": agents.length }, kid);
    assertEquals(keys.fetches, published.length);
  }
});

test("searches of the last hour do not use up those for two keys that follow each other", async ({ w, a, keys, own }) => {
  assertEquals(await ask(w, a), "200");
  const published = [own];
  for (const [i, kid] of ["key-2", "key-3", "key-4", "key-5", "key-6"].entries()) {
    const { key, agent } = await second(a, kid);
    published.unshift(key);
    keys.publish({ keys: published });
    assertEquals(await ask(w, agent), "200", kid);
    w.clock.step(i < 3 ? 15 * MINUTE_MS : 1_000);
    await w.proxy.deps.crl.refresh();
  }
});

test("a new key is accepted although the clock was set back since the last search", async ({ w, a, keys, own }) => {
  assertEquals([await ask(w, a), await ask(w, (await second(a, "invented")).agent)], ["200", INVALID]);
  w.clock.step(-60_000);
  assertEquals(await ask(w, a), "200");
  const { key, agent } = await second(a);
  keys.publish({ keys: [key, own] });
  assertEquals(await ask(w, agent), "200");
});

test("a registry that failed before the clock was set back is asked again", async ({ w, a, keys }) => {
  keys.answer = () => new Response(null, { status: 500 });
  assertEquals(await ask(w, a), UNAVAILABLE);
  keys.answer = null;
  w.clock.step(-60_000);
  assertEquals(await ask(w, a), "200");
});

Deno.test("once the keys are read again, an unknown kid is no longer 503 because of an earlier failure", async () => {
  const { w, a, keys } = await cast({ registryKeysTtlMs: 5_000 });
  await using _ = w;
  const { agent } = await second(a);
  assertEquals(await ask(w, a), "200");
  keys.answer = () => new Response(null, { status: 500 });
  assertEquals(await ask(w, agent), UNAVAILABLE);
  keys.answer = null;
  w.clock.step(11_000);
  assertEquals([await ask(w, a), await ask(w, agent)], ["200", INVALID]);
});

Deno.test("a withdrawn key is trusted no longer than the cache lifetime, also for an AIT seen before", async () => {
  const { w, a, keys } = await cast({ registryKeysTtlMs: 2_000 });
  await using _ = w;
  assertEquals(await ask(w, a), "200");
  const { key } = await second(a);
  keys.publish({ keys: [key] });
  assertEquals(await ask(w, a), "200");
  w.clock.step(2_000);
  assertEquals(await ask(w, a), INVALID);
});

Deno.test("a withdrawn key is not trusted for longer because the clock was set back", async () => {
  const { w, a, keys } = await cast({ registryKeysTtlMs: 2_000 });
  await using _ = w;
  assertEquals(await ask(w, a), "200");
  keys.publish({ keys: [(await second(a)).key] });
  w.clock.step(-5_000);
  assertEquals(await ask(w, a), INVALID);
});

Deno.test("a key whose kid now names another key counts as withdrawn, also for an AIT seen before", async () => {
  const { w, a, keys, own } = await cast({ registryKeysTtlMs: 2_000 });
  await using _ = w;
  const { key, agent } = await second(a, own.kid);
  assertEquals([await ask(w, a), await ask(w, agent)], ["200", INVALID]);
  keys.publish({ keys: [key] });
  w.clock.step(2_000);
  assertEquals([await ask(w, a), await ask(w, agent)], [INVALID, "200"]);
});

test("a retired key verifies AITs and no revocation list", async ({ w, a, keys, own }) => {
  const b = await w.agent();
  await w.client.deleteAgent(b.owner.apiKey, b.agent.id);
  const { key } = await second(a);
  keys.publish({ keys: [key, { ...own, status: "retired" }] });
  // The AIT passes; the list that the same key signed does not.
  assertEquals(await ask(w, a), UNAVAILABLE);
  assertEquals(await outcome(await get(w, withAit(a, `${a.identity.ait}x`), "/pair/peers")), INVALID);
  keys.answer = null;
  w.clock.step(5 * MINUTE_MS);
  await w.proxy.deps.crl.refresh();
  assertEquals(await ask(w, a), "200");
});

test("an unknown kid causes one fetch in 30 s for any number of requests", async ({ w, a, keys }) => {
  assertEquals(await ask(w, a), "200");
  const strangers = await Promise.all(Array.from({ length: 20 }, (_, i) => second(a, `stranger-${i}`)));
  const askAll = () => tally(strangers.map(({ agent }) => get(w, agent, "/pair/peers")));
  assertEquals([await askAll(), keys.fetches], [{ [INVALID]: 20 }, 2]);
  w.clock.step(29_999);
  assertEquals([await askAll(), keys.fetches], [{ [INVALID]: 20 }, 2]);
  w.clock.step(1);
  assertEquals([await askAll(), keys.fetches], [{ [INVALID]: 20 }, 3]);
  assertEquals(await ask(w, a), "200");
});

test("an unknown kid is 503 while the registry is unreachable; known ones continue", async ({ w, a, keys }) => {
  assertEquals(await ask(w, a), "200");
  const { agent } = await second(a);
  keys.answer = () => new Response("bad gateway", { status: 502 });
  assertEquals([await ask(w, agent), await ask(w, a)], [UNAVAILABLE, "200"]);
  // The proxy cannot know yet whether the key is new: the limit on fetches is not evidence against it.
  keys.answer = null;
  w.clock.step(29_999);
  assertEquals([await ask(w, agent), keys.fetches], [UNAVAILABLE, 2]);
  w.clock.step(1);
  assertEquals([await ask(w, agent), keys.fetches], [INVALID, 3]);
});

const BAD: [name: string, answer: (own: PublishedKey) => Response][] = [
  ["a kid twice", (own) => Response.json({ keys: [own, own] })],
  ["a private key", (own) => Response.json({ keys: [{ ...own, d: toBase64Url(new Uint8Array(32)) }] })],
  ["no keys", () => Response.json({ keys: [] })],
  ["a key of 31 bytes", (own) => Response.json({ keys: [{ ...own, x: toBase64Url(new Uint8Array(31)) }] })],
  ["one good and one bad key", (own) => Response.json({ keys: [own, { ...own, kid: "b", x: "x" }] })],
  ["another alg", (own) => Response.json({ keys: [{ ...own, alg: "ES256" }] })],
  ["no keys member", () => Response.json([])],
  ["HTML", () => new Response("<!doctype html>", { headers: { "Content-Type": "text/html" } })],
  ["nothing", () => new Response(null)],
  ["a text that is too long", (own) => Response.json({ keys: [own], pad: "x".repeat(MOST_BYTES) })],
  ["a redirect", () => new Response(null, { status: 302, headers: { Location: "https://canary.example/keys" } })],
  ["an error with the right body", (own) => Response.json({ keys: [own] }, { status: 500 })],
  ["201 with the right body", (own) => Response.json({ keys: [own] }, { status: 201 })],
];

Deno.test("an invalid document never replaces a valid one, and without a valid one requests get 503", async (t) => {
  const { w, a, keys, own } = await cast();
  await using _ = w;
  for (const [name, answer] of BAD) {
    await t.step(name, async () => {
      await restart(w);
      keys.answer = () => answer(own);
      assertEquals(await ask(w, a), UNAVAILABLE, "no document yet");
      keys.answer = null;
      w.clock.step(10_000);
      assertEquals(await ask(w, a), "200");
      keys.answer = () => answer(own);
      w.clock.step(5 * MINUTE_MS);
      const before = keys.fetches;
      assertEquals([await ask(w, a), keys.fetches - before], ["200", 1], "the last valid one is used");
    });
  }
});

test("the last valid document is used 900 s longer while the registry fails, then 503, then recovery", async ({ w, a, keys }) => {
  assertEquals(await ask(w, a), "200");
  keys.answer = () => Promise.reject(new TypeError("connection refused"));
  w.clock.step(5 * MINUTE_MS + 15 * MINUTE_MS - 1);
  // The list would be too old too; this test checks the keys only.
  await w.proxy.deps.crl.refresh();
  assertEquals(await ask(w, a), "200");
  w.clock.step(1);
  assertEquals(await ask(w, a), UNAVAILABLE);
  keys.answer = null;
  w.clock.step(10_000);
  assertEquals(await ask(w, a), "200");
});

test("a registry that fails is not asked for its keys at every request", async ({ w, a, keys }) => {
  keys.answer = () => new Response(null, { status: 500 });
  for (let i = 0; i < 20; i++) assertEquals(await ask(w, a), UNAVAILABLE);
  assert(keys.fetches <= 2, `${keys.fetches} fetches`);
});

test("a key request that hangs causes 503 within 5 s of the clock and leaves no waiting request", async ({ w, a, keys }) => {
  keys.answer = () => new Promise(() => {});
  const asking = ask(w, a);
  await until(() => keys.fetches > 0);
  assertEquals(await endsAfter(w, 5_000, asking), UNAVAILABLE);
  assertEquals(keys.fetches, 1);
});

test("while the cached keys are usable, a key request that hangs holds requests up for 0.5 s", async ({ w, a, keys }) => {
  assertEquals(await ask(w, a), "200");
  keys.answer = () => new Promise(() => {});
  w.clock.step(5 * MINUTE_MS);
  const before = keys.fetches;
  const asking = ask(w, a);
  await until(() => keys.fetches > before);
  assertEquals(await endsAfter(w, 500, asking), "200");
});

test("a key answer without an end causes 503 within 5 s of the clock", async ({ w, a, keys }) => {
  const forever = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) });
  const stalled = new ReadableStream({ start: (controller) => controller.enqueue(utf8Bytes('{"keys":[')) });
  for (const body of [stalled, forever]) {
    keys.answer = () => new Response(body);
    const before = keys.fetches;
    const asking = ask(w, a);
    await until(() => keys.fetches !== before);
    await w.clock.advance(5_000);
    assertEquals(await asking, UNAVAILABLE);
    w.clock.step(10_000);
  }
});

test("requests to the registry do not follow redirects", async ({ w, a, keys }) => {
  keys.answer = ({ redirect, headers }) => {
    assertEquals(redirect, "manual");
    assertEquals(headers.get("authorization"), null);
    return Response.json({ keys: [] });
  };
  assertEquals(await ask(w, a), UNAVAILABLE);
  const document: KeyDocument = await w.registry.deps.signing.document();
  keys.publish(document);
  w.clock.step(10_000);
  assertEquals(await ask(w, a), "200");
});
