/**
 * Shows how an agent's presence moves between instances (D-197, D-209, D-273): one commit with its writes, and a
 * rising epoch.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { OvertakenError, PresenceStore } from "../../../proxy/relay/presence.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { openTestKv } from "../../support/test_store.ts";

const AGENT = "did:svc:test:agent:a";
const NOTE = ["test", "note"];

function instance(kv: Deno.Kv, clock: ManualClock, seed: number): PresenceStore {
  const random = seededRandom(seed);
  return new PresenceStore({ kv, clock, random, newId: ulidSource(() => clock.now(), random.bytes), log: () => {} });
}

const isAway = () => false;
const noWrites = () => [];

Deno.test("PresenceStore.claim() commits the writes of a move together with the presence, or neither", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const a = instance(kv, clock, 1), b = instance(kv, clock, 2);
  assertEquals(await a.claim(AGENT, isAway, noWrites), null);
  let moves = 0;
  const left = await b.claim(AGENT, isAway, (previous) => {
    assertEquals(previous, { instance: a.instance, epoch: 1 });
    moves++;
    return [{ key: [...NOTE, moves], value: previous.epoch, expireInMs: 1_000 }];
  });
  const [presence, note] = await kv.getMany([KEYS.presence(AGENT), [...NOTE, 1]]);
  assertEquals([left, moves, presence.value], [a.instance, 1, { instance: b.instance, epoch: 2 }]);
  assertEquals([note.value, note.versionstamp], [1, presence.versionstamp]);
});

Deno.test("PresenceStore.claim() drops the writes of a try that meets another change", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const a = instance(kv, clock, 1), b = instance(kv, clock, 2), c = instance(kv, clock, 3);
  await a.claim(AGENT, isAway, noWrites);
  const { atomic } = kv;
  let isFirst = true;
  kv.atomic = () => {
    const operation = atomic.call(kv);
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      // Another instance moves the presence between the read and the commit.
      if (isFirst) await kv.set(KEYS.presence(AGENT), { instance: c.instance, epoch: 2 });
      isFirst = false;
      return await commit();
    };
    return operation;
  };
  const left = await b.claim(
    AGENT,
    isAway,
    (previous) => [{ key: [...NOTE, previous.instance], value: 1, expireInMs: 1_000 }],
  );
  const notes = await Array.fromAsync(kv.list({ prefix: NOTE }));
  assertEquals([left, notes.map(({ key }) => key.at(-1))], [c.instance, [c.instance]]);
});

Deno.test("PresenceStore.claim() refuses a late request whose agent signed a newer one for another instance", async (t) => {
  const late = LIMITS.connectLateMs + 1;
  const cases: [name: string, signedAt: number, ageMs: number, taken: boolean][] = [
    ["late and older", 99, late, false],
    ["late and of the same second", 100, late, false],
    ["late and newer", 101, late, true],
    ["older by a clock that is behind", 0, LIMITS.connectLateMs, true],
  ];
  for (const [name, signedAt, ageMs, taken] of cases) {
    await t.step(name, async () => {
      using kv = await openTestKv();
      const clock = new ManualClock();
      const a = instance(kv, clock, 1), b = instance(kv, clock, 2);
      const request = { signedAt, admittedAt: clock.now() };
      clock.step(ageMs);
      const claimed = () => b.claim(AGENT, isAway, noWrites, request);
      await a.claim(AGENT, isAway, noWrites, { signedAt: 100, admittedAt: clock.now() });
      if (taken) assertEquals(await claimed(), a.instance);
      else await assertRejects(claimed, OvertakenError);
      assertEquals(await b.isHere(AGENT), taken);
      // A presence that no instance holds is free for every request.
      await a.release(AGENT, isAway);
      assertEquals(await claimed(), null);
    });
  }
});

Deno.test("PresenceStore.keep() takes a released presence again, and none that another instance has taken", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const a = instance(kv, clock, 1), b = instance(kv, clock, 2);
  const isHere = () => true;
  const holder = async () => (await kv.get<{ instance: string }>(KEYS.presence(AGENT))).value?.instance;
  await a.claim(AGENT, isAway, noWrites);
  assertEquals([await a.keep(AGENT, isHere), await holder()], [true, a.instance]);
  await a.release(AGENT, isAway);
  assertEquals([await a.keep(AGENT, isAway), await holder()], [true, ""], "no socket is left");
  assertEquals([await a.keep(AGENT, isHere), await holder()], [true, a.instance]);
  await b.claim(AGENT, isAway, noWrites);
  assertEquals([await a.keep(AGENT, isHere), await holder()], [false, b.instance]);
});

Deno.test("PresenceStore.isAlive() is true until the lease ends, and false at once when the instance stops", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const a = instance(kv, clock, 1), b = instance(kv, clock, 2);
  await a.start(false);
  await a.claim(AGENT, isAway, noWrites);
  assertEquals([await b.isAlive(a.instance), await b.findInstance(AGENT)], [true, a.instance]);
  clock.step(LIMITS.instanceLeaseMs);
  assertEquals([await b.isAlive(a.instance), await b.findInstance(AGENT)], [false, null]);
  await clock.advance(LIMITS.instanceRenewMs);
  assertEquals(await b.isAlive(a.instance), true);
  await a.stop();
  assertEquals([await b.isAlive(a.instance), clock.waiting], [false, 0]);
  assertEquals(await b.lastSeenAt(AGENT), a.instance);
});
