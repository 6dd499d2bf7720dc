/** The loop guard (D-113): what a model and a program may send, and that no loop goes on. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { LOOP_MESSAGES, LOOP_PEERS, LOOP_WINDOW_MS as HOUR, LoopGuard } from "../../../cli/link/loop_guard.ts";

const [BETA, GAMMA] = ["did:beta", "did:gamma"];

Deno.test("a model asks a peer 32 questions at once, and one more after each answer", () => {
  const guard = new LoopGuard();
  for (let n = 0; n < LOOP_MESSAGES; n++) assertEquals(guard.modelMessage(BETA, `q-${n}`, n), 0);
  assertEquals(guard.modelMessage(BETA, "q-32", 60_000), HOUR - 60_000);
  assertEquals(guard.modelMessage(GAMMA, "q-32", 60_000), 0);
  for (let n = 0; n < 1_000; n++) {
    guard.received(BETA, `q-${n}`);
    assertEquals(guard.modelMessage(BETA, `q-${LOOP_MESSAGES + n}`, 60_000), 0, `${n}`);
    assert(guard.modelMessage(BETA, "one more", 60_000) > 0);
  }
  assertEquals(guard.refusals, 1_001);
});

Deno.test("any other message of the peer answers everything, and a message of another peer nothing", () => {
  const guard = new LoopGuard();
  const ask = (n: number) => guard.modelMessage(BETA, `q-${n}`, 0);
  for (let n = 0; n < LOOP_MESSAGES; n++) ask(n);
  guard.received(GAMMA, null);
  guard.received(GAMMA, "q-1");
  assertEquals(ask(32), HOUR);
  guard.received(BETA, null);
  for (let n = 0; n < LOOP_MESSAGES; n++) assertEquals(ask(n), 0);
  guard.received(BETA, "unknown");
  assertEquals(ask(0), 0);
});

Deno.test("a question counts for an hour, unless the peer has not got it", () => {
  const guard = new LoopGuard();
  for (let n = 0; n < LOOP_MESSAGES; n++) guard.modelMessage(BETA, `q-${n}`, n);
  assertEquals(guard.modelMessage(BETA, "next", HOUR - 1), 1);
  guard.notSent(BETA, "q-5");
  assertEquals([guard.modelMessage(BETA, "next", HOUR - 1), guard.modelMessage(BETA, "last", HOUR - 1)], [0, 1]);
  assertEquals(guard.modelMessage(BETA, "last", HOUR), 0);
});

Deno.test("a clock that is set back stops nothing for longer than before", () => {
  const guard = new LoopGuard();
  const late = 1_000_000_000;
  for (let n = 0; n < LOOP_MESSAGES; n++) guard.modelMessage(BETA, `q-${n}`, late);
  assertEquals([guard.automaticReply(late, 0), guard.modelMessage(BETA, "q", 0)], [0, 0]);
});

Deno.test("the guard remembers the peers with the latest messages", () => {
  const guard = new LoopGuard();
  for (const peer of ["old", "late"]) for (let n = 0; n < LOOP_MESSAGES; n++) guard.modelMessage(peer, `q-${n}`, 0);
  for (let n = 0; n < LOOP_PEERS - 1; n++) guard.modelMessage(`did:${n}`, "q", 0);
  assertEquals([guard.modelMessage("late", "q", 0) > 0, guard.modelMessage("old", "q", 0)], [true, 0]);
});

Deno.test("in any order of messages no more than 32 questions of a model to a peer are open", () => {
  const step = fc.record({
    kind: fc.constantFrom("ask", "ask", "ask", "answer", "message"),
    peer: fc.constantFrom(BETA, GAMMA),
    which: fc.nat(60),
    wait: fc.integer({ min: 0, max: 120_000 }),
  });
  fc.assert(fc.property(fc.array(step, { minLength: 50, maxLength: 300 }), (steps) => {
    const guard = new LoopGuard();
    const open: Record<string, Map<string, number>> = { [BETA]: new Map(), [GAMMA]: new Map() };
    let now = 0;
    for (const [n, { kind, peer, which, wait }] of steps.entries()) {
      now += wait;
      const own = open[peer] ?? new Map();
      for (const [id, at] of own) if (now - at >= HOUR) own.delete(id);
      const id = [...own.keys()][which] ?? null;
      if (kind === "ask") {
        const isFull = own.size >= LOOP_MESSAGES;
        assertEquals(guard.modelMessage(peer, `q-${n}`, now) > 0, isFull);
        if (!isFull) own.set(`q-${n}`, now);
      } else if (kind === "answer" && id !== null) {
        guard.received(peer, id);
        own.delete(id);
      } else if (kind === "message") {
        guard.received(peer, null);
        own.clear();
      }
    }
  }));
});
