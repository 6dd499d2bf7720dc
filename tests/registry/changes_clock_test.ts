/** The retries of a change end also when the clock is set back. */
import { assert, assertRejects } from "@std/assert";
import { Changes } from "../../shared/server/store/changes.ts";
import { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import { StoreUnavailable } from "../../shared/server/store/store_errors.ts";
import { systemRandom } from "../../shared/random.ts";
import { FaultyKv } from "../support/faulty_kv.ts";
import { ManualClock } from "../support/manual_clock.ts";

Deno.test("a change that conflicts all the time does not hold up the others for as long as the clock is set back", async () => {
  using faulty = await FaultyKv.open();
  const { kv } = faulty, clock = new ManualClock(), reads = new BatchedReads(kv);
  const changes = new Changes({ kv, reads, clock, random: systemRandom, maxChecks: 100 });
  const put = (name: string) =>
    changes.run(async (draft) => {
      await draft.get([name]);
      draft.set([name], 1);
    });
  faulty.faults = { conflicts: ({ keys }) => keys.some(([name]) => name === "hot") };
  const hot = put("hot");
  hot.catch(() => {});
  await clock.advance(100);
  clock.step(-3_600_000);
  await clock.advance(11_000);
  await assertRejects(() => hot, StoreUnavailable);
  let isDone = false;
  put("other").then(() => isDone = true, () => {});
  await clock.advance(1_000);
  assert(isDone);
});
