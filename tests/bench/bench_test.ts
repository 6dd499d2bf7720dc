/**
 * Shows that the bench works: every row of a quick run has figures or a reason, an interrupted run leaves no process
 * and no folder, and messages that are lost, duplicated or changed are detected. No test here asserts a time.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ROOT } from "../support/process.ts";
import { pause } from "./child.ts";
import { figure, type Finished, median, percentile, ratio, type Round, shown, standing, table } from "./figures.ts";
import type { FleetAgent } from "./fleet.ts";
import { Ledger } from "./ledger.ts";
import { readOptions } from "./options.ts";
import { ROWS } from "./rows.ts";
import { comparison } from "./rows/against.ts";
import { longestBusy, mostTogether } from "./rows/storm.ts";

const BENCH = ["run", "-A", `${ROOT}/tests/bench/main.ts`];
const TEMPORARY = "svc_bench_";

/** Returns the temporary folders of finished and running benches. */
function folders(): string[] {
  const temporary = Deno.env.get("TMPDIR") ?? "/tmp";
  return [...Deno.readDirSync(temporary)].map(({ name }) => name).filter((name) => name.startsWith(TEMPORARY));
}

function alive(pid: number): boolean {
  try {
    // A process that has ended and was not waited for yet is a zombie, and no longer alive.
    return !/^\d+ \(.*\) Z /s.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function childrenOf(pid: number): number[] {
  const pids = [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter(Number.isInteger);
  return pids.filter((candidate) => {
    try {
      const stat = Deno.readTextFileSync(`/proc/${candidate}/stat`).replace(/^.*\) /s, "");
      return Number(stat.split(" ")[1]) === pid;
    } catch {
      return false;
    }
  });
}

async function runBench(args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const output = await new Deno.Command(Deno.execPath(), { args: [...BENCH, ...args], cwd: ROOT }).output();
  const [stdout, stderr] = [output.stdout, output.stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code: output.code, stdout: stdout ?? "", stderr: stderr ?? "" };
}

Deno.test("bench --quick measures every row, prints only its result and leaves no folder", async () => {
  const before = new Set(folders());
  const { code, stdout, stderr } = await runBench(["--quick", "--json"]);
  assertEquals(code, 0, stdout + stderr);
  assertEquals(stderr, "", "progress is for a terminal only");
  const { machine, rows } = JSON.parse(stdout) as { machine: { scale: string }; rows: Finished[] };
  assertEquals(machine.scale, "quick");
  assertEquals(rows.map(({ name }) => name), ROWS.map(({ name }) => name));
  for (const row of rows) {
    assert(!("failed" in row), `${row.name}: ${JSON.stringify(row)}`);
    if ("skipped" in row) continue;
    assert(row.figures.length > 0, row.name);
    assertEquals(new Set(row.figures.map(({ name }) => name)).size, row.figures.length, "each figure has its own name");
  }
  assertEquals(folders().filter((name) => !before.has(name)), []);
});

Deno.test("bench --only runs the rows with the text in their name, and exits 1 or 2 when the options are wrong", async () => {
  const { code, stdout } = await runBench(["--quick", "--only", "bare commit"]);
  assertEquals(code, 0, stdout);
  assert(stdout.includes("one record in a commit") && stdout.includes("▸ alone"), stdout);
  assert(!stdout.includes("floor"), stdout);
  assertEquals((await runBench(["--only", "no such row"])).code, 1);
  assertEquals((await runBench(["--quick", "--full"])).code, 2);
  assertEquals((await runBench(["--fast"])).code, 2);
});

Deno.test("bench --against measures this version and that of a folder in turns, and prints every round", async () => {
  const { code, stdout, stderr } = await runBench([
    "--quick",
    "--json",
    "--against",
    ROOT,
    "--at",
    "1,4",
    "--rounds",
    "2",
  ]);
  assertEquals(code, 0, stdout + stderr);
  const { rows: [row] } = JSON.parse(stdout) as { rows: Finished[] };
  assert(row && "figures" in row && row.rounds, stdout);
  const turns = row.rounds.map(({ target, atOnce, round }) => `${target} ${atOnce} ${round}`);
  const expected = [1, 4].flatMap((atOnce) =>
    [1, 2].flatMap((round) => ["this", "other", "floor"].map((target) => `${target} ${atOnce} ${round}`))
  );
  assertEquals(turns, expected);
  assertEquals((await runBench(["--against", `${ROOT}/docs`])).code, 2, "a folder without a service");
});

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
    "this / other, 64 at once: messages 1.90 goal at least 1.6: met",
    "this / other, 64 at once: p50 0.550",
    "this / other, 64 at once: p99 0.550",
    "floor / this, 64 at once: server CPU per message 0.400 goal at least 0.4: met",
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

Deno.test({
  name: "bench ends every process and removes its folder on Ctrl-C",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const before = new Set(folders());
    const args = [...BENCH, "--only", "two processes"];
    const bench = new Deno.Command(Deno.execPath(), { args, cwd: ROOT, stdout: "null", stderr: "null" }).spawn();
    let children: number[] = [];
    // Two services, the floor, two load processes: in the middle of a run that would take a minute.
    for (let i = 0; i < 400 && children.length < 5; i++) {
      await pause(25);
      children = childrenOf(bench.pid);
    }
    bench.kill("SIGINT");
    assertEquals((await bench.status).code, 130);
    assertEquals(children.length, 5, "the run was in progress");
    for (let i = 0; i < 80 && children.some(alive); i++) await pause(25);
    assertEquals(children.filter(alive), []);
    assertEquals(folders().filter((name) => !before.has(name)), []);
  },
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
