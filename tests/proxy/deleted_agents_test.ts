/**
 * Shows how the pairs of a deleted agent are removed: with the revocation list that names it, in small commits, by any
 * instance, once, also after a crash in the middle.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../proxy/schema/kv_keys.ts";
import type { PairCount } from "../../proxy/schema/records.ts";
import { PairRemoval } from "../../proxy/trust/deleted_agents.ts";
import { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import { Changes } from "../../shared/server/store/changes.ts";
import { DAY_MS } from "../../shared/clock.ts";
import { formatDid } from "../../shared/protocol/did.ts";
import { FaultyKv, type KvCall } from "../support/faulty_kv.ts";
import { ManualClock } from "../support/manual_clock.ts";
import { countOf, outcome } from "../support/registry_world.ts";
import { seededRandom } from "../support/seeded_random.ts";
import { openProxy, PROFILE } from "./proxy_world.ts";
import { until } from "../support/until.ts";
import { MAX_CHECKS, openTestKv } from "../support/test_store.ts";

const didOf = (n: number) =>
  formatDid({ authority: "registry.example.test", kind: "agent", id: `01KHYQ5H00${String(n).padStart(16, "0")}` });
const GONE = didOf(0);
const DELETED_AT = 1_000_000;

async function makePairs(kv: Deno.Kv, agentDid: string, from: number, count: number): Promise<void> {
  for (let i = from; i < from + count; i++) {
    const record = { peerProfile: PROFILE, pairedAt: 0, ticketId: "t" };
    await kv.atomic().set(KEYS.pair(agentDid, didOf(i)), record).set(KEYS.pair(didOf(i), agentDid), record).commit();
  }
}

async function pairsLeft(kv: Deno.Kv): Promise<number> {
  return (await Array.fromAsync(kv.list({ prefix: KEYS.pairs("x").slice(0, -1) }))).length;
}

interface Setting {
  kv: Deno.Kv;
  clock?: ManualClock;
  maxChecks?: number;
}

/** An instance whose revocation list the test sets. */
function instance({ kv, clock = new ManualClock(), maxChecks = MAX_CHECKS }: Setting) {
  const events: string[] = [];
  const crl = { deletedAgents: new Map<string, number>() as ReadonlyMap<string, number> };
  const log = (_level: string, event: string) => void events.push(event);
  const changes = new Changes({ kv, reads: new BatchedReads(kv), clock, random: seededRandom(), maxChecks });
  const mailbox = { after: () => Promise.resolve([]), deadLetter: () => Promise.reject(new Error("nothing waits")) };
  const removal = new PairRemoval({ kv, clock, changes, mailbox, log, crl });
  return {
    clock,
    events,
    removal,
    list(...entries: [string, number][]): Promise<void> {
      crl.deletedAgents = new Map(entries);
      return removal.listed();
    },
  };
}

/** Counts the calls that reach the store. */
async function watched(): Promise<{ store: FaultyKv; calls: KvCall[] }> {
  const calls: KvCall[] = [];
  const store = await FaultyKv.open({ before: (call) => void calls.push(call) });
  return { store, calls };
}

Deno.test("the pairs of a deleted agent are removed with the list that names it, and a send to it is refused", async () => {
  await using w = await openProxy();
  const [a, b, c] = [await w.agent(), await w.agent(), await w.agent()];
  await w.pair(a, b);
  await w.pair(a, c);
  await w.proxy.start({ isSole: true });
  await w.client.deleteAgent(b.owner.apiKey, b.agent.id);
  await w.clock.advance(2_000);
  await until(async () => await pairsLeft(w.kv) <= 2);
  assertEquals(await pairsLeft(w.kv), 2);
  assertEquals((await w.kv.get<PairCount>(KEYS.pairCount(a.agent.did))).value?.pairs, 1);
  await until(async () => (await w.kv.get<PairCount>(KEYS.pairCount(b.agent.did))).value === null);
  assertEquals(await outcome(await w.message(a, b)), "403 PROXY_AUTH_FORBIDDEN");
  w.connect(c);
  assertEquals(await outcome(await w.message(a, c)), "202");
});

Deno.test("an agent whose identity token has expired is deleted like any other: its pairs end", async () => {
  await using w = await openProxy();
  const a = await w.agent(), b = await w.agent(undefined, undefined, undefined, { ttlDays: 1 });
  await w.pair(a, b);
  w.clock.step(2 * DAY_MS);
  await w.proxy.start({ isSole: true });
  await w.client.deleteAgent(b.owner.apiKey, b.agent.id);
  await w.clock.advance(2_000);
  await until(async () => await pairsLeft(w.kv) === 0);
  assertEquals(await w.kv.get(KEYS.pairCount(a.agent.did)).then(({ value }) => value), null);
});

Deno.test("what waits for a deleted agent is dead-lettered with the list that names it, and leaves no record", async () => {
  await using w = await openProxy();
  const [a, b, c] = [await w.agent(), await w.agent(), await w.agent()];
  for (const sender of [a, c]) await w.pair(sender, b);
  await w.pair(a, c);
  const socket = w.connect(a);
  await w.proxy.start({ isSole: true });
  const sent = [];
  for (let i = 0; i < 30; i++) {
    const answer = await w.message(i % 2 === 0 ? a : c, b, { headers: { Prefer: "respond-async" } });
    sent.push((await answer.json()).requestId);
  }
  await w.client.deleteAgent(b.owner.apiKey, b.agent.id);
  await w.clock.advance(2_000);
  await until(async () => await countOf(w, ["proxy", "mailbox"]) === 0);
  for (const part of ["mailbox_part", "mailbox_expiry", "mailbox_bytes"]) {
    assertEquals(await countOf(w, ["proxy", part]), 0, part);
  }
  assertEquals(await countOf(w, ["proxy", "receipt"]), 30);
  const { receipts } = await a.client.receipts(sent[0], b.agent.did);
  assertEquals(receipts.map(({ status }) => status), ["dead_lettered"]);
  await until(() => socket.frames.filter(({ type }) => type === "delivery").length === 15);
});

Deno.test("a send to a deleted agent is refused while its pair is still stored", async () => {
  await using w = await openProxy();
  const { a, b } = await w.pairedAgents();
  const { key, value } = await w.kv.get(KEYS.pair(a.agent.did, b.agent.did));
  await w.client.deleteAgent(b.owner.apiKey, b.agent.id);
  await w.proxy.deps.crl.refreshAgain();
  await until(async () => await pairsLeft(w.kv) === 0);
  await w.kv.set(key, value);
  assertEquals(await outcome(await w.message(a, b)), "403 PROXY_AUTH_FORBIDDEN");
});

Deno.test("a message to an agent is refused directly after the 204 of its deletion", async () => {
  await using w = await openProxy({ sharedProcess: true });
  const { a, b } = await w.pairedAgents();
  const queued = { headers: { Prefer: "respond-async" } };
  assertEquals(await outcome(await w.message(a, b, queued)), "202");
  assertEquals((await w.ask("DELETE", `/v1/agents/${b.agent.id}`, b.owner)).status, 204);
  assertEquals(await outcome(await w.message(a, b, queued)), "403 PROXY_AUTH_FORBIDDEN");
});

Deno.test("a list that is installed as the work on another one ends is worked off", async () => {
  for (let turns = 0; turns < 10; turns++) {
    using kv = await openTestKv();
    await makePairs(kv, GONE, 1, 2);
    const { list } = instance({ kv });
    void list();
    for (let i = 0; i < turns; i++) await Promise.resolve();
    await list([GONE, DELETED_AT]);
    assertEquals(await pairsLeft(kv), 0, `after ${turns} turns`);
  }
});

Deno.test("many pairs are removed in commits of at most 25 pairs and as many checks as the store allows", async (t) => {
  for (const [maxChecks, most] of [[100, 4], [10, 29]] as const) {
    if (maxChecks > MAX_CHECKS) continue;
    await t.step(`${maxChecks} checks`, async () => {
      const { store, calls } = await watched();
      using _ = store;
      await makePairs(store.kv, GONE, 1, 80);
      await makePairs(store.kv, didOf(1), 1_000, 1);
      calls.length = 0;
      await instance({ kv: store.kv, maxChecks }).list([GONE, DELETED_AT]);
      assertEquals(await pairsLeft(store.kv), 2);
      const commits = calls.filter((call) => call.method === "commit");
      assertEquals(commits.length, most);
      assert(store.mostChecks <= maxChecks);
    });
  }
});

Deno.test("pairs are removed once when several instances and a peer work at the same time", async () => {
  using kv = await openTestKv();
  await makePairs(kv, GONE, 1, 60);
  for (let i = 1; i <= 60; i++) await kv.set(KEYS.pairCount(didOf(i)), { pairs: 3 });
  const clock = new ManualClock();
  const instances = [instance({ kv, clock }), instance({ kv, clock }), instance({ kv, clock })];
  let running = true;
  const all = Promise.all(instances.map((one) => one.list([GONE, DELETED_AT]))).finally(() => running = false);
  while (running) await clock.advance(100);
  await all;
  assertEquals(await pairsLeft(kv), 0);
  for (let i = 1; i <= 60; i++) {
    assertEquals((await kv.get<PairCount>(KEYS.pairCount(didOf(i)))).value, { pairs: 2 }, `peer ${i}`);
  }
});

Deno.test("the removal resumes when the store failed or the instance crashed", async () => {
  const { store, calls } = await watched();
  using _ = store;
  await makePairs(store.kv, GONE, 1, 120);
  const failing = instance({ kv: store.kv });
  let commits = 0;
  store.faults.fails = (call) => call.method === "commit" && ++commits === 2;
  const removing = failing.list([GONE, DELETED_AT]);
  await until(() => failing.events.includes("pair_removal_failed"));
  const left = await pairsLeft(store.kv);
  assert(left > 0 && left < 240, `${left} of 240`);
  failing.removal.stop();
  await removing;
  assertEquals((await store.kv.get(KEYS.pairsEnded())).value, null, "the list is not processed completely");
  // Every commit, because those of the first instance that are still under way would take the place of a single one.
  store.faults.fails = (call) => call.method === "commit";
  const next = instance({ kv: store.kv });
  const again = next.list([GONE, DELETED_AT]);
  await until(() => next.events.includes("pair_removal_failed"));
  store.faults.fails = () => false;
  await next.clock.advance(1_000);
  await again;
  assertEquals(await pairsLeft(store.kv), 0);
  assertEquals((await store.kv.get(KEYS.pairsEnded())).value, DELETED_AT);
  // The next list costs one read for each agent that is new on it; a start rereads those of the last hour.
  calls.length = 0;
  await next.list([GONE, DELETED_AT], [didOf(500), DELETED_AT + 10_000]);
  assertEquals(calls.filter((call) => call.method === "list").length, 1);
  calls.length = 0;
  await instance({ kv: store.kv }).list([GONE, DELETED_AT], [didOf(500), DELETED_AT + 10_000]);
  assertEquals(calls.filter((call) => call.method === "list").length, 1);
});

Deno.test("a removal that a stop interrupts is finished after the next start, also beside a much newer deletion", async () => {
  using store = await FaultyKv.open();
  const { kv } = store, stopping = instance({ kv }), entries: [string, number][] = [];
  entries.push([didOf(500), DELETED_AT], [GONE, DELETED_AT - 7_200]);
  await makePairs(kv, GONE, 1, 60);
  store.faults.before = ({ method }) => {
    if (method === "commit") stopping.removal.stop();
  };
  await stopping.list(...entries);
  store.faults = {};
  assert(await pairsLeft(kv) > 0);
  await instance({ kv }).list(...entries);
  assertEquals(await pairsLeft(kv), 0);
});

Deno.test("a pair that is confirmed during the deletion is removed a minute later, or once the store is back", async () => {
  using store = await FaultyKv.open();
  const { kv } = store, one = instance({ kv });
  const now = Math.floor(one.clock.now() / 1000);
  await one.list([GONE, now]);
  await makePairs(kv, GONE, 1, 1);
  await one.list([GONE, now]);
  assertEquals(await pairsLeft(kv), 2);
  store.faults.fails = ({ method }) => method === "commit";
  await one.clock.advance(60_000);
  await until(() => one.events.includes("pair_removal_failed"));
  store.faults = {};
  await one.clock.advance(60_000);
  await until(async () => await pairsLeft(kv) === 0);
  assertEquals(await pairsLeft(kv), 0);
  one.removal.stop();
  assertEquals(one.clock.waiting, 0);
});

Deno.test("pairs of agents with the longest DIDs fit into the commits that remove them", async () => {
  using kv = await openTestKv();
  const label = "a".repeat(61);
  const longOf = (n: number) =>
    formatDid({
      authority: `${label}.${label}.${label}.${label}`,
      kind: "agent",
      id: `01KHYQ5H00${String(n).padStart(16, "0")}`,
    });
  for (let i = 1; i <= 60; i++) {
    const record = { peerProfile: PROFILE, pairedAt: 0 };
    await kv.atomic().set(KEYS.pair(longOf(0), longOf(i)), record).set(KEYS.pair(longOf(i), longOf(0)), record)
      .commit();
  }
  await instance({ kv }).list([longOf(0), DELETED_AT]);
  assertEquals(await pairsLeft(kv), 0);
});

Deno.test("a start repeats the hour before the last deletion, and none is skipped by a registry's clock that is ahead", async () => {
  using kv = await openTestKv();
  const now = Math.floor(new ManualClock().now() / 1000);
  await instance({ kv }).list([didOf(500), now + 86_400]);
  assertEquals((await kv.get(KEYS.pairsEnded())).value, now);
  for (const [ago, left] of [[3_600, 0], [3_601, 2]] as const) {
    await makePairs(kv, GONE, 1, 1);
    await instance({ kv }).list([GONE, now - ago]);
    assertEquals(await pairsLeft(kv), left);
  }
});

Deno.test("an agent that was deleted up to an hour ago is looked at again, and its last connection is forgotten", async () => {
  using kv = await openTestKv();
  const one = instance({ kv }), now = Math.floor(one.clock.now() / 1000), { key } = await kv.get(KEYS.seen(GONE));
  await kv.set(key, { instance: "one", connectedAt: 0, disconnectedAt: null });
  await one.list([GONE, now - 3_599]);
  assertEquals((await kv.get(key)).value, null);
  await makePairs(kv, GONE, 1, 1);
  await one.clock.advance(60_000);
  await until(async () => await pairsLeft(kv) === 0);
});

Deno.test("a list of another registry that the store cannot work off is logged, and ends nothing", async () => {
  using store = await FaultyKv.open();
  const one = instance({ kv: store.kv });
  store.faults.fails = ({ method }) => method === "list";
  await one.removal.visitorsListed("b.example", new Map());
  assertEquals(one.events, ["pair_removal_failed"]);
});
