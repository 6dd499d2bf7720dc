/**
 * Records that a commit has checked are not checked again while none of their kind is written: which writes count and
 * for how long, and that a decision never takes effect after its record has changed.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { BatchedReads } from "../../../shared/server/store/batched_reads.ts";
import type { Update } from "../../../shared/server/store/batch.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { readPrecondition, requireUnchanged } from "../../../shared/server/store/preconditions.ts";
import { isUnwritten, WriteWatch } from "../../../shared/server/write_watch.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { aroundCommits } from "../../support/kv_hooks.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { steps } from "../../support/steps.ts";
import { tempFolder } from "../../support/temp_folder.ts";
import { MAX_CHECKS, openTestKv } from "../../support/test_store.ts";

const GROUND: Deno.KvKey = ["one", "ground", "a"];
const KEPT_MS = 3_600_000;
const NOW = 1_000_000;
const isGood = (value: string | null) => value === "good";

/** Decides by the ground record, and writes a record for each decision. */
class Decider {
  /** Checks of each commit. */
  readonly checks: number[] = [];
  readonly clock = new ManualClock();
  readonly #commits: GroupCommit;
  readonly #reads: BatchedReads;
  /** Shared by all decisions, as the messages of a sender share what was proven of it. */
  #held: Update<string> | null = null;

  constructor(readonly kv: Deno.Kv) {
    aroundCommits(kv, (commit, checks) => {
      this.checks.push(checks);
      return commit();
    });
    this.#commits = new GroupCommit(kv, MAX_CHECKS, { clock: this.clock, writes: new WriteWatch(kv) });
    this.#reads = new BatchedReads(kv);
  }

  async decide(what: string, before: () => unknown = () => {}): Promise<string> {
    const seen = await readPrecondition<string>({ commits: this.#commits, reads: this.#reads }, GROUND, isGood);
    if (!isGood(seen.value)) return "refused at once";
    await before();
    const held = this.#held ??= requireUnchanged({ commits: this.#commits }, seen, 0, isGood, "lost");
    const result = await this.#commits.claim([
      held,
      { key: ["one", "done", what], uncached: true, next: () => ({ value: true, expireInMs: KEPT_MS }) },
    ]);
    if (result.taken) return "done";
    if (this.#held === held) this.#held = null;
    return String(result.refused);
  }
}

Deno.test("a record that a commit has checked is not checked again until one of its kind is written", async () => {
  using kv = await openTestKv();
  const { decide, checks } = bound(new Decider(kv));
  await kv.set(GROUND, "good");
  for (const what of ["first", "second", "third"]) assertEquals(await decide(what), "done");
  assertEquals(checks, [2, 1, 1]);
  await kv.set(["one", "other", "a"], 1);
  assertEquals(await decide("other kind"), "done");
  await kv.set(["one", "ground", "b"], "bad");
  assertEquals(await decide("same kind"), "done");
  assertEquals(await decide("again"), "done");
  assertEquals(checks, [2, 1, 1, 1, 2, 1]);
});

Deno.test("a record is checked again after a second, so a change that this process did not make counts then", async () => {
  using kv = await openTestKv();
  const byAnother = kv.set.bind(kv);
  const decider = new Decider(kv);
  const { decide, checks } = bound(decider);
  await kv.set(GROUND, "good");
  for (const what of ["first", "second"]) assertEquals(await decide(what), "done");
  await byAnother(GROUND, "bad");
  decider.clock.step(999);
  assertEquals(await decide("within the second"), "done");
  decider.clock.step(1);
  assertEquals(await decide("after it"), "lost");
  assertEquals(checks.slice(0, 4), [2, 1, 1, 2]);
});

Deno.test("a clock that steps back has a record checked again", async () => {
  using kv = await openTestKv();
  const decider = new Decider(kv);
  const { decide, checks } = bound(decider);
  await kv.set(GROUND, "good");
  for (const what of ["first", "second"]) assertEquals(await decide(what), "done");
  decider.clock.step(-1);
  assertEquals(await decide("third"), "done");
  assertEquals(checks, [2, 1, 2]);
});

Deno.test("claims whose records are no longer held together make no commit with too many checks", async () => {
  using store = await FaultyKv.open({ maxChecks: 10 });
  const { kv } = store;
  const commits = new GroupCommit(kv, 10, { writes: new WriteWatch(kv) });
  const held: Update<string>[] = [];
  for (let i = 0; i < 8; i++) {
    const key = [...GROUND, i];
    await kv.set(key, "good");
    held.push(requireUnchanged({ commits }, await kv.get<string>(key), 0, isGood, "lost"));
  }
  for (const what of ["alone", "held", "checked"]) {
    if (what === "checked") await kv.set([...GROUND, "other"], "good");
    const claims = held.map((one, i) =>
      commits.claim<string>([
        one,
        { key: ["one", "done", what, i], uncached: true, next: () => ({ value: true, expireInMs: KEPT_MS }) },
      ])
    );
    assert((await Promise.all(claims)).every(({ taken }) => taken), what);
  }
  assert(store.mostChecks <= 10, `${store.mostChecks} checks`);
});

Deno.test("every way to write a record counts", async (t) => {
  const ways: [name: string, write: (kv: Deno.Kv) => Promise<unknown>][] = [
    ["set", (kv) => kv.set(GROUND, "bad")],
    ["delete", (kv) => kv.delete(GROUND)],
    ["atomic set", (kv) => kv.atomic().check({ key: ["x"], versionstamp: null }).set(GROUND, "bad").commit()],
    ["atomic delete", (kv) => kv.atomic().set(["x"], 1).delete(GROUND).commit()],
  ];
  await steps(t, ways, async ([, write]) => {
    using kv = await openTestKv();
    const { decide } = bound(new Decider(kv));
    await kv.set(GROUND, "good");
    assertEquals([await decide("first"), await decide("second")], ["done", "done"]);
    assertEquals(await decide("it", () => write(kv)), "lost");
    assertEquals((await kv.get(["one", "done", "it"])).value, null);
    assertEquals(await decide("after"), "refused at once");
  });
});

Deno.test("a record that is written while its commit reads another one is checked", async () => {
  using kv = await openTestKv();
  const { decide } = bound(new Decider(kv));
  await kv.set(GROUND, "good");
  assertEquals([await decide("first"), await decide("second")], ["done", "done"]);
  const getMany = kv.getMany.bind(kv);
  kv.getMany = async (...keys) => {
    const entries = await getMany(...keys);
    await kv.set(GROUND, "bad");
    return entries as never;
  };
  assertEquals(await decide("third"), "lost");
});

Deno.test("a write counts from its call until the store has answered, also when it fails", async () => {
  using kv = await openTestKv();
  const answers: PromiseWithResolvers<Deno.KvCommitResult>[] = [];
  kv.set = () => {
    const answer = Promise.withResolvers<Deno.KvCommitResult>();
    answers.push(answer);
    return answer.promise;
  };
  const watch = new WriteWatch(kv);
  const key = ["n", "k", 1];
  const before = watch.momentOf(key, NOW);
  assert(before && isUnwritten(before, NOW));
  const [first, second] = [kv.set(key, 1), kv.set(["n", "k", 2], 1)];
  assertEquals([isUnwritten(before, NOW), watch.momentOf(key, NOW)], [false, null]);
  answers[0]?.resolve({ ok: true, versionstamp: "1" });
  await first;
  assertEquals(watch.momentOf(key, NOW), null);
  answers[1]?.reject(new Error("full"));
  await assertRejects(() => second, Error, "full");
  const after = watch.momentOf(key, NOW);
  assert(after && isUnwritten(after, NOW) && !isUnwritten(before, NOW));
  void kv.set(key, 2);
  // This one is never answered, so it may still take effect.
  assertEquals([isUnwritten(after, NOW), watch.momentOf(key, NOW)], [false, null]);
});

Deno.test("no decision takes effect after its record has changed, in a store in memory and in a file", async (t) => {
  const step = fc.constantFrom("decide", "decide", "decide", "good", "bad", "wait");
  await steps(t, ["memory", "file"] as const, async (kind) => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 60 }), async (steps) => {
        await using folder = await tempFolder();
        using kv = await Deno.openKv(kind === "file" ? `${folder.path}/svc.kv` : ":memory:");
        const { decide } = bound(new Decider(kv));
        const changes: [versionstamp: string, value: string][] = [];
        const change = async (value: string) => {
          const { versionstamp } = await kv.set(GROUND, value);
          changes.push([versionstamp, value]);
        };
        await change("good");
        const open: Promise<unknown>[] = [];
        for (const [i, name] of steps.entries()) {
          if (name === "decide") open.push(decide(`n-${i}`));
          else if (name === "wait") await Promise.all(open);
          else open.push(change(name));
        }
        await Promise.all(open);
        changes.sort(([a], [b]) => a < b ? -1 : 1);
        for await (const { versionstamp } of kv.list({ prefix: ["one", "done"] })) {
          const last = changes.findLast(([at]) => at < versionstamp);
          assertEquals(last?.[1], "good");
        }
      }),
      { numRuns: kind === "file" ? 8 : 30, seed: 1 },
    );
  });
});

function bound(decider: Decider): { decide: Decider["decide"]; checks: readonly number[] } {
  return { decide: decider.decide.bind(decider), checks: decider.checks };
}
