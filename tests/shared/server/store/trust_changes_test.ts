/**
 * Shows announcements of trust changes (D-64): part of the commit of a change, handled once by each reader, within a
 * second or at the next poll. A reader ignores changes from before its start and reads only later notes for any clocks
 * of the writers.
 */
import { assertEquals } from "@std/assert";
import { announceTrustChange, TrustChanges } from "../../../../shared/server/store/trust_changes.ts";
import { LOOK_MS } from "../../../../shared/server/store/watched_key.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";
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

function announced(kv: Deno.Kv, at: number, ...agentDids: string[]): Deno.AtomicOperation {
  const operation = kv.atomic();
  announceTrustChange(operation, at, agentDids);
  return operation;
}

function announce(kv: Deno.Kv, at: number, ...agentDids: string[]): Promise<unknown> {
  return announced(kv, at, ...agentDids).commit();
}

Deno.test("a trust change is handled once by every reader without waiting for the clock", async () => {
  const kv = await openTestKv();
  const clock = new ManualClock();
  await announce(kv, 1_000, "before");
  const listeners = [new Listener(kv, clock), new Listener(kv, clock)];
  for (const { changes } of listeners) await changes.start();
  await announce(kv, 1_000, "a", "b");
  for (const listener of listeners) await listener.until(1);
  await announce(kv, 1_000, "c");
  for (const listener of listeners) await listener.until(2);
  await clock.advance(10 * LOOK_MS);
  for (const listener of listeners) assertEquals(listener.received, [["a", "b"], ["c"]]);
  for (const { changes } of listeners) changes.stop();
  kv.close();
  await flushTasks();
});

Deno.test("a trust change is handled once at the next poll when the watch fails", async () => {
  using kv = await openTestKv();
  kv.watch = () => new ReadableStream({ start: (controller) => controller.error(new Error("deaf")) });
  const clock = new ManualClock();
  const listener = new Listener(kv, clock);
  await listener.changes.start();
  await announce(kv, 1_000, "a");
  await announce(kv, 1_000, "b");
  await flushTasks();
  assertEquals(listener.received, []);
  await clock.advance(LOOK_MS);
  await listener.until(1);
  assertEquals(listener.received.map((dids) => dids.toSorted()), [["a", "b"]]);
  await clock.advance(10 * LOOK_MS);
  assertEquals(listener.received.length, 1);
  listener.changes.stop();
  await announce(kv, 1_000, "after the end");
  await clock.advance(10 * LOOK_MS);
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
  await announce(kv, clock.now(), "a");
  broken = true;
  await clock.advance(LOOK_MS);
  assertEquals([listener.received, listener.events.includes("bell_look_failed")], [[], true]);
  broken = false;
  await clock.advance(LOOK_MS);
  await listener.until(1);
  assertEquals(listener.received, [["a"]]);
  listener.changes.stop();
});

Deno.test("a change that is not committed is not announced", async () => {
  using kv = await openTestKv();
  await kv.set(["x"], 1);
  const operation = announced(kv, 0, "a").check({ key: ["x"], versionstamp: null }).set(["x"], 2);
  assertEquals((await operation.commit()).ok, false);
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
  const listener = await deafListener(kv);
  const entries = countEntries(kv);
  const costs: number[] = [];
  for (let i = 0; i < 60; i++) {
    const before = entries();
    await announce(kv, 1_000, `agent-${i}`);
    await listener.changes.poll();
    costs.push(entries() - before);
  }
  assertEquals(listener.received.length, 60);
  assertEquals(Math.max(...costs) <= 2, true, `entries read for one change: ${costs}`);
  listener.changes.stop();
});

Deno.test("trust changes are all read when the clocks of their writers differ and commits swap places", async () => {
  using kv = await openTestKv();
  const listener = await deafListener(kv);
  const ahead = 9_000_000, behind = 1_000;
  for (const [at, did] of [[ahead, "a"], [behind, "b"], [ahead, "c"]] as const) {
    await announce(kv, at, did);
    await listener.changes.poll();
  }
  const first = announced(kv, ahead, "made first");
  await announce(kv, ahead, "made second");
  await listener.changes.poll();
  await first.commit();
  await listener.changes.poll();
  assertEquals(listener.received, [["a"], ["b"], ["c"], ["made second"], ["made first"]]);
  listener.changes.stop();
});

Deno.test("a note is handled when the poll that read it fails at the next one", async () => {
  using kv = await openTestKv();
  const listener = await deafListener(kv);
  await announce(kv, 1_000, "a");
  await announce(kv, 1_000, "b");
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
