/**
 * Shows the names of the store's failures (D-216), and how a store is opened. Tests that need a file run only when they
 * may write to `.data`.
 */
import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { openStore, refusedByStore, StoreRefused } from "../../../../shared/server/store/open_store.ts";
import {
  OPEN_CALLS_MAX,
  STORE_AWAY_CALL_MS,
  STORE_CALL_MS,
  StoreUnavailable,
  wrapStoreErrors,
} from "../../../../shared/server/store/store_errors.ts";
import { digest } from "../../../../shared/server/crypto.ts";
import { FaultyKv } from "../../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { steps } from "../../../support/steps.ts";
import { openTestKv } from "../../../support/test_store.ts";

const KEY = ["a"];
const CALLS: [name: string, call: (kv: Deno.Kv) => Promise<unknown>][] = [
  ["get", (kv) => kv.get(KEY)],
  ["getMany", (kv) => kv.getMany([KEY])],
  ["set", (kv) => kv.set(KEY, 2)],
  ["delete", (kv) => kv.delete(KEY)],
  ["list, walked", (kv) => Array.fromAsync(kv.list({ prefix: [] }))],
  ["list, asked", (kv) => kv.list({ prefix: [] }).next()],
  ["commit", (kv) => kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, 2).commit()],
];

Deno.test("every call rejects as unavailable when the store fails", async (t) => {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  await kv.set(KEY, 1);
  kv.close();
  await steps(t, CALLS, async ([, call]) => {
    const error = await assertRejects(() => call(kv), StoreUnavailable);
    assert(error.cause instanceof Error);
  });
});

Deno.test("store error wrapping leaves calls unchanged and a usage error a TypeError", async () => {
  using kv = await openTestKv();
  wrapStoreErrors(kv);
  assertEquals((await kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, 1).set(["b"], 2).commit()).ok, true);
  assertEquals((await kv.atomic().check({ key: KEY, versionstamp: null }).set(KEY, 9).commit()).ok, false);
  assertEquals((await kv.getMany([KEY, ["b"]])).map((entry) => entry.value), [1, 2]);
  assertEquals((await Array.fromAsync(kv.list({ prefix: [] }))).length, 2);
  assertEquals((await Array.fromAsync(kv.list({ prefix: [] }, { limit: 1, reverse: true })))[0]?.value, 2);
  await kv.delete(KEY);
  assertEquals((await kv.get(KEY)).value, null);
  await assertRejects(() => kv.set(KEY, "x".repeat(70_000)), TypeError);
  await assertRejects(() => kv.get(["x".repeat(3000)]), TypeError);
});

Deno.test("a call with wrong arguments stays a TypeError, and the same TypeError of a failing store does not", async (t) => {
  const key = "x".repeat(2046), value = "x".repeat(65_530);
  const many = (count: number, size: number, keySize = 1) => (kv: Deno.Kv) => {
    const operation = kv.atomic();
    for (let i = 0; i < count; i++) operation.set(["k".repeat(keySize), i], "x".repeat(size));
    return operation.commit();
  };
  const calls: [name: string, right: (kv: Deno.Kv) => Promise<unknown>, wrong: (kv: Deno.Kv) => Promise<unknown>][] = [
    ["key of get", (kv) => kv.get([key]), (kv) => kv.get([`${key}x`])],
    ["key of getMany", (kv) => kv.getMany([KEY, [key]]), (kv) => kv.getMany([KEY, [`${key}x`]])],
    ["key of set", (kv) => kv.set([key], 1), (kv) => kv.set([`${key}x`], 1)],
    ["no key", (kv) => kv.delete(KEY), (kv) => kv.delete([])],
    ["key part", (kv) => kv.get([1, true, 2n, new Uint8Array(3)]), (kv) => kv.get([null as unknown as string])],
    ["value", (kv) => kv.set(KEY, value), (kv) => kv.set(KEY, `${value}x`)],
    ["expiry", (kv) => kv.set(KEY, 1, { expireIn: 1 }), (kv) => kv.set(KEY, 1, { expireIn: -1 })],
    ["writes of a commit", many(1000, 1), many(1001, 1)],
    ["bytes of a commit", many(13, 62_000), many(14, 62_000)],
    ["keys of a commit", many(90, 1, 898), many(90, 1, 900)],
    ["deletion in a commit", (kv) => kv.atomic().delete([key]).commit(), (kv) => kv.atomic().delete([]).commit()],
    [
      "check of a commit",
      (kv) => kv.atomic().check({ key: KEY, versionstamp: null }).commit(),
      (kv) => kv.atomic().check({ key: [`${key}xxxx`], versionstamp: null }).commit(),
    ],
  ];
  await steps(t, calls, async ([, right, wrong]) => {
    using kv = await openTestKv();
    wrapStoreErrors(kv);
    await right(kv);
    await assertRejects(() => wrong(kv), TypeError);
    using failing = await FaultyKv.open({ fails: () => new TypeError("database or disk is full") });
    await assertRejects(() => right(failing.kv), StoreUnavailable);
  });
});

Deno.test("a call of the store that is not answered within 10 s is StoreUnavailable", async (t) => {
  await steps(t, CALLS, async ([, call]) => {
    const clock = new ManualClock();
    using store = await FaultyKv.open({ before: () => new Promise<void>(() => {}) }, 1, clock);
    let ended = false;
    const failed = assertRejects(() => call(store.kv), StoreUnavailable).then(() => ended = true);
    await clock.advance(STORE_CALL_MS - 1);
    assertEquals(ended, false);
    await clock.advance(1);
    await failed;
    assertEquals(clock.waiting, 0);
  });
});

/** A turn of the event loop. The usual rest of a clock waits for the store, which does not answer here. */
const turn = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

Deno.test("a store that left a call unanswered gets 1 s for each further call, until it answers any of them", async () => {
  const clock = new ManualClock();
  const gate = Promise.withResolvers<void>();
  using store = await FaultyKv.open({ before: () => gate.promise }, 1, clock);
  const refusedAfter = async (ms: number) => {
    let ended = false;
    const refused = assertRejects(() => store.kv.get(KEY), StoreUnavailable).then(() => ended = true);
    await clock.advance(ms - 1, turn);
    assertEquals(ended, false);
    await clock.advance(1, turn);
    await refused;
  };
  await refusedAfter(STORE_CALL_MS);
  await refusedAfter(STORE_AWAY_CALL_MS);
  const open = Array.from(
    { length: OPEN_CALLS_MAX - 2 },
    () => assertRejects(() => store.kv.get(KEY), StoreUnavailable),
  );
  await assertRejects(() => store.kv.get(KEY), StoreUnavailable);
  assertEquals(clock.waiting, open.length, "a call above the bound does not wait");
  await clock.advance(STORE_AWAY_CALL_MS, turn);
  await Promise.all(open);
  store.faults = {};
  gate.resolve();
  await flushTasks();
  assertEquals((await store.kv.get(KEY)).value, null);
  store.faults = { before: () => new Promise(() => {}) };
  await refusedAfter(STORE_CALL_MS);
});

Deno.test("a call that the store refuses at once does not count as open and leaves no timer", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  kv.get = () => {
    throw new Error("The store is closed");
  };
  wrapStoreErrors(kv, clock);
  for (let i = 0; i <= OPEN_CALLS_MAX; i++) await assertRejects(() => kv.get(KEY), StoreUnavailable);
  assertEquals(clock.waiting, 0);
  await kv.set(KEY, 1);
});

Deno.test("a hashed key part has a fixed length and does not show the text", () => {
  const parts = ["", "a", "b", "x".repeat(1_000_000), "\u0000", "caf\u00e9", "cafe\u0301"].map(digest);
  for (const part of parts) assertMatch(part, /^[A-Za-z0-9_-]{43}$/);
  assertEquals(new Set(parts).size, parts.length);
  assertEquals(digest("a"), digest("a"));
  assertNotEquals(digest("a"), "a");
});

Deno.test("a store in memory has the checks of an embedded store and is deleted when it is closed", async () => {
  const store = await openStore(":memory:");
  assertEquals([store.maxChecks, store.commitsInFlight, store.reliedMs], [100, 1, 0]);
  await store.kv.set(KEY, 1);
  const other = await openStore(":memory:");
  assertEquals((await other.kv.get(KEY)).value, null);
  other.close();
  store.close();
  await assertRejects(() => store.kv.get(KEY), StoreUnavailable);
});

async function modeOf(path: string): Promise<number> {
  return ((await Deno.stat(path)).mode ?? 0) & 0o777;
}

// A test of the demo, which runs at the same time, looks for new files in `.data` and leaves out those of this kind.
const FOLDER = `.data/e2e-kv-${Deno.pid}`;
const mayWrite = Deno.permissions.querySync({ name: "write", path: FOLDER }).state === "granted";

Deno.test("a store whose name is a URL of another kind or has a line end is refused, and no file is made", async () => {
  for (const url of ["file:///tmp/svc.kv", "HTTPS://kv.example", "http:/kv.example", "http://", ".data/svc.kv\n"]) {
    const error = await assertRejects(() => openStore(url), StoreRefused);
    assertMatch(error.message, /KV_URL (?:must be a path|has a line end)/);
  }
});

Deno.test("an address of a store with a user or a password is refused, and the error does not repeat it", async () => {
  for (const user of ["user:hidden", "hidden", ":hidden"]) {
    const { message } = await assertRejects(() => openStore(`http://${user}@127.0.0.1:1`), StoreRefused);
    assertMatch(message, /KV_URL has a user or a password\. Remove it/);
    assert(!message.includes("hidden"), message);
  }
});

Deno.test({
  name: "a store in a file keeps its records in files that only the owner can read",
  ignore: !mayWrite,
  async fn() {
    const path = `${FOLDER}/kept/svc.kv`;
    try {
      const store = await openStore(path);
      await store.kv.set(KEY, "kept");
      store.close();
      const again = await openStore(path);
      assertEquals((await again.kv.get(KEY)).value, "kept");
      for (const name of [path, `${path}.lock`]) assertEquals(await modeOf(name), 0o600, name);
      assertEquals(await modeOf(`${FOLDER}/kept`), 0o700);
      await assertRejects(() => openStore(path), StoreRefused, "another process");
      again.close();
    } finally {
      await Deno.remove(FOLDER, { recursive: true });
    }
  },
});

Deno.test("a call that meets a locked file is tried again until the file is free, for two seconds", async () => {
  for (const lockedMs of [150, Infinity]) {
    const clock = new ManualClock(), began = clock.now();
    const isLocked = () => clock.now() - began < lockedMs;
    using store = await FaultyKv.open({ fails: () => isLocked() && new TypeError("database is locked") }, 1, clock);
    let isDone = false;
    const writing = store.kv.set(KEY, 1).finally(() => isDone = true);
    const ended = lockedMs === Infinity ? assertRejects(() => writing, StoreUnavailable) : writing;
    await flushTasks();
    for (let waited = 0; waited < Math.min(lockedMs, 2_000); waited += 50) {
      assertEquals(isDone, false);
      await clock.advance(50);
    }
    await ended;
    assertEquals(clock.waiting, 0);
  }
});

Deno.test("only a full disk refuses a start in a way that may pass", () => {
  const failed = new StoreUnavailable(new Error("disk I/O error"));
  const refusal = (freeBytes: number) => {
    const error = refusedByStore(failed, { place: "at x", diskSpace: () => ({ freeBytes, totalBytes: 2_000_000 }) });
    assert(error instanceof StoreRefused);
    return [error.message, error.mayPass];
  };
  const full = "Cannot use the store at x: disk I/O error. The disk is full: free some space, then start again.";
  assertEquals(refusal(0), [full, true]);
  assertEquals(refusal(1_000_000), ["Cannot use the store at x: disk I/O error", false]);
});
