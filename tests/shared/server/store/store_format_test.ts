/** A moved store works in its new place, and a store with another format is refused unchanged. */
import { assertEquals, assertRejects } from "@std/assert";
import { StoreRefused } from "../../../../shared/server/store/open_store.ts";
import { wrapStoreErrors } from "../../../../shared/server/store/store_errors.ts";
import { readWithFormatCheck, STORE_FORMAT } from "../../../../shared/server/store/store_format.ts";
import { exportLines, importLines } from "../../../../shared/server/store/transfer.ts";
import { FaultyKv } from "../../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { goesOn, type Kept, TABLES, tellStory } from "../../../support/store_story.ts";
import { World } from "../../../support/world.ts";
import { openTestKv } from "../../../support/test_store.ts";

const FORMAT_KEY = ["store", "format"];
async function* linesOf(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

/** A world over an exported store, at the time of the export. */
async function moved(kept: Kept, lines: readonly string[]): Promise<{ kv: Deno.Kv; w: World }> {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  await importLines(kv, TABLES, linesOf(lines), kept.now);
  return { kv, w: await World.open({ kv, seed: 2, clock: new ManualClock(kept.now) }) };
}

Deno.test("records of a moved store stay valid", async () => {
  await using w = await World.open();
  const kept = await tellStory(w);
  const { kv, w: there } = await moved(kept, await Array.fromAsync(exportLines(w.kv, TABLES, w.clock.now())));
  await goesOn(there, kept);
  await there[Symbol.asyncDispose]();
  kv.close();
});

Deno.test("a store of another format, or with records and without one, is refused and stays unchanged", async () => {
  const stores: [content: [Deno.KvKey, unknown][], has: string][] = [
    [[[FORMAT_KEY, 4]], "format 4"],
    [[[FORMAT_KEY, 6], [["registry", "issuer"], "https://registry.example.test"]], "format 6"],
    [[[["registry", "issuer"], "https://registry.example.test"]], "no format"],
    [[[["proxy", "pairs_ended"], 1]], "no format"],
  ];
  for (const [content, has] of stores) {
    using faulty = await FaultyKv.open();
    for (const [key, value] of content) await faulty.kv.set(key, value);
    const entries = async () => await Array.fromAsync(faulty.kv.list({ prefix: [] }));
    const before = await entries();
    const error = await assertRejects(() => World.open({ kv: faulty.kv }), StoreRefused);
    const fix = "Start the svc that wrote it, or begin with an empty store.";
    assertEquals(error.message, `The store of the test has ${has}; this svc reads only format 5. ${fix}`);
    assertEquals(await entries(), before);
  }
});

Deno.test("each of several instances that start on a new store gets its format, also while one writes to it", async () => {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  await Promise.all(Array.from({ length: 20 }, async (_, i) => {
    const [x, y] = await readWithFormatCheck<[number, string]>({ kv, place: "of the test" }, [["x"], ["y"]]);
    assertEquals([x.value === null || x.value >= 0, y.value], [true, null]);
    await kv.set(["x"], i);
  }));
  assertEquals((await kv.get(FORMAT_KEY)).value, STORE_FORMAT);
  kv.close();
});

Deno.test("a start that finds the records of another start finds its format too", async () => {
  const kv = await openTestKv();
  const { list } = kv;
  // The other start comes first between the two reads of this one.
  kv.list = ((...args: Parameters<typeof list>) => {
    kv.list = list;
    const marked = kv.atomic().set(FORMAT_KEY, STORE_FORMAT).set(["x"], 1).commit();
    const found = (async function* () {
      await marked;
      yield* kv.list(...args);
    })();
    return found as unknown as ReturnType<typeof list>;
  }) as typeof kv.list;
  const [x] = await readWithFormatCheck<[number]>({ kv, place: "of the test" }, [["x"]]);
  assertEquals(x.value, 1);
  kv.close();
});

Deno.test("a cold start of the registry on a used store is one read, a list of open suspensions, and no write", async () => {
  using faulty = await FaultyKv.open();
  const first = await World.open({ kv: faulty.kv });
  await tellStory(first);
  await first[Symbol.asyncDispose]();
  const calls: string[] = [];
  faulty.faults = { before: ({ method }) => void calls.push(method) };
  const second = await World.open({ kv: faulty.kv, seed: 2, clock: first.clock });
  assertEquals(calls, ["getMany", "list"]);
  // The proxy also reads and writes at once: it watches trust changes and writes its instance lease. What it writes once it
  // has a revocation list comes before or after the end of its start, so it gets none.
  second.registryAnswer = () => new Response(null, { status: 503 });
  await second.proxy.start();
  await flushTasks();
  assertEquals(calls.filter((method) => ["set", "commit", "delete"].includes(method)), ["set"]);
  await second[Symbol.asyncDispose]();
});
