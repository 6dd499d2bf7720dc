/** The system clock: waits that are longer than a timer of the platform can be. And work that is repeated. */
import { assertEquals } from "@std/assert";
import { repeat, sleep, systemClock } from "../../shared/clock.ts";
import { flushTasks, ManualClock } from "../support/manual_clock.ts";

Deno.test("a wait of more than 24.8 days does not end at once", async () => {
  let fired = 0;
  const cancels = [2 ** 31, 30 * 86_400_000, 1e12].map((ms) => systemClock.after(ms, () => fired++));
  await sleep(systemClock, 100);
  for (const cancel of cancels) cancel();
  assertEquals(fired, 0);
});

Deno.test("repeated work begins a wait after its last end, and ends with a cancel also while it runs", async () => {
  const clock = new ManualClock(), waits = [100, 200, 300];
  let running = Promise.withResolvers<void>(), begun = 0;
  const cancel = repeat(clock, () => waits.shift() ?? 400, () => {
    begun++;
    return running.promise;
  });
  const end = async () => {
    running.resolve();
    running = Promise.withResolvers();
    await flushTasks();
  };
  await clock.advance(99);
  assertEquals([begun, clock.waiting], [0, 1]);
  await clock.advance(1);
  await clock.advance(1_000);
  assertEquals([begun, clock.waiting], [1, 0]);
  await end();
  await clock.advance(199);
  assertEquals(begun, 1);
  await clock.advance(1);
  assertEquals(begun, 2);
  cancel();
  await end();
  assertEquals([begun, clock.waiting, waits], [2, 0, [300]]);
});
