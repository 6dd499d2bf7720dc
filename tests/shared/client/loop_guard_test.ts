/** The loop guard (D-113): bounds of automatic replies and of messages of a model. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { LoopGuard } from "../../../shared/client/loop_guard.ts";
import { CLIENT_LIMITS } from "../../../shared/client/limits.ts";

const MINUTE = 60_000;
const [BETA, GAMMA] = ["did:beta", "did:gamma"];

Deno.test("20 automatic replies in a conversation are followed by a pause of ten minutes", () => {
  const guard = new LoopGuard();
  for (let n = 0; n < 20; n++) assertEquals(guard.automaticReply(BETA, "c", n), 0);
  assertEquals([guard.automaticReply(BETA, "c", 19), guard.automaticReply(BETA, "c", 10 * MINUTE)], [10 * MINUTE, 19]);
  assertEquals([guard.automaticReply(BETA, "d", 20), guard.automaticReply(BETA, null, 20)], [0, 0]);
  assertEquals(guard.automaticReply(GAMMA, "c", 20), 0);
  assertEquals([guard.automaticReply(BETA, "c", 10 * MINUTE + 19), guard.refusals], [0, 2]);
});

Deno.test("automatic replies that are further apart are not stopped", () => {
  const guard = new LoopGuard();
  for (let n = 0; n < 200; n++) assertEquals(guard.automaticReply(BETA, null, n * (5 * MINUTE / 19 + 1)), 0);
});

Deno.test("the sixth message of a model to a silent peer in a minute is refused", () => {
  const guard = new LoopGuard();
  for (let n = 0; n < 5; n++) assertEquals(guard.modelMessage(BETA, `c${n}`, n * 1_000), 0);
  assertEquals([guard.modelMessage(BETA, "c", 10_000), guard.modelMessage(GAMMA, "c", 10_000)], [50_000, 0]);
  assertEquals(guard.modelMessage(BETA, "c", MINUTE), 0);
  assertEquals(guard.modelMessage(BETA, "c", MINUTE), 1_000);
  guard.received(BETA);
  assertEquals(guard.modelMessage(BETA, "c", MINUTE), 0);
});

Deno.test("a model sends at most 30 messages in a conversation in ten minutes, also when it is answered", () => {
  const guard = new LoopGuard();
  const send = (now: number, conversation: string) => {
    guard.received(BETA);
    return guard.modelMessage(BETA, conversation, now);
  };
  for (let n = 0; n < 30; n++) assertEquals(send(n, "c"), 0);
  assertEquals([send(1_000, "c"), send(1_000, "d")], [10 * MINUTE - 1_000, 0]);
  assertEquals([send(10 * MINUTE, "c"), send(10 * MINUTE, "c")], [0, 1]);
});

Deno.test("a refused message of a model is not counted", () => {
  const guard = new LoopGuard();
  for (let n = 0; n < 100; n++) guard.modelMessage(BETA, "c", n * 1_000);
  // Five in each minute, not one more.
  assertEquals(guard.refusals, 90);
});

Deno.test("a clock that is set back does not lengthen a pause", () => {
  const guard = new LoopGuard();
  for (let n = 0; n < 21; n++) guard.automaticReply(BETA, "c", 1_000_000_000);
  for (let n = 0; n < 5; n++) guard.modelMessage(BETA, "c", 1_000_000_000);
  assertEquals([guard.automaticReply(BETA, "c", 0), guard.modelMessage(BETA, "c", 0)], [0, 0]);
});

Deno.test("the guard remembers at most 1,000 peers and conversations, the latest", () => {
  const guard = new LoopGuard();
  for (let n = 0; n < 20; n++) guard.automaticReply(BETA, "old", 0);
  for (let n = 0; n < 20; n++) guard.automaticReply(BETA, "late", 0);
  for (let n = 0; n < CLIENT_LIMITS.loopGuardEntries - 1; n++) guard.automaticReply(GAMMA, `c${n}`, 0);
  assertEquals([guard.automaticReply(BETA, "late", 0) > 0, guard.automaticReply(BETA, "old", 0)], [true, 0]);
});

Deno.test("in any order of messages no window has more than its bound", () => {
  const step = fc.record({
    kind: fc.constantFrom("auto", "model", "received"),
    peer: fc.constantFrom(BETA, GAMMA),
    conversation: fc.constantFrom("c", null),
    wait: fc.integer({ min: 0, max: 20_000 }),
  });
  fc.assert(fc.property(fc.array(step, { minLength: 50, maxLength: 300 }), (steps) => {
    const guard = new LoopGuard();
    const allowed: { kind: string; key: string; at: number }[] = [];
    let now = 0;
    for (const { kind, peer, conversation, wait } of steps) {
      now += wait;
      if (kind === "received") guard.received(peer);
      else if (kind === "auto" && guard.automaticReply(peer, conversation, now) === 0) {
        allowed.push({ kind, key: `${peer} ${conversation}`, at: now });
      } else if (kind === "model" && guard.modelMessage(peer, conversation, now) === 0) {
        allowed.push({ kind, key: `${peer} ${conversation}`, at: now });
      }
    }
    for (const { kind, key, at } of allowed) {
      const [bound, ms] = kind === "auto" ? [20, 5 * MINUTE] : [30, 10 * MINUTE];
      const within = allowed.filter((one) => one.kind === kind && one.key === key && one.at >= at && one.at < at + ms);
      assert(within.length <= bound, `${within.length} ${kind}`);
    }
  }));
});
