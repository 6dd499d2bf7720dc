/** Shows what a rate lets through: ten seconds of it at once, and after that what time has earned. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { TokenBucket } from "../../../shared/server/token_bucket.ts";

Deno.test("ten seconds of the rate may come at once, then what time earns", () => {
  const bucket = new TokenBucket(50);
  const taken = (count: number, now: number) =>
    Array.from({ length: count }, () => bucket.take(1, now)).filter(Boolean).length;
  assertEquals(taken(600, 1_000), 500);
  assertEquals(taken(10, 1_019), 0);
  assertEquals(taken(10, 1_020), 1);
  assertEquals(taken(100, 2_020), 50);
  assertEquals(taken(600, 1e12), 500);
});

Deno.test("a bucket of two seconds says how long to wait", () => {
  const bucket = new TokenBucket(100, 2);
  assertEquals([bucket.take(200, 0), bucket.take(50, 0), bucket.waitMs(50)], [true, false, 500]);
  assertEquals([bucket.take(50, 499), bucket.take(50, 500), bucket.waitMs(0)], [false, true, 0]);
});

Deno.test("a refused amount takes nothing, and a clock that steps back gives nothing", () => {
  const bucket = new TokenBucket(10);
  assertEquals([bucket.take(101, 5_000), bucket.take(100, 5_000)], [false, true]);
  assertEquals([bucket.take(1, 0), bucket.take(1, 50), bucket.take(1, 100)], [false, false, true]);
});

Deno.test("in any order of times no ten seconds and a span let through more than the rate allows", () => {
  const step = fc.record({ ms: fc.nat(3_000), amount: fc.integer({ min: 1, max: 40 }) });
  fc.assert(fc.property(fc.array(step), (steps) => {
    const bucket = new TokenBucket(10);
    let now = 0, taken = 0;
    for (const { ms, amount } of steps) {
      now += ms;
      if (bucket.take(amount, now)) taken += amount;
    }
    return taken <= 100 + now / 100 + 1e-6;
  }));
});
