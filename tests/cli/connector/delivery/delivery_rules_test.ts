/** The pure rules of delivery: waits, the meaning of an answer, and the order of messages (D-88). */
import { assert, assertEquals } from "@std/assert";
import {
  classifyAnswer,
  handoverWait,
  laneOf,
  Lanes,
  type NextAttempt,
  nextAttempt,
  type RuntimeAnswer,
  type Tries,
} from "../../../../cli/connector/delivery/delivery_rules.ts";

const HOUR = 3_600_000;
const status = (code: number, retryAfterMs: number | null = null): RuntimeAnswer => ({
  kind: "status",
  status: code,
  retryAfterMs,
  body: { contentType: null, text: "", cut: null },
});
const NEW: Tries = { attempts: 0, refusals: 0, firstTriedAt: null };

/** Repeats the attempt with the same answer, each time when it is due. */
function story(
  answer: RuntimeAnswer,
  most = 3_000,
): { waits: number[]; end: NextAttempt["state"]; attempts: number; ms: number } {
  const waits: number[] = [];
  let now = 1_000_000, tries = NEW;
  for (let n = 1; n <= most; n++) {
    const next = nextAttempt(tries, classifyAnswer(answer), now);
    if (next.state !== "waiting") return { waits, end: next.state, attempts: n, ms: now - 1_000_000 };
    waits.push(next.nextAt - now);
    now = next.nextAt;
    tries = next.tries;
  }
  return { waits, end: "waiting", attempts: most, ms: now - 1_000_000 };
}

Deno.test("the wait before a hand-over is 0.3 s doubling to 2 s for four attempts, then 1 s doubling to 60 s", () => {
  const waits = Array.from({ length: 12 }, (_, i) => handoverWait(i + 1));
  assertEquals(waits, [300, 600, 1_200, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

Deno.test("each answer of the runtime is retried as often as its rule says", async (t) => {
  for (const code of [200, 201, 202, 204]) {
    await t.step(`${code} accepts`, () => assertEquals(story(status(code)).end, "done"));
  }
  const passing: [string, RuntimeAnswer][] = [
    ["no connection", { kind: "unreachable", why: "no connection" }],
    ["a time-out", { kind: "timeout" }],
    ...[401, 403, 408, 425, 429, 502, 503, 504].map((code): [string, RuntimeAnswer] => [String(code), status(code)]),
  ];
  for (const [what, answer] of passing) {
    await t.step(`${what} is retried for 24 h`, () => {
      const { end, ms } = story(answer);
      assertEquals(end, "dead");
      assert(ms >= 24 * HOUR && ms < 24 * HOUR + 61_000, String(ms));
    });
  }
  for (const [code, attempts] of [[500, 10], [501, 10], [599, 10], [400, 5], [404, 5], [413, 5], [302, 5]] as const) {
    await t.step(`${code} is attempted ${attempts} times`, () => {
      assertEquals(story(status(code)), { ...story(status(code)), end: "dead", attempts });
    });
  }
});

Deno.test("an outage does not count against the attempts of a message", () => {
  const tries = { attempts: 300, refusals: 0, firstTriedAt: 0 };
  const next = nextAttempt(tries, classifyAnswer(status(500)), HOUR);
  assert(next.state === "waiting" && next.tries.refusals === 1);
});

Deno.test("the next attempt waits as long as the runtime asks, up to a minute", () => {
  const wait = (ms: number) => {
    const next = nextAttempt(NEW, classifyAnswer(status(429, ms)), 0);
    return next.state === "waiting" ? next.nextAt : -1;
  };
  assertEquals([wait(0), wait(5_000), wait(HOUR)], [300, 5_000, 60_000]);
});

Deno.test("a poison message lets others pass after four attempts, and no message does in an outage", () => {
  const asides = (answer: RuntimeAnswer) =>
    [0, 1, 2, 3, 4].map((attempts) => {
      const next = nextAttempt({ ...NEW, attempts }, classifyAnswer(answer), 0);
      return next.state === "waiting" && next.aside;
    });
  assertEquals(asides(status(500)), [false, false, false, true, true]);
  assertEquals(asides({ kind: "timeout" }), [false, false, false, true, true]);
  assertEquals(asides({ kind: "unreachable", why: "" }), [false, false, false, false, false]);
  assertEquals(asides(status(503)), [false, false, false, false, false]);
});

Deno.test("lanes keep the order within a lane and do not wait for each other", () => {
  const lanes = new Lanes();
  for (const [seq, lane] of [[1, "x"], [2, "x"], [3, "y"]] as const) lanes.add({ seq, lane, nextAt: 0, aside: false });
  assertEquals([lanes.take(0)?.seq, lanes.take(0)?.seq, lanes.take(0)], [1, 3, null]);
  lanes.release(1, { nextAt: 300, aside: false });
  assertEquals([lanes.take(299), lanes.nextAt(0)], [null, 300]);
  assertEquals(lanes.take(300)?.seq, 1);
  lanes.release(1, null);
  assertEquals(lanes.take(300)?.seq, 2);
  lanes.release(2, null);
  lanes.release(3, null);
  assertEquals([lanes.size, lanes.nextAt(0)], [0, null]);
});

Deno.test("a delayed message lets the next pass and returns when it is due", () => {
  const lanes = new Lanes();
  for (const seq of [1, 2]) lanes.add({ seq, lane: "x", nextAt: 0, aside: false });
  lanes.take(0);
  lanes.release(1, { nextAt: 1_000, aside: true });
  assertEquals(lanes.take(0)?.seq, 2);
  assertEquals([lanes.take(999), lanes.take(1_000)?.seq], [null, 1]);
});

Deno.test("lanes return a replayed message to its place and wake the worker", () => {
  const lanes = new Lanes();
  lanes.add({ seq: 7, lane: "x", nextAt: 50_000, aside: false });
  lanes.add({ seq: 3, lane: "x", nextAt: 50_000, aside: false });
  assertEquals(lanes.take(0), null);
  lanes.wake(0);
  assertEquals(lanes.take(0)?.seq, 3);
});

Deno.test("a message for a waiting caller keeps its time when the runtime is back, and blocks no other", () => {
  const lanes = new Lanes();
  lanes.add({ seq: 1, lane: "x", nextAt: 30_000, aside: true, isHeld: true });
  lanes.add({ seq: 2, lane: "x", nextAt: 50_000, aside: false });
  lanes.wake(0);
  assertEquals([lanes.take(0)?.seq, lanes.take(29_999), lanes.take(30_000)?.seq], [2, null, 1]);
  lanes.release(1, { nextAt: 40_000, aside: true });
  lanes.wake(31_000);
  assertEquals(lanes.take(31_000)?.seq, 1);
});

Deno.test("lanes accept no due time that a clock step back has left too far ahead", () => {
  const lanes = new Lanes();
  lanes.add({ seq: 1, lane: "x", nextAt: HOUR, aside: false });
  assertEquals([lanes.nextAt(0), lanes.take(0)?.seq], [0, 1]);
});

Deno.test("lanes separate senders, also when they name the same conversation", () => {
  const lanes = new Set([laneOf("a", null), laneOf("a", "c"), laneOf("b", "c"), laneOf("b", null)]);
  assertEquals(lanes.size, 4);
});
