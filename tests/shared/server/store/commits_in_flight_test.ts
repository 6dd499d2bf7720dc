/**
 * Shows that several group commits in flight have the outcome of one after the other: with delays, conflicts, errors
 * and lost answers, no claim is lost or counted twice, and the claims on one record keep their order.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import fc from "fast-check";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { GroupCommit } from "../../../../shared/server/store/group_commit.ts";
import { COMMITS_IN_FLIGHT } from "../../../../shared/server/store/open_store.ts";
import { STORE_CALL_MS, StoreUnavailable } from "../../../../shared/server/store/store_errors.ts";
import { append } from "../../../support/claims.ts";
import { FaultyKv, gate, type KvCall, overlaid, withRecordedWrites } from "../../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";
import { IS_LONG } from "../../../support/trials.ts";

const MAX_CHECKS = LIMITS.commitChecksConnect;

function instance(kv: Deno.Kv, options: { maxChecks?: number; inFlight?: number; clock?: ManualClock } = {}) {
  const { maxChecks = MAX_CHECKS, inFlight = COMMITS_IN_FLIGHT, clock = new ManualClock() } = options;
  return new GroupCommit(kv, maxChecks, { clock, inFlight, markKey: ["mark"] });
}

async function listOf(kv: Deno.Kv, key: string): Promise<number[]> {
  return (await kv.get<number[]>([key])).value ?? [];
}

/** The store, with the keys of each commit in flight. Two on one key fail the test. */
function watchInFlight(real: Deno.Kv): { kv: Deno.Kv; most: number; isBroken: boolean } {
  const inFlight = new Map<string, number>();
  let commits = 0;
  const watched = {
    most: 0,
    isBroken: false,
    kv: overlaid(real, {
      atomic() {
        const operation = real.atomic();
        const keys: Deno.KvKey[] = [];
        const checked: Deno.KvKey[] = [];
        return withRecordedWrites(operation, keys, (self) => ({
          check: (...checks) => {
            checked.push(...checks.map(({ key }) => key));
            operation.check(...checks);
            return self();
          },
          commit: async () => {
            const own = new Set([...keys, ...checked].map((key) => key.join(" ")));
            for (const key of own) {
              watched.isBroken ||= inFlight.has(key);
              inFlight.set(key, 1);
            }
            watched.most = Math.max(watched.most, ++commits);
            try {
              return await operation.commit();
            } finally {
              commits--;
              for (const key of own) inFlight.delete(key);
            }
          },
        }));
      },
    }),
  };
  return watched;
}

Deno.test("while four commits run, the claims of a turn of the event loop share the next one", async () => {
  using store = await FaultyKv.open();
  const { held, release } = gate(store), clock = new ManualClock();
  const commits = instance(store.kv, { clock });
  const claims: Promise<unknown>[] = [];
  const add = () => claims.push(commits.claim([append(`key-${claims.length}`, 1)]));
  for (let commit = 1; commit <= 4; commit++) {
    add();
    await until(() => held.length === commit);
  }
  for (let n = 0; n < 3; n++) {
    add();
    // A microtask later the first four each began a commit.
    await Promise.resolve();
  }
  assertEquals(held.length, 4);
  await until(() => held.length === 5);
  release();
  assertEquals(await Promise.all(claims), Array(7).fill({ taken: true }));
  assertEquals(held.length, 5);
});

Deno.test("at most 16 commits are in flight, and one without the option", async (t) => {
  for (const inFlight of [COMMITS_IN_FLIGHT, undefined]) {
    await t.step(inFlight === undefined ? "without" : "with", async () => {
      using store = await FaultyKv.open();
      const { held, release } = gate(store);
      const commits = new GroupCommit(store.kv, 1, inFlight === undefined ? {} : { inFlight });
      const claims = Array.from({ length: 20 }, (_, i) => commits.claim([append(`key-${i}`, i)]));
      await flushTasks();
      assertEquals(held.length, inFlight ?? 1);
      release();
      assertEquals(await Promise.all(claims), Array(20).fill({ taken: true }));
    });
  }
});

Deno.test("a claim waits for the commit in flight on its record, and claims on other records do not", async () => {
  using store = await FaultyKv.open();
  const { held, release } = gate(store);
  const commits = instance(store.kv);
  const ended: number[] = [];
  const claim = (n: number, ...keys: string[]) =>
    commits.claim(keys.map((key) => append(key, n))).then(() => ended.push(n));
  const all = [claim(0, "x")];
  await flushTasks();
  all.push(claim(1, "x", "y"), claim(2, "y"), claim(3, "z"));
  await flushTasks();
  assertEquals(held.length, 2, "x and z are in flight");
  held[1]?.();
  await flushTasks();
  assertEquals([ended, held.length], [[3], 2]);
  held[0]?.();
  await flushTasks();
  assertEquals([ended, held.length], [[3, 0], 3], "x and y form one commit");
  release();
  await Promise.all(all);
  assertEquals([await listOf(store.kv, "x"), await listOf(store.kv, "y")], [[0, 1], [1, 2]]);
});

Deno.test("claims count once each when the answers of all commits in flight are lost", async () => {
  using store = await FaultyKv.open();
  let made = 0;
  store.faults.loses = ({ method }) => method === "commit" && ++made <= 16;
  const commits = instance(store.kv, { maxChecks: 1 });
  const results = await Promise.all(Array.from({ length: 16 }, (_, i) => commits.claim([append(`key-${i}`, i)])));
  assertEquals([results, made], [Array(16).fill({ taken: true }), 16]);
  for (let i = 0; i < 16; i++) assertEquals(await listOf(store.kv, `key-${i}`), [i]);
});

Deno.test("an error of one commit in flight has no effect on the others", async () => {
  using store = await FaultyKv.open();
  const isBad = ({ keys }: KvCall) => keys.some(([key]) => key === "bad");
  store.faults.fails = (call) => call.method === "commit" && isBad(call);
  const commits = instance(store.kv, { maxChecks: 1 });
  const failing = assertRejects(() => commits.claim([append("bad", 1)]), StoreUnavailable);
  const good = Array.from({ length: 30 }, (_, i) => commits.claim([append(`key-${i % 10}`, i)]));
  assertEquals(await Promise.all(good), Array(30).fill({ taken: true }));
  await failing;
  for (let i = 0; i < 10; i++) assertEquals(await listOf(store.kv, `key-${i}`), [i, i + 10, i + 20]);
});

Deno.test("commits in flight that are late are not tried again, and count once each when they take effect", async () => {
  const clock = new ManualClock();
  using store = await FaultyKv.open({}, 1, clock);
  const commits = instance(store.kv, { clock, maxChecks: 2 });
  const { held, release } = gate(store);
  const claims = [0, 1, 2, 3].map((n) => assertRejects(() => commits.claim([append(`key-${n}`, n)]), StoreUnavailable));
  await flushTasks();
  assertEquals(held.length, 2);
  await clock.advance(STORE_CALL_MS);
  await Promise.all(claims);
  assertEquals(held.length, 2, "no half of a batch is committed");
  release();
  for (const n of [0, 1, 2, 3]) {
    await until(async () => (await listOf(store.kv, `key-${n}`)).length > 0);
    assertEquals(await listOf(store.kv, `key-${n}`), [n]);
  }
});

const KEYS = ["a", "b", "c", "d", "e", "f"];
const LIMIT = 6;
const keys = fc.uniqueArray(fc.constantFrom(...KEYS), { minLength: 1, maxLength: 3 });
const fault = fc.record({
  kind: fc.constantFrom("none", "none", "none", "lost", "fails", "conflict"),
  /** Turns of the event loop before the commit reaches the store. */
  turns: fc.nat(6),
});

/** Returns true when some order of the numbers agrees with the order of every list. */
function haveCommonOrder(lists: readonly number[][]): boolean {
  let rest = lists.filter((list) => list.length > 0);
  while (rest.length > 0) {
    const next = rest.map(([first]) => first).find((one) => rest.every((list) => list.indexOf(one ?? -1) <= 0));
    if (next === undefined) return false;
    rest = rest.map((list) => list[0] === next ? list.slice(1) : list).filter((list) => list.length > 0);
  }
  return true;
}

Deno.test("commits in flight have the outcome of a serial order over delays, conflicts and lost answers", async () => {
  let most = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(keys, { maxLength: 30 }),
      fc.array(fault, { maxLength: 30 }),
      fc.constantFrom(3, 10),
      async (claimed, faults, maxChecks) => {
        using store = await FaultyKv.open();
        const watched = watchInFlight(store.kv);
        const faultOf = new Map<KvCall, string>();
        let made = 0;
        store.faults.before = async (call) => {
          if (call.method !== "commit") return;
          const { kind, turns } = faults[made++] ?? { kind: "none", turns: 0 };
          faultOf.set(call, kind);
          for (let i = 0; i < turns; i++) await new Promise((resolve) => setTimeout(resolve, 0));
        };
        store.faults.fails = (call) => faultOf.get(call) === "fails";
        store.faults.conflicts = (call) => faultOf.get(call) === "conflict";
        store.faults.loses = (call) => faultOf.get(call) === "lost";
        const commits = instance(watched.kv, { maxChecks });
        const results = await Promise.allSettled(
          claimed.map((names, n) => commits.claim(names.map((name) => append(name, n, LIMIT)))),
        );
        delete store.faults.before;
        assertEquals([watched.isBroken, commits.oldestWaitMs], [false, 0], "two commits in flight on one record");
        most = Math.max(most, watched.most);
        const lists = new Map<string, number[]>();
        for (const key of KEYS) lists.set(key, await listOf(store.kv, key));
        results.forEach((result, n) => {
          const names = claimed[n] ?? [];
          const counted = names.map((name) => lists.get(name)?.filter((one) => one === n).length);
          const earlier = (name: string) => lists.get(name)?.filter((one) => one < n).length ?? 0;
          if (result.status === "rejected") {
            assert(result.reason instanceof StoreUnavailable, String(result.reason));
            assert(new Set(counted).size === 1 && (counted[0] ?? 0) <= 1, "a claim took effect partly or twice");
          } else if (result.value.taken) assertEquals(counted, names.map(() => 1), "an accepted claim is lost");
          else {
            assertEquals(counted, names.map(() => 0), "a refused claim took effect");
            assert(names.some((name) => earlier(name) >= LIMIT), "a claim was refused without reason");
          }
        });
        const taken = new Set(results.flatMap((one, n) => one.status === "fulfilled" && one.value.taken ? [n] : []));
        for (const list of lists.values()) {
          assert(list.length <= LIMIT);
          const own = list.filter((n) => taken.has(n));
          assertEquals(own, own.toSorted((a, b) => a - b), "the order of a record");
        }
        assert(haveCommonOrder([...lists.values()]), "no serial order has this outcome");
      },
    ),
    { numRuns: IS_LONG ? 150 : 50, seed: 3 },
  );
  assert(most > 1, "no two commits were in flight together");
});
