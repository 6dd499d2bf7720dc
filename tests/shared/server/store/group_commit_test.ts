/**
 * Shows the rules of group commit: many claims and few commits, each claim completely or not at all, each with its own
 * result. Runs on the real store in memory, with another writer and a failing store before the commits.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { Update } from "../../../../shared/server/store/batch.ts";
import { GroupCommit } from "../../../../shared/server/store/group_commit.ts";
import { StoreUnavailable, wrapStoreErrors } from "../../../../shared/server/store/store_errors.ts";
import { add, KEPT_MS, once } from "../../../support/claims.ts";
import { aroundCommits } from "../../../support/kv_hooks.ts";
import { steps } from "../../../support/steps.ts";
import { MAX_CHECKS, openTestKv } from "../../../support/test_store.ts";

/**
 * Lets a test act just before every commit of a real store. The test gets the number of keys that the commit checks.
 */
function beforeCommits(kv: Deno.Kv, act: (checks: number) => void | Promise<void>): void {
  aroundCommits(kv, async (commit, checks) => {
    await act(checks);
    return await commit();
  });
}

async function valueOf(kv: Deno.Kv, key: string): Promise<unknown> {
  return (await kv.get([key])).value;
}

Deno.test("claims that arrive during a commit form the next one", async () => {
  using kv = await openTestKv();
  const commits = new GroupCommit(kv, MAX_CHECKS);
  const more: Promise<unknown>[] = [];
  let made = 0;
  beforeCommits(kv, () => {
    if (made++ === 0) { for (let i = 0; i < MAX_CHECKS / 2; i++) more.push(commits.claim([add(`key-${i}`)])); }
  });
  await commits.claim([add("first")]);
  await Promise.all(more);
  assertEquals([more.length, made], [MAX_CHECKS / 2, 2]);
});

Deno.test("a claim waits for no timer but that of its deadline", async () => {
  using kv = await openTestKv();
  const commits = new GroupCommit(kv, 10);
  let contended = true;
  beforeCommits(kv, async () => {
    if (contended) await kv.set(["count"], 5);
    contended = false;
  });
  const { setTimeout, setInterval } = globalThis;
  let timers = 0;
  const noTimer = () => {
    timers++;
    return 0;
  };
  globalThis.setTimeout = noTimer as unknown as typeof setTimeout;
  globalThis.setInterval = noTimer as unknown as typeof setInterval;
  try {
    await Promise.all(Array.from({ length: 30 }, (_, i) => commits.claim([add("count"), add(`other-${i}`)])));
  } finally {
    Object.assign(globalThis, { setTimeout, setInterval });
  }
  assertEquals([timers, await valueOf(kv, "count")], [1, 35]);
});

Deno.test("a claim that changes nothing or is refused commits nothing", async () => {
  using kv = await openTestKv();
  let made = 0;
  beforeCommits(kv, () => void made++);
  const commits = new GroupCommit(kv, MAX_CHECKS);
  assertEquals(await commits.claim([{ key: ["a"], next: () => "keep" }]), { taken: true });
  assertEquals(await commits.claim([{ key: ["a"], next: () => ({ refuse: "no" }) }]), { taken: false, refused: "no" });
  assertEquals(await commits.claim([]), { taken: true });
  assertEquals(made, 0);
});

Deno.test("a claim that fails in a batch fails alone", async (t) => {
  const bad: [name: string, update: Update<never>, message: string][] = [
    ["its update throws", {
      key: ["bad"],
      next() {
        throw new RangeError("of this claim");
      },
    }, "of this claim"],
    ["its value does not fit the store", {
      key: ["bad"],
      next: () => ({ value: "x".repeat(70_000), expireInMs: KEPT_MS }),
    }, "too large"],
  ];
  await steps(t, bad, async ([, update, message]) => {
    using kv = await openTestKv();
    wrapStoreErrors(kv);
    const commits = new GroupCommit(kv, MAX_CHECKS);
    const good = (i: number) => commits.claim([add("count"), add(`key-${i}`)]);
    const before = Array.from({ length: 20 }, (_, i) => good(i));
    const failing = assertRejects(() => commits.claim([add("count", 1000), update]), Error, message);
    const after = Array.from({ length: 20 }, (_, i) => good(20 + i));
    assertEquals((await Promise.all([...before, ...after])).every((result) => result.taken), true);
    await failing;
    assertEquals([await valueOf(kv, "count"), await valueOf(kv, "bad")], [40, null]);
  });
});

Deno.test("a claim is evaluated again when it conflicts, and the rest of its batch takes effect", async () => {
  using kv = await openTestKv();
  let writes = 3;
  beforeCommits(kv, async () => {
    if (writes-- > 0) await kv.set(["contended"], 100 * (writes + 1));
  });
  const commits = new GroupCommit(kv, MAX_CHECKS);
  const results = await Promise.all([
    commits.claim([add("contended")]),
    ...Array.from({ length: 20 }, (_, i) => commits.claim([add(`key-${i}`)])),
  ]);
  assertEquals(results.every((result) => result.taken), true);
  assertEquals(await valueOf(kv, "contended"), 101);
  for (let i = 0; i < 20; i++) assertEquals(await valueOf(kv, `key-${i}`), 1);
});

Deno.test("a claim never overwrites a record that another writer took first", async () => {
  using kv = await openTestKv();
  let other = true;
  beforeCommits(kv, async () => {
    if (other) await kv.set(["nonce"], "other instance");
    other = false;
  });
  const commits = new GroupCommit(kv, MAX_CHECKS);
  const results = await Promise.all([
    commits.claim([once("nonce", "this instance"), add("count")]),
    commits.claim([add("count")]),
  ]);
  assertEquals(results, [{ taken: false, refused: "taken" }, { taken: true }]);
  assertEquals([await valueOf(kv, "nonce"), await valueOf(kv, "count")], ["other instance", 1]);
});

Deno.test("a claim is refused after ten attempts when its record stays contended", async () => {
  using kv = await openTestKv();
  let tries = 0;
  beforeCommits(kv, async () => {
    tries++;
    await kv.set(["contended"], tries);
  });
  const commits = new GroupCommit(kv, MAX_CHECKS);
  const alone = assertRejects(() => commits.claim([add("contended")]), StoreUnavailable);
  await alone;
  assertEquals(tries, LIMITS.commitRetries);
  const together = assertRejects(() => commits.claim([add("contended")]), StoreUnavailable);
  assertEquals(await commits.claim([add("other")]), { taken: true });
  await together;
});

Deno.test("a commit checks at most as many keys as the store accepts", async (t) => {
  for (const maxChecks of new Set([LIMITS.commitChecksConnect, MAX_CHECKS])) {
    await t.step(`${maxChecks} keys`, async () => {
      using kv = await openTestKv();
      const checks: number[] = [];
      beforeCommits(kv, (count) => void checks.push(count));
      const commits = new GroupCommit(kv, maxChecks);
      const claims = Array.from({ length: 250 }, (_, i) => [add(`a-${i}`), add(`b-${i}`), add(`shared-${i % 7}`)]);
      const results = await Promise.all(claims.map((updates) => commits.claim(updates)));
      assertEquals(results.every((result) => result.taken), true);
      assert(Math.max(...checks) <= maxChecks, `${Math.max(...checks)} checks`);
      assert(Math.max(...checks) > maxChecks - 3, "commits are not filled");
      const shared = await Promise.all(Array.from({ length: 7 }, (_, i) => valueOf(kv, `shared-${i}`)));
      assertEquals((shared as number[]).reduce((sum, n) => sum + n, 0), 250);
    });
  }
});

Deno.test("a commit carries at most the allowed payload, and every claim takes effect", async () => {
  using kv = await openTestKv();
  const perCommit: number[] = [];
  beforeCommits(kv, (checks) => void perCommit.push(checks));
  const commits = new GroupCommit(kv, MAX_CHECKS);
  const bytes = 60_000;
  const big = (i: number): Update<never> => ({
    key: [`big-${i}`],
    bytes,
    next: () => ({ value: "x".repeat(bytes), expireInMs: KEPT_MS }),
  });
  const results = await Promise.all(Array.from({ length: 35 }, (_, i) => commits.claim([big(i)])));
  assertEquals(results.every((result) => result.taken), true);
  assertEquals(perCommit, [10, 10, 10, 5]);
  assertEquals(perCommit.every((count) => count * bytes <= LIMITS.commitBytes), true);
});

Deno.test("dependent records are written and deleted with their record or not at all", async () => {
  using kv = await openTestKv();
  await kv.set(["old part"], 1);
  const commits = new GroupCommit(kv, MAX_CHECKS);
  const put: Update<"no"> = {
    key: ["head"],
    next: () => ({
      value: "new",
      expireInMs: KEPT_MS,
      also: [{ key: ["part"], value: 2, expireInMs: KEPT_MS }, { key: ["old part"], delete: true }],
    }),
  };
  const refuse: Update<"no"> = { key: ["other"], next: () => ({ refuse: "no" }) };
  assertEquals(await commits.claim([put, refuse]), { taken: false, refused: "no" });
  assertEquals([await valueOf(kv, "head"), await valueOf(kv, "part"), await valueOf(kv, "old part")], [null, null, 1]);
  const next: Update<"no"> = {
    key: ["head"],
    next: () => ({ value: "new", expireInMs: KEPT_MS, also: [{ key: ["next part"], value: 3, expireInMs: KEPT_MS }] }),
  };
  const both = await Promise.all([commits.claim([put]), commits.claim([next])]);
  assertEquals(both, [{ taken: true }, { taken: true }]);
  assertEquals([await valueOf(kv, "head"), await valueOf(kv, "part"), await valueOf(kv, "old part")], ["new", 2, null]);
  assertEquals(await valueOf(kv, "next part"), 3);
  const remove: Update<never> = {
    key: ["head"],
    next: (current) => {
      assertEquals(current, "new");
      return { delete: true, also: [{ key: ["part"], delete: true }] };
    },
  };
  const after: Update<never> = { key: ["head"], next: (current) => (assertEquals(current, null), "keep") };
  await Promise.all([commits.claim([remove]), commits.claim([after])]);
  assertEquals([await valueOf(kv, "head"), await valueOf(kv, "part")], [null, null]);
});

Deno.test("every claim is rejected while the store fails, and the next ones are accepted afterwards", async (t) => {
  await steps(t, ["getMany", "commit"] as const, async (call) => {
    using kv = await openTestKv();
    const { getMany } = kv;
    let broken = true;
    const fail = () => {
      if (broken) throw new Error("disk I/O error");
    };
    if (call === "commit") beforeCommits(kv, fail);
    else {
      kv.getMany = ((...args: Parameters<typeof getMany>) => {
        fail();
        return getMany.apply(kv, args);
      }) as typeof kv.getMany;
    }
    wrapStoreErrors(kv);
    const commits = new GroupCommit(kv, MAX_CHECKS);
    const claims = Array.from({ length: 30 }, (_, i) => commits.claim([add("count"), add(`key-${i}`)]));
    const results = await Promise.allSettled(claims);
    for (const result of results) assert(result.status === "rejected" && result.reason instanceof StoreUnavailable);
    broken = false;
    assertEquals(await commits.claim([add("count")]), { taken: true });
    assertEquals(await valueOf(kv, "count"), 1);
  });
});

Deno.test("concurrent claims have the result of claims in sequence", async () => {
  const update = fc.record({ key: fc.constantFrom("a", "b", "c", "d"), n: fc.integer({ min: -1, max: 3 }) });
  const claim = fc.uniqueArray(update, { minLength: 1, maxLength: 3, selector: ({ key }) => key });
  // n < 0 keeps the record, and no counter exceeds 5.
  const next = (n: number) => (current: unknown) => {
    const sum = (current as number ?? 0) + n;
    return n < 0 ? "keep" as const : sum > 5 ? { refuse: "full" as const } : { value: sum, expireInMs: KEPT_MS };
  };
  const model = (claims: { key: string; n: number }[][]) => {
    const records = new Map<string, number>();
    const results = claims.map((updates) => {
      const verdicts = updates.map(({ key, n }) => [key, next(n)(records.get(key) ?? null)] as const);
      if (verdicts.some(([, verdict]) => verdict !== "keep" && "refuse" in verdict)) return false;
      for (const [key, verdict] of verdicts) {
        if (verdict !== "keep" && "value" in verdict) records.set(key, verdict.value);
      }
      return true;
    });
    return { results, records };
  };
  await fc.assert(
    fc.asyncProperty(fc.array(claim, { maxLength: 25 }), fc.constantFrom(3, 10), async (claims, maxChecks) => {
      using kv = await openTestKv();
      const commits = new GroupCommit(kv, maxChecks);
      const results = await Promise.all(
        claims.map((updates) => commits.claim(updates.map(({ key, n }) => ({ key: [key], next: next(n) })))),
      );
      const expected = model(claims);
      assertEquals(results.map((result) => result.taken), expected.results);
      for (const key of ["a", "b", "c", "d"]) assertEquals(await valueOf(kv, key), expected.records.get(key) ?? null);
    }),
    { numRuns: 60, seed: 1 },
  );
});
