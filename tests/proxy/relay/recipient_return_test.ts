/** Messages to agents whose instance stops wait until they are back (D-392). */
import { assert, assertEquals } from "@std/assert";
import { RETURN_PER_AGENT_MS } from "../../../proxy/app.ts";
import { RENEW_MS } from "../../../proxy/relay/instance_leases.ts";
import { RecipientReturn, RETURN_EXPECTED_MS } from "../../../proxy/relay/recipient_return.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { steps } from "../../support/steps.ts";
import { until } from "../../support/until.ts";
import { codeOf, type TestAgent, type World } from "../../support/world.ts";
import { connected, kill, sharedStore, two } from "./two_instances.ts";

const twoOf = (run: (w1: World, w2: World, a: TestAgent, b: TestAgent) => Promise<void>) =>
  two(sharedStore, async (w1, w2, a, b) => {
    // Each instance has seen the lease of the other one.
    await w1.clock.advance(2 * RENEW_MS);
    await run(w1, w2, a, b);
  });

/** A message on its way. */
class Sending {
  answer: Response | undefined;

  constructor(readonly w: World, a: TestAgent, b: TestAgent, headers: Record<string, string> = {}) {
    void w.message(a, b, { headers }).then((answer) => this.answer = answer);
  }

  /** Lets up to `ms` pass until there is an answer. Returns the milliseconds. */
  async passed(ms: number): Promise<number> {
    for (let passed = 0;; passed += 100) {
      await flushTasks();
      if (this.answer || passed >= ms) return passed;
      await this.w.clock.advance(100);
    }
  }

  async outcome(): Promise<string> {
    assert(this.answer, "there is no answer");
    return this.answer.status === 202 ? "202" : await codeOf(this.answer);
  }
}

/** Connects an agent to an instance, which then leaves. */
async function left(w: World, agent: TestAgent): Promise<void> {
  await connected(w, agent);
  await leave(w);
}

/** Lets an instance announce its stop and close its sockets. */
async function leave(w: World): Promise<void> {
  let isOver = false;
  const leaving = w.proxy.leave().then(() => isOver = true);
  while (!isOver) await w.clock.advance(50);
  await leaving;
}

Deno.test("a message waits for a recipient whose instance stops, and reaches it where it returns", () =>
  twoOf(async (w1, w2, a, b) => {
    const before = await connected(w2, b);
    await leave(w2);
    assertEquals(before.closed, { code: 1001, reason: "shutting down; connect again within 1000 ms" });
    const sending = new Sending(w1, a, b);
    await sending.passed(900);
    assertEquals(sending.answer, undefined);
    const after = await connected(w1, b);
    assert(await sending.passed(1_000) <= 300);
    assertEquals([await sending.outcome(), before.delivered.length, after.delivered.length], ["202", 0, 1]);
  }));

Deno.test("a message waits also at the instance that stops, and crosses to where its recipient returns", () =>
  twoOf(async (w1, w2, a, b) => {
    await left(w2, b);
    const sending = new Sending(w2, a, b);
    await sending.passed(600);
    assertEquals(sending.answer, undefined);
    const after = await connected(w1, b);
    assert(await sending.passed(1_000) <= 300);
    assertEquals([await sending.outcome(), after.delivered.length], ["202", 1]);
  }));

Deno.test("a message waits for 5 s and then says that the recipient is offline", () =>
  twoOf(async (w1, w2, a, b) => {
    await left(w2, b);
    await w2.proxy.stop();
    const sending = new Sending(w1, a, b);
    const passed = await sending.passed(10_000);
    assertEquals(await sending.outcome(), "PROXY_RELAY_CONNECTOR_OFFLINE");
    assert(passed >= 4_900 && passed <= 5_100, `${passed} ms`);
  }));

Deno.test("a message to an agent of an instance that stopped long ago does not wait after a step back of the clock", () =>
  twoOf(async (w1, w2, a, b) => {
    await w1.clock.advance(60_000);
    await left(w2, b);
    await w2.proxy.stop();
    await w1.clock.advance(RETURN_EXPECTED_MS + RENEW_MS);
    w1.clock.step(-60_000);
    const sending = new Sending(w1, a, b);
    const passed = await sending.passed(10_000);
    assertEquals([await sending.outcome(), passed], ["PROXY_RELAY_CONNECTOR_OFFLINE", 0]);
  }));

Deno.test("at an instance that stops a message is answered before the instance ends", () =>
  twoOf(async (_w1, w2, a, b) => {
    await left(w2, b);
    const sending = new Sending(w2, a, b);
    assert(await sending.passed(10_000) < LIMITS.drainMs - LIMITS.stopNoticeMs / 2);
    assertEquals(await sending.outcome(), "PROXY_RELAY_CONNECTOR_OFFLINE");
  }));

Deno.test("a message is answered after its wait also when the store does not answer meanwhile", async () => {
  for (const restMs of [Infinity, 2_000]) {
    const clock = new ManualClock();
    const returns = new RecipientReturn(
      {
        clock,
        connectedAgents: { socketsOf: () => undefined },
        leases: { leavingSince: () => Promise.resolve(0), restMs },
        presence: { holderOf: () => Promise.resolve("other") },
        reads: { get: () => new Promise(() => {}) },
      } as unknown as ConstructorParameters<typeof RecipientReturn>[0],
    );
    let isBack: boolean | undefined;
    void returns.isBack("agent", null, () => {}).then((found) => isBack = found);
    await flushTasks();
    await clock.advance(Math.min(LIMITS.returnWaitMs, restMs - 700) - 1);
    assertEquals(isBack, undefined);
    await clock.advance(1);
    assertEquals(isBack, false);
  }
});

Deno.test("a copy of a request that waits is refused as a replay", () =>
  twoOf(async (w1, w2, a, b) => {
    await left(w2, b);
    const request = await w1.signed(a, { recipient: b.agent.did, body: "{}" });
    let waiting: Response | undefined;
    const first = w1.fetch(request.clone()).then((answer) => waiting = answer);
    for (let i = 0; i < 3; i++) await flushTasks();
    assertEquals([waiting, await codeOf(await w1.fetch(request))], [undefined, "PROXY_AUTH_REPLAY"]);
    await connected(w1, b);
    await w1.clock.advance(500);
    assertEquals((await first).status, 202);
  }));

Deno.test("only a recipient that is expected back is waited for", async (t) => {
  const offline = ["PROXY_RELAY_CONNECTOR_OFFLINE", "at once"] as const;
  const answered = async (w: World, a: TestAgent, b: TestAgent, headers: Record<string, string> = {}) => {
    const sending = new Sending(w, a, b, headers);
    // A store over the network answers a step or two later; the wait for a recipient is 5 s.
    const passed = await sending.passed(8_000);
    return [await sending.outcome(), passed < 1_000 ? "at once" : `after ${passed} ms`] as const;
  };
  await t.step("its connector has ended", () =>
    twoOf(async (w1, w2, a, b) => {
      const socket = await connected(w2, b);
      socket.link.lost();
      await until(async () => (await w1.kv.get(KEYS.presence(b.agent.did))).value === null);
      assertEquals(await answered(w1, a, b), offline);
    }));
  await t.step("its instance was killed", () =>
    twoOf(async (w1, w2, a, b) => {
      await connected(w2, b);
      await kill(w2);
      await w1.clock.advance(16_000);
      assertEquals(await answered(w1, a, b), offline);
    }));
  await t.step("its instance stopped 10 s ago", () =>
    twoOf(async (w1, w2, a, b) => {
      await left(w2, b);
      await w2.proxy.stop();
      await w1.clock.advance(RETURN_EXPECTED_MS);
      assertEquals(await answered(w1, a, b), offline);
    }));
  await t.step("its instance stopped long before this one began", () =>
    twoOf(async (w1, w2, a, b) => {
      await left(w2, b);
      await w2.proxy.stop();
      await w1.clock.advance(60_000);
      await w1.start();
      assertEquals(await answered(w1, a, b), offline);
    }));
  await t.step("the message may be queued", () =>
    twoOf(async (w1, w2, a, b) => {
      await left(w2, b);
      assertEquals(await answered(w1, a, b, { Prefer: "respond-async" }), ["202", "at once"]);
    }));
});

Deno.test("a message whose frame arrived before its instance was killed is not refused as certainly undelivered", async (t) => {
  const cases: [name: string, headers: Record<string, string>][] = [
    ["a message that may not wait", {}],
    ["a message that may wait, with a full mailbox", { Prefer: "respond-async" }],
  ];
  await steps(t, cases, ([, headers]) =>
    two(sharedStore, async (w1, w2, a, b) => {
      await w1.kv.set(KEYS.mailboxState(b.agent.did), { next: 1, total: 500, bySender: {}, byPayer: {} });
      const socket = await connected(w2, b, "silent");
      const sending = new Sending(w1, a, b, headers);
      await until(() => socket.delivered.length === 1);
      await kill(w2);
      await sending.passed(30_000);
      assertEquals(await sending.outcome(), "PROXY_RELAY_DELIVERY_FAILED");
    }, { proxy: { ackTimeoutMs: 20_000 } }));
});

Deno.test("many messages wait with few reads of the store, for any number of messages to one recipient", () =>
  twoOf(async (w1, w2, a, b) => {
    await left(w2, b);
    const sendings = Array.from({ length: 20 }, () => new Sending(w1, a, b));
    await Promise.all(sendings.map((one) => one.passed(0)));
    const { kv } = w1, { getMany } = kv;
    let reads = 0;
    kv.getMany = ((...args: Parameters<typeof getMany>) => {
      reads++;
      return getMany.apply(kv, args);
    }) as typeof kv.getMany;
    await w1.clock.advance(1_000);
    kv.getMany = getMany;
    assert(reads <= 15, `${reads} reads in a second`);
    await connected(w1, b);
    for (const sending of sendings) {
      await sending.passed(2_000);
      assertEquals(await sending.outcome(), "202");
    }
  }));

Deno.test("the time in which agents return grows with their number, and is longer without another instance", () =>
  twoOf(async (w1, w2, _a, b) => {
    const socket = await connected(w1, b);
    Object.defineProperty(w1.proxy.deps.connectedAgents, "agents", { get: () => 4_000 });
    await leave(w1);
    assertEquals(socket.closed?.reason, `shutting down; connect again within ${4_000 * RETURN_PER_AGENT_MS} ms`);
    const last = await connected(w2, b);
    await leave(w2);
    assertEquals(last.closed?.reason, "shutting down; connect again within 5000 ms");
  }));
