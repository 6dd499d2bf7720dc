/**
 * What the services need of a store, on each of its kinds: in memory, a file, a denokv. They differ where their
 * documentation is silent, so without this suite a new version of Deno or denokv would break messages in production
 * only. A known difference is a member of `StoreKind`.
 */
import type { Kv, KvEntry } from "../../shared/server/kv.ts";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { BatchedReads } from "../../shared/server/store/batched_reads.ts";
import { COMMITS_IN_FLIGHT, openStore, type Store } from "../../shared/server/store/open_store.ts";
import { StoreUnavailable } from "../../shared/server/store/store_errors.ts";
import { accessToken, Denokv, findDenokv } from "../support/denokv.ts";
import { freePort, SOON_MS, tempFolder, within } from "../support/process.ts";
import { shortTokenFront, TOKEN_MS } from "../support/short_token_front.ts";

interface StoreKind {
  name: string;
  /** Opens one empty store, for all tests of the kind. */
  open(folder: string): Promise<Store & AsyncDisposable>;
  maxChecks: number;
}

const denokv = await findDenokv();

const KINDS: readonly StoreKind[] = [
  { name: "in memory", maxChecks: 100, open: async () => disposable(await openStore(":memory:")) },
  { name: "a file", maxChecks: 100, open: async (folder) => disposable(await openStore(`${folder}/svc.kv`)) },
  {
    name: "denokv",
    maxChecks: 10,
    async open(folder) {
      const server = await Denokv.start(denokv ?? "", `${folder}/denokv.sqlite`);
      return disposable(await openStore(server.address), () => server[Symbol.asyncDispose]());
    },
  },
];

/** A store that is closed at the end, unless a test has closed it, before `end` runs. */
function disposable(store: Store, end = () => Promise.resolve()): Store & AsyncDisposable {
  let isOpen = true;
  const close = () => {
    if (isOpen) store.close();
    isOpen = false;
  };
  return {
    ...store,
    close,
    async [Symbol.asyncDispose]() {
      close();
      await end();
    },
  };
}

type Rule = [name: string, run: (store: Store, kind: StoreKind) => Promise<void>];

const absent = (key: Deno.KvKey) => ({ key, versionstamp: null });
const keysOf = (entries: KvEntry<unknown>[]) => entries.map(({ key }) => key.at(-1));
const listed = (kv: Kv, selector: Deno.KvListSelector, options?: Deno.KvListOptions) =>
  Array.fromAsync(kv.list(selector, options));

/** Stores `["list", 0]` to `["list", count - 1]`. */
async function fill(kv: Kv, count: number): Promise<void> {
  for (let from = 0; from < count; from += 500) {
    const operation = kv.atomic();
    for (let i = from; i < Math.min(count, from + 500); i++) operation.set(["list", i], i);
    await operation.commit();
  }
}

const RULES: readonly Rule[] = [
  ["a value is read unchanged, with a new version after each write", async ({ kv }) => {
    assertEquals(await kv.get(["v"]), { key: ["v"], value: null, versionstamp: null });
    const versions = new Set<string | null>();
    for (const value of [1, "€", null, true, 12n, { a: [1, { b: "c" }] }, new Uint8Array([0, 255]), undefined]) {
      await kv.set(["v"], value);
      const entry = await kv.get(["v"]);
      assertEquals(entry.value, value);
      versions.add(entry.versionstamp);
    }
    assertEquals(versions.size, 8);
    assert([...versions].every((version) => typeof version === "string" && /^[0-9a-f]{20}$/.test(version)));
    assertEquals([...versions], [...versions].toSorted(), "versions ascend");
    await kv.delete(["v"]);
    assertEquals((await kv.get(["v"])).versionstamp, null);
  }],
  ["25 keys are read in one turn, absent ones too", async ({ kv }) => {
    await fill(kv, 12);
    const reads = new BatchedReads(kv);
    const entries = await Promise.all(Array.from({ length: 25 }, (_, i) => reads.get(["list", i])));
    assertEquals(entries.map(({ value }) => value), Array.from({ length: 25 }, (_, i) => i < 12 ? i : null));
    await assertRejects(() => kv.getMany(Array.from({ length: 11 }, (_, i) => ["list", i])));
  }],
  ["a list has order, bounds, limits and cursors", async ({ kv }) => {
    await fill(kv, 1_203);
    assertEquals(keysOf(await listed(kv, { prefix: ["list"] })), Array.from({ length: 1_203 }, (_, i) => i));
    assertEquals((await listed(kv, { prefix: ["list"] }, { batchSize: 500 })).length, 1_203);
    assertEquals(keysOf(await listed(kv, { start: ["list", 7], end: ["list", 9] })), [7, 8]);
    assertEquals(keysOf(await listed(kv, { prefix: ["list"], start: ["list", 1_201] })), [1_201, 1_202]);
    assertEquals(keysOf(await listed(kv, { prefix: ["list"] }, { limit: 2, reverse: true })), [1_202, 1_201]);
    const pages = kv.list({ prefix: ["list"] }, { limit: 5 });
    assertEquals(keysOf(await Array.fromAsync(pages)), [0, 1, 2, 3, 4]);
    const next = kv.list({ prefix: ["list"] }, { limit: 2, cursor: pages.cursor });
    assertEquals(keysOf(await Array.fromAsync(next)), [5, 6]);
    assertEquals(await listed(kv, { prefix: ["none"] }), []);
  }],
  ["a commit writes everything or nothing", async ({ kv }) => {
    const first = await kv.atomic().check(absent(["a"])).set(["a"], 1).set(["b"], 2).commit();
    assert(first.ok);
    const entry = await kv.get(["a"]);
    assertEquals(entry.versionstamp, first.versionstamp);
    assertEquals((await kv.atomic().check(absent(["a"])).set(["b"], 3).commit()).ok, false);
    const late = kv.atomic().check(entry).check(absent(["b"])).delete(["a"]).set(["b"], 3);
    assertEquals((await late.commit()).ok, false);
    assertEquals((await kv.getMany([["a"], ["b"]])).map(({ value }) => value), [1, 2]);
    assert((await kv.atomic().check(entry).delete(["a"]).set(["b"], 3).commit()).ok);
    assertEquals((await kv.getMany([["a"], ["b"]])).map(({ value }) => value), [null, 3]);
  }],
  ["of 20 commits that check one record at once, one takes effect", async ({ kv }) => {
    const entry = await kv.get(["race"]);
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, i) => kv.atomic().check(entry).set(["race"], i).commit()),
    );
    assertEquals(results.filter(({ ok }) => ok).length, 1);
    assertEquals((await kv.get(["race"])).value, results.findIndex(({ ok }) => ok));
  }],
  ["a record is there before its end, and a write replaces its end", async ({ kv }) => {
    await kv.set(["kept"], 1, { expireIn: 1 });
    await kv.set(["kept"], 2);
    await kv.atomic().set(["hour"], 3, { expireIn: 3_600_000 }).commit();
    await new Promise((resolve) => setTimeout(resolve, 50));
    assertEquals((await kv.getMany([["kept"], ["hour"]])).map(({ value }) => value), [2, 3]);
  }],
  ["a commit holds its most checks and is refused with one more", async ({ kv, maxChecks, commitsInFlight }, kind) => {
    assertEquals(maxChecks, kind.maxChecks);
    assertEquals(commitsInFlight, kind.maxChecks === LIMITS.commitChecksConnect ? COMMITS_IN_FLIGHT : 1);
    const commit = (count: number) => {
      const operation = kv.atomic().set(["checked"], count);
      for (let i = 0; i < count; i++) operation.check(absent(["check", i]));
      return operation.commit();
    };
    assertEquals((await commit(maxChecks)).ok, true);
    await assertRejects(() => commit(maxChecks + 1), Error, "Too many checks");
    assertEquals((await kv.get(["checked"])).value, maxChecks);
  }],
  ["a commit holds its most mutations and bytes", async ({ kv }) => {
    const commit = (count: number, bytes: number) => {
      const operation = kv.atomic();
      for (let i = 0; i < count; i++) operation.set(["many", i], new Uint8Array(bytes));
      return operation.commit();
    };
    assert((await commit(1_000, 1)).ok);
    await assertRejects(() => commit(1_001, 1), TypeError, "Too many mutations");
    assert((await commit(12, 65_536)).ok);
    await assertRejects(() => commit(13, 65_536), TypeError, "Total mutation size too large");
  }],
  ["a key and a value at their bounds are kept, and larger ones are refused", async ({ kv }) => {
    const key = ["k".repeat(2_046)], value = new Uint8Array(65_536).fill(7);
    await kv.set(key, value);
    assertEquals((await kv.get(key)).value, value);
    assertEquals((await listed(kv, { start: key, end: ["l"] })).length, 1);
    await assertRejects(() => kv.set(["v"], new Uint8Array(65_537)), TypeError, "Value too large");
    await assertRejects(() => kv.set([`${key}k`], 1), TypeError, "Key too large");
    await assertRejects(() => kv.get([`${key}kk`]), TypeError, "Key too large");
  }],
  ["a watch reports the value at its start and each later state", async ({ kv }) => {
    const reader = kv.watch<number[]>([["watched"]]).getReader();
    const value = async () => (await within(SOON_MS, "a change", reader.read())).value?.[0]?.value;
    assertEquals(await value(), null);
    for (const n of [1, 2]) {
      await kv.set(["watched"], n);
      assertEquals(await value(), n);
    }
    await reader.cancel();
  }],
];

for (const kind of KINDS) {
  Deno.test({
    name: `a store is what the services need when it is ${kind.name}`,
    ignore: kind.name === "denokv" && denokv === null,
    async fn(t) {
      await using folder = await tempFolder();
      await using store = await kind.open(folder.path);
      for (const [name, run] of RULES) await t.step(name, () => run(store, kind));
      await t.step("closing ends an open watch and refuses later calls", async () => {
        const reader = store.kv.watch([["watched"]]).getReader();
        await within(SOON_MS, "the first state", reader.read());
        const next = reader.read().then(({ done }) => done, () => true);
        store.close();
        assertEquals(await within(SOON_MS, "the end of the watch", next), true);
        await assertRejects(() => store.kv.get(["a"]), StoreUnavailable);
      });
    },
  });
}

Deno.test({
  name: "a store over the network keeps its records and its watch when denokv is killed and starts again",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    // A port that the system assigns could be given to a connection while the server is down.
    await using server = await Denokv.start(denokv ?? "", `${folder.path}/denokv.sqlite`, freePort());
    await using store = disposable(await openStore(server.address));
    const { kv } = store;
    await kv.set(["a"], 1);
    const entry = await kv.get(["a"]);
    const reader = kv.watch<number[]>([["a"]]).getReader();
    await reader.read();
    await server.kill();
    const waiting = kv.get(["a"]);
    await server.restart();
    assertEquals(await waiting, entry, "a call waits for the server");
    assert((await kv.atomic().check(entry).set(["a"], 2).commit()).ok);
    // The client waits up to 12 s before it opens a broken watch again; the services also poll.
    const change = async (): Promise<unknown> => {
      const { value, done } = await reader.read();
      const found = value?.[0]?.value;
      return done || found === 2 ? found : await change();
    };
    assertEquals(await within(30_000, "the change", change()), 2);
    await reader.cancel();
  },
});

Deno.test({
  name: "a store over the network works on when its token has expired, also after a cancelled watch",
  ignore: denokv === null,
  async fn() {
    await using server = await Denokv.start(denokv ?? "");
    await using front = shortTokenFront(server.address, accessToken());
    await using store = disposable(await openStore(front.address));
    const { kv } = store;
    const reader = kv.watch([["a"]]).getReader();
    await reader.read();
    await reader.cancel();
    const exchanges = front.exchanges();
    const expired = performance.now() + TOKEN_MS, end = expired + 30_000;
    for (let n = 0; performance.now() < (front.exchanges() < exchanges + 2 ? end : expired); n++) {
      await kv.set(["a"], n);
      assertEquals((await kv.get(["a"])).value, n);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    assert(front.exchanges() >= exchanges + 2, "the client asks for a new token");
  },
});
