/** Shows that a party's jobs take turns, that another party's do not wait for them, and that no turn is lost. */
import { assertEquals } from "@std/assert";
import { Turns } from "../../../proxy/owner_budgets.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";

const LIMITS = { atOnce: 2, waiting: 3, waitMs: 5_000 };

/** The results of calls so far, in their order. */
function collect(turns: Turns, party: string, count: number): { ends: ((() => void) | null | undefined)[] } {
  const ends: ((() => void) | null | undefined)[] = Array(count).fill(undefined);
  for (let i = 0; i < count; i++) void turns.take(party).then((end) => ends[i] = end);
  return { ends };
}

const states = (ends: unknown[]) => ends.map((end) => end === undefined ? "waits" : end === null ? "refused" : "runs");

Deno.test("two run, three wait in order, and a sixth is refused; another party runs at once", async () => {
  const turns = new Turns(new ManualClock(), LIMITS);
  const { ends } = collect(turns, "a", 6);
  const other = collect(turns, "b", 1);
  await flushTasks();
  assertEquals(states(ends), ["runs", "runs", "waits", "waits", "waits", "refused"]);
  assertEquals(states(other.ends), ["runs"]);
  ends[1]?.();
  ends[1]?.();
  await flushTasks();
  assertEquals(states(ends), ["runs", "runs", "runs", "waits", "waits", "refused"]);
  for (const end of ends.slice(0, 3)) end?.();
  await flushTasks();
  assertEquals(states(ends).slice(3, 5), ["runs", "runs"]);
  for (const end of ends) end?.();
  const again = collect(turns, "a", 3);
  await flushTasks();
  assertEquals(states(again.ends), ["runs", "runs", "waits"]);
});

Deno.test("a wait ends after its time, and its turn goes to the next", async () => {
  const clock = new ManualClock();
  const turns = new Turns(clock, LIMITS);
  const { ends } = collect(turns, "a", 3);
  await clock.advance(4_000);
  const later = collect(turns, "a", 1);
  await clock.advance(1_000);
  assertEquals([states(ends), states(later.ends)], [["runs", "runs", "refused"], ["waits"]]);
  ends[0]?.();
  await flushTasks();
  assertEquals(states(later.ends), ["runs"]);
});
