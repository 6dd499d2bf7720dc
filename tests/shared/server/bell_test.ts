/**
 * Shows the bell (D-64): rung in the commit of a change, heard once by everyone who listens, within a second or at the
 * next look; what was rung before somebody listened is not heard.
 */
import { assertEquals } from "@std/assert";
import { ulidSource } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { ringTrustBell, TrustBell } from "../../../shared/server/bell.ts";
import { ManualClock, settle } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { seededRandom } from "../../support/seeded_random.ts";

class Listener {
  readonly heard: string[][] = [];
  readonly events: string[] = [];
  readonly bell: TrustBell;

  constructor(kv: Deno.Kv, clock: ManualClock) {
    const log = (_level: string, event: string) => void this.events.push(event);
    this.bell = new TrustBell({ kv, clock, log }, (agentDids) => this.heard.push(agentDids));
  }

  /** Waits for the watch, which the store wakes in its own time. */
  async until(count: number): Promise<void> {
    await until(() => this.heard.length >= count);
  }
}

function ring(kv: Deno.Kv, newId: () => string, ...agentDids: string[]): Promise<unknown> {
  return ringTrustBell(kv.atomic(), newId, agentDids).commit();
}

Deno.test("a ring is heard once by everyone who listens, without waiting for the clock", async () => {
  const kv = await Deno.openKv(":memory:");
  const clock = new ManualClock();
  const newId = ulidSource(() => clock.now(), seededRandom().bytes);
  await ring(kv, newId, "before");
  const listeners = [new Listener(kv, clock), new Listener(kv, clock)];
  for (const { bell } of listeners) await bell.start();
  await ring(kv, newId, "a", "b");
  for (const listener of listeners) await listener.until(1);
  await ring(kv, newId, "c");
  for (const listener of listeners) await listener.until(2);
  await clock.advance(10 * LIMITS.bellLookMs);
  for (const listener of listeners) assertEquals(listener.heard, [["a", "b"], ["c"]]);
  for (const { bell } of listeners) bell.stop();
  kv.close();
  await settle();
});

Deno.test("a bell that is deaf for its watch hears at the next look, and nothing twice", async () => {
  using kv = await Deno.openKv(":memory:");
  kv.watch = () => new ReadableStream({ start: (controller) => controller.error(new Error("deaf")) });
  const clock = new ManualClock();
  const newId = ulidSource(() => clock.now(), seededRandom().bytes);
  const listener = new Listener(kv, clock);
  await listener.bell.start();
  await ring(kv, newId, "a");
  await ring(kv, newId, "b");
  await settle();
  assertEquals(listener.heard, []);
  await clock.advance(LIMITS.bellLookMs);
  await listener.until(1);
  assertEquals(listener.heard.map((dids) => dids.toSorted()), [["a", "b"]]);
  await clock.advance(10 * LIMITS.bellLookMs);
  assertEquals(listener.heard.length, 1);
  listener.bell.stop();
  await ring(kv, newId, "after the end");
  await clock.advance(10 * LIMITS.bellLookMs);
  assertEquals([listener.heard.length, clock.waiting], [1, 0]);
});

Deno.test("a look that fails is logged, and the next one hears what it missed", async () => {
  using kv = await Deno.openKv(":memory:");
  kv.watch = () => new ReadableStream({ start: (controller) => controller.error(new Error("deaf")) });
  const { list } = kv;
  let broken = false;
  kv.list = ((...args: Parameters<typeof list>) => {
    if (broken) throw new Error("disk I/O error");
    return list.apply(kv, args);
  }) as typeof kv.list;
  const clock = new ManualClock();
  const listener = new Listener(kv, clock);
  await listener.bell.start();
  await ring(kv, ulidSource(() => clock.now(), seededRandom().bytes), "a");
  broken = true;
  await clock.advance(LIMITS.bellLookMs);
  assertEquals([listener.heard, listener.events.includes("bell_look_failed")], [[], true]);
  broken = false;
  await clock.advance(LIMITS.bellLookMs);
  await listener.until(1);
  assertEquals(listener.heard, [["a"]]);
  listener.bell.stop();
});

Deno.test("a change that is not committed rings nothing", async () => {
  using kv = await Deno.openKv(":memory:");
  await kv.set(["x"], 1);
  const operation = kv.atomic().check({ key: ["x"], versionstamp: null }).set(["x"], 2);
  assertEquals((await ringTrustBell(operation, ulidSource(() => 0, seededRandom().bytes), ["a"]).commit()).ok, false);
  assertEquals((await Array.fromAsync(kv.list({ prefix: ["bell"] }))).length, 0);
});
