/** A clock that steps back, or differs from the clock of another instance. */
import { assert, assertEquals } from "@std/assert";
import { SenderChange, type SenderRefusal, Senders } from "../../../proxy/message/sender.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { systemRandom } from "../../../shared/random.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { BatchedReads } from "../../../shared/server/store/batched_reads.ts";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import { wrapStoreErrors } from "../../../shared/server/store/store_errors.ts";
import { aroundCommits } from "../../support/kv_hooks.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { outcome } from "../../support/registry_world.ts";
import { MAX_CHECKS, openTestKv } from "../../support/test_store.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { connected } from "../relay/two_instances.ts";

const AGENT = "did:svc:a.test:agent:01KHYQ5H00AAAAAAAAAAAAAAAA";

for (const isCommitting of [false, true]) {
  const when = isCommitting ? "during a commit" : "without a commit";
  Deno.test(`a replay is refused after the clock stepped back ${when}`, async () => {
    using kv = await openTestKv();
    const isHeld = Promise.withResolvers<void>();
    let waits = false, hasBegun = false;
    aroundCommits(kv, async (commit) => {
      if (waits) {
        [waits, hasBegun] = [false, true];
        await isHeld.promise;
      }
      return await commit();
    });
    const clock = new ManualClock();
    const commits = new GroupCommit(kv, MAX_CHECKS, { clock, markKey: ["mark", "x"] });
    const windowMs = LIMITS.agentWindowMs, rule = { name: "agent", requests: 10_000, windowMs };
    const senders = new Senders({ kv, reads: new BatchedReads(kv), clock, random: systemRandom, windowMs });
    const use = async (nonce: string, timestamp: number): Promise<boolean> => {
      const now = clock.now(), sender = await senders.loaded(AGENT, now);
      const reserved = sender.reserve(nonce, timestamp, now);
      if (!reserved) return false;
      const live = new SenderChange(sender, clock, reserved, rule, null);
      return (await commits.claim<SenderRefusal>([], { live })).taken;
    };
    const signedAt = unixSeconds(clock.now());
    assert(await use("captured", signedAt));
    assert(!await use("captured", signedAt));
    clock.step((LIMITS.nonceGraceSeconds + 20) * 1000);
    // Forgets the first nonce, which has ended.
    assert(await use("other", unixSeconds(clock.now())));
    waits = isCommitting;
    const running = isCommitting ? use("busy", unixSeconds(clock.now())) : null;
    if (isCommitting) await until(() => hasBegun);
    clock.step(-60_000);
    const replay = use("captured", signedAt);
    isHeld.resolve();
    assertEquals([await replay, await running], [false, isCommitting ? true : null]);
  });
}

Deno.test("a sweep at an instance whose clock is ahead leaves a message that another one delivers", async () => {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  {
    await using one = await World.open({ kv, seed: 1 });
    const clock = new ManualClock(one.clock.now() + 20_000);
    await using other = await World.open({ kv, seed: 2, clock });
    await Promise.all([one.proxy.start(), other.proxy.start()]);
    const { a, b } = await one.pairedAgents();
    const socket = await connected(one, b, "silent");
    const pass = async (seconds: number) => {
      for (let i = 0; i < seconds; i++) for (const each of [one.clock, clock]) await each.advance(1_000);
    };
    // Both instances learn the clock of the other one from its lease.
    await pass(5);
    const copy = { body: "{}", headers: { [HEADERS.requestId]: "request-1" } };
    const first = one.message(a, b, copy);
    await until(() => socket.delivered.length === 1);
    await other.proxy.deps.deliveries.settle(await kv.get(KEYS.sender(a.agent.did)));
    const second = other.message(a, b, copy);
    await pass(3);
    assertEquals(socket.delivered.length, 1);
    for (const { id } of socket.delivered) socket.ack(id);
    const answer = await outcome(await first);
    await pass(2);
    assertEquals([socket.delivered.length, answer, await outcome(await second)], [1, "202", "202"]);
  }
  await flushTasks();
  kv.close();
});

Deno.test("a repeat of a message whose instance has set its clock back gets an answer in time", async () => {
  const kv = await openTestKv();
  wrapStoreErrors(kv);
  {
    await using w1 = await World.open({ kv, seed: 1 });
    const clock = new ManualClock(w1.clock.now());
    await using w2 = await World.open({ kv, seed: 2, clock });
    await Promise.all([w1.proxy.start(), w2.proxy.start()]);
    const { a, b } = await w1.pairedAgents();
    const socket = await connected(w1, b, "silent");
    const pass = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += 1000) {
        for (const one of [w1.clock, clock]) await one.advance(1000);
      }
    };
    await pass(5_000);
    const copy = { body: "{}", headers: { [HEADERS.requestId]: "request-1" } };
    // As if the store had failed then.
    w1.proxy.deps.deliveries.end = () => Promise.resolve();
    const first = w1.message(a, b, copy);
    await until(() => socket.delivered.length === 1);
    await pass(12_000);
    assertEquals((await first).status, 502);
    w1.clock.step(-3_600_000);
    await pass(8_000);
    let isOver = false;
    const timestamp = String(unixSeconds(clock.now()));
    const second = w2.message(a, b, { ...copy, timestamp }).finally(() => isOver = true);
    for (let waited = 0; !isOver && waited < 30; waited++) await pass(1_000);
    assertEquals([isOver && await outcome(await second)], ["502 PROXY_RELAY_DELIVERY_FAILED"]);
  }
  await flushTasks();
  kv.close();
});
