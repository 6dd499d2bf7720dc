/** Whether registries that one person brought can keep this server from asking all others. */
import { assertEquals } from "@std/assert";
import { Issuers } from "../../../proxy/federation/issuers.ts";
import { sleep } from "../../../shared/clock.ts";
import type { ServiceError } from "../../../shared/protocol/errors.ts";
import { Metrics } from "../../../shared/server/metrics/metrics.ts";
import { ForeignIssuer } from "../../support/foreign_issuer.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { openTestKv } from "../../support/test_store.ts";
import { until } from "../../support/until.ts";

const VICTIM = "did:svc:a.example:human:01KHYQ5H00AAAAAAAAAAAAAAAA", EVE = VICTIM.replace(/A$/, "E");

/** Registries that do not answer, and others that do; `flood` asks the first ones 20 times a second for `host`. */
async function slowOnes(evil: (n: number) => string, host: string | null) {
  const clock = new ManualClock(), b = await ForeignIssuer.open(clock), kv = await openTestKv();
  b.answer = ({ url }) => url.includes("evil") ? new Promise(() => {}) : null;
  const issuers = new Issuers({
    ...{ kv, clock, random: seededRandom(1), log: () => {}, metrics: new Metrics(), ...b.abroad },
    config: { registryKeysTtlMs: 300_000, federationPrivate: false },
    onList: () => {},
  });
  // Each name is asked once in 5 s or less often, so that its pauses never matter.
  let n = 0;
  const flood = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) {
      for (let i = 0; i < 2; i++) issuers.of(evil(n++), host).keys.current().catch(() => {});
      await clock.advance(100);
    }
  };
  return { clock, b, issuers, flood, [Symbol.dispose]: () => kv.close() };
}

const retryAfter = ({ headers }: ServiceError) => new Headers(headers).get("Retry-After");

/** Returns how many of five calls of other registries are answered meanwhile. */
async function answeredBeside(evil: (n: number) => string, hosts: { eve: string | null; victim: string | null }) {
  using slow = await slowOnes(evil, hosts.eve);
  const { issuers, flood } = slow;
  await flood(3_000);
  let answered = 0;
  for (let i = 0; i < 5; i++) {
    const asked = issuers.of(`https://b${i}.example`, hosts.victim).keys.current().then(() => answered++, () => {});
    await flood(3_500);
    await asked;
  }
  return answered;
}

Deno.test("registries under one domain that answer slowly do not keep this server from asking another one", async () => {
  const evil = (n: number) => `https://r${n}.evil.example`;
  assertEquals(await answeredBeside(evil, { eve: null, victim: null }), 5);
});

const manyDomains = (n: number) => `https://evil${n}.example`;

Deno.test("registries under many domains that one person's tickets name keep this server from asking no other one", async () => {
  assertEquals(await answeredBeside(manyDomains, { eve: EVE, victim: VICTIM }), 5);
});

Deno.test("a registry that works is asked in time, also for a visitor of the person with the slow ones", async () => {
  using slow = await slowOnes(manyDomains, EVE);
  const { issuers, flood, clock, b } = slow, known = () => issuers.of("https://b.example", EVE).crl.isRevoked("x");
  await known();
  await clock.advance(61_000);
  await flood(3_000);
  await known();
  await flood(1_000);
  assertEquals(b.asked.filter((path) => path === "/v1/crl").length, 2);
});

Deno.test("registries that answer slowly and give no list keep this server from asking no other one", async () => {
  using slow = await slowOnes(manyDomains, EVE);
  const { issuers, clock, b } = slow;
  b.answer = async ({ url }) => {
    if (!url.includes("evil") || !url.endsWith("/v1/crl")) return null;
    await sleep(clock, 9_000);
    return Response.json({ crl: "no list" });
  };
  const names = Array.from({ length: 40 }, (_, n) => manyDomains(n));
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      for (const name of names) void issuers.of(name, EVE).crl.isRevoked("x").catch(() => {});
      await clock.advance(1_000);
    }
  };
  await pass(120);
  let answered = 0;
  for (let i = 0; i < 5; i++) {
    void issuers.of(`https://b${i}.example`, VICTIM).keys.current().then(() => answered++, () => {});
    await pass(4);
  }
  assertEquals(answered, 5);
});

Deno.test("a person with slow registries who names that of another person's visitors does not keep it from being asked", async () => {
  using slow = await slowOnes(manyDomains, EVE);
  const { issuers, flood } = slow, ask = (host: string) => issuers.of("https://b.example", host).keys.current();
  await flood(3_000);
  let answered = 0;
  for (let second = 0; second < 30; second++) {
    void ask(EVE).catch(() => {});
    if (second % 5 === 4) void ask(VICTIM).then(() => answered++, () => {});
    await flood(1_000);
  }
  assertEquals(answered > 0, true);
});

Deno.test("a registry that is refused a turn keeps none of the person whose visitor it is", async () => {
  using slow = await slowOnes(manyDomains, EVE);
  const { issuers, clock, b } = slow;
  b.answer = ({ url }) => url.includes("evil") && url.endsWith("/v1/crl") ? new Promise(() => {}) : null;
  const name = (n: number) => `https://r${n}.evil.example`;
  for (let n = 0; n < 4; n++) void issuers.of(name(n), EVE).crl.isRevoked("x").catch(() => {});
  await until(() => b.asked.filter((path) => path === "/v1/crl").length === 4);
  const refused = [4, 5, 6, 7].map((n) => issuers.of(name(n), VICTIM).keys.current().then(() => "asked", retryAfter));
  await flushTasks();
  await clock.advance(3_000);
  assertEquals(await Promise.all(refused), Array(4).fill("1"));
  assertEquals((await issuers.of("https://b.example", VICTIM).keys.current()).size, 1);
});

Deno.test("registries that worked before and no longer answer keep this server from asking no other one", async () => {
  using slow = await slowOnes(manyDomains, EVE);
  const { issuers, clock, b } = slow;
  const all = await Promise.all(Array.from({ length: 16 }, (_, n) => ForeignIssuer.open(clock, manyDomains(n), n)));
  b.answer = (request) => all.find(({ origin }) => request.url.startsWith(`${origin}/`))?.abroad.send(request) ?? null;
  const ask = () => all.map(({ origin }) => issuers.of(origin, EVE).crl.isRevoked("x"));
  assertEquals(new Set(await Promise.all(ask())), new Set([false]));
  b.answer = ({ url }) => url.includes("evil") ? new Promise(() => {}) : null;
  for (const ms of [61_000, 16_000]) {
    await clock.advance(ms);
    await Promise.all(ask());
    await flushTasks();
  }
  assertEquals((await issuers.of("https://b.example", VICTIM).keys.current()).size, 1);
});
