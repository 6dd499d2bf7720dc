/** A call that Deno repeats over a network: the first try took effect, and the repeat is answered as a conflict (D-265). */
import { assertEquals } from "@std/assert";
import { absent, GroupCommit, type Update } from "../../../shared/server/store/group_commit.ts";
import { openTestKv } from "../../support/test_store.ts";

const once = (name: string): Update<"used"> => ({
  key: ["once", name],
  seen: absent(["once", name]),
  uncached: true,
  next: (current) => current === null ? { value: true, expireInMs: 60_000 } : { refuse: "used" },
});

Deno.test("a claim is taken once when its commit is sent twice and the second answer is a conflict", async () => {
  const kv = await openTestKv();
  const { atomic } = kv;
  let repeats = 1;
  kv.atomic = () => {
    const operation = atomic.call(kv);
    const commit = operation.commit.bind(operation);
    operation.commit = async () => {
      const first = await commit();
      return repeats-- > 0 ? await commit() : first;
    };
    return operation;
  };
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
