/**
 * Shows D-97: a store of an earlier version works under this one once it is converted, a moved store works in its new place, and a store of
 * a newer version is not changed. `store-1.json` is frozen: the store of the first version.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { FROM_FORMAT_1 } from "../../../../proxy/schema/format_1.ts";
import { StoreRefused } from "../../../../shared/server/store/open_store.ts";
import { wrapStoreErrors } from "../../../../shared/server/store/store_errors.ts";
import {
  ConversionNeeded,
  convertStore,
  readWithFormatCheck,
  STORE_FORMAT,
} from "../../../../shared/server/store/store_format.ts";
import { exportLines, importLines } from "../../../../shared/server/store/transfer.ts";
import { FaultyKv } from "../../../support/faulty_kv.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { goesOn, IMPORTED, type Kept, TABLES, tellStory } from "../../../support/store_story.ts";
import { World } from "../../../support/world.ts";
import { openTestKv } from "../../../support/test_store.ts";

const FORMAT_KEY = ["store", "format"];
const FIRST: { kept: Kept; lines: string[] } = JSON.parse(
  await Deno.readTextFile(new URL("../../../vectors/store-1.json", import.meta.url)),
);

async function* linesOf(lines: readonly string[]): AsyncGenerator<string> {
  yield* lines;
}

/** A world over an exported store, at the time of the export. */
async function moved(kept: Kept, lines: readonly string[]): Promise<{ kv: Deno.Kv; w: World }> {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  await importLines(kv, IMPORTED, linesOf(lines), kept.now);
  const clock = new ManualClock(kept.now);
  await convertStore({ kv, isExclusive: true }, clock, "a start", FROM_FORMAT_1);
  return { kv, w: await World.open({ kv, seed: 2, clock }) };
}

Deno.test("records of the first version's store stay valid", async () => {
  const { kv, w } = await moved(FIRST.kept, FIRST.lines);
  await goesOn(w, FIRST.kept);
  await w[Symbol.asyncDispose]();
  kv.close();
});

Deno.test("a store without a format gets one when it starts again", async () => {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  const w1 = await World.open({ kv });
  const kept = await tellStory(w1);
  await w1[Symbol.asyncDispose]();
  await kv.delete(FORMAT_KEY);
  const clock = new ManualClock(kept.now);
  // It may be a store of the first versions.
  await assertRejects(() => World.open({ kv, seed: 2, clock }), ConversionNeeded);
  await convertStore({ kv, isExclusive: true }, clock, "a start", FROM_FORMAT_1);
  const w2 = await World.open({ kv, seed: 2, clock });
  assertEquals((await kv.get(FORMAT_KEY)).value, STORE_FORMAT);
  await goesOn(w2, kept);
  await w2[Symbol.asyncDispose]();
  kv.close();
});

Deno.test("records of a moved store stay valid", async () => {
  await using w = await World.open();
  const kept = await tellStory(w);
  const { kv, w: there } = await moved(kept, await Array.fromAsync(exportLines(w.kv, TABLES, w.clock.now())));
  await goesOn(there, kept);
  await there[Symbol.asyncDispose]();
  kv.close();
});

Deno.test("a store of a newer version is refused with its reason and stays unchanged", async () => {
  using faulty = await FaultyKv.open();
  await faulty.kv.set(FORMAT_KEY, STORE_FORMAT + 1);
  const { versionstamp } = await faulty.kv.get(FORMAT_KEY);
  const error = await assertRejects(() => World.open({ kv: faulty.kv }), StoreRefused);
  assertStringIncludes(error.message, `The store has format ${STORE_FORMAT + 1}`);
  assertStringIncludes(error.message, "Start the version that wrote it, or a newer one.");
  const left = await Array.fromAsync(faulty.kv.list({ prefix: [] }));
  assertEquals(left.map((entry): unknown[] => [entry.key, entry.versionstamp]), [[FORMAT_KEY, versionstamp]]);
});

Deno.test("each of several instances that start on a new store finds the format and its records", async () => {
  const kv = await openTestKv();
  await kv.set(["x"], 1);
  const starts = await Promise.all(
    Array.from({ length: 20 }, () => readWithFormatCheck<[number, string]>(kv, [["x"], ["y"]])),
  );
  for (const [x, y] of starts) assertEquals([x.value, y.value], [1, null]);
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
  // The proxy also reads and writes at once: it watches trust changes and writes its instance lease.
  await second.proxy.start();
  assertEquals(calls.filter((method) => ["set", "commit", "delete"].includes(method)), ["set"]);
  await second[Symbol.asyncDispose]();
});
