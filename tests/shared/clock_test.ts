/** The system clock: waits that are longer than a timer of the platform can be. */
import { assertEquals } from "@std/assert";
import { sleep, systemClock } from "../../shared/clock.ts";

Deno.test("a wait of more than 24.8 days does not end at once", async () => {
  let fired = 0;
  const cancels = [2 ** 31, 30 * 86_400_000, 1e12].map((ms) => systemClock.after(ms, () => fired++));
  await sleep(systemClock, 100);
  for (const cancel of cancels) cancel();
  assertEquals(fired, 0);
});
