/**
 * Shows that the bench works: every row of a quick run has figures or a reason, and an interrupted run leaves no process and
 * no folder. No test here asserts a time.
 */
import { assert, assertEquals } from "@std/assert";
import { pause } from "../bench/child.ts";
import type { Finished } from "../bench/figures.ts";
import { ROWS } from "../bench/rows.ts";
import { ROOT } from "../support/process.ts";

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
  const turns = row.rounds.map(({ target, atOnce, round, isCold }) => `${target} ${isCold ? "cold" : atOnce} ${round}`);
  const expected = [1, 2].flatMap((round) => [
    ...["this", "other"].map((target) => `${target} cold ${round}`),
    ...[1, 4].flatMap((atOnce) => ["this", "other", "floor"].map((target) => `${target} ${atOnce} ${round}`)),
  ]);
  assertEquals(turns, expected);
  assertEquals((await runBench(["--against", `${ROOT}/docs`])).code, 2, "a folder without a service");
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
