/** Counts over the store: shared, with a rest between two, and bounded. */
import { assertEquals, assertRejects } from "@std/assert";
import { COUNTED_MAX, SharedCount, visitAll } from "../../../../shared/server/store/shared_count.ts";
import { ManualClock } from "../../../support/manual_clock.ts";

Deno.test("all who ask share one count, which is repeated after 10 s or a hundred times its own time", async () => {
  const clock = new ManualClock();
  let counts = 0, took = 0;
  const count = new SharedCount(clock, () => {
    clock.step(took);
    return Promise.resolve(++counts);
  });
  assertEquals(await Promise.all([count.current(), count.current(), count.current()]), [1, 1, 1]);
  clock.step(9_999);
  assertEquals(await count.current(), 1);
  clock.step(1);
  took = 1_000;
  assertEquals(await count.current(), 2);
  clock.step(99_999);
  assertEquals(await count.current(), 2);
  clock.step(-3_600_000);
  assertEquals(await count.current(), 3, "a clock that stepped back does not stop the counting");
});

Deno.test("a count that a stall or a clock set ahead made long is repeated after five minutes", async () => {
  const clock = new ManualClock();
  let counts = 0;
  const count = new SharedCount(clock, () => {
    clock.step(3_600_000);
    return Promise.resolve(++counts);
  });
  assertEquals(await count.current(), 1);
  clock.step(299_999);
  assertEquals(await count.current(), 1);
  clock.step(1);
  assertEquals(await count.current(), 2);
});

Deno.test("a count that fails is made again by the next one who asks", async () => {
  let fails = true;
  const count = new SharedCount(
    new ManualClock(),
    () => fails ? Promise.reject(new Error("gone")) : Promise.resolve(7),
  );
  await assertRejects(() => count.current(), Error, "gone");
  fails = false;
  assertEquals(await count.current(), 7);
});

Deno.test("a visit ends at its bound and says so", async () => {
  const listed = (total: number) =>
    ({
      async *list() {
        for (let i = 0; i < total; i++) yield { key: [i], value: i, versionstamp: "" };
        await Promise.resolve();
      },
    }) as unknown as Deno.Kv;
  for (const [total, isAll] of [[COUNTED_MAX, true], [COUNTED_MAX + 1, false]] as const) {
    let visited = 0;
    assertEquals(await visitAll(listed(total), [], () => visited++), isAll);
    assertEquals(visited, COUNTED_MAX);
  }
});
