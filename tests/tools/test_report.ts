/**
 * Runs `deno test` once for each group of arguments and ends with one line, `N passed, N failed`, for all groups. Tests are
 * counted from the JUnit report of Deno, not from its output; steps are not counted. The exit code is the first that is not
 * 0.
 *
 *   deno run -A tests/tools/test_report.ts <arguments of deno test> [+ <arguments of the next>] [-- <for the tests>]
 */

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

/** Returns the number of tests in a JUnit report of `deno test`. */
export function countTests(xml: string): Counts {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
  for (const [, suite = ""] of xml.matchAll(/<testsuite\b([\s\S]*?)<\/testsuite>/g)) {
    const cases = [...suite.matchAll(/<testcase\b[^>]*?\bname="([^"]*)"[^>]*?(?:\/>|>([\s\S]*?)<\/testcase>)/g)];
    const names = new Set(cases.map(([, name = ""]) => name));
    for (const [, name = "", result = ""] of cases) {
      if (isStep(name, names)) continue;
      if (/<(?:failure|error)\b/.test(result)) counts.failed++;
      else if (/<skipped\b/.test(result)) counts.skipped++;
      else counts.passed++;
    }
  }
  return counts;
}

/** Deno reports the step `b` of the test `a` as another test case of the same file, named `a > b`. */
function isStep(name: string, names: Set<string>): boolean {
  const parts = name.split(" &gt; ");
  return parts.some((_, i) => i > 0 && names.has(parts.slice(0, i).join(" &gt; ")));
}

/** Returns the line for the counts. A failed run has at least one failure, also without a failed test (a type error). */
export function summary(counts: Counts, exitCode: number): string {
  const failed = exitCode === 0 ? counts.failed : Math.max(1, counts.failed);
  const skipped = counts.skipped === 0 ? "" : `, ${counts.skipped} skipped`;
  return `${counts.passed} passed, ${failed} failed${skipped}`;
}

/**
 * Splits arguments at each `+`: one run of `deno test` per group. Arguments after the first `--` are passed to the tests
 * of every group: `deno task e2e -- --trials 100`.
 */
export function groups(args: readonly string[]): string[][] {
  const end = args.indexOf("--");
  const forTests = end === -1 ? [] : args.slice(end);
  const all: string[][] = [[]];
  for (const arg of end === -1 ? args : args.slice(0, end)) {
    if (arg === "+") all.push([]);
    else all.at(-1)?.push(arg);
  }
  return all.filter((group) => group.length > 0).map((group) => [...group, ...forTests]);
}

/** Returns the output of the dot reporter without the progress dots. */
async function copyWithoutDots(output: ReadableStream<Uint8Array>): Promise<void> {
  let rest = "";
  for await (const text of output.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (!/^[.,!]$/.test(line)) console.log(line);
  }
  if (rest !== "") console.log(rest);
}

async function run(args: readonly string[]): Promise<{ counts: Counts; code: number }> {
  const folder = await Deno.makeTempDir({ prefix: "test_report_" });
  const report = `${folder}/junit.xml`;
  const isTerminal = Deno.stdout.isTerminal();
  const child = new Deno.Command(Deno.execPath(), {
    args: ["test", `--junit-path=${report}`, ...args],
    stdin: "null",
    stdout: isTerminal ? "inherit" : "piped",
    stderr: "inherit",
    env: isTerminal ? {} : { NO_COLOR: "1" },
  }).spawn();
  if (!isTerminal) await copyWithoutDots(child.stdout);
  const { code } = await child.status;
  const xml = await Deno.readTextFile(report).catch(() => "");
  await Deno.remove(folder, { recursive: true });
  return { counts: countTests(xml), code };
}

if (import.meta.main) {
  const total: Counts = { passed: 0, failed: 0, skipped: 0 };
  let exitCode = 0;
  for (const group of groups(Deno.args)) {
    const { counts, code } = await run(group);
    total.passed += counts.passed;
    total.failed += code === 0 ? counts.failed : Math.max(1, counts.failed);
    total.skipped += counts.skipped;
    exitCode ||= code;
  }
  console.log(summary(total, exitCode));
  Deno.exit(exitCode);
}
