/**
 * Shows the rules of preconditions: a record that was read and held is not read again, a record that would refuse is
 * read, and a claim takes effect only when its preconditions are unchanged.
 */
import { assert, assertEquals } from "@std/assert";
import { COMMITS_IN_FLIGHT, RELIED_MS } from "../../../../shared/server/store/open_store.ts";
import {
  readPrecondition,
  type RecordReader,
  requireUnchanged,
} from "../../../../shared/server/store/preconditions.ts";
import { GroupCommit, type GroupCommitOptions } from "../../../../shared/server/store/group_commit.ts";
import { BatchedReads } from "../../../../shared/server/store/batched_reads.ts";
import { aroundCommits, recordReads } from "../../../support/kv_hooks.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { MAX_CHECKS, openTestKv } from "../../../support/test_store.ts";

const KEPT_MS = 3_600_000;
const isGood = (value: string | null) => value === "good";

/** A store that records the keys that are read from it. */
async function open(
  options: GroupCommitOptions = {},
): Promise<{ kv: Deno.Kv; records: RecordReader; reads: number[] }> {
  const kv = await openTestKv();
  const reads = recordReads(kv);
  const commits = new GroupCommit(kv, MAX_CHECKS, options);
  return { kv, records: { commits, reads: new BatchedReads(kv) }, reads };
}

/** Decides by a record and writes the decision. */
async function decide(
  records: RecordReader,
  what: string,
  before: () => unknown = () => {},
  now = 0,
): Promise<string> {
  const seen = await readPrecondition(records, ["ground"], isGood);
  if (!isGood(seen.value)) return "refused at once";
  await before();
  const result = await records.commits.claim([
    requireUnchanged(records, seen, now, isGood, "lost"),
    { key: ["done", what], uncached: true, next: () => ({ value: true, expireInMs: KEPT_MS }) },
  ]);
  return result.taken ? "done" : String(result.refused);
}

Deno.test("a precondition that held in the last commit is not read again", async () => {
  const { kv, records, reads } = await open();
  using _ = kv;
  await kv.set(["ground"], "good");
  assertEquals(await decide(records, "first"), "done");
  reads.length = 0;
  for (let i = 0; i < 5; i++) assertEquals(await decide(records, `again-${i}`), "done");
  // The written records are read, the precondition is not.
  assertEquals(reads, [1, 1, 1, 1, 1]);
});

Deno.test("a decision takes effect only while its precondition is unchanged", async (t) => {
  const changes: [name: string, change: (kv: Deno.Kv) => Promise<unknown>, outcome: string][] = [
    ["deleted", (kv) => kv.delete(["ground"]), "lost"],
    ["changed for the worse", (kv) => kv.set(["ground"], "bad"), "lost"],
    ["written again and still valid", (kv) => kv.set(["ground"], "good"), "done"],
  ];
  for (const [name, change, outcome] of changes) {
    for (const isKnown of [false, true]) {
      await t.step(`${name}, ${isKnown ? "known from before" : "just read"}`, async () => {
        const { kv, records } = await open();
        using _ = kv;
        await kv.set(["ground"], "good");
        if (isKnown) await decide(records, "before");
        assertEquals(await decide(records, "it", () => change(kv)), outcome);
        assertEquals((await kv.get(["done", "it"])).value, outcome === "done" ? true : null);
      });
    }
  }
});

Deno.test("a claim is never refused by a cached record", async () => {
  const { kv, records } = await open();
  using _ = kv;
  await kv.set(["ground"], "good");
  assertEquals(await decide(records, "first"), "done");
  await kv.set(["ground"], "bad");
  assertEquals(await decide(records, "second"), "lost");
  assertEquals(await decide(records, "third"), "refused at once");
  await kv.set(["ground"], "good");
  assertEquals(await decide(records, "fourth"), "done");
});

Deno.test("no claim takes effect after its shared precondition has changed", async () => {
  for (let round = 0; round < 5; round++) {
    const { kv, records } = await open();
    using _ = kv;
    await kv.set(["ground"], "good");
    await decide(records, "warm");
    const all = Promise.all(Array.from({ length: 30 }, (_, i) => decide(records, `n-${i}`)));
    const end = await kv.atomic().set(["ground"], "bad").commit();
    const outcomes = await all;
    assert(end.ok);
    for (const [i, outcome] of outcomes.entries()) {
      const { versionstamp } = await kv.get(["done", `n-${i}`]);
      assertEquals(versionstamp !== null, outcome === "done");
      if (versionstamp !== null) assertEquals(versionstamp < end.versionstamp, true, "done before the end");
    }
  }
});

/** A store over the network: commits do not check what a claim only relies on. */
async function openRemote() {
  const clock = new ManualClock();
  return { clock, ...await open({ clock, inFlight: COMMITS_IN_FLIGHT, reliedMs: RELIED_MS }) };
}

Deno.test("over a network each decision reads its precondition, also one that held before", async () => {
  const { kv, records, clock } = await openRemote();
  using _ = kv;
  await kv.set(["ground"], "good");
  assertEquals(await decide(records, "first", undefined, clock.now()), "done");
  await kv.set(["ground"], "bad");
  assertEquals(await decide(records, "second", undefined, clock.now()), "refused at once");
});

Deno.test("over a network a precondition is relied on for a second, and read again before a later commit", async (t) => {
  const changes: [ms: number, outcome: string][] = [[0, "done"], [RELIED_MS, "done"], [
    RELIED_MS + 1,
    "lost",
  ]];
  for (const [ms, outcome] of changes) {
    await t.step(`${ms} ms`, async () => {
      const { kv, records, clock } = await openRemote();
      using _ = kv;
      await kv.set(["ground"], "good");
      // The record that is written is known from a commit before: only the precondition could be read.
      await records.commits.claim([{ key: ["done", "it"], next: () => ({ value: 1, expireInMs: KEPT_MS }) }]);
      const change = async () => {
        await kv.set(["ground"], "bad");
        await clock.advance(ms);
      };
      assertEquals(await decide(records, "it", change, clock.now()), outcome);
    });
  }
});

Deno.test("over a network a precondition is read again together with other records of its claim", async () => {
  const { kv, records, clock } = await openRemote();
  using _ = kv;
  await kv.set(["ground"], "good");
  assertEquals(await decide(records, "it", () => kv.set(["ground"], "bad"), clock.now()), "lost");
});

Deno.test("over a network claims that share a precondition are in flight at the same time", async () => {
  const { kv, records, clock } = await openRemote();
  using _ = kv;
  await kv.set(["ground"], "good");
  const began: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  aroundCommits(kv, async (commit) => {
    began.push("commit");
    await promise;
    return await commit();
  });
  const claims = Array.from({ length: 3 }, (_, i) => decide(records, `n-${i}`, undefined, clock.now()));
  const late = claims[0]?.then(() => {});
  while (began.length === 0) await new Promise((next) => setTimeout(next, 0));
  claims.push(decide(records, "n-3", undefined, clock.now()));
  while (began.length === 1) await new Promise((next) => setTimeout(next, 0));
  resolve();
  await late;
  assertEquals(await Promise.all(claims), ["done", "done", "done", "done"]);
});
