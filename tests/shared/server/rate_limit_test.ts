/**
 * Shows the sliding window: its edges, its headers, and with many random arrivals that it never accepts more than the
 * limit and never refuses wrongly. Then its record in the store.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { GroupCommit } from "../../../shared/server/store/group_commit.ts";
import {
  decide,
  type Decision,
  RateLimiter,
  rateLimitHeaders,
  type WindowRecord,
  type WindowRule,
  windowUpdate,
} from "../../../shared/server/rate_limit.ts";
import { CallGate, countingKv, noCounts } from "../../support/counting_kv.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { seededRandom } from "../../support/seeded_random.ts";
import { steps } from "../../support/steps.ts";
import { MAX_CHECKS, openTestKv } from "../../support/test_store.ts";
import { IS_LONG } from "../../support/trials.ts";

const TWO: WindowRule = { name: "two", requests: 2, windowMs: 1000 };
const NOW = 1_000_000;

/** A window that a test uses at one moment after another. */
class Model {
  record: WindowRecord = [];
  readonly accepted: number[] = [];

  constructor(readonly rule: WindowRule) {}

  ask(now: number): ReturnType<typeof decide> {
    const decision = decide(this.rule, this.record, now);
    if (decision.allowed || decision.mended) this.record = decision.record();
    if (decision.allowed) this.accepted.push(now);
    return decision;
  }

  /** Number of accepted requests after `from` up to and including `to`. */
  acceptedBetween(from: number, to: number): number {
    return this.accepted.filter((at) => at >= from && at <= to).length;
  }
}

/** Arrivals with gaps drawn from a seed: mostly short ones, a few ten times the mean. */
function* arrivals(count: number, meanGapMs: number, seed: number): Generator<number> {
  const random = seededRandom(seed);
  let now = NOW;
  for (let i = 0; i < count; i++) {
    const [a = 0, b = 0] = random.bytes(2);
    yield now += Math.floor(10 * meanGapMs * (a / 256) ** 4 * (b / 256));
  }
}

/** The highest number of accepted requests in any window. */
function mostInAnyWindow(accepted: readonly number[], windowMs: number): number {
  let most = 0, start = 0;
  accepted.forEach((at, i) => {
    while (at - (accepted[start] ?? 0) >= windowMs) start++;
    most = Math.max(most, i - start + 1);
  });
  return most;
}

Deno.test("the window decision is exact at the edges of the window", async (t) => {
  const cases: [
    name: string,
    record: WindowRecord,
    now: number,
    allowed: boolean,
    remaining: number,
    resetMs: number,
  ][] = [
    ["an empty window", [], NOW, true, 1, 1000],
    ["the last request that fits", [[NOW - 1, 1]], NOW, true, 0, 999],
    ["one more than fits", [[NOW - 1, 2]], NOW, false, 0, 999],
    ["one more, two moments", [[NOW - 600, 1], [NOW - 1, 1]], NOW, false, 0, 400],
    ["the last millisecond of a full window", [[NOW - 999, 2]], NOW, false, 0, 1],
    ["the moment the window ends", [[NOW - 1000, 2]], NOW, true, 1, 1000],
    ["the moment the oldest leaves", [[NOW - 1000, 1], [NOW - 5, 1]], NOW, true, 0, 995],
    ["the same moment", [[NOW, 1]], NOW, true, 0, 1000],
    ["the same moment, full", [[NOW, 2]], NOW, false, 0, 1000],
  ];
  await steps(t, cases, ([, record, now, allowed, remaining, resetMs]) => {
    const decision = decide(TWO, record, now);
    assertEquals([decision.allowed, decision.remaining, decision.resetMs], [allowed, remaining, resetMs]);
    assertEquals(decision.mended, false);
  });
});

Deno.test("the window decision allows a caller after exactly the stated wait, not a millisecond earlier", () => {
  for (const rule of [TWO, { name: "grained", requests: 1500, windowMs: 60_000 }]) {
    const model = new Model(rule);
    let refusals = 0;
    for (const now of arrivals(8000, rule.windowMs / rule.requests / 2, 3)) {
      const { allowed, resetMs } = model.ask(now);
      if (allowed) continue;
      refusals++;
      assert(resetMs > 0);
      assertEquals(decide(rule, model.record, now + resetMs).allowed, true);
      assertEquals(decide(rule, model.record, now + resetMs - 1).allowed, false);
    }
    assert(refusals > 100, `${rule.name}: ${refusals} refusals`);
  }
});

Deno.test("a limit over 1,000 is never exceeded and refuses at most a sixtieth of the window too long", () => {
  // In the gate the first of them, which is past the bound of 1,000.
  for (const requests of IS_LONG ? [1001, 3000] : [1001]) {
    const rule = { name: "grained", requests, windowMs: 60_000 };
    const grain = rule.windowMs / 60;
    const model = new Model(rule);
    let refused = 0, longest = 0;
    for (const now of arrivals(IS_LONG ? 12_000 : 6_000, rule.windowMs / requests / 2, requests)) {
      const { allowed } = model.ask(now);
      longest = Math.max(longest, model.record.length);
      if (allowed) continue;
      refused++;
      assert(model.acceptedBetween(now - rule.windowMs - grain + 1, now) >= requests, "refused too early");
    }
    assert(refused > 100, `${refused} refused`);
    assertEquals(mostInAnyWindow(model.accepted, rule.windowMs), requests);
    assert(longest <= 62, `${longest} entries`);
  }
});

Deno.test("every request is counted at its own time up to a limit of 1,000", () => {
  const rule = { name: "exact", requests: 1000, windowMs: 60_000 };
  const model = new Model(rule);
  for (let i = 0; i < 1000; i++) assertEquals(model.ask(NOW + i).allowed, true);
  assertEquals(model.ask(NOW + 59_999).allowed, false);
  assertEquals(model.ask(NOW + 60_000).allowed, true);
  assertEquals(model.ask(NOW + 60_000).allowed, false);
});

Deno.test("refused requests do not lengthen the block", () => {
  const model = new Model({ name: "h05", requests: 20, windowMs: 2000 });
  // 100 a second, for three windows, and one more to see the last full window.
  for (let now = NOW; now < NOW + 8000; now += 10) model.ask(now);
  for (let window = 0; window < 4; window++) {
    assertEquals(model.acceptedBetween(NOW + window * 2000, NOW + window * 2000 + 1999), 20);
  }
  assertEquals(model.ask(NOW + 20_000).remaining, 19);
});

Deno.test("a clock that steps back neither blocks for more than a window nor grants twice the limit", async (t) => {
  for (const stepMs of [-600_000, -60_001, -30_000, -1, 1, 30_000, 600_000]) {
    await t.step(`by ${stepMs} ms`, () => {
      for (const requests of [20, 1500]) {
        const rule = { name: "h12", requests, windowMs: 60_000 };
        const life = requests > 1000 ? 61_000 : 60_000;
        const model = new Model(rule);
        for (let i = 0; i < requests * 2; i++) model.ask(NOW + i);
        assertEquals(model.accepted.length, requests);
        const after = NOW + requests * 2 + stepMs;
        const granted = new Model(rule);
        granted.record = model.record;
        for (let i = 0; i < requests * 3; i++) granted.ask(after + i);
        assert(granted.accepted.length <= requests, `${granted.accepted.length} granted after the step`);
        // For any step of the clock: with repeated requests and with one request, the window opens within its length.
        assertEquals(granted.ask(after + requests * 3 + life).allowed, true);
      }
    });
  }
});

Deno.test("the window record stays short, ordered and correct for any step of the clock", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.integer({ min: -2000, max: 1500 }), { maxLength: 60 }),
      (requests, steps) => {
        const model = new Model({ name: "any", requests, windowMs: 1000 });
        let now = NOW;
        for (const step of steps) {
          const { allowed, record: recordOf, remaining, resetMs } = model.ask(now += step);
          const record = recordOf();
          const used = record.reduce((sum, [, count]) => sum + count, 0);
          assert(used <= requests && (allowed ? remaining === requests - used : used === requests));
          assert(resetMs > 0 && resetMs <= 1000);
          assert(record.every(([at], i) => at <= now && now < at + 1000 && at > (record[i - 1]?.[0] ?? -Infinity)));
        }
      },
    ),
    { numRuns: 300, examples: [[2, [0, 5, -5]]] },
  );
});

Deno.test("the window update counts, keeps the record of a full window, or refuses the whole claim", () => {
  const seen: boolean[] = [];
  const note = ({ allowed }: Decision) => void seen.push(allowed);
  const update = windowUpdate(["w"], TWO, () => NOW, note);
  assertEquals(update.next(null), { value: [[NOW, 1]], expireInMs: 2000 });
  assertEquals(update.next([[NOW - 1, 1]]), { value: [[NOW - 1, 1], [NOW, 1]], expireInMs: 2000 });
  assertEquals(update.next([[NOW - 1, 2]]), "keep");
  assertEquals(update.next([[NOW + 500, 2]]), { value: [[NOW, 2]], expireInMs: 2000 });
  assertEquals(windowUpdate(["w"], TWO, () => NOW, note, { refuse: "full" }).next([[NOW - 1, 2]]), { refuse: "full" });
  assertEquals(seen, [true, true, false, false, false]);
});

Deno.test("rate limit headers hold the policy, the remaining requests and the time to wait", async (t) => {
  const rule = { name: "agent", requests: 60, windowMs: 60_000 };
  const cases: [name: string, resetMs: number, allowed: boolean, remaining: number, t: string][] = [
    ["allowed", 60_000, true, 59, "60"],
    ["a part of a second counts as one", 1, true, 0, "1"],
    ["refused", 12_001, false, 0, "13"],
    ["refused for the last millisecond", 1, false, 0, "1"],
  ];
  await steps(t, cases, ([, resetMs, allowed, remaining, seconds]) => {
    const headers = rateLimitHeaders(rule, { allowed, remaining, resetMs, mended: false });
    assertEquals(headers["RateLimit-Policy"], '"agent";q=60;w=60');
    assertEquals(headers["RateLimit"], `"agent";r=${remaining};t=${seconds}`);
    assertEquals(headers["Retry-After"], allowed ? undefined : seconds);
  });
});

function openLimiter(kv: Deno.Kv, clock: ManualClock): RateLimiter {
  return new RateLimiter(kv, new GroupCommit(kv, MAX_CHECKS), clock, (rule, who) => ["window", rule, who]);
}

const TWENTY: WindowRule = { name: "twenty", requests: 20, windowMs: 60_000 };

Deno.test("the limiter counts each rule and each caller separately, and a peek counts nothing", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  const limiter = openLimiter(kv, clock);
  for (let i = 0; i < 20; i++) assertEquals((await limiter.hit(TWENTY, "a")).allowed, true);
  assertEquals((await limiter.hit(TWENTY, "a")).allowed, false);
  assertEquals((await limiter.hit(TWENTY, "b")).remaining, 19);
  assertEquals((await limiter.hit({ ...TWENTY, name: "other" }, "a")).remaining, 19);
  for (let i = 0; i < 30; i++) assertEquals((await limiter.peek(TWENTY, "b")).remaining, 18);
  const { resetMs } = await limiter.peek(TWENTY, "a");
  await clock.advance(resetMs - 1);
  assertEquals((await limiter.peek(TWENTY, "a")).allowed, false);
  await clock.advance(1);
  assertEquals((await limiter.hit(TWENTY, "a")).allowed, true);
});

Deno.test("thousands of peeks of one caller at once read its window once, and the next one reads it again", async () => {
  const counts = noCounts(), gate = new CallGate();
  using kv = countingKv(await openTestKv(), gate, counts);
  const limiter = openLimiter(kv, new ManualClock());
  for (let i = 0; i < 20; i++) await limiter.hit(TWENTY, "a");
  gate.hold();
  counts.readCalls = 0;
  const peeks = Array.from({ length: 5_000 }, () => limiter.peek(TWENTY, "a"));
  const others = [limiter.peek(TWENTY, "b"), limiter.peek({ ...TWENTY, name: "other" }, "a")];
  assertEquals([counts.readCalls, gate.waiting], [3, 3]);
  await gate.release();
  assertEquals(new Set((await Promise.all(peeks)).map(({ allowed }) => allowed)), new Set([false]));
  assertEquals((await Promise.all(others)).map(({ remaining }) => remaining), [19, 19]);
  gate.letThrough();
  await limiter.hit(TWENTY, "b");
  assertEquals((await limiter.peek(TWENTY, "b")).remaining, 18);
});

Deno.test("the limiter keeps its count over a restart and repairs a full window after a step back", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock();
  for (let i = 0; i < 20; i++) await openLimiter(kv, clock).hit(TWENTY, "a");
  assertEquals((await openLimiter(kv, clock).hit(TWENTY, "a")).allowed, false);
  clock.step(-30_000);
  assertEquals((await openLimiter(kv, clock).hit(TWENTY, "a")).allowed, false);
  await clock.advance(60_000);
  assertEquals((await openLimiter(kv, clock).hit(TWENTY, "a")).allowed, true);
});

Deno.test("a full window whose refusals store nothing is open again after the clock was set back by an hour", async () => {
  using kv = await openTestKv();
  const clock = new ManualClock(), commits = new GroupCommit(kv, MAX_CHECKS);
  const claim = async () => {
    const update = windowUpdate(["window", "twenty", "a"], TWENTY, () => clock.now(), () => {}, { refuse: "full" });
    return (await commits.claim([update])).taken;
  };
  for (let i = 0; i < 21; i++) assertEquals(await claim(), i < 20);
  clock.step(-3_600_000);
  await clock.advance(60_000);
  assertEquals((await openLimiter(kv, clock).peek(TWENTY, "a")).allowed, true);
  assertEquals(await claim(), true);
});
