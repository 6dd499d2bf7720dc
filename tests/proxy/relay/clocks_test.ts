/** Two instances whose clocks are 20 s apart are still one service (D-390). */
import { assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { wrapStoreErrors } from "../../../shared/server/store/store_errors.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { openTestKv } from "../../support/test_store.ts";
import { until } from "../../support/until.ts";
import { type TestAgent, World } from "../../support/world.ts";
import { connected } from "./two_instances.ts";

type Run = (w1: World, w2: World, a: TestAgent, b: TestAgent) => Promise<void>;

/** Lets time pass for both instances. */
async function pass(ms: number, ...worlds: World[]): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1_000) {
    for (const { clock } of worlds) await clock.advance(1_000);
  }
}

/** Two instances on one store, the clock of the second one ahead, with agents a and b paired. */
async function apart(aheadMs: number, run: Run): Promise<void> {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  {
    await using w1 = await World.open({ kv, seed: 1 });
    const clock = new ManualClock(w1.clock.now() + aheadMs);
    await using w2 = await World.open({ kv, seed: 2, clock });
    await Promise.all([w1.proxy.start(), w2.proxy.start()]);
    const { a, b } = await w1.pairedAgents();
    await run(w1, w2, a, b);
  }
  await flushTasks();
  kv.close();
}

for (const aheadMs of [20_000, -20_000]) {
  Deno.test(`a message reaches an agent at an instance whose clock is ${aheadMs / 1000} s ahead, and its reply`, () =>
    apart(aheadMs, async (w1, w2, a, b) => {
      const here = await connected(w1, a), there = await connected(w2, b);
      await pass(10_000, w1, w2);
      for (let n = 1; n <= 3; n++) {
        assertEquals((await w1.message(a, b)).status, 202);
        assertEquals((await w2.message(b, a)).status, 202);
        assertEquals([here.delivered.length, there.delivered.length], [n, n]);
        await pass(5_000, w1, w2);
      }
    }));

  Deno.test(`a copy at an instance whose clock is ${aheadMs / 1000} s ahead waits for the first delivery`, () =>
    apart(aheadMs, async (w1, w2, a, b) => {
      const socket = await connected(w1, b, "silent");
      await pass(5_000, w1, w2);
      const copy = { body: "{}", headers: { "x-request-id": "request-0001" } };
      const first = w1.message(a, b, copy);
      await until(() => socket.delivered.length === 1);
      const second = w2.message(a, b, copy);
      await pass(3_000, w1, w2);
      assertEquals(socket.delivered.length, 1);
      socket.ack(socket.delivered[0]?.id ?? "");
      const answer = await (await first).json();
      await pass(1_000, w1, w2);
      assertEquals(await (await second).json(), answer);
      assertEquals(socket.delivered.length, 1);
    }));
}

Deno.test("the sweep of an instance whose clock is 20 s ahead changes nothing of a delivery under way at another", () =>
  apart(20_000, async (w1, w2, a, b) => {
    const socket = await connected(w1, b, "silent");
    await pass(5_000, w1, w2);
    const sending = w1.message(a, b);
    await until(() => socket.delivered.length === 1);
    const key = KEYS.sender(a.agent.did), stored = await w2.kv.get(key);
    await w2.proxy.deps.deliveries.settle(stored);
    assertEquals((await w2.kv.get(key)).versionstamp, stored.versionstamp);
    socket.ack(socket.delivered[0]?.id ?? "");
    assertEquals((await sending).status, 202);
  }));
