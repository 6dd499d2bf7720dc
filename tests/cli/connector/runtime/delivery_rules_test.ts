/** The pure rules of delivery: waits, the meaning of an answer, and the order of messages (D-88). */
import { assert, assertEquals } from "@std/assert";
import {
  classifyAnswer,
  handoverWait,
  Lanes,
  type NextAttempt,
  nextAttempt,
  type RuntimeAnswer,
} from "../../../../cli/connector/runtime/delivery_rules.ts";
import type { Tries } from "../../../../cli/connector/store/received_rows.ts";

const HOUR = 3_600_000;
const status = (code: number, retryAfterMs = 0): RuntimeAnswer => ({
  kind: "status",
  status: code,
  retryAfterMs,
  text: "",
  cut: null,
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

Deno.test("a message that was not tried for a weekend is tried for an hour more", () => {
  const tries = { attempts: 300, refusals: 0, firstTriedAt: 0 }, result = classifyAnswer(status(503));
  const next = nextAttempt(tries, result, 60 * HOUR, 50 * HOUR);
  assert(next.state === "waiting");
  assertEquals(nextAttempt(next.tries, result, 61 * HOUR - 1).state, "waiting");
  assertEquals(nextAttempt(next.tries, result, 61 * HOUR).state, "dead");
  assertEquals(nextAttempt(tries, result, 60 * HOUR, 7 * HOUR).state, "dead");
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

Deno.test("a delayed message lets the next pass and returns when it is due", () => {
  const lanes = new Lanes();
  for (const seq of [1, 2]) lanes.add({ seq, lane: "x", nextAt: 0, aside: false });
  lanes.take(0);
  lanes.release(1, { nextAt: 1_000, aside: true });
  assertEquals(lanes.take(0)?.seq, 2);
  assertEquals([lanes.take(999), lanes.take(1_000)?.seq], [null, 1]);
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

Deno.test("conversations that wait are not looked up one by one at each hand-over", () => {
  let looks = 0;
  const lanes = new Lanes(() => ++looks > 0);
  for (let seq = 1; seq <= 1_000; seq++) lanes.add({ seq, lane: `x ${seq}`, nextAt: seq, aside: false });
  assertEquals([lanes.nextAt(1), lanes.take(1)?.seq, lanes.nextAt(1), lanes.take(1)], [1, 1, 2, null]);
  assertEquals(looks, 3);
});
