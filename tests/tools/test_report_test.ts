/** Checks how test_report.ts counts reports of Deno and splits its arguments. */
import { assertEquals } from "@std/assert";
import { tempFolder } from "../support/temp_folder.ts";
import {
  countTests,
  countUnchecked,
  cpuSecondsOf,
  failures,
  isOnDenokv,
  linesOf,
  planOf,
  resultOf,
  slowest,
  summary,
} from "./test_report.ts";
import { GROUPS, PLANS } from "./test_groups.ts";

/** Returns one test case of a report; `inner` is its content. */
function testCase(name: string, inner = ""): string {
  return `<testcase name="${name}" classname="./a_test.ts" time="0.000" line="1" col="6">${inner}</testcase>\n`;
}

function report(...suites: string[]): string {
  const body = suites.map((cases) => `<testsuite name="./a_test.ts" tests="1" failures="0">${cases}</testsuite>\n`);
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="deno test">\n${body.join("")}</testsuites>\n`;
}

const FAILURE = '<failure message="Uncaught Error: no">Error: no\n    at file:///a_test.ts:1:1</failure>';
const CANCELLED = '<error message="Cancelled"/>';
const SKIPPED = "<skipped/>";

Deno.test("countTests() counts passed, failed, cancelled and ignored tests over all files", () => {
  const xml = report(
    testCase("a") + testCase("b", FAILURE) + testCase("c", SKIPPED),
    testCase("a") + testCase("d", CANCELLED) + '<testcase name="e" line="1"/>',
  );
  assertEquals(countTests(xml), { passed: 3, failed: 2, skipped: 1 });
});

Deno.test("countTests() does not count steps, failed or not", () => {
  const xml = report(
    testCase("a") + testCase("b", FAILURE) + testCase("a &gt; one") + testCase("a &gt; one &gt; deep") +
      testCase("b &gt; one", FAILURE) + testCase("b &gt; two", SKIPPED),
  );
  assertEquals(countTests(xml), { passed: 1, failed: 1, skipped: 0 });
});

Deno.test("countTests() does not count the steps that a helper of another file makes", () => {
  const step = testCase("a &gt; one").replace("./a_test.ts", "../support/steps.ts");
  assertEquals(countTests(report(testCase("a"), step)), { passed: 1, failed: 0, skipped: 0 });
});

Deno.test("countTests() counts a test whose own name has an arrow", () => {
  const inAnotherFile = testCase("a").replace("./a_test.ts", "./b_test.ts");
  assertEquals(countTests(report(testCase("a &gt; b"), inAnotherFile)), { passed: 2, failed: 0, skipped: 0 });
});

Deno.test("countTests() counts tests of one name one by one", () => {
  assertEquals(countTests(report(testCase("a") + testCase("a", FAILURE))), { passed: 1, failed: 1, skipped: 0 });
});

Deno.test("countTests() is not misled by the text of a failure", () => {
  const inner = '<failure message="&lt;failure/&gt;">&lt;testcase name=&quot;x&quot;&gt;</failure>';
  assertEquals(countTests(report(testCase("a", inner))), { passed: 0, failed: 1, skipped: 0 });
});

Deno.test("the line of skipped tests counts the parts of tests that this machine cannot run", () => {
  assertEquals(
    countUnchecked(["ok", "npm is not on this machine: the package is NOT checked", "The types are NOT checked"]),
    2,
  );
  assertEquals(summary({ passed: 3, failed: 0, skipped: 2 }, 1)[0], "2 skipped, 1 part of tests not checked");
  assertEquals(summary({ passed: 3, failed: 0, skipped: 0 }, 2)[0], "0 skipped, 2 parts of tests not checked");
});

Deno.test("a failed test is named with its file, and its steps are not", () => {
  const xml = report(
    testCase("a", FAILURE) + testCase("a &gt; one", FAILURE) + testCase("b") + testCase("c &lt; d", CANCELLED),
  );
  assertEquals(failures(xml), ["./a_test.ts a", "./a_test.ts c < d"]);
  assertEquals(failures(report(testCase("a"))), []);
});

Deno.test("a run that failed has a failure with a name, also when no test was reported", () => {
  const { counts, failures } = resultOf("check", 1, "", ["error: Found 1 problem"]);
  assertEquals([counts, failures], [{ passed: 0, failed: 1, skipped: 0 }, ["check: exit code 1"]]);
  assertEquals(resultOf("cli", 0, report(testCase("a")), []).failures, []);
});

Deno.test("the second line of the shell's times is the CPU time of the children", () => {
  assertEquals(cpuSecondsOf("0m0.01s 0m0.02s\n1m2.5s 0m0.25s\n"), 62.75);
  assertEquals(cpuSecondsOf(""), 0);
});

Deno.test("the report names a group that needs more CPU than its line", () => {
  const run = {
    counts: { passed: 2, failed: 0, skipped: 1 },
    unchecked: 0,
    slow: [{ name: "a", file: "./a_test.ts", seconds: 1.25 }],
    failures: [],
    seconds: 30.2,
    cpuSeconds: 41,
    lines: ["skipped: no denokv"],
  };
  const expected = [
    "skipped: no denokv",
    "cli: 30 s, 41 s of CPU, 2 passed, 0 failed, 1 skipped",
    "   1.3 s  ./a_test.ts a",
  ];
  assertEquals(linesOf({ name: "cli", args: [], line: 41 }, run), expected);
  assertEquals(linesOf({ name: "cli", args: [], line: 40 }, run), [...expected, "cli is over its line of 40 s of CPU"]);
  assertEquals(linesOf({ name: "cli", args: [] }, run), expected);
});

Deno.test("a plan, a group or arguments of deno test are what runs", () => {
  const names = (args: string[]) => planOf(args).map((lanes) => lanes.map((lane) => lane.map(({ name }) => name)));
  assertEquals(names(["ok"]), PLANS.ok);
  assertEquals(names(["e2e"]), [[["e2e"]]]);
  assertEquals(planOf(["e2e"]), [[[{ name: "e2e", ...GROUPS.e2e ?? { args: [] } }]]]);
  assertEquals(planOf(["-A", "tests/a"])[0]?.[0]?.[0]?.args, ["test", "-A", "tests/a"]);
  assertEquals(planOf(["test", "tests/a"])[0]?.[0]?.[0]?.args, ["test", "--no-prompt", "-A", "tests/a"]);
  assertEquals(planOf(["tests/a"])[0]?.[0]?.[0]?.args, ["test", "tests/a"]);
});

Deno.test("each plan names groups that exist, and a group of the gate stands in it once", () => {
  for (const [name, plan] of Object.entries(PLANS)) {
    const groups = plan.flat(2);
    assertEquals(groups.filter((group) => !(group in GROUPS)), [], name);
    assertEquals(new Set(groups).size, groups.length, name);
  }
});

Deno.test("what follows -- goes to the tests of every group", () => {
  const argsOf = (args: string[]) => planOf(args).flat(2).map((group) => group.args);
  assertEquals(argsOf(["e2e", "--", "--trials", "5"]), [[...GROUPS.e2e?.args ?? [], "--trials", "5"]]);
  assertEquals(argsOf(["-A", "a", "--", "--openclaw"]), [["test", "-A", "a", "--", "--openclaw"]]);
  const [check = [], ...others] = argsOf(["ok", "--", "--seed", "5"]);
  assertEquals(check, GROUPS.check?.args, "the check has no tests");
  for (const args of others) assertEquals(args.slice(-2), ["--seed", "5"]);
  assertEquals(argsOf(["denokv", "--", "--trials", "5"]), [[...GROUPS.denokv?.args ?? [], "--trials", "5"]]);
});

Deno.test("a store in the arguments of a task takes the place of its plan", () => {
  const denokv = GROUPS.denokv ?? { args: [] };
  assertEquals(planOf(["test", "--store", "denokv"]), [[[{ name: "denokv", ...denokv }]]]);
  assertEquals(planOf(["test", "--store", "denokv", "--", "--trials", "5"])[0]?.[0]?.[0]?.args, [
    ...denokv.args,
    "--trials",
    "5",
  ]);
});

Deno.test("a run is on denokv when the arguments for its tests name that store", () => {
  assertEquals(isOnDenokv(GROUPS.denokv?.args ?? []), true);
  assertEquals(isOnDenokv(["-A", "a_test.ts", "--", "--trials", "5", "--store", "denokv"]), true);
  for (const name of PLANS.test?.flat(2) ?? []) assertEquals(isOnDenokv(GROUPS[name]?.args ?? []), false, name);
  assertEquals(isOnDenokv(["a_test.ts", "--", "--store"]), false);
  assertEquals(isOnDenokv(["a_test.ts"]), false);
});

Deno.test("the tests get their arguments; the report goes on after a failure and ends with one list of failures and the counts", async () => {
  await using temp = await tempFolder();
  const folder = temp.path;
  const [broken, works] = [`${folder}/broken_test.ts`, `${folder}/works_test.ts`];
  await Deno.writeTextFile(broken, `throw new Error("no");\n`);
  await Deno.writeTextFile(
    works,
    `Deno.test("a", () => { if (Deno.args.join() !== "--trials,5") throw Deno.args; });
Deno.test("b", () => { throw 1; });
Deno.test.ignore("c", () => {});\n`,
  );
  const tool = new URL("test_report.ts", import.meta.url).href;
  const args = ["run", "-A", "--no-config", tool, "--no-config", "--parallel", broken, works, "--", "--trials", "5"];
  const { code, stdout } = await new Deno.Command(Deno.execPath(), { args, cwd: folder }).output();
  const lines = new TextDecoder().decode(stdout).trimEnd().split("\n");
  assertEquals(lines.slice(-4), [
    "FAILED ./works_test.ts b",
    "FAILED ./broken_test.ts (uncaught error)",
    "1 skipped",
    "1 passed, 2 failed",
  ]);
  assertEquals(code, 1);
});

Deno.test("the slowest tests are sorted by time without their steps", () => {
  const timed = (name: string, file: string, seconds: string) =>
    `<testcase name="${name}" classname="${file}" time="${seconds}" line="1" col="6"></testcase>\n`;
  const xml = report(
    timed("a &lt; b", "./a_test.ts", "0.5") + timed("c", "./a_test.ts", "2.000") +
      timed("c &gt; step", "./a_test.ts", "1.900"),
    timed("c", "./b_test.ts", "1.000"),
  );
  assertEquals(slowest(xml, 2), [
    { name: "c", file: "./a_test.ts", seconds: 2 },
    { name: "c", file: "./b_test.ts", seconds: 1 },
  ]);
  assertEquals(slowest(xml, 9).map(({ name }) => name), ["c", "c", "a < b"]);
  assertEquals(slowest("", 9), []);
});
