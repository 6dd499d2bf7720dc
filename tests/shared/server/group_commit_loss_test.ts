/**
 * Shows what group commit does when a commit's answer is lost, late or an error (D-216): no claim counts twice, no
 * claim that took effect is refused, no replay is accepted, and a store that hangs does not block the claims after it.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { absent, type Update } from "../../../shared/server/store/batch.ts";
import { CLAIM_WAIT_MS, CLAIMS_WAITING_MAX, GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { STORE_AWAY_CALL_MS, STORE_CALL_MS, StoreUnavailable } from "../../../shared/server/store/store_errors.ts";
import { HEALTHY_MS } from "../../../shared/server/store/store_probe.ts";
import { add, KEPT_MS } from "../../support/claims.ts";
import { FaultyKv, gate } from "../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { MAX_CHECKS } from "../../support/test_store.ts";
import { IS_LONG } from "../../support/trials.ts";
import { until } from "../../support/until.ts";

/** Writes the same value for every claim, as a captured request does. */
function nonce(name: string): Update<"replay"> {
  return {
    key: ["nonce", name],
    seen: { key: ["nonce", name], value: null, versionstamp: null },
    uncached: true,
    next: (current) => current === null ? { value: "same", expireInMs: KEPT_MS } : { refuse: "replay" },
  };
}

function instance(kv: Deno.Kv, clock: ManualClock, name = "a"): GroupCommit {
  return new GroupCommit(kv, MAX_CHECKS, { clock, markKey: ["mark", name] });
}

async function countOf(kv: Deno.Kv, key = "count"): Promise<number> {
  return (await kv.get<number>([key])).value ?? 0;
}

Deno.test("claims succeed once each when their commit takes effect and its answer is lost", async (t) => {
  for (const size of [1, 2, MAX_CHECKS / 2]) {
    await t.step(`${size} in a batch`, async () => {
      using store = await FaultyKv.open();
      const commits = instance(store.kv, new ManualClock());
      let commitsMade = 0;
      store.faults.loses = ({ method }) => method === "commit" && ++commitsMade === 1;
      const claims = Array.from({ length: size }, (_, i) => commits.claim([nonce(`n-${i}`), add("count")]));
      assertEquals(await Promise.all(claims), Array(size).fill({ taken: true }));
      assertEquals([commitsMade, await countOf(store.kv)], [1, size]);
    });
  }
});

Deno.test("a replay is refused when the answer of the first use, of the replay, or of both is lost", async (t) => {
  for (const lost of [[1], [2], [1, 2]]) {
    await t.step(`commits ${lost.join(" and ")}`, async () => {
      using store = await FaultyKv.open();
      const clock = new ManualClock();
      let commitsMade = 0;
      store.faults.loses = ({ method }) => method === "commit" && lost.includes(++commitsMade);
      const [a, b] = [instance(store.kv, clock, "a"), instance(store.kv, clock, "b")];
      const results = await Promise.allSettled([
        a.claim([nonce("n"), add("count")]),
        a.claim([nonce("n"), add("count")]),
        b.claim([nonce("n"), add("count")]),
      ]);
      assertEquals(results.filter((result) => result.status === "fulfilled" && result.value.taken).length, 1);
      assertEquals(await countOf(store.kv), 1);
    });
  }
});

Deno.test("a batch that is late is unavailable and not tried again, and counts once when it takes effect after that", async (t) => {
  for (const takesEffect of [false, true]) {
    await t.step(takesEffect ? "it takes effect" : "it does not", async () => {
      const clock = new ManualClock();
      using store = await FaultyKv.open({}, 1, clock);
      const commits = instance(store.kv, clock);
      const { held, open } = gate(store);
      const claims = ["a", "b"].map((name) =>
        assertRejects(() => commits.claim([nonce(name), add("count")]), StoreUnavailable)
      );
      await flushTasks();
      assertEquals(held.length, 1);
      await clock.advance(STORE_CALL_MS);
      await Promise.all(claims);
      assertEquals(held.length, 1, "no half of it is committed");
      open();
      if (takesEffect) held[0]?.();
      await flushTasks();
      const replay = await commits.claim([nonce("a"), add("count")]);
      assertEquals(replay, takesEffect ? { taken: false, refused: "replay" } : { taken: true });
      assertEquals(await countOf(store.kv), takesEffect ? 2 : 1);
    });
  }
});

Deno.test("each claim ends 10 s after it was made: in flight, behind another on its record, or behind a commit", async () => {
  const clock = new ManualClock();
  using store = await FaultyKv.open({}, 1, clock);
  const commits = instance(store.kv, clock);
  const { held, open } = gate(store);
  const ended: [name: string, seconds: number][] = [];
  const began = clock.now();
  const claim = (name: string, key: string) =>
    void commits.claim([add(key)]).catch(() => ended.push([name, (clock.now() - began) / 1000]));
  claim("in flight", "count");
  await flushTasks();
  await clock.advance(500);
  claim("same record", "count");
  await clock.advance(1_500);
  claim("other record", "other");
  await clock.advance(8_000);
  assertEquals(ended, [["in flight", 10]]);
  // Its commit is late too, so the others were tried, and a commit has a second now.
  await clock.advance(2_000);
  assertEquals(ended, [["in flight", 10], ["same record", 10.5], ["other record", 11]]);
  assertEquals([clock.waiting, held.length], [0, 2]);
  open();
  assertEquals(await commits.claim([add("count")]), { taken: true });
  assertEquals(await countOf(store.kv), 1, "no claim that has ended is committed");
});

Deno.test("a store that hangs rejects the claims it holds and does not block the claims after them", async () => {
  const clock = new ManualClock();
  using store = await FaultyKv.open({}, 1, clock);
  const commits = instance(store.kv, clock);
  let hangs = true;
  store.faults.before = () => hangs ? new Promise<void>(() => {}) : undefined;
  const first = assertRejects(() => commits.claim([nonce("first"), add("count")]), StoreUnavailable);
  await flushTasks();
  await clock.advance(HEALTHY_MS);
  assertEquals(commits.oldestWaitMs, HEALTHY_MS);
  const second = assertRejects(() => commits.claim([nonce("second"), add("count")]), StoreUnavailable);
  // The read of its records is late.
  await clock.advance(STORE_CALL_MS - HEALTHY_MS);
  await first;
  // The second claim uses the store alone, and waits as long as a store that is away gets.
  assertEquals(commits.oldestWaitMs, STORE_CALL_MS - HEALTHY_MS);
  await clock.advance(STORE_AWAY_CALL_MS);
  await second;
  hangs = false;
  assertEquals(commits.oldestWaitMs, 0);
  assertEquals(await commits.claim([add("count")]), { taken: true });
  assertEquals(await countOf(store.kv), 1);
});

Deno.test("a read whose answer is held back is made once more, and a commit is known by its mark", async () => {
  const clock = new ManualClock();
  using store = await FaultyKv.open({}, 1, clock);
  const commits = instance(store.kv, clock), held: string[] = [];
  store.faults.holds = ({ method }) => {
    if (method === "get" || held.includes(method)) return undefined;
    held.push(method);
    return new Promise<void>(() => {});
  };
  const claim = commits.claim([nonce("n"), add("count")]);
  for (const method of ["getMany", "commit"]) {
    await flushTasks();
    assertEquals(held.at(-1), method);
    await clock.advance(400);
    await store.kv.get(["later"]);
    await clock.advance(100);
  }
  assertEquals(await claim, { taken: true });
  assertEquals(await commits.claim([nonce("n"), add("count")]), { taken: false, refused: "replay" });
  assertEquals(await commits.claim([add("count")]), { taken: true });
  assertEquals([await countOf(store.kv), clock.waiting], [2, 0]);
});

Deno.test("a claim is refused while another one waits over 3 s for a commit to begin", async () => {
  const clock = new ManualClock();
  using store = await FaultyKv.open({}, 1, clock);
  const commits = instance(store.kv, clock);
  const { held, open } = gate(store);
  const first = commits.claim([add("count")]);
  await flushTasks();
  await clock.advance(CLAIM_WAIT_MS + 1);
  const second = commits.claim([add("count")]);
  await clock.advance(CLAIM_WAIT_MS);
  const third = commits.claim([add("count")]);
  await clock.advance(1);
  await assertRejects(() => commits.claim([add("count")]), StoreUnavailable);
  open();
  held[0]?.();
  assertEquals(await Promise.all([first, second, third]), Array(3).fill({ taken: true }));
  assertEquals([await commits.claim([add("count")]), await countOf(store.kv)], [{ taken: true }, 4]);
});

Deno.test("a claim is taken while others wait over 3 s for a late commit on their record", async () => {
  const clock = new ManualClock();
  using store = await FaultyKv.open({}, 1, clock);
  const commits = new GroupCommit(store.kv, MAX_CHECKS, { clock, inFlight: 2 });
  const { held, open } = gate(store);
  const late = [commits.claim([add("late")])];
  await flushTasks();
  late.push(commits.claim([add("late")]));
  await clock.advance(CLAIM_WAIT_MS + 1);
  open();
  assertEquals(await commits.claim([add("count")]), { taken: true });
  held[0]?.();
  assertEquals(await Promise.all(late), Array(2).fill({ taken: true }));
});

Deno.test("a claim is refused at once when 10,000 wait, and the 10,000 are taken", async () => {
  using store = await FaultyKv.open();
  const commits = instance(store.kv, new ManualClock());
  const claims = Array.from({ length: CLAIMS_WAITING_MAX }, () => commits.claim([add("count")]));
  const refused = assertRejects(() => commits.claim([add("count")]), StoreUnavailable);
  await refused;
  await Promise.all(claims);
  assertEquals(await countOf(store.kv), CLAIMS_WAITING_MAX);
});

Deno.test("a commit that takes effect late hides no later one whose answer is lost", async () => {
  const clock = new ManualClock();
  using store = await FaultyKv.open({}, 1, clock);
  const commits = instance(store.kv, clock), late = Promise.withResolvers<void>();
  let made = 0, isOut = false;
  const isLate = async () => (await store.kv.get(["nonce", "late"])).value !== null;
  store.faults.before = async ({ method }) => {
    if (method === "commit") return ++made === 1 ? await late.promise : undefined;
    // The mark of the lost commit is about to be read.
    if (made < 2 || method !== "getMany" || isOut) return;
    isOut = true;
    late.resolve();
    await until(isLate);
  };
  store.faults.loses = ({ method }) => method === "commit" && made === 2 && !isOut;
  const first = assertRejects(() => commits.claim([nonce("late")]), StoreUnavailable);
  await flushTasks();
  await clock.advance(STORE_CALL_MS);
  await first;
  const claims = ["n-1", "n-2"].map((name) =>
    commits.claim([nonce(name), add("count", 1, Infinity, absent(["count"]))])
  );
  assertEquals(await Promise.all(claims), [{ taken: true }, { taken: true }]);
  assertEquals([made, isOut, await countOf(store.kv)], [2, true, 2]);
});

Deno.test("the claims of one batch that fail together cause three commits", async () => {
  using store = await FaultyKv.open();
  let commitsMade = 0;
  store.faults.fails = ({ method }) => method === "commit" && ++commitsMade > 0;
  const commits = instance(store.kv, new ManualClock());
  const results = await Promise.allSettled(
    Array.from({ length: MAX_CHECKS }, (_, i) => commits.claim([add(`key-${i}`)])),
  );
  for (const result of results) assert(result.status === "rejected" && result.reason instanceof StoreUnavailable);
  assertEquals(commitsMade, 3);
});

Deno.test("a defect costs two commits for each halving, and a store that then fails halves each part once", async () => {
  for (const [fails, wanted] of [[false, 2 * Math.log2(64) + 1], [true, 1 + 2 * 3]] as const) {
    using store = await FaultyKv.open();
    let commitsMade = 0;
    store.faults.fails = ({ method }) => method === "commit" && ++commitsMade > 1 && fails;
    const commits = instance(store.kv, new ManualClock());
    const claims = Array.from({ length: 63 }, () => commits.claim([add("count")]));
    const tooLarge = { value: "x".repeat(70_000), expireInMs: KEPT_MS };
    claims.push(commits.claim([{ key: ["count"], next: () => tooLarge }]));
    const results = await Promise.allSettled(claims);
    assertEquals(results.filter(({ status }) => status === "fulfilled").length, fails ? 0 : 63);
    assertEquals([commitsMade, await countOf(store.kv)], [wanted, fails ? 0 : 63]);
  }
});

Deno.test("claims at two instances count exactly once over lost answers, errors and conflicts", async () => {
  const fault = fc.constantFrom("none", "none", "lost", "fails", "conflict");
  await fc.assert(
    fc.asyncProperty(fc.array(fault, { maxLength: 12 }), fc.integer({ min: 1, max: 12 }), async (faults, size) => {
      using store = await FaultyKv.open();
      const clock = new ManualClock();
      const instances = [instance(store.kv, clock, "a"), instance(store.kv, clock, "b")];
      let made = 0, fault = "none";
      const isCommit = (method: string) => method === "commit";
      store.faults.fails = ({ method }) => {
        if (isCommit(method)) fault = faults[made++] ?? "none";
        return isCommit(method) && fault === "fails";
      };
      store.faults.conflicts = () => fault === "conflict";
      store.faults.loses = () => fault === "lost";
      // Every nonce is used twice, at both instances or at one.
      const results = await Promise.allSettled(
        Array.from(
          { length: size * 2 },
          (_, i) => (instances[i % 3 === 0 ? 1 : 0] as GroupCommit).claim([nonce(`n-${i >> 1}`), add("count")]),
        ),
      );
      const taken = results.map((one) => one.status === "fulfilled" && one.value.taken);
      for (let i = 0; i < size; i++) assert(!(taken[2 * i] && taken[2 * i + 1]), "a replay was taken");
      const used = (await Array.fromAsync(store.kv.list({ prefix: ["nonce"] }))).length;
      assertEquals(await countOf(store.kv), used, "a claim took effect partly or twice");
      assert(taken.filter(Boolean).length <= used, "a claim was accepted that did not take effect");
      const unknown = results.filter((one) => one.status === "rejected").length;
      assert(used <= taken.filter(Boolean).length + unknown, "a claim took effect and was refused");
    }),
    { numRuns: IS_LONG ? 150 : 50, seed: 7 },
  );
});
