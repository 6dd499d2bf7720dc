/** The waits before a reconnect and before a receipt. */
import { assert, assertEquals } from "@std/assert";
import { reconnectWait } from "../../../cli/link/reconnect.ts";
import { retryWait } from "../../../shared/client/backoff.ts";
import { fraction } from "../../../shared/random.ts";
import { seededRandom } from "../../support/seeded_random.ts";

Deno.test("the wait before reconnecting is 0 to 5 s at random, then 2 s doubling to 28 s, ± 20 %", () => {
  assertEquals([0, 0.5, 0.9999].map((chance) => reconnectWait(0, chance)), [0, 2_500, 5_000]);
  const middle = [1, 2, 3, 4, 5, 6, 50].map((failures) => reconnectWait(failures, 0.5));
  assertEquals(middle, [2_000, 4_000, 8_000, 16_000, 28_000, 28_000, 28_000]);
  assertEquals([reconnectWait(9, 0), reconnectWait(9, 1)], [22_400, 33_600]);
});

Deno.test("200 connectors return at 50 a second or fewer, counted from the loss of a service for any time", () => {
  const random = seededRandom();
  for (let awayMs = 0; awayMs <= 60_000; awayMs += 250) {
    const returns = Array.from({ length: 200 }, () => {
      let at = 0;
      for (let failures = 0; failures === 0 || at < awayMs; failures++) at += reconnectWait(failures, fraction(random));
      return at;
    }).sort((a, b) => a - b);
    const within = returns.map((at) => returns.filter((other) => other >= at && other < at + 1_000).length);
    assert(Math.max(...within) <= 120, `${Math.max(...within)} within a second after ${awayMs} ms`);
    const rate = 200_000 / (returns.at(-1) ?? 0);
    assert(rate <= 50, `${rate} a second after ${awayMs} ms`);
  }
});

Deno.test("the wait before a receipt is sent again is 1 s doubling to 60 s", () => {
  assertEquals([1, 2, 7, 8].map(retryWait), [1_000, 2_000, 60_000, 60_000]);
});
