/** When an instance counts another one as alive, and what it knows of the other's clock (D-390). */
import { assert, assertEquals } from "@std/assert";
import { InstanceLeases, LEASE_MS, RENEW_MS } from "../../../proxy/relay/instance_leases.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { InstanceLease } from "../../../proxy/schema/records.ts";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { Metrics } from "../../../shared/server/metrics/metrics.ts";
import { CallGate, countingKv, noCounts } from "../../support/counting_kv.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { openTestKv } from "../../support/test_store.ts";

const MINUTE_MS = 60_000;
const STEP_MS = 500;

/** An instance with a clock of its own. */
class Instance {
  readonly log: Record<string, unknown>[] = [];
  readonly metrics = new Metrics();
  readonly leases: InstanceLeases;

  constructor(readonly kv: Deno.Kv, seed: number, readonly clock: ManualClock) {
    const random = seededRandom(seed);
    this.leases = new InstanceLeases({
      kv,
      clock,
      random,
      newId: ulidSource(() => clock.now(), random.bytes),
      log: (_, event, fields = {}) => this.log.push({ event, ...fields }),
      metrics: this.metrics,
    });
  }

  get differenceSeconds(): number | undefined {
    const family = this.metrics.families().find(({ name }) => name === "instance_clock_difference_seconds");
    return family?.series[0]?.value;
  }
}

/** Lets time pass for several clocks at once. */
async function pass(ms: number, ...instances: Instance[]): Promise<void> {
  for (let passed = 0; passed < ms; passed += STEP_MS) {
    for (const { clock } of instances) await clock.advance(STEP_MS);
  }
}

async function withTwo(aheadMs: number, run: (a: Instance, b: Instance) => Promise<void>): Promise<void> {
  using kv = await openTestKv();
  const a = new Instance(kv, 1, new ManualClock()), b = new Instance(kv, 2, new ManualClock());
  b.clock.step(aheadMs);
  for (const { leases } of [a, b]) await leases.start({ isSole: false });
  await run(a, b);
  for (const { leases } of [a, b]) await leases.stop();
  assertEquals([a.clock.waiting, b.clock.waiting], [0, 0]);
}

Deno.test("an instance is alive while it renews its lease, and at most 16 s longer", () =>
  withTwo(0, async (a, b) => {
    await pass(MINUTE_MS, a, b);
    assertEquals(await a.leases.isAlive(b.leases.instance), true);
    await pass(LEASE_MS - RENEW_MS, a);
    assertEquals(await a.leases.isAlive(b.leases.instance), true);
    await pass(16_000 - (LEASE_MS - RENEW_MS), a);
    assertEquals(await a.leases.isAlive(b.leases.instance), false);
    await pass(5_000 + STEP_MS, b);
    assertEquals(await a.leases.isAlive(b.leases.instance), true);
  }));

Deno.test("of two instances the one that started first is the oldest, until it stops or is killed, also with a clock that is ahead", async () => {
  for (const aheadMs of [0, 3_600_000]) {
    for (const isKilled of [false, true]) {
      await withTwo(aheadMs, async (...both) => {
        const [first, other] = both.toSorted((a, b) => a.leases.instance < b.leases.instance ? -1 : 1);
        if (!first || !other) throw new Error("Two instances were expected");
        await pass(2 * RENEW_MS, ...both);
        assertEquals([first.leases.isOldest, other.leases.isOldest], [true, false]);
        if (!isKilled) await first.leases.stop();
        await pass(isKilled ? 2 * LEASE_MS : RENEW_MS, other);
        assertEquals(other.leases.isOldest, true);
      });
    }
  }
});

Deno.test("an instance that stops is not alive at once, and one that has handled its notes has left", () =>
  withTwo(0, async (a, b) => {
    assertEquals(await a.leases.stateOf(b.leases.instance), "serving");
    await b.leases.stop();
    assertEquals([await a.leases.isAlive(b.leases.instance), await b.leases.isAlive(b.leases.instance)], [
      false,
      false,
    ]);
    assertEquals(await a.leases.stateOf(b.leases.instance), "stopped");
    await b.leases.leave();
    assertEquals(await a.leases.stateOf(b.leases.instance), "left");
    assertEquals(await a.leases.stateOf("unknown"), "left");
  }));

Deno.test("a renewal that is on its way does not undo the end of a lease", () =>
  withTwo(0, async (a, b) => {
    const { set } = b.kv;
    const held = Promise.withResolvers<void>();
    b.kv.set = async (...args) => {
      if ((args[1] as InstanceLease).state === "serving") await held.promise;
      return await set.apply(b.kv, args);
    };
    await b.clock.advance(5_000);
    const stopped = b.leases.stop();
    held.resolve();
    await stopped;
    await b.clock.advance(0);
    b.kv.set = set;
    assertEquals(await a.leases.isAlive(b.leases.instance), false);
  }));

for (const aheadMs of [20_000, -20_000]) {
  Deno.test(`instances are alive to each other with a clock ${aheadMs / 1000} s ahead, and say it once a minute`, () =>
    withTwo(aheadMs, async (a, b) => {
      for (let minutes = 0; minutes < 2; minutes++) {
        for (let turns = 0; turns < 4; turns++) {
          assertEquals(await a.leases.isAlive(b.leases.instance), true);
          assertEquals(await b.leases.isAlive(a.leases.instance), true);
          await pass(MINUTE_MS / 4, a, b);
        }
      }
      for (const [one, other] of [[a, b], [b, a]] as const) {
        const lines = one.log.filter(({ event }) => event === "clocks_differ");
        assert(lines.length >= 2 && lines.length <= 3, `${lines.length} lines in two minutes`);
        assertEquals(lines[0]?.["instance"], other.leases.instance);
        const difference = one.differenceSeconds ?? 0;
        // One clock moves before the other.
        assert(Math.abs(difference - 20) <= 1, `a difference of ${difference} s`);
        const time = one.leases.timeAt(other.leases.instance) ?? NaN;
        const late = other.clock.now() - time;
        assert(
          late >= -STEP_MS && late <= 1_000 + STEP_MS,
          `the time of the other one seems ${late} ms earlier than it is`,
        );
      }
    }));
}

Deno.test("a difference of up to 2 s is not reported", () =>
  withTwo(1_900, async (a, b) => {
    await pass(2 * MINUTE_MS, a, b);
    assertEquals([...a.log, ...b.log], []);
    assertEquals([a.differenceSeconds, b.differenceSeconds], [0, 0]);
  }));

Deno.test("a clock that is set keeps both instances alive, and the known difference follows it", () =>
  withTwo(0, async (a, b) => {
    await pass(MINUTE_MS, a, b);
    for (const step of [-200_000, 400_000, -200_000]) {
      b.clock.step(step);
      for (let turns = 0; turns < 10; turns++) {
        assertEquals(await a.leases.isAlive(b.leases.instance), true);
        assertEquals(await b.leases.isAlive(a.leases.instance), true);
        await pass(2_000, a, b);
      }
      const late = b.clock.now() - (a.leases.timeAt(b.leases.instance) ?? NaN);
      assert(late >= -STEP_MS && late <= RENEW_MS + STEP_MS, `${late} ms`);
    }
  }));

Deno.test("an instance whose clock is set ahead and back by hours goes on to warn", () =>
  withTwo(3_600_000, async (a, b) => {
    await pass(MINUTE_MS / 2, a, b);
    b.clock.step(-2 * 3_600_000);
    b.log.length = 0;
    await pass(MINUTE_MS / 2, a, b);
    assertEquals(b.log.map(({ event }) => event), ["clocks_differ"]);
  }));

Deno.test("a lease that is seen for the first time counts, unless its instance was killed long before", () =>
  withTwo(0, async (a) => {
    const write = (id: string, ageMs: number) =>
      a.kv.set(KEYS.instance(id), { at: a.clock.now() - ageMs, pid: 1, state: "serving" } satisfies InstanceLease);
    await write("behind", 20_000);
    await write("killed", 2 * MINUTE_MS);
    assertEquals([await a.leases.isAlive("behind"), await a.leases.isAlive("killed")], [true, false]);
    await pass(16_000, a);
    assertEquals(await a.leases.isAlive("behind"), false);
    await write("killed", 2 * MINUTE_MS);
    assertEquals(await a.leases.isAlive("killed"), true);
  }));

Deno.test("which of many instances are alive is known after one round trip to the store", async () => {
  using kv = await openTestKv();
  const gate = new CallGate(), clock = new ManualClock();
  const { leases } = new Instance(countingKv(kv, gate, noCounts()), 1, clock);
  const lease = { at: clock.now(), pid: 1, state: "serving" } satisfies InstanceLease;
  const running = Array.from({ length: 20 }, (_, i) => `running ${i}`);
  for (const id of running) await kv.set(KEYS.instance(id), lease);
  await kv.set(KEYS.instance("stopped"), { ...lease, state: "stopped" } satisfies InstanceLease);
  gate.hold();
  const looking = leases.aliveOf([...running, "stopped", "unknown", ...running]);
  let trips = 0;
  for (await flushTasks(); gate.waiting > 0; await flushTasks()) {
    await gate.release();
    trips++;
  }
  assertEquals([...await looking], running);
  assertEquals(trips, 1);
});

Deno.test("the only process of a store ends the leases of all others", async () => {
  using kv = await openTestKv();
  const crashed = new Instance(kv, 1, new ManualClock()), sole = new Instance(kv, 2, new ManualClock());
  await crashed.leases.start({ isSole: false });
  await sole.leases.start({ isSole: true });
  assertEquals(await sole.leases.isAlive(crashed.leases.instance), false);
  for (const { leases } of [crashed, sole]) await leases.stop();
});

Deno.test("a lease that was seen to serve is not read again for half a second, or while a link would tell its end", () =>
  withTwo(0, async (a, b) => {
    const { leases } = a, { instance } = b.leases;
    const get = a.kv.get.bind(a.kv);
    let reads = 0;
    a.kv.get = (...args) => {
      reads++;
      return get(...args);
    };
    const readsFor = async (expected: boolean) => {
      reads = 0;
      assertEquals(await leases.takesMessages(instance), expected);
      return reads;
    };
    assertEquals([await readsFor(true), await readsFor(true)], [1, 0]);
    a.clock.step(500);
    assertEquals(await readsFor(true), 1);
    leases.isLinked = () => true;
    a.clock.step(1_500);
    assertEquals(await readsFor(true), 0);
    // It has said that it stops: the link is no longer one to take.
    await b.leases.beginLeaving();
    leases.isLinked = () => false;
    assertEquals([await readsFor(true), await readsFor(true)], [1, 1]);
    await b.leases.stop();
    assertEquals(await readsFor(false), 1);
    a.kv.get = get;
  }));
