/**
 * Shows that reads of one turn go to the store together, ten keys in a call, each with its own answer, and that nothing
 * is cached.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { BatchedReads, MAX_QUEUED_READS, readAll } from "../../../../shared/server/store/batched_reads.ts";
import { StoreUnavailable } from "../../../../shared/server/store/store_errors.ts";
import { recordReads } from "../../../support/kv_hooks.ts";
import { openTestKv } from "../../../support/test_store.ts";

Deno.test("batched reads of one turn are sent in calls of ten keys, and each caller gets its record", async () => {
  using kv = await openTestKv();
  const calls = recordReads(kv);
  for (let i = 0; i < 25; i += 2) await kv.set(["record", i], `value-${i}`);
  const reads = new BatchedReads(kv);
  const entries = await Promise.all(Array.from({ length: 25 }, (_, i) => reads.get<string>(["record", i])));
  assertEquals(calls, [10, 10, 5]);
  assertEquals(
    entries.map(({ key, value }) => [key, value]),
    entries.map((_, i) => [["record", i], i % 2 ? null : `value-${i}`]),
  );
  assertEquals(entries.map(({ versionstamp }) => versionstamp === null), entries.map((_, i) => i % 2 === 1));
});

Deno.test("a list has one call under way, because a hundred lists would otherwise keep every commit waiting", async () => {
  using kv = await openTestKv();
  for (let i = 0; i < 25; i++) await kv.set(["record", i], i);
  const getMany = kv.getMany.bind(kv);
  let open = 0, most = 0;
  kv.getMany = (async (keys: readonly Deno.KvKey[]) => {
    most = Math.max(most, ++open);
    return await getMany([...keys]).finally(() => open--);
  }) as typeof kv.getMany;
  const entries = await readAll<number>(kv, Array.from({ length: 25 }, (_, i) => ["record", i]));
  assertEquals([entries.map(({ value }) => value), most], [Array.from({ length: 25 }, (_, i) => i), 1]);
});

Deno.test("a batched read reads the store each time", async () => {
  using kv = await openTestKv();
  const calls = recordReads(kv);
  const reads = new BatchedReads(kv);
  for (let i = 0; i < 3; i++) {
    await kv.set(["a"], i);
    assertEquals((await reads.get(["a"])).value, i);
  }
  assertEquals(calls, [1, 1, 1]);
});

Deno.test("batched reads reject for every caller while the store fails, and work again afterwards", async () => {
  using kv = await openTestKv();
  const { getMany } = kv;
  const reads = new BatchedReads(kv);
  kv.getMany = () => Promise.reject(new Error("disk I/O error"));
  const failing = Array.from(
    { length: 15 },
    (_, i) => assertRejects(() => reads.get(["record", i]), Error, "disk I/O"),
  );
  await Promise.all(failing);
  kv.getMany = getMany;
  assertEquals((await reads.get(["a"])).value, null);
});

Deno.test("with 1,000 reads unanswered another one is refused at once, and reads work again after the answers", async () => {
  using kv = await openTestKv();
  const { getMany } = kv;
  const gate = Promise.withResolvers<void>();
  const reads = new BatchedReads(kv);
  kv.getMany =
    ((keys: readonly Deno.KvKey[]) => gate.promise.then(() => getMany.call(kv, [...keys]))) as typeof getMany;
  const waiting = Array.from({ length: MAX_QUEUED_READS }, (_, i) => reads.get(["record", i]));
  await assertRejects(() => reads.get(["one more"]), StoreUnavailable);
  gate.resolve();
  assertEquals((await Promise.all(waiting)).length, MAX_QUEUED_READS);
  const again = Array.from({ length: MAX_QUEUED_READS }, (_, i) => reads.get(["record", i]));
  assertEquals((await Promise.all(again)).length, MAX_QUEUED_READS, "each answer has freed its place");
});
