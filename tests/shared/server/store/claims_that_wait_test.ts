/**
 * Shows when a claim that may wait is committed: with the commit of another claim, after 20 ms, or at a flush. Later
 * claims see its change at once. Runs on the real store in memory and the test's clock.
 */
import { assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { GroupCommit, JOINING_WAIT_MS } from "../../../../shared/server/store/group_commit.ts";
import { COMMITS_IN_FLIGHT } from "../../../../shared/server/store/open_store.ts";
import { StoreUnavailable } from "../../../../shared/server/store/store_errors.ts";
import { append } from "../../../support/claims.ts";
import { FaultyKv } from "../../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { IS_LONG } from "../../../support/trials.ts";

const MAX_CHECKS = LIMITS.commitChecksConnect;
const WAIT_MS = JOINING_WAIT_MS;
const MAY_WAIT = { mayWait: true };

interface Place extends Disposable {
  store: FaultyKv;
  kv: Deno.Kv;
  clock: ManualClock;
  commits: GroupCommit;
  /** Commits that have reached the store so far. */
  count(): number;
  listOf(key: string): Promise<number[]>;
}

async function setUp(inFlight = 1): Promise<Place> {
  const store = await FaultyKv.open();
  const { kv } = store;
  const clock = new ManualClock();
  let count = 0;
  store.faults.before = ({ method }) => void (method === "commit" && count++);
  return {
    store,
    kv,
    clock,
    commits: new GroupCommit(kv, MAX_CHECKS, { clock, inFlight, markKey: ["mark"] }),
    count: () => count,
    listOf: async (key) => (await kv.get<number[]>([key])).value ?? [],
    [Symbol.dispose]: () => store[Symbol.dispose](),
  };
}

Deno.test("a claim that may wait is in the commit of the next claim, before it", async () => {
  using t = await setUp();
  const first = t.commits.claim([append("a", 1)], MAY_WAIT);
  const second = t.commits.claim([append("b", 2)], MAY_WAIT);
  await flushTasks();
  assertEquals([t.count(), await t.listOf("a")], [0, []]);
  assertEquals(await t.commits.claim([append("a", 3)]), { taken: true });
  assertEquals([await first, await second, t.count()], [{ taken: true }, { taken: true }, 1]);
  assertEquals([await t.listOf("a"), await t.listOf("b")], [[1, 3], [2]]);
});

Deno.test("a claim that may wait begins a commit after 20 ms, together with those that came later", async () => {
  using t = await setUp();
  const first = t.commits.claim([append("a", 1)], MAY_WAIT);
  await t.clock.advance(WAIT_MS - 1);
  const second = t.commits.claim([append("b", 2)], MAY_WAIT);
  assertEquals(t.count(), 0);
  await t.clock.advance(1);
  assertEquals([await first, await second, t.count(), t.clock.waiting], [{ taken: true }, { taken: true }, 1, 0]);
});

Deno.test("a claim that may wait begins no commit of its own while others wait for a record, and joins the next", async () => {
  using t = await setUp(2);
  const gate = Promise.withResolvers<void>();
  const counted = t.store.faults.before;
  t.store.faults.before = async (call) => {
    await counted?.(call);
    if (call.method === "commit" && call.keys.some(([key]) => key === "a")) await gate.promise;
  };
  const held = [t.commits.claim([append("a", 1)])];
  await flushTasks();
  held.push(t.commits.claim([append("a", 2)]));
  await flushTasks();
  const waiting = t.commits.claim([append("b", 3)], MAY_WAIT);
  await flushTasks();
  assertEquals(t.count(), 1);
  gate.resolve();
  assertEquals(await Promise.all([...held, waiting]), Array(3).fill({ taken: true }));
  assertEquals(t.count(), 2);
});

Deno.test("a claim waits for 20 ms of its own when another commit has taken the earlier ones", async () => {
  using t = await setUp();
  void t.commits.claim([append("a", 1)], MAY_WAIT);
  await t.clock.advance(15);
  await t.commits.claim([append("b", 2)]);
  const late = t.commits.claim([append("c", 3)], MAY_WAIT);
  await t.clock.advance(WAIT_MS - 1);
  assertEquals(t.count(), 1);
  await t.clock.advance(1);
  assertEquals([await late, t.count(), t.clock.waiting], [{ taken: true }, 2, 0]);
});

Deno.test("a clock that steps back or forward neither prolongs the wait nor refuses other claims", async () => {
  for (const step of [-3_600_000, 86_400_000]) {
    using t = await setUp();
    const waiting = t.commits.claim([append("a", 1)], MAY_WAIT);
    t.clock.step(step);
    assertEquals(t.commits.oldestWaitMs, 0);
    await t.clock.advance(WAIT_MS);
    assertEquals([await waiting, t.count()], [{ taken: true }, 1]);
    void t.commits.claim([append("a", 2)], MAY_WAIT);
    t.clock.step(step);
    const others = ["b", "c"].map((key) => t.commits.claim([append(key, 3)]));
    assertEquals(await Promise.all(others), Array(2).fill({ taken: true }));
  }
});

Deno.test("a flush commits what waits and resolves when the store has it", async () => {
  for (const inFlight of [1, COMMITS_IN_FLIGHT]) {
    using t = await setUp(inFlight);
    await t.commits.flush();
    for (let i = 0; i < 3 * MAX_CHECKS; i++) void t.commits.claim([append(`key-${i}`, i)], MAY_WAIT);
    await t.commits.flush();
    for (let i = 0; i < 3 * MAX_CHECKS; i++) assertEquals(await t.listOf(`key-${i}`), [i]);
    assertEquals(t.count(), 3);
    const again = t.commits.claim([append("again", 1)], MAY_WAIT);
    await flushTasks();
    assertEquals(t.count(), 3, "the next one waits again");
    await t.clock.advance(WAIT_MS);
    assertEquals(await again, { taken: true });
  }
});

Deno.test("a flush waits for a commit in flight, and resolves when the store fails", async () => {
  using t = await setUp();
  const gate = Promise.withResolvers<void>();
  t.store.faults.before = ({ method }) => method === "commit" ? gate.promise : undefined;
  const first = t.commits.claim([append("a", 1)]);
  await flushTasks();
  const second = t.commits.claim([append("a", 2)], MAY_WAIT);
  const refused = assertRejects(() => second, StoreUnavailable);
  let isFlushed = false;
  const flushed = t.commits.flush().then(() => isFlushed = true);
  await flushTasks();
  assertEquals(isFlushed, false);
  let isFirstDone = false;
  void first.then(() => isFirstDone = true);
  t.store.faults.fails = ({ keys }) => isFirstDone && keys.some((key) => key[0] === "a");
  gate.resolve();
  await flushed;
  assertEquals(await first, { taken: true });
  await refused;
});

Deno.test("a flush waits for no claim that is made after it", async () => {
  using t = await setUp();
  let isOver = false;
  const busy = Array.from({ length: 8 }, async (_, n) => {
    for (let i = 0; !isOver && i < 200; i++) await t.commits.claim([append(`${n} ${i}`, i)]);
    return isOver;
  });
  await t.commits.claim([append("first", 1)]);
  await t.commits.flush();
  isOver = true;
  assertEquals(await Promise.all(busy), Array(8).fill(true));
});

Deno.test("a claim that may wait is refused by its record like any other", async () => {
  using t = await setUp();
  await t.commits.claim([append("a", 1, 1)]);
  const full = t.commits.claim([append("a", 2, 1), append("b", 2)], MAY_WAIT);
  const other = t.commits.claim([append("c", 3)]);
  assertEquals([await full, await other], [{ taken: false, refused: "full" }, { taken: true }]);
  assertEquals([await t.listOf("a"), await t.listOf("b"), await t.listOf("c")], [[1], [], [3]]);
});

Deno.test("claims that wait and claims that do not have the outcome of one after the other", async () => {
  const step = fc.oneof(
    fc.record({
      keys: fc.uniqueArray(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 2 }),
      limit: fc.constantFrom(2, 5, 100),
      mayWait: fc.boolean(),
    }),
    fc.record({ advance: fc.integer({ min: 0, max: 30 }) }),
    fc.constant("turn" as const),
    fc.constant("flush" as const),
  );
  using t = await setUp();
  let runs = 0;
  const property = fc.asyncProperty(
    fc.array(step, { maxLength: 25 }),
    fc.constantFrom(1, 3),
    async (steps, inFlight) => {
      const run = `run ${runs++}`;
      const clock = new ManualClock();
      const commits = new GroupCommit(t.kv, MAX_CHECKS, { clock, inFlight, markKey: ["mark", run] });
      const expected = new Map<string, number[]>();
      const results: Promise<boolean>[] = [], wanted: boolean[] = [];
      for (const [n, one] of steps.entries()) {
        if (one === "turn") await Promise.resolve();
        else if (one === "flush") void commits.flush();
        else if ("advance" in one) await clock.advance(one.advance, () => Promise.resolve());
        else {
          const keys = one.keys.map((key) => `${run} ${key}`);
          const lists = keys.map((key) => expected.get(key) ?? []);
          const isTaken = lists.every((list) => list.length < one.limit);
          if (isTaken) keys.forEach((key, i) => expected.set(key, [...lists[i] ?? [], n]));
          wanted.push(isTaken);
          const updates = keys.map((key) => append(key, n, one.limit));
          results.push(commits.claim(updates, { mayWait: one.mayWait }).then(({ taken }) => taken));
        }
      }
      await commits.flush();
      assertEquals(await Promise.all(results), wanted);
      for (const [key, list] of expected) assertEquals(await t.listOf(key), list);
      await clock.advance(2 * WAIT_MS);
      assertEquals(clock.waiting, 0);
    },
  );
  await fc.assert(property, { numRuns: IS_LONG ? 100 : 35 });
});
