/** Shows how an agent's presence moves between instances: one commit with its writes. */
import { connectRequest } from "../../support/connect_request.ts";
import { assertEquals, assertRejects } from "@std/assert";
import { InstanceLeases } from "../../../proxy/relay/instance_leases.ts";
import { CONNECT_LATE_MS, PresenceStore } from "../../../proxy/relay/presence.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { BatchedReads } from "../../../shared/server/store/batched_reads.ts";
import { Changes } from "../../../shared/server/store/changes.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { MAX_CHECKS, openTestKv } from "../../support/test_store.ts";
import { until } from "../../support/until.ts";
import { openProxy } from "../proxy_world.ts";

const AGENT = "did:svc:test:agent:a";
const NOTE = ["test", "note"];

function leasesOf(kv: Deno.Kv, clock: ManualClock, seed: number): InstanceLeases {
  const random = seededRandom(seed);
  const newId = ulidSource(() => clock.now(), random.bytes);
  return new InstanceLeases({ kv, clock, random, newId, log: () => {} });
}

function instance(kv: Deno.Kv, clock: ManualClock, seed: number, leases = leasesOf(kv, clock, seed)): PresenceStore {
  const random = seededRandom(seed);
  const changes = new Changes({ kv, reads: new BatchedReads(kv), clock, random, maxChecks: MAX_CHECKS });
  const inbox = { writesOf: (holder: string) => [{ key: [...NOTE, holder], value: 1, expireInMs: 1_000 }] };
  return new PresenceStore({ kv, changes, clock, leases, inbox, connectedAgents: NO_SOCKETS });
}

const NO_SOCKETS = { socketsOf: () => undefined, isOpening: () => false };

Deno.test("PresenceStore.claim() commits the writes of a move together with the presence, or neither", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const a = instance(kv, clock, 1), b = instance(kv, clock, 2);
  await a.claim(AGENT, connectRequest(clock));
  await b.claim(AGENT, connectRequest(clock));
  const [presence, note] = await kv.getMany([KEYS.presence(AGENT), [...NOTE, a.instance]]);
  assertEquals(presence.value, { instance: b.instance, signedAt: connectRequest(clock).signedAt });
  assertEquals([note.value, note.versionstamp], [1, presence.versionstamp]);
  assertEquals((await Array.fromAsync(kv.list({ prefix: NOTE }))).length, 1);
});

Deno.test("PresenceStore.claim() drops the writes of a try that meets another change", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const a = instance(kv, clock, 1), b = instance(kv, clock, 2), c = instance(kv, clock, 3);
  await a.claim(AGENT, connectRequest(clock));
  const { atomic } = kv;
  let isFirst = true;
  kv.atomic = () => {
    const operation = atomic.call(kv);
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      // Another instance moves the presence between the read and the commit.
      if (isFirst) await kv.set(KEYS.presence(AGENT), { instance: c.instance });
      isFirst = false;
      return await commit();
    };
    return operation;
  };
  await b.claim(AGENT, connectRequest(clock));
  const notes = await Array.fromAsync(kv.list({ prefix: NOTE }));
  assertEquals(notes.map(({ key }) => key.at(-1)), [c.instance]);
});

Deno.test("PresenceStore.claim() refuses a late request whose agent signed a newer one for another instance", async (t) => {
  const late = CONNECT_LATE_MS + 1;
  const cases: [name: string, signedAt: number, ageMs: number, taken: boolean][] = [
    ["late and older", 99, late, false],
    ["late and of the same second", 100, late, false],
    ["late and newer", 101, late, true],
    ["older by a clock that is behind", 0, CONNECT_LATE_MS, true],
  ];
  for (const [name, signedAt, ageMs, taken] of cases) {
    await t.step(name, async () => {
      using kv = await openTestKv();
      const clock = new ManualClock();
      const a = instance(kv, clock, 1), b = instance(kv, clock, 2);
      const request = { signedAt, admittedAt: clock.now(), isHidden: false };
      clock.step(ageMs);
      const claimed = () => b.claim(AGENT, request);
      await a.claim(AGENT, { signedAt: 100, admittedAt: clock.now(), isHidden: false });
      if (taken) await claimed();
      else await assertRejects(claimed, Error, "The agent has connected elsewhere");
      assertEquals(await b.holderOf(AGENT) === b.instance, taken);
      // A presence that no instance holds is free for every request.
      await a.release(AGENT);
      assertEquals((await kv.get(KEYS.presence(AGENT))).value, taken ? { instance: b.instance, signedAt } : null);
      await claimed();
    });
  }
});

Deno.test("a request that waited in a pause of its instance does not move an agent that connected elsewhere", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const leases = leasesOf(kv, clock, 2);
  const a = instance(kv, clock, 1), b = instance(kv, clock, 2, leases);
  await leases.start({ isSole: false });
  const stale = connectRequest(clock);
  // Nothing of `b` runs meanwhile, not even its timers.
  clock.step(40_000);
  const now = connectRequest(clock);
  await a.claim(AGENT, now);
  const waited = { ...stale, admittedAt: clock.now() };
  await assertRejects(() => b.claim(AGENT, waited), Error, "The agent has connected elsewhere");
  await leases.beginLeaving();
  assertEquals(leases.hasPaused, true, "for a while after the next renewal");
  await assertRejects(() => b.claim(AGENT, waited), Error, "The agent has connected elsewhere");
  clock.step(-3_600_000);
  assertEquals(leases.hasPaused, false);
  await b.claim(AGENT, waited);
  assertEquals(await b.holderOf(AGENT), b.instance);
  await leases.stop();
});

Deno.test("a late request is taken after the clock of an earlier one was set back by an hour", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const a = instance(kv, clock, 1), b = instance(kv, clock, 2);
  clock.step(3_600_000);
  await a.claim(AGENT, connectRequest(clock));
  clock.step(-3_600_000);
  const request = connectRequest(clock);
  clock.step(CONNECT_LATE_MS + 1);
  await b.claim(AGENT, request);
  assertEquals(await b.holderOf(AGENT), b.instance);
});

Deno.test("an agent connects while the store keeps a change of pairs waiting", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const [a, b] = [await w.agent(), await w.agent()];
  const gate = Promise.withResolvers<void>();
  let isHeld = false;
  store.faults.before = async ({ method, keys }) => {
    if (method !== "commit" || !keys.some((key) => key[1] === "open_tickets")) return;
    isHeld = true;
    await gate.promise;
  };
  const starting = a.client.pairStart({ agentName: "a", humanName: "A" });
  await until(() => isHeld);
  w.connect(b);
  await w.connected();
  assertEquals(await w.proxy.deps.presence.holderOf(b.agent.did), w.proxy.deps.presence.instance);
  gate.resolve();
  await starting;
});
