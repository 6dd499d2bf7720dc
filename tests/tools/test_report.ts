/**
 * Runs `deno test` once for each group of arguments and ends with one line, `N passed, N failed`, for all groups. Tests are
 * counted from the JUnit report of Deno, not from its output; steps are not counted. The exit code is the first that is not
 * 0.
 *
 *   deno run -A tests/tools/test_report.ts <group or arguments of deno test> [+ <the next>] [-- <for the tests>]
 *
 * `--store denokv` takes the place of the groups: the suites that open a store run on denokv. Among the arguments for the
 * tests it does so for the given files. Without denokv such a run is one skipped test (D-253).
 */
import { findDenokv } from "../support/denokv.ts";
import { Databases } from "./denokv_databases.ts";
import { GROUPS } from "./test_groups.ts";

/** Number of tests that a run names as its slowest (D-206). */
const SLOWEST = 10;

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

/** The longest tests of a JUnit report of `deno test`, longest first, without steps. */
export function slowest(xml: string, count: number): { name: string; file: string; seconds: number }[] {
  const cases = [...xml.matchAll(/<testcase name="([^"]*)" classname="([^"]*)" time="([\d.]+)"/g)];
  const namesOf = new Map<string, Set<string>>();
  for (const [, name = "", file = ""] of cases) namesOf.set(file, (namesOf.get(file) ?? new Set()).add(name));
  return cases
    .filter(([, name = "", file = ""]) => !isStep(name, namesOf.get(file) ?? new Set()))
    .map(([, name = "", file = "", seconds]) => ({ name: unescaped(name), file, seconds: Number(seconds) }))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, count);
}

function unescaped(text: string): string {
  const characters: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replace(/&(lt|gt|quot|apos|amp);/g, (entity, name: string) => characters[name] ?? entity);
}

/** Deno reports the step `b` of the test `a` as one more test case of the same file, named `a > b`. */
function isStep(name: string, names: Set<string>): boolean {
  const parts = name.split(" &gt; ");
  return parts.some((_, i) => i > 0 && names.has(parts.slice(0, i).join(" &gt; ")));
}

/**
 * The last two lines. A run that failed counts a failure even when no test failed, for example after a type error.
 *
 * @param unchecked number of parts of passed tests that this machine could not run
 */
export function summary(counts: Counts, exitCode: number, unchecked = 0): [skipped: string, result: string] {
  const failed = exitCode === 0 ? counts.failed : Math.max(1, counts.failed);
  const parts = unchecked === 0 ? "" : `, ${unchecked} ${unchecked === 1 ? "part" : "parts"} of tests not checked`;
  return [`${counts.skipped} skipped${parts}`, `${counts.passed} passed, ${failed} failed`];
}

/** Number of lines with which tests report that a part of them cannot run on this machine. */
export function countUnchecked(lines: readonly string[]): number {
  return lines.filter((line) => line.includes("NOT checked")).length;
}

/**
 * Splits arguments at each `+`: one run of `deno test` for each part, which is a name of `GROUPS` or arguments. The words
 * after the first `--` go to the tests of every part: `deno task e2e -- --trials 100`.
 */
export function groups(args: readonly string[]): string[][] {
  const end = args.indexOf("--");
  const forTests = end === -1 ? [] : args.slice(end);
  const all: string[][] = [[]];
  for (const arg of end === -1 ? args : args.slice(0, end)) {
    if (arg === "+") all.push([]);
    else all.at(-1)?.push(arg);
  }
  const store = all.flat().indexOf("--store");
  if (store !== -1) return groups([all.flat()[store + 1] ?? "", ...forTests]);
  return all.filter((group) => group.length > 0)
    .map((group) => [...(group.length === 1 ? GROUPS[group[0] ?? ""] : undefined) ?? group, ...forTests]);
}

/** Prints the output of the dot reporter, without the dots when it is piped. Returns the number of parts not checked. */
async function printOutput(output: ReadableStream<Uint8Array>, isTerminal: boolean): Promise<number> {
  let rest = "", unchecked = 0;
  for await (const text of output.pipeThrough(new TextDecoderStream())) {
    if (isTerminal) Deno.stdout.writeSync(new TextEncoder().encode(text));
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    unchecked += countUnchecked(lines);
    if (!isTerminal) { for (const line of lines) if (!/^[.,!]$/.test(line)) console.log(line); }
  }
  if (rest !== "" && !isTerminal) console.log(rest);
  return unchecked + countUnchecked([rest]);
}

interface Run {
  counts: Counts;
  unchecked: number;
  slow: ReturnType<typeof slowest>;
  code: number;
}

/** True when the arguments for the tests ask for denokv. */
export function isOnDenokv(args: readonly string[]): boolean {
  const store = args.indexOf("--store", args.indexOf("--") + 1);
  return args.includes("--") && store !== -1 && args[store + 1] === "denokv";
}

async function runOnDenokv(args: readonly string[]): Promise<Run> {
  const program = await findDenokv();
  if (program === null) return { counts: { passed: 0, failed: 0, skipped: 1 }, unchecked: 0, slow: [], code: 0 };
  await using databases = new Databases(program);
  const result = await run(args, databases.variables);
  console.log(`${result.counts.passed + result.counts.failed} tests on denokv, ${databases.taken} databases`);
  return result;
}

/** The tests with processes wait more than they compute: one file more than there are cores runs at the same time. */
function jobsOf(args: readonly string[]): Record<string, string> {
  return args.includes("tests/e2e") ? { DENO_JOBS: String(navigator.hardwareConcurrency + 1) } : {};
}

async function run(args: readonly string[], env: Record<string, string> = {}): Promise<Run> {
  const folder = await Deno.makeTempDir({ prefix: "test_report_" });
  const report = `${folder}/junit.xml`;
  const isTerminal = Deno.stdout.isTerminal();
  const child = new Deno.Command(Deno.execPath(), {
    args: ["test", `--junit-path=${report}`, ...args],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
    env: { ...jobsOf(args), ...env, ...isTerminal && !Deno.noColor ? { FORCE_COLOR: "1" } : { NO_COLOR: "1" } },
  }).spawn();
  const unchecked = await printOutput(child.stdout, isTerminal);
  const { code } = await child.status;
  const xml = await Deno.readTextFile(report).catch(() => "");
  await Deno.remove(folder, { recursive: true });
  return { counts: countTests(xml), unchecked, slow: slowest(xml, SLOWEST), code };
}

if (import.meta.main) {
  const total: Counts = { passed: 0, failed: 0, skipped: 0 };
  const slow: ReturnType<typeof slowest> = [];
  let exitCode = 0, unchecked = 0;
  for (const group of groups(Deno.args)) {
    const { counts, slow: slowOfGroup, code, ...more } = await (isOnDenokv(group) ? runOnDenokv(group) : run(group));
    unchecked += more.unchecked;
    slow.push(...slowOfGroup);
    total.passed += counts.passed;
    total.failed += code === 0 ? counts.failed : Math.max(1, counts.failed);
    total.skipped += counts.skipped;
    exitCode ||= code;
  }
  for (const { seconds, file, name } of slow.sort((a, b) => b.seconds - a.seconds).slice(0, SLOWEST)) {
    console.log(`${seconds.toFixed(1).padStart(6)} s  ${file} ${name}`);
  }
  for (const line of summary(total, exitCode, unchecked)) console.log(line);
  Deno.exit(exitCode);
}
