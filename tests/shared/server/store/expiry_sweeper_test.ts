/** Shows that the sweep deletes ended records only, in small commits, at one instance at a time (D-217). */
import { assert, assertEquals } from "@std/assert";
import {
  ExpirySweeper,
  SWEEP_FIRST_MS,
  SWEEP_REST_MS,
  SWEEP_SLOW_MS,
  type SweptFamily,
} from "../../../../shared/server/store/expiry_sweeper.ts";
import { FaultyKv } from "../../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { MAX_CHECKS, openTestKv } from "../../../support/test_store.ts";

const FAMILY: SweptFamily = {
  prefix: ["proxy", "nonce"],
  hasEnded: ({ value }, now) => now >= (value as { end: number }).end,
};
const DAY_MS = 86_400_000;

class Place implements Disposable {
  readonly clock = new ManualClock();
  readonly log: string[] = [];

  private constructor(readonly kv: Deno.Kv, readonly close: () => void) {}

  static async open(kv?: Deno.Kv): Promise<Place> {
    const own = kv ?? await openTestKv();
    return new Place(own, kv ? () => {} : () => own.close());
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** True while another instance sweeps. */
  isOthersTurn = false;

  sweeper(maxChecks = MAX_CHECKS): ExpirySweeper {
    const { kv, clock } = this;
    const log = (_: string, event: string) => void this.log.push(event);
    return new ExpirySweeper({ kv, maxChecks, clock, log, isTurn: () => !this.isOthersTurn }, [FAMILY]);
  }

  /** Writes records of which every second one has ended, or all. */
  async fill(count: number, all = false): Promise<void> {
    for (let i = 0; i < count; i += 100) {
      const operation = this.kv.atomic();
      for (let k = i; k < Math.min(count, i + 100); k++) {
        operation.set([...FAMILY.prefix, k], { end: this.clock.now() + (all || k % 2 === 0 ? 0 : DAY_MS) });
      }
      await operation.commit();
    }
  }

  async left(): Promise<number[]> {
    const entries = await Array.fromAsync(this.kv.list({ prefix: FAMILY.prefix }));
    return entries.map(({ key }) => Number(key.at(-1)));
  }

  /** Waits until a pass is complete, pause after pause. */
  async through(pass: Promise<void>): Promise<void> {
    let isOver = false;
    void pass.finally(() => isOver = true);
    while (!isOver) await this.clock.advance(SWEEP_SLOW_MS);
  }
}

Deno.test("the expiry sweep deletes ended records and keeps the others over many steps", async () => {
  for (const maxChecks of new Set([10, MAX_CHECKS])) {
    using place = await Place.open();
    await place.fill(1_050);
    await place.kv.set(["proxy", "other", 0], { end: 0 });
    await place.through(place.sweeper(maxChecks).pass(FAMILY));
    assertEquals(await place.left(), Array.from({ length: 525 }, (_, i) => 2 * i + 1));
    assert((await place.kv.get(["proxy", "other", 0])).value);
  }
});

Deno.test("the expiry sweep reads no young records, and those before and behind them", async () => {
  using store = await FaultyKv.open();
  using place = await Place.open(store.kv);
  await place.fill(1_050, true);
  let steps = 0;
  store.faults.fails = ({ method }) => {
    if (method === "list") steps++;
    return false;
  };
  const young = { from: [...FAMILY.prefix, 10], to: [...FAMILY.prefix, 1_000] };
  await place.through(place.sweeper().pass({ ...FAMILY, young: () => young }));
  assertEquals([steps < 100, await place.left()], [true, Array.from({ length: 990 }, (_, i) => 10 + i)]);
  await place.through(place.sweeper().pass({ ...FAMILY, young: () => ({ ...young, to: young.from }) }));
  assertEquals(await place.left(), []);
});

Deno.test("the expiry sweep pauses between commits that have at most the allowed number of checks", async () => {
  using store = await FaultyKv.open();
  using place = await Place.open(store.kv);
  await place.fill(1_000, true);
  const sizes: number[] = [];
  store.faults.fails = ({ method, keys }) => {
    if (method === "commit" && keys.some((key) => key[1] === "nonce")) sizes.push(new Set(keys.map(String)).size);
    return false;
  };
  const pass = place.sweeper().pass(FAMILY);
  for (let i = 0; i < 20; i++) await flushTasks();
  const began = sizes.length;
  assertEquals(place.clock.waiting, 1, "it pauses after a step");
  await place.through(pass);
  assertEquals([await place.left(), began, sizes.length], [[], 200 / MAX_CHECKS, 1_000 / MAX_CHECKS]);
  assertEquals(sizes, Array.from({ length: 1_000 / MAX_CHECKS }, () => MAX_CHECKS));
});

Deno.test("the expiry sweep keeps a record that was written again after the read", async () => {
  using store = await FaultyKv.open();
  using place = await Place.open(store.kv);
  await place.fill(3, true);
  const fresh = { end: place.clock.now() + 1_000 };
  const family: SweptFamily = {
    ...FAMILY,
    async hasEnded(entry, now) {
      const result = await FAMILY.hasEnded(entry, now);
      if (entry.key.at(-1) === 1) await store.kv.set(entry.key, fresh);
      return result;
    },
  };
  await place.through(place.sweeper().pass(family));
  assertEquals((await store.kv.get([...FAMILY.prefix, 1])).value, fresh);
  await place.through(place.sweeper().pass(FAMILY));
  assertEquals(await place.left(), [1]);
});

Deno.test("the expiry sweep deletes nothing while another instance sweeps", async () => {
  using place = await Place.open();
  await place.fill(10, true);
  const sweeper = place.sweeper();
  place.isOthersTurn = true;
  await place.through(sweeper.pass(FAMILY));
  assertEquals((await place.left()).length, 10);
  place.isOthersTurn = false;
  await place.through(sweeper.pass(FAMILY));
  assertEquals(await place.left(), []);
});

Deno.test("the expiry sweep starts again after a failure of the store, and ends when it is stopped", async () => {
  using store = await FaultyKv.open();
  using place = await Place.open(store.kv);
  await place.fill(10, true);
  store.faults.fails = ({ method }) => method === "list";
  const sweeper = place.sweeper();
  sweeper.start();
  await place.clock.advance(SWEEP_FIRST_MS);
  for (let i = 0; i < 10; i++) await flushTasks();
  assertEquals(place.log, ["sweep_failed"]);
  store.faults.fails = () => false;
  await place.clock.advance(SWEEP_REST_MS);
  for (let i = 0; i < 20 && (await place.left()).length > 0; i++) await flushTasks();
  assertEquals(await place.left(), []);
  sweeper.stop();
  for (let i = 0; i < 10; i++) await flushTasks();
  assertEquals(place.clock.waiting, 0);
});
