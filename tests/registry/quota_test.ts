/**
 * Shows the quotas of one human (D-210): the answer of each, that a refusal changes nothing, that they hold for
 * concurrent requests and over instances.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../registry/schema/kv_keys.ts";
import type { Quotas } from "../../registry/config.ts";
import { countRegistration, newQuota } from "../../registry/quota.ts";
import type { QuotaRecord } from "../../registry/schema/records.ts";
import { type KeyPair, keyPairFromSeed } from "../../shared/protocol/ed25519.ts";
import { ServiceError } from "../../shared/protocol/errors.ts";
import { unixSeconds } from "../../shared/protocol/time.ts";
import { answered, openRegistry, outcome, refused, tally, withTime, writeRecords } from "../support/registry_world.ts";
import { stampsOf } from "../support/each_fault.ts";
import { AMPLE_QUOTAS, type Person, type TestAgent, type World } from "../support/world.ts";
import { owned, registration } from "./steps.ts";

const DAY_MS = 86_400_000;
const OVER = "409 QUOTA_EXCEEDED", RATE = "429 RATE_LIMIT_EXCEEDED";

const openWith = (quotas: Partial<Quotas>, more: { kv?: Deno.Kv; seed?: number } = {}) =>
  openRegistry({ registry: { quotas: { ...AMPLE_QUOTAS, ...quotas } }, ...more });

async function challenge(w: World, { apiKey }: Person, { publicKey }: KeyPair): Promise<Response> {
  return await w.ask("POST", "/v1/agents/challenge", { apiKey, body: { publicKey } });
}

const register = async (w: World, owner: Person) => await (await registration(w, owner))();
const reissue = (w: World, a: TestAgent) => owned(w, "POST", a, "/reissue");

const snapshot = (w: World) => stampsOf(w, "window", "commit_mark");

/** Asserts that a call is refused with this code, and that only the rate limit's records change. */
async function refusedWithoutTrace(w: World, wanted: string, call: () => Promise<Response>): Promise<Response> {
  const before = await snapshot(w);
  const answer = await call();
  assertEquals(await outcome(answer.clone()), wanted);
  assertEquals(await snapshot(w), before);
  return answer;
}

const quotaOf = async (w: World, { id }: Person) => (await w.kv.get<QuotaRecord>(KEYS.quota(id))).value;

Deno.test("registration is refused when the human has its active agents, and allowed after a deletion", async () => {
  await using w = await openWith({ agents: 2 });
  const owner = await w.person();
  const a = await w.agent(owner);
  await w.agent(owner);
  const third = await registration(w, owner);
  await refusedWithoutTrace(w, OVER, third);
  await answered(await owned(w, "DELETE", a), 204);
  // The refusal did not use up the challenge.
  await answered(await third(), 201);
  await w.agent(await w.person());
});

Deno.test("an API key is refused when the human has its active keys, and allowed after a revocation", async () => {
  await using w = await openWith({ apiKeys: 2 });
  const { apiKey } = await w.person();
  const create = () => w.ask("POST", "/v1/me/api-keys", { apiKey });
  const { apiKey: { id } } = await answered<{ apiKey: { id: string } }>(await create(), 201);
  await refusedWithoutTrace(w, OVER, create);
  const revoke = () => w.ask("DELETE", `/v1/me/api-keys/${id}`, { apiKey });
  await answered(await revoke(), 204);
  await answered(await revoke(), 204);
  await answered(await create(), 201);
  await refused(await create(), "QUOTA_EXCEEDED");
});

Deno.test("creating API keys is limited to 100 in 24 h, also when each is revoked at once", async () => {
  await using w = await openWith({});
  const { apiKey } = await w.person();
  const create = () => w.ask("POST", "/v1/me/api-keys", { apiKey });
  for (let i = 0; i < 100; i++) {
    const { apiKey: { id } } = await answered<{ apiKey: { id: string } }>(await create(), 201);
    await answered(await w.ask("DELETE", `/v1/me/api-keys/${id}`, { apiKey }), 204);
  }
  const refusal = await refusedWithoutTrace(w, "429 RATE_LIMIT_EXCEEDED", create);
  assertEquals(refusal.headers.get("retry-after"), "86400");
  await w.clock.advance(86_400_000);
  await answered(await create(), 201);
});

Deno.test("a challenge is refused when the human has its open ones, until one is answered or expires", async () => {
  await using w = await openWith({ challenges: 3 });
  const owner = await w.person();
  const keys = await keyPairFromSeed(w.random.bytes(32));
  const first = await registration(w, owner);
  for (let i = 0; i < 2; i++) await answered(await challenge(w, owner, keys), 201);
  await refusedWithoutTrace(w, OVER, () => challenge(w, owner, keys));
  await answered(await first(), 201);
  await answered(await challenge(w, owner, keys), 201);
  await refused(await challenge(w, owner, keys), "QUOTA_EXCEEDED");
  await w.clock.advance(306_000);
  await answered(await challenge(w, owner, keys), 201);
});

Deno.test("the counts of a human with 200 open challenges hold few times, and none of those that are over", async () => {
  await using w = await openWith({});
  const owner = await w.person();
  const keys = await keyPairFromSeed(w.random.bytes(32));
  const times = async () => (await quotaOf(w, owner))?.challenges.length ?? 0;
  for (let i = 0; i < 200; i++) {
    await answered(await challenge(w, owner, keys), 201);
    await w.clock.advance(300);
  }
  assert(await times() <= 61, String(await times()));
  await w.clock.advance(306_000);
  await answered(await challenge(w, owner, keys), 201);
  assertEquals(await times(), 1);
});

Deno.test("registrations in 24 h are limited, and Retry-After says when the next one is allowed", async () => {
  await using w = await openWith({ registrationsPerDay: 3 });
  const owner = await w.person();
  for (let i = 0; i < 3; i++) {
    await answered(await register(w, owner), 201);
    await w.clock.advance(3_600_000);
  }
  // A part of a second counts as a whole one, because who comes back sooner would be refused again.
  await w.clock.advance(400);
  const answer = await refusedWithoutTrace(w, RATE, await registration(w, owner));
  const seconds = Number(answer.headers.get("retry-after"));
  assertEquals(seconds * 1000, DAY_MS - 3 * 3_600_000);
  await w.clock.advance(seconds * 1000 - 401);
  await refused(await register(w, owner), "RATE_LIMIT_EXCEEDED");
  await w.clock.advance(1);
  await answered(await register(w, owner), 201);
});

Deno.test("reissues in 24 h are limited per agent and per human", async () => {
  await using w = await openWith({ agentReissuesPerDay: 2, reissuesPerDay: 3 });
  const owner = await w.person();
  const [a, b] = [await w.agent(owner), await w.agent(owner)];
  for (let i = 0; i < 2; i++) await answered(await reissue(w, a));
  const answer = await refusedWithoutTrace(w, RATE, () => reissue(w, a));
  assert(answer.headers.get("retry-after"));
  await answered(await reissue(w, b));
  await refusedWithoutTrace(w, RATE, () => reissue(w, b));
  await answered(await reissue(w, await w.agent()));
  // A quota never refuses a deletion or revocation.
  await answered(await owned(w, "DELETE", a, "/auth/revoke"), 204);
  await answered(await owned(w, "DELETE", a), 204);
  await w.clock.advance(DAY_MS);
  const { agent } = await answered<{ agent: Record<string, unknown> }>(await reissue(w, b));
  assertEquals("reissues" in agent, false);
});

Deno.test("live revocation entries refuse registration and reissue, not deletion, until they leave the list", async () => {
  await using w = await openWith({ revocations: 3 });
  const owner = await w.person();
  const agents = await w.agents(3, owner);
  for (const a of agents) await answered(await reissue(w, a));
  const [a] = agents as [TestAgent];
  await refusedWithoutTrace(w, OVER, () => reissue(w, a));
  await refusedWithoutTrace(w, OVER, await registration(w, owner));
  await answered(await owned(w, "DELETE", a), 204);
  await answered(await reissue(w, await w.agent()));
  await w.clock.advance(32 * DAY_MS);
  await answered(await register(w, owner), 201);
});

Deno.test("an invite is refused when the admin has 1,000 open ones, until one is redeemed, deleted or expires", async () => {
  await using w = await openWith({});
  const { apiKey, id } = await w.admin();
  const invite = (expiresAt: string | null = null) => w.ask("POST", "/v1/invites", { apiKey, body: { expiresAt } });
  const made = await answered<{ invite: { id: string; code: string } }>(await invite(), 201);
  const other = await answered<{ invite: { id: string } }>(await invite(), 201);
  const expiring = new Date(w.clock.now() + 3_600_000).toISOString();
  const ended = await answered<{ invite: { id: string } }>(await invite(expiring), 201);
  // As if there were 997 more invites.
  const record = await quotaOf(w, { id, did: "", apiKey });
  assert(record);
  const full = record.invites.map(([until, count]) => [until, count === 2 ? 999 : count] as const);
  await w.kv.set(KEYS.quota(id), { ...record, invites: full });
  await refusedWithoutTrace(w, OVER, () => invite());
  await answered(await w.ask("POST", "/v1/invites/redeem", { body: { code: made.invite.code } }), 201);
  await answered(await invite(), 201);
  await refused(await invite(), "QUOTA_EXCEEDED");
  await answered(await w.ask("DELETE", `/v1/invites/${other.invite.id}`, { apiKey }), 204);
  await answered(await invite(), 201);
  await refused(await invite(), "QUOTA_EXCEEDED");
  await w.clock.advance(2 * 3_600_000);
  await answered(await invite(), 201);
  await answered(await w.ask("DELETE", `/v1/invites/${ended.invite.id}`, { apiKey }), 204);
  await refused(await invite(), "QUOTA_EXCEEDED");
});

Deno.test("exactly the quota of many concurrent requests passes at two instances", async () => {
  await using w = await openWith({ agents: 5, apiKeys: 4 });
  await using other = await openWith({ agents: 5, apiKeys: 4 }, { kv: w.kv, seed: 2 });
  const owner = await w.person();
  const calls: (() => Promise<Response>)[] = [];
  for (let i = 0; i < 12; i++) calls.push(await registration(i % 2 ? w : other, owner));
  const bothClocks = async <T>(work: Promise<T>) => await withTime(other, withTime(w, work, 20), 20);
  assertEquals(await bothClocks(tally(calls.map((call) => call()))), { "201": 5, [OVER]: 7 });
  const { apiKey } = owner;
  const keys = Array.from({ length: 20 }, (_, i) => (i % 2 ? w : other).ask("POST", "/v1/me/api-keys", { apiKey }));
  assertEquals(await bothClocks(tally(keys)), { "201": 3, [OVER]: 17 });
  const { agents, apiKeys } = await quotaOf(w, owner) ?? {};
  assertEquals([agents, apiKeys], [5, 4]);
});

Deno.test("the cost of a registration does not depend on the number of agents", async () => {
  await using w = await openWith({});
  const owner = await w.person();
  const readsOfOne = async () => {
    const call = await registration(w, owner);
    const { get, getMany, list } = w.kv;
    let reads = 0;
    w.kv.get = ((...args: Parameters<typeof get>) => (reads++, get.apply(w.kv, args))) as typeof get;
    w.kv.getMany =
      ((...args: Parameters<typeof getMany>) => (reads += args[0].length, getMany.apply(w.kv, args))) as typeof getMany;
    w.kv.list = ((...args: Parameters<typeof list>) => (reads += 1000, list.apply(w.kv, args))) as typeof list;
    await answered(await call(), 201);
    Object.assign(w.kv, { get, getMany, list });
    return reads;
  };
  await w.agent(owner);
  const few = await readsOfOne();
  for (let i = 0; i < 10; i++) await w.agent(owner);
  assertEquals(await readsOfOne(), few);
});

/** Fills the list up to a number of bytes, with entries of agents that do not exist. */
async function fillList(w: World, listBytes: number): Promise<void> {
  const now = unixSeconds(w.clock.now());
  // The longest possible authority, so that few entries fill the list.
  const authority = `${"x".repeat(60)}.${"x".repeat(58)}`;
  const prefix = `did:svc:${authority}:agent:`;
  const entry = { jti: w.newId(), agentDid: prefix + w.newId(), reason: "reissued", revokedAt: now };
  const bytes = (JSON.stringify(entry).length + 1) * 4 / 3;
  const count = Math.ceil(listBytes / bytes);
  await writeRecords(w, count, (operation) => {
    const jti = w.newId();
    const agentDid = prefix + w.newId();
    operation.set(KEYS.revocation(jti), { jti, agentDid, reason: "reissued", revokedAt: now, keptUntil: now + 7200 });
  });
  await w.kv.set(KEYS.crlHead(), { seq: count });
}

Deno.test("a list that is 80 % full refuses humans with over 100 live entries, is in /health and in the log", async () => {
  const crlBytes = 100_000;
  await using w = await openRegistry({ registry: { quotas: AMPLE_QUOTAS }, crlBytes });
  const [many, few] = [await w.agent(), await w.agent()];
  const record = await quotaOf(w, many.owner);
  assert(record);
  await w.kv.set(KEYS.quota(many.owner.id), { ...record, revocations: [[w.clock.now() + DAY_MS, 101]] });
  await w.kv.set(KEYS.quota(few.owner.id), { ...record, revocations: [[w.clock.now() + DAY_MS, 3]] });
  assertEquals((await answered<{ crlFill: number }>(await w.ask("GET", "/health"))).crlFill, 0);
  await fillList(w, crlBytes * 0.81);
  // No proxy has fetched the list since.
  const { crlFill } = await answered<{ crlFill: number }>(await w.ask("GET", "/health"));
  assert(crlFill >= 0.8 && crlFill < 1, String(crlFill));
  assertEquals(crlFill, Math.round(crlFill * 100) / 100);
  const warnings = () => w.log.filter(({ event }) => event === "crl_filling");
  assertEquals(warnings().map(({ level, fields }) => [level, fields.humans]), [
    ["warn", [{ humanId: many.owner.id, entries: 101 }, { humanId: few.owner.id, entries: 3 }]],
  ]);
  const answer = await refusedWithoutTrace(w, RATE, () => reissue(w, many));
  assert(answer.headers.get("retry-after"));
  await refusedWithoutTrace(w, RATE, await registration(w, many.owner));
  await answered(await reissue(w, few));
  await answered(await owned(w, "DELETE", many), 204);
});

Deno.test("from 80 % of the revocation list on, an account with more than 100 entries is asked to wait an hour", () => {
  const now = 1_771_632_060_000, quotas = { ...AMPLE_QUOTAS, revocations: 1_000 };
  const register = (live: number, crlFill: number) => {
    const quota = newQuota({ revocations: [[now, 500], [now + 1, live]] });
    try {
      return countRegistration(quota, now, { quotas, crlFill, now }).agents;
    } catch (error) {
      assert(error instanceof ServiceError);
      return `${error.code} ${error.headers?.["Retry-After"] ?? ""}`;
    }
  };
  const wait = "RATE_LIMIT_EXCEEDED 3600";
  assertEquals([register(101, 0.8), register(100, 0.8), register(101, 0.7999), register(100, 1)], [wait, 1, 1, 1]);
  assertEquals([register(999, 0), register(1_000, 0)], [1, "QUOTA_EXCEEDED "]);
});
