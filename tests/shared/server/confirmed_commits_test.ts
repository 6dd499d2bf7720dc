/**
 * Commits that Deno repeats over a network: the conflict of a repeat is found to be the commit itself, and a real
 * conflict stays one. A store in memory sends each commit twice, as Deno does when an answer is lost.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { confirmCommits } from "../../../shared/server/confirmed_commits.ts";
import { aroundCommits } from "../../support/kv_hooks.ts";
import { openTestKv } from "../../support/test_store.ts";
import { refreshed } from "../../support/registry_world.ts";
import { World } from "../../support/world.ts";

const KEY: Deno.KvKey = ["once", "k"];

/** Opens a store that sends a commit twice when `repeats` says so. */
async function repeating(repeats: (number: number) => boolean): Promise<Deno.Kv> {
  const kv = await openTestKv();
  let made = 0;
  aroundCommits(kv, async (commit) => {
    const isRepeated = repeats(++made);
    const first = await commit();
    return isRepeated ? await commit() : first;
  });
  return kv;
}

async function storeMarks(kv: Deno.Kv): Promise<Deno.KvEntry<unknown>[]> {
  return await Array.fromAsync(kv.list({ prefix: ["store"] }));
}

Deno.test("a commit whose repeat conflicts with it is committed, with its versionstamp", async () => {
  using kv = await repeating(() => true);
  confirmCommits(kv, "me");
  const result = await kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, "a").commit();
  assert(result.ok);
  assertEquals(result.versionstamp, (await kv.get(KEY)).versionstamp);
  const deleted = await kv.atomic().check({ key: KEY, versionstamp: result.versionstamp }).delete(KEY).commit();
  assertEquals([deleted.ok, (await kv.get(KEY)).value], [true, null]);
});

Deno.test("a conflict with another writer stays a conflict, also when it is repeated", async () => {
  using kv = await repeating(() => true);
  confirmCommits(kv, "me");
  await kv.set(KEY, "other");
  for (let i = 0; i < 3; i++) {
    assertEquals(await kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, "a").commit(), { ok: false });
  }
  assertEquals((await kv.get(KEY)).value, "other");
  assertEquals(await storeMarks(kv), []);
});

Deno.test("only a commit that can conflict, and that has no mark of its own, writes a mark", async () => {
  using kv = await openTestKv();
  confirmCommits(kv, "me");
  const check = { key: KEY, versionstamp: null };
  await kv.atomic().set(["x"], 1).commit();
  await kv.atomic().check(check).commit();
  await kv.atomic().check(check).set(KEY, 1).set(["proxy", "commit_mark", "i", 0, 0], 7).commit();
  assertEquals(await storeMarks(kv), []);
  await kv.atomic().check({ key: ["y"], versionstamp: null }).delete(["y"]).commit();
  await kv.atomic().check({ key: ["z"], versionstamp: null }).set(["z"], 1).commit();
  // Both commits, one after the other, use one mark.
  assertEquals((await storeMarks(kv)).map(({ key, value }) => [key, value]), [[["store", "commit_mark", "me", 0], 2]]);
});

Deno.test("a conflict whose mark cannot be read is an error, and a commit that fails gives its mark up", async () => {
  using kv = await repeating((number) => number === 1);
  let fails = true;
  const get = kv.get.bind(kv);
  kv.get = (...args) => fails ? Promise.reject(new Error("no answer")) : get(...args);
  confirmCommits(kv, "me");
  const operation = () => kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, "a");
  await assertRejects(() => operation().commit(), Error, "no answer");
  fails = false;
  assertEquals(await operation().commit(), { ok: false });
  await kv.delete(KEY);
  assert((await operation().commit()).ok);
  assertEquals((await storeMarks(kv)).map(({ key }) => key.at(-1)), [0, 1]);
});

Deno.test("of any commits at once on one key, repeated or not, exactly one is committed", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { minLength: 2, maxLength: 12 }), async (repeats) => {
      using kv = await repeating((number) => repeats[number - 1] ?? false);
      confirmCommits(kv, "me");
      const results = await Promise.all(
        repeats.map((_, i) => kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, i).commit()),
      );
      const winners = results.flatMap(({ ok }, i) => ok ? [i] : []);
      assertEquals(winners, [(await kv.get<number>(KEY)).value]);
    }),
    { numRuns: 60, seed: 1 },
  );
});

Deno.test("invite, registration, refresh and pairing succeed when every commit is repeated", async () => {
  using kv = await repeating(() => true);
  confirmCommits(kv, "me");
  await using w = await World.open({ kv });
  const [a, b] = [await w.agent(), await w.agent()];
  const { accessToken } = await refreshed(w, a, a.agentAuth.refreshToken);
  assert(accessToken !== a.agentAuth.accessToken);
  await w.pair(b, a);
});
