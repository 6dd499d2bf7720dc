/**
 * Shows that group commit can use records that were read or committed a moment ago and is correct when they are stale:
 * it evaluates the claim again, above all before a refusal. Two instances on one store stand for every change in
 * between.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { GroupCommit } from "../../../../shared/server/store/group_commit.ts";
import { add, once, type Seen } from "../../../support/claims.ts";
import { recordReads } from "../../../support/kv_hooks.ts";
import { steps } from "../../../support/steps.ts";
import { MAX_CHECKS, openTestKv } from "../../../support/test_store.ts";
import { IS_LONG } from "../../../support/trials.ts";

Deno.test("a record that was just read or committed is not read again", async () => {
  using kv = await openTestKv();
  const reads = recordReads(kv);
  const commits = new GroupCommit(kv, MAX_CHECKS);
  const seen = await kv.get(["nonce"]);
  assertEquals(await commits.claim([once("nonce", "a", seen)]), { taken: true });
  await commits.claim([add("count", 1)]);
  const before = [...reads];
  for (let i = 0; i < 5; i++) await commits.claim([add("count", 1)]);
  assertEquals([before, reads, (await kv.get(["count"])).value], [[1], [1], 6]);
});

Deno.test("a single-use record is taken once when it was taken after the read", async (t) => {
  const takers: [name: string, take: (kv: Deno.Kv, own: GroupCommit) => Promise<unknown>][] = [
    ["by this instance", (_, own) => own.claim([once("nonce", "first")])],
    ["by another instance", (kv) => new GroupCommit(kv, MAX_CHECKS).claim([once("nonce", "first")])],
    ["by another writer", (kv) => kv.set(["nonce"], "first")],
  ];
  await steps(t, takers, async ([, take]) => {
    using kv = await openTestKv();
    const commits = new GroupCommit(kv, MAX_CHECKS);
    const seen = await kv.get(["nonce"]);
    await take(kv, commits);
    assertEquals(await commits.claim([once("nonce", "second", seen)]), { taken: false, refused: "taken" });
    assertEquals((await kv.get(["nonce"])).value, "first");
  });
});

Deno.test("a claim is never refused by a stale record", async (t) => {
  const frees: [name: string, free: (kv: Deno.Kv) => Promise<unknown>][] = [
    ["deleted", (kv) => kv.delete(["record"])],
    [
      "by another instance",
      (kv) => new GroupCommit(kv, MAX_CHECKS).claim([{ key: ["record"], next: () => ({ delete: true }) }]),
    ],
  ];
  await steps(t, frees, async ([, free]) => {
    using kv = await openTestKv();
    const commits = new GroupCommit(kv, MAX_CHECKS);
    await commits.claim([once("record", "first")]);
    const seen = await kv.get(["record"]);
    await free(kv);
    assertEquals(await commits.claim([once("record", "second")]), { taken: true }, "remembered");
    await free(kv);
    assertEquals(await commits.claim([once("record", "third", seen)]), { taken: true }, "handed in");
    assertEquals((await kv.get(["record"])).value, "third");
  });
});

Deno.test("claims of one batch use the newest version of a record and each other's changes", async () => {
  using kv = await openTestKv();
  const commits = new GroupCommit(kv, MAX_CHECKS);
  const empty = await kv.get(["count"]);
  await kv.set(["count"], 10);
  const ten = await kv.get(["count"]);
  await kv.set(["count"], 20);
  const results = await Promise.all(
    [empty, ten, undefined, empty].map((seen) => commits.claim([add("count", 1, 23, seen)])),
  );
  assertEquals(results.map((result) => result.taken), [true, true, true, false]);
  assertEquals((await kv.get(["count"])).value, 23);
});

Deno.test("every claim ends as by the current record for any earlier reads", async () => {
  const key = fc.constantFrom("a", "b", "c");
  const step = fc.record({
    instance: fc.constantFrom(0, 1),
    /** Number of steps since each record was read; 0 for not read. */
    ago: fc.nat(4),
    updates: fc.uniqueArray(fc.record({ key, n: fc.integer({ min: -2, max: 3 }) }), {
      minLength: 1,
      maxLength: 3,
      selector: (update) => update.key,
    }),
    /** The change that another process makes before it. */
    other: fc.option(fc.record({ key, value: fc.option(fc.nat(5), { nil: null }) }), { nil: null }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 15 }), async (steps) => {
      using kv = await openTestKv();
      const instances = [new GroupCommit(kv, 10), new GroupCommit(kv, 10)];
      const model = new Map<string, number>();
      const pictures: Map<string, Seen>[] = [];
      for (const { instance, ago, updates, other } of steps) {
        const picture = new Map<string, Seen>();
        for (const name of ["a", "b", "c"]) picture.set(name, await kv.get([name]));
        pictures.push(picture);
        if (other?.value === null) {
          await kv.delete([other.key]);
          model.delete(other.key);
        } else if (other) {
          await kv.set([other.key], other.value);
          model.set(other.key, other.value);
        }
        const seen = ago === 0 ? undefined : pictures.at(-ago);
        const expected = updates.every((update) => (model.get(update.key) ?? 0) + update.n <= 5);
        const result = await instances[instance]?.claim(
          updates.map((update) => add(update.key, update.n, 5, seen?.get(update.key))),
        );
        assert(result);
        assertEquals(result.taken, expected);
        if (expected) { for (const update of updates) model.set(update.key, (model.get(update.key) ?? 0) + update.n); }
        for (const name of ["a", "b", "c"]) assertEquals((await kv.get([name])).value, model.get(name) ?? null);
      }
    }),
    { numRuns: IS_LONG ? 100 : 35, seed: 1 },
  );
});
