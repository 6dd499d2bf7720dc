/**
 * Shows when the timers of the server's wheel fire: never early, up to one slot late, in the order of their times, and
 * that a wheel without timers holds nothing. The property compares it with a list of timers.
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { DAY_MS } from "../../../shared/clock.ts";
import { SLOT_MS, TimerWheel } from "../../../shared/server/timer_wheel.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { steps } from "../../support/steps.ts";

const SLOT = SLOT_MS;

/** A wheel on a clock that the test moves. `advance` fires what is due and returns how much has fired. */
function setUp(): { clock: ManualClock; wheel: TimerWheel; advance(ms: number): Promise<void> } {
  const clock = new ManualClock();
  const wheel = new TimerWheel(clock);
  return { clock, wheel, advance: (ms) => clock.advance(ms, () => Promise.resolve()) };
}

Deno.test("a timer of half a second or more fires at the end of its slot, and a shorter one on time", async (t) => {
  const cases: [name: string, lead: number, ms: number, firesAfter: number][] = [
    ["at the end of a slot", 0, 1_000, 1_000],
    ["just after a slot", 0, 1_001, 1_250],
    ["just before the end of a slot", 0, 1_249, 1_250],
    ["set within a slot", 1, 1_000, 1_249],
    ["a fraction", 0, 1_000.5, 1_250],
    ["the shortest", 0, 500, 500],
    ["short", 3, 499, 499],
    ["none", 3, 0, 0],
    ["forty days", 0, 40 * DAY_MS, 40 * DAY_MS],
  ];
  await steps(t, cases, async ([, lead, ms, firesAfter]) => {
    const { clock, wheel, advance } = setUp();
    await advance(lead);
    let fired = 0;
    wheel.after(ms, () => fired++);
    await advance(firesAfter - 1);
    assertEquals(fired, 0);
    await advance(1);
    assertEquals([fired, clock.waiting], [1, 0]);
    await advance(2 * DAY_MS);
    assertEquals(fired, 1);
  });
});

Deno.test("a wheel has the time of its clock, and a step of that time moves no timer", async () => {
  const clock = new ManualClock();
  const wheel = new TimerWheel(clock);
  let fired = false;
  wheel.after(2_000, () => fired = true);
  clock.step(-3_600_000);
  assertEquals(wheel.now(), clock.now());
  await clock.advance(1_999);
  assertEquals(fired, false);
  await clock.advance(1);
  assertEquals(fired, true);
});

Deno.test("a wheel sets one timer of its clock, and none once every timer is cancelled", async () => {
  const { clock, wheel, advance } = setUp();
  let fired = 0;
  const cancels = Array.from({ length: 1_000 }, (_, i) => wheel.after(1_000 + i * 40, () => fired++));
  assertEquals(clock.waiting, 1);
  for (const cancel of cancels) cancel();
  assertEquals(clock.waiting, 0);
  for (const cancel of cancels) cancel();
  await advance(DAY_MS);
  assertEquals([fired, clock.waiting], [0, 0]);
});

Deno.test("a timer may cancel another one of its slot, and may set new ones", async () => {
  const { clock, wheel, advance } = setUp();
  const fired: string[] = [];
  wheel.after(1_001, () => {
    fired.push("first");
    cancelSecond();
    wheel.after(1_000, () => fired.push("later"));
    wheel.after(10, () => fired.push("soon"));
  });
  const cancelSecond = wheel.after(1_002, () => fired.push("second"));
  wheel.after(1_003, () => fired.push("third"));
  await advance(1_250);
  assertEquals(fired, ["first", "third"]);
  await advance(1_000);
  assertEquals([fired, clock.waiting], [["first", "third", "soon", "later"], 0]);
});

Deno.test("timers of the same time fire in the order in which they were set, also after another one was cancelled", async () => {
  const { wheel, advance } = setUp();
  const fired: string[] = [];
  const cancel = wheel.after(1_001, () => fired.push("cancelled"));
  for (const name of ["first", "second", "third"]) wheel.after(1_002, () => fired.push(name));
  cancel();
  await advance(1_250);
  assertEquals(fired, ["first", "second", "third"]);
});

Deno.test("a timer that throws is reported and stops no other", async () => {
  const { wheel, advance } = setUp();
  const reported: unknown[] = [];
  const listen = (event: ErrorEvent) => {
    event.preventDefault();
    reported.push(event.error);
  };
  globalThis.addEventListener("error", listen);
  try {
    const error = new Error("a defect");
    let fired = false;
    wheel.after(1_001, () => {
      throw error;
    });
    wheel.after(1_002, () => fired = true);
    await advance(1_250);
    assertEquals([reported, fired], [[error], true]);
  } finally {
    globalThis.removeEventListener("error", listen);
  }
});

Deno.test("the wheel fires what a plain list of timers fires, in its order and up to a slot later", async () => {
  const step = fc.oneof(
    fc.record({ set: fc.integer({ min: 1_000, max: 5_000 }) }),
    fc.record({ cancel: fc.nat({ max: 30 }) }),
    fc.record({ advance: fc.integer({ min: 0, max: 1_500 }) }),
  );
  await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
    const { clock, wheel, advance } = setUp();
    const timers: { due: number; isCancelled: boolean; firedAt?: number; cancel(): void }[] = [];
    const order: number[] = [];
    for (const one of steps) {
      if ("set" in one) {
        const number = timers.length;
        const timer: (typeof timers)[number] = {
          due: clock.now() + one.set,
          isCancelled: false,
          cancel: wheel.after(one.set, () => {
            timer.firedAt = clock.now();
            order.push(number);
          }),
        };
        timers.push(timer);
      } else if ("cancel" in one) {
        const timer = timers[one.cancel];
        if (!timer) continue;
        timer.isCancelled = timer.firedAt === undefined;
        timer.cancel();
      } else await advance(one.advance);
    }
    await advance(5_000 + SLOT);
    for (const { due, isCancelled, firedAt } of timers) {
      assertEquals(firedAt === undefined, isCancelled);
      if (firedAt !== undefined) assert(firedAt >= due && firedAt < due + SLOT, `${firedAt - due}`);
    }
    const dueOf = (number: number) => timers[number]?.due ?? 0;
    assertEquals(order, order.toSorted((a, b) => dueOf(a) - dueOf(b) || a - b));
    assertEquals(clock.waiting, 0);
  }));
});
