/**
 * Shows announcements of trust changes (D-64, D-214): part of the commit of a change, handled once by each reader,
 * within a second or at the next poll. A reader ignores changes from before its start and reads only later notes for
 * any clocks of the writers. It understands the notes of the previous version, which understands these.
 */
import { assertEquals } from "@std/assert";
import { ulidSource } from "../../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { announceTrustChange, TrustChanges } from "../../../../shared/server/store/trust_changes.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";
import { seededRandom } from "../../../support/seeded_random.ts";
import { openTestKv } from "../../../support/test_store.ts";

class Listener {
  readonly received: string[][] = [];
  readonly events: string[] = [];
  readonly changes: TrustChanges;

  constructor(kv: Deno.Kv, clock: ManualClock) {
    const log = (_level: string, event: string) => void this.events.push(event);
    this.changes = new TrustChanges({ kv, clock, log }, (agentDids) => this.received.push(agentDids));
  }

  /** Waits for the watch, which the store wakes in its own time. */
  async until(count: number): Promise<void> {
    await until(() => this.received.length >= count);
  }
}

function announce(kv: Deno.Kv, newId: () => string, ...agentDids: string[]): Promise<unknown> {
  return announceTrustChange(kv.atomic(), newId, agentDids).commit();
}

Deno.test("a trust change is handled once by every reader without waiting for the clock", async () => {
  const kv = await openTestKv();
  const clock = new ManualClock();
  const newId = ulidSource(() => clock.now(), seededRandom().bytes);
  await announce(kv, newId, "before");
  const listeners = [new Listener(kv, clock), new Listener(kv, clock)];
  for (const { changes } of listeners) await changes.start();
  await announce(kv, newId, "a", "b");
  for (const listener of listeners) await listener.until(1);
  await announce(kv, newId, "c");
  for (const listener of listeners) await listener.until(2);
  await clock.advance(10 * LIMITS.bellLookMs);
  for (const listener of listeners) assertEquals(listener.received, [["a", "b"], ["c"]]);
  for (const { changes } of listeners) changes.stop();
  kv.close();
  await flushTasks();
});

Deno.test("a trust change is handled once at the next poll when the watch fails", async () => {
  using kv = await openTestKv();
  kv.watch = () => new ReadableStream({ start: (controller) => controller.error(new Error("deaf")) });
  const clock = new ManualClock();
  const newId = ulidSource(() => clock.now(), seededRandom().bytes);
  const listener = new Listener(kv, clock);
  await listener.changes.start();
  await announce(kv, newId, "a");
  await announce(kv, newId, "b");
  await flushTasks();
  assertEquals(listener.received, []);
  await clock.advance(LIMITS.bellLookMs);
  await listener.until(1);
  assertEquals(listener.received.map((dids) => dids.toSorted()), [["a", "b"]]);
  await clock.advance(10 * LIMITS.bellLookMs);
  assertEquals(listener.received.length, 1);
  listener.changes.stop();
  await announce(kv, newId, "after the end");
  await clock.advance(10 * LIMITS.bellLookMs);
  assertEquals([listener.received.length, clock.waiting], [1, 0]);
});

Deno.test("a poll that fails is logged, and the next one handles the missed change", async () => {
  using kv = await openTestKv();
  kv.watch = () => new ReadableStream({ start: (controller) => controller.error(new Error("deaf")) });
  const { list } = kv;
  let broken = false;
  kv.list = ((...args: Parameters<typeof list>) => {
    if (broken) throw new Error("disk I/O error");
    return list.apply(kv, args);
  }) as typeof kv.list;
  const clock = new ManualClock();
  const listener = new Listener(kv, clock);
  await listener.changes.start();
  await announce(kv, ulidSource(() => clock.now(), seededRandom().bytes), "a");
  broken = true;
  await clock.advance(LIMITS.bellLookMs);
  assertEquals([listener.received, listener.events.includes("bell_look_failed")], [[], true]);
  broken = false;
  await clock.advance(LIMITS.bellLookMs);
  await listener.until(1);
  assertEquals(listener.received, [["a"]]);
  listener.changes.stop();
});

Deno.test("a change that is not committed is not announced", async () => {
  using kv = await openTestKv();
  await kv.set(["x"], 1);
  const operation = kv.atomic().check({ key: ["x"], versionstamp: null }).set(["x"], 2);
  assertEquals(
    (await announceTrustChange(operation, ulidSource(() => 0, seededRandom().bytes), ["a"]).commit()).ok,
    false,
  );
  assertEquals((await Array.fromAsync(kv.list({ prefix: ["bell"] }))).length, 0);
});

/** The entries that lists of this store have returned so far. */
function countEntries(kv: Deno.Kv): () => number {
  const { list } = kv;
  let entries = 0;
  kv.list = ((...args: Parameters<typeof list>) => {
    const iterator = list.apply(kv, args);
    const next = iterator.next.bind(iterator);
    iterator.next = async () => {
      const result = await next();
      if (!result.done) entries++;
      return result;
    };
    return iterator;
  }) as typeof kv.list;
  return () => entries;
}

/** A reader whose watch fails, so that it reads only when a test polls. */
async function deafListener(kv: Deno.Kv): Promise<Listener> {
  kv.watch = () => new ReadableStream({ start: (controller) => controller.error(new Error("deaf")) });
  const listener = new Listener(kv, new ManualClock());
  await listener.changes.start();
  return listener;
}

Deno.test("a trust change is read at the same cost when many came before it", async () => {
  using kv = await openTestKv();
  const newId = ulidSource(() => 1_000, seededRandom().bytes);
  const listener = await deafListener(kv);
  const entries = countEntries(kv);
  const costs: number[] = [];
  for (let i = 0; i < 300; i++) {
    const before = entries();
    await announce(kv, newId, `agent-${i}`);
    await listener.changes.poll();
    costs.push(entries() - before);
  }
  assertEquals(listener.received.length, 300);
  assertEquals(Math.max(...costs) <= 2, true, `entries read for one change: ${costs}`);
  listener.changes.stop();
});

Deno.test("trust changes are all read when the clocks of their writers differ and commits swap places", async () => {
  using kv = await openTestKv();
  const listener = await deafListener(kv);
  const ahead = ulidSource(() => 9_000_000, seededRandom(1).bytes);
  const behind = ulidSource(() => 1_000, seededRandom(2).bytes);
  for (const [newId, did] of [[ahead, "a"], [behind, "b"], [ahead, "c"]] as const) {
    await announce(kv, newId, did);
    await listener.changes.poll();
  }
  const first = announceTrustChange(kv.atomic(), ahead, ["made first"]);
  await announce(kv, ahead, "made second");
  await listener.changes.poll();
  await first.commit();
  await listener.changes.poll();
  assertEquals(listener.received, [["a"], ["b"], ["c"], ["made second"], ["made first"]]);
  listener.changes.stop();
});

Deno.test("neighbouring versions read each other's notes when both run on one store", async () => {
  using kv = await openTestKv();
  const newId = ulidSource(() => Date.UTC(2026, 1, 1), seededRandom().bytes);
  const previous = async (change: "revocation" | "pair", ...agentDids: string[]) => {
    const id = newId();
    const note = { agentDids, change };
    await kv.atomic().set(["bell", "trust"], { seq: id }).set(["bell", "trust", id], note, { expireIn: 900_000 })
      .commit();
  };
  await previous("revocation", "before");
  const listener = await deafListener(kv);
  await previous("revocation", "old");
  await listener.changes.poll();
  await announce(kv, newId, "new");
  await previous("pair", "a pair");
  await previous("revocation", "old again");
  await listener.changes.poll();
  await listener.changes.poll();
  assertEquals(listener.received, [["old"], ["new", "old again"]]);
  // The previous version reads notes by the prefix, their last key part as a text, and a new value of the key that it
  // watches.
  const notes = await Array.fromAsync(kv.list<{ agentDids: string[]; change: string }>({ prefix: ["bell", "trust"] }));
  const note = notes.find(({ value }) => value.agentDids[0] === "new");
  assertEquals([typeof note?.key.at(-1), note?.key.length, note?.value.change], ["string", 3, "revocation"]);
  listener.changes.stop();
});

Deno.test("a note is handled when the poll that read it fails at the next one", async () => {
  using kv = await openTestKv();
  const newId = ulidSource(() => 1_000, seededRandom().bytes);
  const listener = await deafListener(kv);
  await announce(kv, newId, "a");
  await announce(kv, newId, "b");
  const { list } = kv;
  kv.list = ((...args: Parameters<typeof list>) => {
    const iterator = list.apply(kv, args);
    const next = iterator.next.bind(iterator);
    let reads = 0;
    iterator.next = () => ++reads === 2 ? Promise.reject(new Error("disk I/O error")) : next();
    return iterator;
  }) as typeof kv.list;
  await listener.changes.poll();
  kv.list = list;
  await listener.changes.poll();
  assertEquals(listener.received, [["a"], ["b"]]);
  listener.changes.stop();
});
