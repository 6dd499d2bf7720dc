/**
 * Shows the queue of changes (D-221): concurrent changes all succeed, share commits, take effect completely or not at
 * all, and wait for another instance for at most 5 s.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Changes } from "../../shared/server/store/changes.ts";
import { KEYS } from "../../registry/schema/kv_keys.ts";
import { fraction } from "../../shared/random.ts";
import { StoreUnavailable } from "../../shared/server/store/store_errors.ts";
import { TrustChanges } from "../../shared/server/store/trust_changes.ts";
import { BatchedReads, MAX_QUEUED_READS } from "../../shared/server/store/batched_reads.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import { ManualClock } from "../support/manual_clock.ts";
import { openRegistry, readCrl, tally, withTime } from "../support/registry_world.ts";
import { seededRandom } from "../support/seeded_random.ts";
import { MAX_CHECKS } from "../support/test_store.ts";
import { until } from "../support/until.ts";
import { AMPLE_QUOTAS } from "../support/world.ts";
import { owned } from "./steps.ts";

const AMPLE = { quotas: AMPLE_QUOTAS, apiKeyRequestsPerMinute: 100_000 };

function open(faulty: FaultyKv, maxChecks = MAX_CHECKS) {
  const clock = new ManualClock();
  const { kv } = faulty;
  const changes = new Changes({ kv, reads: new BatchedReads(kv), clock, random: seededRandom(), maxChecks });
  const count = (key: Deno.KvKey, more = 1) =>
    changes.run(async (draft) => {
      const { value } = await draft.get<number>(key);
      draft.set(key, (value ?? 0) + more);
      return (value ?? 0) + more;
    });
  return { clock, kv, changes, count };
}

Deno.test("40 concurrent reissues and deletions at two instances all succeed", async () => {
  await using w = await openRegistry({ registry: AMPLE });
  await using other = await openRegistry({ kv: w.kv, clock: w.clock, seed: 2, registry: AMPLE });
  const agents = await w.agents(20, await w.person());
  const rounds = [["POST", "/reissue", "200"], ["DELETE", "", "204"]] as const;
  for (const [method, what, wanted] of rounds) {
    const calls = agents.map((a, i) => owned(i % 2 ? w : other, method, a, what));
    assertEquals(await withTime(w, tally(calls), 5), { [wanted]: 20 });
  }
  const { seq, revocations } = await withTime(w, readCrl(w), 100);
  assertEquals([seq, revocations.length], [40, 40]);
});

Deno.test("a thousand changes at once leave room for other reads, also before the first revocation", async () => {
  await using w = await openRegistry({ registry: AMPLE });
  const { crl, reads } = w.registry.deps;
  const fills = Array.from({ length: MAX_QUEUED_READS }, () => crl.fill());
  assertEquals((await reads.get(KEYS.crlHead())).value, null);
  assertEquals(new Set(await Promise.all(fills)), new Set([0]));
});

Deno.test("revocations succeed when four of five of their commits conflict with another instance", async () => {
  using faulty = await FaultyKv.open();
  await using w = await openRegistry({ kv: faulty.kv, registry: AMPLE });
  const agents = await w.agents(15, await w.person());
  const random = seededRandom(3);
  faulty.faults = { conflicts: ({ keys }) => keys.some((key) => key[1] === "crl_head") && fraction(random) < 0.8 };
  for (const a of agents) assertEquals(await withTime(w, tally([owned(w, "POST", a, "/reissue")]), 50), { "200": 1 });
});

Deno.test("changes that wait share a commit, and each sees the earlier ones", async () => {
  using faulty = await FaultyKv.open();
  const { count } = open(faulty);
  let commits = 0;
  faulty.faults = { before: ({ method }) => void (commits += method === "commit" ? 1 : 0) };
  const results = await Promise.all(Array.from({ length: 50 }, () => count(["n"])));
  assertEquals(results, Array.from({ length: 50 }, (_, i) => i + 1));
  assertEquals(commits, 2);
});

Deno.test("agents whose deletions share a commit are all announced", async () => {
  await using w = await openRegistry({ registry: AMPLE });
  const agents = await w.agents(5, await w.person());
  const announced: string[] = [];
  const trust = new TrustChanges({ ...w, log: () => {} }, (agentDids) => announced.push(...agentDids));
  await trust.start();
  assertEquals(await tally(agents.map((a) => owned(w, "DELETE", a))), { "204": 5 });
  await until(() => announced.length >= agents.length);
  trust.stop();
  assertEquals(announced.toSorted(), agents.map(({ agent }) => agent.did).toSorted());
});

Deno.test("a new signing key is announced, although it concerns no agent", async () => {
  await using w = await openRegistry();
  const announced: string[][] = [];
  const trust = new TrustChanges({ ...w, log: () => {} }, (agentDids) => announced.push(agentDids));
  await trust.start();
  const { apiKey } = await w.admin();
  assertEquals(await tally([w.ask("POST", "/v1/admin/keys/rotate", { apiKey })]), { "200": 1 });
  await until(() => announced.length > 0);
  trust.stop();
  assertEquals(announced, [[]]);
});

Deno.test("a change that throws writes nothing, and the other changes of its commit take effect", async () => {
  using faulty = await FaultyKv.open();
  const { kv, changes, count } = open(faulty);
  const failing = changes.run(async (draft) => {
    await draft.get(["n"]);
    draft.set(["n"], 100);
    draft.also((operation) => operation.set(["trace"], 1));
    throw new RangeError("no");
  });
  const [one, , three] = await Promise.allSettled([count(["n"]), failing, count(["n"])]);
  await assertRejects(() => failing, RangeError);
  assertEquals([one, three].map((end) => end.status === "fulfilled" && end.value), [1, 2]);
  assertEquals([(await kv.get(["n"])).value, (await kv.get(["trace"])).value], [2, null]);
});

Deno.test("a change that writes nothing commits nothing", async () => {
  using faulty = await FaultyKv.open();
  const { changes } = open(faulty);
  faulty.faults = { fails: ({ method }) => method === "commit" };
  assertEquals(await changes.run(async (draft) => (await draft.get(["n"])).value), null);
});

Deno.test("records that changes name are read in as few calls as possible, and each change sees the earlier ones", async () => {
  using faulty = await FaultyKv.open();
  const { kv, changes } = open(faulty);
  const calls: string[] = [];
  faulty.faults = { before: ({ method }) => void calls.push(method) };
  const count = (key: Deno.KvKey) =>
    changes.run(async (draft) => {
      const { value } = await draft.get<number>(key);
      draft.set(key, (value ?? 0) + 1);
    }, [key]);
  await Promise.all(Array.from({ length: 20 }, (_, i) => count(["n", i % 10])));
  assertEquals(calls, ["getMany", "getMany", "commit"]);
  assertEquals((await kv.getMany([["n", 0], ["n", 9]])).map(({ value }) => value), [2, 2]);
});

Deno.test("a commit holds no more checks than the store accepts", async () => {
  using faulty = await FaultyKv.open({ maxChecks: 10 });
  const { kv, count } = open(faulty, 10);
  await Promise.all(Array.from({ length: 35 }, (_, i) => count(["n", i])));
  assertEquals((await Array.fromAsync(kv.list({ prefix: ["n"] }))).length, 35);
  assertEquals(faulty.mostChecks, 10);
});

Deno.test("a change is retried for 5 s when it conflicts with other instances, then refused without a write", async () => {
  using faulty = await FaultyKv.open();
  const { clock, kv, count } = open(faulty);
  const began = clock.now();
  const until = async (ms: number, work: Promise<unknown>) => {
    let done = false;
    work.catch(() => {}).finally(() => done = true);
    faulty.faults = { conflicts: () => clock.now() < began + ms };
    while (!done) await clock.advance(100);
  };
  const first = count(["n"]);
  await until(4_900, first);
  assertEquals(await first, 1);
  const second = count(["n"]);
  await until(60_000, second);
  await assertRejects(() => second, StoreUnavailable);
  assert(clock.now() - began < 11_000);
  assertEquals((await kv.get(["n"])).value, 1);
});

Deno.test("a commit whose outcome the store does not report fails all its changes", async () => {
  using faulty = await FaultyKv.open();
  const { count } = open(faulty);
  faulty.faults = { fails: ({ method }) => method === "commit" };
  const ends = await Promise.allSettled([count(["n"]), count(["m"])]);
  assertEquals(ends.map((end) => end.status === "rejected" && end.reason instanceof StoreUnavailable), [true, true]);
  faulty.faults = {};
  assertEquals(await count(["n"]), 1);
});

Deno.test("the queue refuses a change when 10,000 wait, and a change that has waited over 10 s", async () => {
  using faulty = await FaultyKv.open();
  const { clock, changes } = open(faulty);
  const gate = Promise.withResolvers<void>();
  const nothing = () => Promise.resolve();
  const held = changes.run(() => gate.promise);
  const begun = Array.from({ length: 24 }, () => changes.run(nothing));
  await Promise.resolve();
  const waiting = Array.from({ length: 10_000 }, () => changes.run(nothing));
  await assertRejects(() => changes.run(nothing), StoreUnavailable, "Too many others");
  clock.step(10_001);
  gate.resolve();
  await Promise.all([held, ...begun]);
  const ends = await Promise.allSettled(waiting);
  assertEquals(ends.filter(({ status }) => status === "rejected").length, 10_000);
  await changes.run(nothing);
});

Deno.test("every change ends within 15 s while the store commits nothing, and changes succeed after it commits again", async () => {
  const clock = new ManualClock();
  using faulty = await FaultyKv.open({}, 1, clock);
  await using w = await openRegistry({ kv: faulty.kv, clock, registry: AMPLE });
  const owner = await w.person();
  const create = (name: string) => w.ask("POST", "/v1/me/api-keys", { apiKey: owner.apiKey, body: { name } });
  // The windows of rate limits are counted before the changes, in commits of their own.
  faulty.faults.before = ({ method, keys }) =>
    method === "commit" && keys.some((key) => key[1] === "quota") ? new Promise<void>(() => {}) : undefined;
  const began = clock.now();
  const waiting = tally(Array.from({ length: 20 }, (_, i) => create(`key-${i}`)));
  assertEquals(await withTime(w, waiting, 500), { "503 SERVICE_UNAVAILABLE": 20 });
  assert(clock.now() - began <= 15_000, `${clock.now() - began} ms`);
  delete faulty.faults.before;
  assertEquals((await withTime(w, create("after"), 500)).status, 201);
});

Deno.test("a head that does not parse refuses a revocation instead of starting over", async () => {
  await using w = await openRegistry();
  const a = await w.agent();
  await w.kv.set(KEYS.crlHead(), { seq: "x" });
  assertEquals(await tally([owned(w, "DELETE", a)]), { "500 INTERNAL_ERROR": 1 });
  assertEquals((await w.kv.get(KEYS.revocation(a.agent.currentJti))).value, null);
});
