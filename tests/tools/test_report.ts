/**
 * Runs a plan of `test_groups.ts`, or one group, or `deno test` with the given arguments. It goes on after a group that
 * failed. It prints for each group the seconds, the CPU seconds and the slowest tests, and at the end what failed in any of
 * them and one line, `N passed, N failed`, for all. Tests are counted from the JUnit report of Deno, not from its output;
 * steps are not counted.
 *
 *   deno run -A tests/tools/test_report.ts <plan, group or arguments of deno test> [-- <for the tests>]
 *
 * `--store denokv` takes the place of the plan: the suites that open a store run on denokv. Among the arguments for the
 * tests it does so for the given files. Without denokv such a run is one skipped test.
 */
import { findDenokv } from "../support/denokv.ts";
import { Databases } from "./denokv_databases.ts";
import { memoryFolder } from "./memory_folder.ts";
import { type Group, GROUPS, type Plan, PLANS } from "./test_groups.ts";

/** Number of tests of a group that are named as its slowest: enough to see what to look at first. */
const SLOWEST = 5;

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

/** A test in a JUnit report of `deno test`. */
interface Case {
  name: string;
  file: string;
  seconds: number;
  result: keyof Counts;
}

/**
 * The tests of a report. Deno reports the step `b` of the test `a` as one more test case, named `a > b`, of the file that
 * calls `t.step`. For a step of a helper the test is looked for in all files, because it would else count as a test.
 */
function casesOf(xml: string): Case[] {
  const all = [...xml.matchAll(/<testcase\b([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)];
  const cases = all.map(([, attributes = "", inner = ""]): Case => {
    const valueOf = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1] ?? "";
    const result = /<(?:failure|error)\b/.test(inner) ? "failed" : /<skipped\b/.test(inner) ? "skipped" : "passed";
    return { name: valueOf("name"), file: valueOf("classname"), seconds: Number(valueOf("time")), result };
  });
  const names = new Set(cases.flatMap(({ name, file }) => [name, `${file} ${name}`]));
  const isStep = ({ name, file }: Case) => {
    const parts = name.split(" &gt; "), where = file.endsWith("_test.ts") ? `${file} ` : "";
    return parts.some((_, i) => i > 0 && names.has(where + parts.slice(0, i).join(" &gt; ")));
  };
  return cases.filter((one) => !isStep(one)).map((one) => ({ ...one, name: unescaped(one.name) }));
}

/** Returns the number of tests in a JUnit report of `deno test`. */
export function countTests(xml: string): Counts {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
  for (const { result } of casesOf(xml)) counts[result]++;
  return counts;
}

/** The failed tests of a JUnit report of `deno test`, without steps, each as its file and its name. */
export function failures(xml: string): string[] {
  return casesOf(xml).filter(({ result }) => result === "failed").map(({ file, name }) => `${file} ${name}`);
}

/** The longest tests of a JUnit report of `deno test`, longest first, without steps. */
export function slowest(xml: string, count: number): Omit<Case, "result">[] {
  return casesOf(xml).map(({ result: _, ...one }) => one).sort((a, b) => b.seconds - a.seconds).slice(0, count);
}

function unescaped(text: string): string {
  const characters: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replace(/&(lt|gt|quot|apos|amp);/g, (entity, name: string) => characters[name] ?? entity);
}

/**
 * The last two lines.
 *
 * @param unchecked number of parts of passed tests that this machine could not run
 */
export function summary(counts: Counts, unchecked = 0): [skipped: string, result: string] {
  const parts = unchecked === 0 ? "" : `, ${unchecked} ${unchecked === 1 ? "part" : "parts"} of tests not checked`;
  return [`${counts.skipped} skipped${parts}`, `${counts.passed} passed, ${counts.failed} failed`];
}

/** Number of lines with which tests report that a part of them cannot run on this machine. */
export function countUnchecked(lines: readonly string[]): number {
  return lines.filter((line) => line.includes("NOT checked")).length;
}

/** A group with the name that the report gives it. */
export interface Named extends Group {
  name: string;
}

/**
 * Finds the plan of the arguments: the name of a plan or of a group, which files of tests may follow, or arguments of
 * `deno test`. The words after the first `--` go to the tests of every group, in place of its own: `deno task e2e -- --trials 100`.
 */
export function planOf(args: readonly string[]): Named[][][] {
  const end = args.indexOf("--");
  const forTests = end === -1 ? [] : args.slice(end);
  const words = end === -1 ? args : args.slice(0, end);
  const store = words.indexOf("--store");
  const [name = "", ...more] = store === -1 ? words : words.slice(store + 1, store + 2);
  const isTask = Object.hasOwn(PLANS, name) || Object.hasOwn(GROUPS, name);
  const alone = ["test", ...isTask ? ["--no-prompt", "-A", ...more] : words];
  const plan: Plan = (more.length === 0 ? PLANS[name] : undefined) ?? [[[name]]];
  return plan.map((lanes) =>
    lanes.map((lane) =>
      lane.map((group) => {
        const { args: own, ...rest } = (more.length === 0 ? GROUPS[group] : undefined) ?? { args: alone };
        return { name: group, ...rest, args: own[0] === "test" ? withArguments(own, forTests) : own };
      })
    )
  );
}

function withArguments(args: readonly string[], forTests: readonly string[]): readonly string[] {
  return args.includes("--") ? [...args, ...forTests.slice(1)] : [...args, ...forTests];
}

/** The output of the dot reporter without its dots. */
function withoutDots(output: string): string[] {
  return output.split("\n").filter((line) => line !== "" && !/^[.,!]$/.test(line));
}

/** What one group gave. */
interface Run {
  counts: Counts;
  unchecked: number;
  slow: ReturnType<typeof slowest>;
  failures: string[];
  seconds: number;
  cpuSeconds: number;
  lines: string[];
}

const NOTHING: Run = {
  counts: { passed: 0, failed: 0, skipped: 0 },
  unchecked: 0,
  slow: [],
  failures: [],
  seconds: 0,
  cpuSeconds: 0,
  lines: [],
};

/** True when the arguments for the tests ask for denokv. */
export function isOnDenokv(args: readonly string[]): boolean {
  const store = args.indexOf("--store", args.indexOf("--") + 1);
  return args.includes("--") && store !== -1 && args[store + 1] === "denokv";
}

async function runOnDenokv(group: Named): Promise<Run> {
  const program = await findDenokv();
  if (program === null) return { ...NOTHING, counts: { passed: 0, failed: 0, skipped: 1 } };
  await using databases = new Databases(program);
  const result = await run(group, databases.variables);
  result.lines.push(`${result.counts.passed + result.counts.failed} tests on denokv, ${databases.taken} databases`);
  return result;
}

/** The CPU seconds that the shell's `times` reports for its children. */
export function cpuSecondsOf(times: string): number {
  const [, children = ""] = times.split("\n");
  return [...children.matchAll(/(\d+)m([\d.]+)s/g)]
    .reduce((sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds), 0);
}

/** Number of isolates of a group with folders, unless it says another one. */
const ISOLATES = 2;

async function testFiles(folder: string, except?: string): Promise<string[]> {
  const files: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory && path !== except) files.push(...await testFiles(path, except));
    else if (name.endsWith("_test.ts")) files.push(path);
  }
  return files.sort();
}

/**
 * Writes the files that import the tests of a group with folders, each of them an equal part. Returns their paths. They
 * import one file after the other: of files that all wait for something at their top, Deno now and then began the tests
 * before the last had told its own.
 */
async function writeIsolates(to: string, { folders = [], except, isolates = ISOLATES }: Group): Promise<string[]> {
  const files = (await Promise.all(folders.map((folder) => testFiles(folder, except)))).flat();
  const texts: string[] = [];
  for (const [i, file] of files.entries()) {
    texts[i % isolates] = `${texts[i % isolates] ?? ""}await import("file://${Deno.cwd()}/${file}");\n`;
  }
  return await Promise.all(texts.map(async (text, i) => {
    const path = `${to}/isolate_${i}_test.ts`;
    await Deno.writeTextFile(path, text);
    return path;
  }));
}

/** Runs a group in a shell, because Deno does not tell the CPU time of a child and its children. */
async function run(group: Named, env: Record<string, string> = {}): Promise<Run> {
  const { name, args, jobs } = group;
  const memory = group.filesInMemory ? await memoryFolder("svc_") : null;
  const folder = memory ?? await Deno.makeTempDir({ prefix: "test_report_" });
  const [first = "", ...rest] = args;
  rest.splice(rest.includes("--") ? rest.indexOf("--") : rest.length, 0, ...await writeIsolates(folder, group));
  const words = first === "test" ? [first, `--junit-path=${folder}/junit.xml`, ...rest] : args;
  const script = '"$@"; code=$?; times >"$0"; exit $code';
  const started = performance.now();
  const { code, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", script, `${folder}/times`, Deno.execPath(), ...words],
    stdin: "null",
    env: {
      ...jobs === undefined ? {} : { DENO_JOBS: String(jobs) },
      ...memory === null ? {} : { TMPDIR: memory },
      ...env,
      NO_COLOR: "1",
    },
  }).output();
  const seconds = (performance.now() - started) / 1000;
  const [xml, times] = await Promise.all(["junit.xml", "times"].map(async (file) => {
    return await Deno.readTextFile(`${folder}/${file}`).catch(() => "");
  }));
  // A process that a failed test has left may write at the same time: the report is more than the rest of its folder.
  await Deno.remove(folder, { recursive: true }).catch(() => {});
  const lines = [stdout, stderr].flatMap((bytes) => withoutDots(new TextDecoder().decode(bytes)));
  const result = resultOf(name, code, xml ?? "", lines);
  return {
    ...result,
    unchecked: countUnchecked(lines),
    slow: slowest(xml ?? "", SLOWEST),
    seconds,
    cpuSeconds: cpuSecondsOf(times ?? ""),
    lines: first === "test" || code !== 0 ? lines : [],
  };
}

/**
 * Counts the tests and names the failures of a run. Deno's report leaves out a file that could not be loaded; its output
 * names it. A run that failed counts a failure even when neither names one.
 */
export function resultOf(
  name: string,
  code: number,
  xml: string,
  lines: readonly string[],
): Pick<Run, "counts" | "failures"> {
  const counts = countTests(xml);
  const broken = new Set(lines.filter((line) => line.endsWith(" (uncaught error)")));
  const found = [...failures(xml), ...broken];
  if (code !== 0 && found.length === 0) found.push(`${name}: exit code ${code}`);
  return { counts: { ...counts, failed: Math.max(counts.failed + broken.size, found.length) }, failures: found };
}

/** What the report prints when a group has ended. */
export function linesOf({ name, line }: Named, { lines, counts, seconds, cpuSeconds, slow }: Run): string[] {
  const { passed, failed, skipped } = counts;
  const over = line !== undefined && cpuSeconds > line ? [`${name} is over its line of ${line} s of CPU`] : [];
  return [
    ...lines,
    `${name}: ${seconds.toFixed(0)} s, ${
      cpuSeconds.toFixed(0)
    } s of CPU, ${passed} passed, ${failed} failed, ${skipped} skipped`,
    ...slow.map(({ seconds, file, name }) => `${seconds.toFixed(1).padStart(6)} s  ${file} ${name}`),
    ...over,
  ];
}

if (import.meta.main) {
  const total: Counts = { passed: 0, failed: 0, skipped: 0 };
  const failed: string[] = [];
  let unchecked = 0;
  const started = performance.now();
  const runLane = async (lane: readonly Named[]): Promise<void> => {
    for (const group of lane) {
      const result = await (isOnDenokv(group.args) ? runOnDenokv(group) : run(group));
      for (const line of linesOf(group, result)) console.log(line);
      for (const key of ["passed", "failed", "skipped"] as const) total[key] += result.counts[key];
      failed.push(...result.failures);
      unchecked += result.unchecked;
    }
  };
  for (const lanes of planOf(Deno.args)) await Promise.all(lanes.map(runLane));
  console.log(`${((performance.now() - started) / 1000).toFixed(0)} s in all`);
  for (const name of failed) console.log(`FAILED ${name}`);
  for (const line of summary(total, unchecked)) console.log(line);
  Deno.exit(total.failed === 0 ? 0 : 1);
}
