/**
 * Shows that the bench counts right: messages that are lost, duplicated or changed are detected, and figures, ratios and
 * options are what they say. `tests/soak/bench_test.ts` runs it.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { figure, median, percentile, ratio, type Round, shown, standing, table } from "./figures.ts";
import type { FleetAgent } from "./fleet.ts";
import { Ledger } from "./ledger.ts";
import { readOptions } from "./options.ts";
import { comparison } from "./rows/against.ts";
import { longestBusy, mostTogether } from "./rows/storm.ts";

Deno.test("a comparison is the median of the ratios of neighbouring rounds, with its goals at 64 at once", () => {
  const round = (target: string, round: number, cpuUs: number, perSecond: number, p50: number): Round => (
    { target, atOnce: 64, round, cpuUs, perSecond, p50, p99: p50 * 2, loadShare: 0.5 }
  );
  const rounds = [
    ...[[1, 400, 2_000, 10], [2, 900, 1_000, 30], [3, 420, 1_900, 11]].map(([n = 0, ...rest]) =>
      round("this", n, ...rest as [number, number, number])
    ),
    ...[[1, 800, 1_000, 20], [2, 900, 1_000, 30], [3, 800, 1_000, 20]].map(([n = 0, ...rest]) =>
      round("other", n, ...rest as [number, number, number])
    ),
    ...[1, 2, 3].map((n) => round("floor", n, 168, 5_000, 3)),
    { ...round("other", 1, 1, 1, 1), atOnce: 1 },
  ];
  const ratios = comparison(rounds, 64).filter(({ isRatio }) => isRatio).map((one) =>
    `${one.name} ${shown(one.value)} ${standing(one)}`.trimEnd()
  );
  assertEquals(ratios, [
    "this / other, 64 at once: server CPU per message 0.525 goal at most 0.55: met",
    "this / other, 64 at once: messages 1.90 goal at least 1.5: met",
    "this / other, 64 at once: p50 0.550",
    "this / other, 64 at once: p99 0.550",
    "floor / this, 64 at once: server CPU per message 0.400 goal at least 0.5: NOT met",
    "floor / other, 64 at once: server CPU per message 0.210",
  ]);
});

Deno.test("options of a comparison are bounded and need --against", () => {
  assertEquals(readOptions(["--against", "x"]).rounds, { rounds: 5, concurrency: [1, 16, 64], seconds: 5 });
  const given = readOptions(["--against", "x", "--rounds", "3", "--at", "1,64", "--seconds", "0.5"]);
  assertEquals(given.rounds, { rounds: 3, concurrency: [1, 64], seconds: 0.5 });
  const wrong = [
    ["--rounds", "3"],
    ["--against", "x", "--rounds", "0"],
    ["--against", "x", "--rounds", "1.5"],
    ["--against", "x", "--at", "1,,2"],
    ["--against", "x", "--at", "2000"],
    ["--against", "x", "--seconds", "Infinity"],
    ["--against", "x", "--only", "start"],
  ];
  for (const args of wrong) assertThrows(() => readOptions(args), TypeError, undefined, args.join(" "));
});

Deno.test("Ledger reports a message that is lost, duplicated, changed, misdirected or from another sender", async (t) => {
  const agent = (name: string): FleetAgent => ({
    id: name,
    did: `did:${name}`,
    ait: "",
    aitJti: "",
    privateKey: {} as CryptoKey,
    accessToken: "",
    refreshToken: "",
  });
  const [sender, recipient, stranger] = [agent("sender"), agent("recipient"), agent("stranger")];
  const identity = `[Svc Identity]\nagentDid: ${sender.did}\n`;
  const good = { recipient, from: sender, message: `${identity}ownerDid: x\n\nhello`, times: 1, sent: 1 };
  const cases: [what: string, arrival: typeof good, isRight: boolean][] = [
    ["arrives once", good, true],
    ["is lost", { ...good, times: 0 }, false],
    ["arrives twice", { ...good, times: 2 }, false],
    ["arrives and was not sent", { ...good, sent: 0 }, false],
    ["arrives at another agent", { ...good, recipient: stranger }, false],
    ["arrives from another sender", { ...good, from: stranger }, false],
    ["arrives changed", { ...good, message: `${good.message}!` }, false],
    ["arrives without the identity", { ...good, message: "hello" }, false],
  ];
  for (const [what, arrival, isRight] of cases) {
    await t.step(`a message that ${what}`, () => {
      const ledger = new Ledger("run-", true);
      const requestId = ledger.expect({ sender, recipient, text: "hello" });
      const { from, message, times, sent } = arrival;
      const frame = { type: "deliver", id: "1", requestId, fromAgentDid: from.did, payload: { message } };
      for (let i = 0; i < times; i++) ledger.delivered(frame, arrival.recipient);
      if (isRight) ledger.close(sent);
      else assertThrows(() => ledger.close(sent), Error, "Wrong messages");
    });
  }
});

Deno.test("figures have the right median, percentile, ratio and table", () => {
  assertEquals([median([3, 1, null, 2]), median([1, 2]), median([null])], [2, 1.5, null]);
  const hundred = Array.from({ length: 100 }, (_, i) => i + 1);
  assertEquals([percentile(hundred, 0.5), percentile(hundred, 0.99), percentile([7], 0.99)], [50, 99, 7]);
  assert(Number.isNaN(percentile([], 0.5)));
  assertEquals([ratio("r", 1, 2).value, ratio("r", 1, 0).value, ratio("r", null, 1).value], [0.5, null, null]);
  assertEquals([1234567, 123.4, 12.34, 1.234, 0.1234, 0, null].map(shown), [
    "1 234 567",
    "123",
    "12.3",
    "1.23",
    "0.123",
    "0",
    "n/a",
  ]);
  const text = table([
    { name: "a", seconds: 1, figures: [figure("one", 1, "ms"), ratio("two", 2, 1)], notes: ["bound"] },
    { name: "b", seconds: 0, skipped: "why" },
  ]);
  assert(/^ {4}one +1\.00 ms$/m.test(text) && /^ {2}▸ two +2\.00 ×$/m.test(text), text);
  assert(text.includes("! bound") && text.includes("skipped: why"), text);
});

Deno.test("a storm counts the longest busy time and the most agents that come together", () => {
  assertEquals([longestBusy([0.9, 1.2, 0.1, 0.95, 0.8]), longestBusy([])], [2, 0]);
  assertEquals([mostTogether([0, 100, 400, 600, 1_200]), mostTogether([7]), mostTogether([])], [3, 1, 0]);
});

Deno.test("a ratio reports whether its goal is met or was not measured", () => {
  const cases: [value: number | null, goal: Parameters<typeof standing>[0]["goal"], said: string][] = [
    [0.5, { atLeast: 0.5 }, "goal at least 0.5: met"],
    [0.49, { atLeast: 0.5 }, "goal at least 0.5: NOT met"],
    [1, { atMost: 1 }, "goal at most 1: met"],
    [1.01, { atMost: 1 }, "goal at most 1: NOT met"],
    [null, { atMost: 1 }, "goal at most 1: not measured"],
  ];
  for (const [value, goal, said] of cases) assertEquals(standing({ value, ...(goal ? { goal } : {}) }), said);
  assertEquals(standing(ratio("plain", 1, 2)), "");
});
