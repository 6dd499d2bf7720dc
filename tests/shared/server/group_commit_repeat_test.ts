/** A call that Deno repeats over a network: the first try took effect, and the repeat is answered as a conflict. */
import { assertEquals } from "@std/assert";
import { absent, type Update } from "../../../shared/server/store/batch.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { aroundCommits } from "../../support/kv_hooks.ts";
import { openTestKv } from "../../support/test_store.ts";

const once = (name: string): Update<"used"> => ({
  key: ["once", name],
  seen: absent(["once", name]),
  uncached: true,
  next: (current) => current === null ? { value: true, expireInMs: 60_000 } : { refuse: "used" },
});

Deno.test("a claim is taken once when its commit is sent twice and the second answer is a conflict", async () => {
  const kv = await openTestKv();
  let made = 0;
  aroundCommits(kv, async (commit) => {
    const isFirst = ++made === 1, first = await commit();
    return isFirst ? await commit() : first;
  });
  try {
    await kv.set(["once", "b"], true);
    const commits = new GroupCommit(kv, 10, { markKey: ["mark"] });
    const fates = await Promise.all([
      commits.claim([once("a")]),
      commits.claim([{ key: ["once", "b"], next: () => ({ refuse: "used" }) }]),
    ]);
    assertEquals(fates, [{ taken: true }, { taken: false, refused: "used" }]);
    assertEquals(await commits.claim([once("a")]), { taken: false, refused: "used" });
  } finally {
    await kv.close();
  }
});

Deno.test("a claim is taken once when its batch is halved after a conflict of a commit that took effect", async () => {
  using kv = await openTestKv();
  await kv.set(["once", "freed"], true);
  let made = 0;
  aroundCommits(kv, async (commit) => {
    const number = ++made;
    if (number === 1) return { ok: false };
    if (number > 2) return await commit();
    await commit();
    // Another client frees a record, so the claim in the first half is taken and writes a mark.
    await kv.delete(["once", "freed"]);
    return await commit();
  });
  const commits = new GroupCommit(kv, 10, { markKey: ["mark"] });
  const fates = await Promise.all([commits.claim([once("freed")]), commits.claim([once("a")])]);
  assertEquals(fates, [{ taken: true }, { taken: true }]);
});
