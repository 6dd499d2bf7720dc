/** Checks how test_report.ts counts reports of Deno and splits its arguments. */
import { assertEquals } from "@std/assert";
import { countTests, countUnchecked, groups, isOnDenokv, slowest, summary } from "./test_report.ts";
import { GROUPS } from "./test_groups.ts";

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

Deno.test("countTests() counts a test whose own name has an arrow", () => {
  assertEquals(countTests(report(testCase("a &gt; b"), testCase("a"))), { passed: 2, failed: 0, skipped: 0 });
});

Deno.test("countTests() counts tests of one name one by one", () => {
  assertEquals(countTests(report(testCase("a") + testCase("a", FAILURE))), { passed: 1, failed: 1, skipped: 0 });
});

Deno.test("countTests() is not misled by the text of a failure", () => {
  const inner = '<failure message="&lt;failure/&gt;">&lt;testcase name=&quot;x&quot;&gt;</failure>';
  assertEquals(countTests(report(testCase("a", inner))), { passed: 0, failed: 1, skipped: 0 });
});

Deno.test("countTests() finds nothing in an empty report", () => {
  assertEquals(countTests(""), { passed: 0, failed: 0, skipped: 0 });
  assertEquals(countTests(report()), { passed: 0, failed: 0, skipped: 0 });
});

Deno.test("the summary ends with the plain line that counts, after the line of skipped tests", () => {
  assertEquals(summary({ passed: 3, failed: 0, skipped: 0 }, 0), ["0 skipped", "3 passed, 0 failed"]);
  assertEquals(summary({ passed: 3, failed: 1, skipped: 2 }, 1), ["2 skipped", "3 passed, 1 failed"]);
});

Deno.test("the line of skipped tests counts the parts of tests that this machine cannot run", () => {
  assertEquals(
    countUnchecked(["ok", "npm is not on this machine: the package is NOT checked", "The types are NOT checked"]),
    2,
  );
  assertEquals(summary({ passed: 3, failed: 0, skipped: 2 }, 0, 1)[0], "2 skipped, 1 part of tests not checked");
  assertEquals(summary({ passed: 3, failed: 0, skipped: 0 }, 0, 2)[0], "0 skipped, 2 parts of tests not checked");
});

Deno.test("the summary of a run that failed has a failure even when no test was reported", () => {
  assertEquals(summary(countTests(""), 1)[1], "0 passed, 1 failed");
  assertEquals(summary({ passed: 3, failed: 0, skipped: 0 }, 1)[1], "3 passed, 1 failed");
});

Deno.test("groups() makes one run of each group", () => {
  assertEquals(groups(["-A", "tests/a", "+", "tests/b", "tests/c"]), [["-A", "tests/a"], ["tests/b", "tests/c"]]);
  assertEquals(groups(["tests/a", "+"]), [["tests/a"]]);
  assertEquals(groups([]), []);
});

Deno.test("a group is named in place of its arguments", () => {
  assertEquals(groups(["e2e", "--", "--trials", "5"]), [[...GROUPS.e2e ?? [], "--", "--trials", "5"]]);
  assertEquals(groups(["unit", "+", "doc"]), [GROUPS.unit, GROUPS.doc]);
});

Deno.test("groups() hands what follows -- to the tests of every group", () => {
  assertEquals(groups(["-A", "tests/e2e", "--", "--trials", "5"]), [["-A", "tests/e2e", "--", "--trials", "5"]]);
  assertEquals(groups(["a", "+", "b", "--", "--openclaw", "+"]), [
    ["a", "--", "--openclaw", "+"],
    ["b", "--", "--openclaw", "+"],
  ]);
});

Deno.test("a store in the arguments of a task takes the place of its groups", () => {
  assertEquals(groups(["unit", "+", "doc", "--store", "denokv"]), [GROUPS.denokv]);
  assertEquals(groups(["unit", "--store", "denokv", "--", "--trials", "5"]), [
    [...GROUPS.denokv ?? [], "--", "--trials", "5"],
  ]);
});

Deno.test("a run is on denokv when the arguments for its tests name that store", () => {
  assertEquals(isOnDenokv(GROUPS.denokv ?? []), true);
  assertEquals(isOnDenokv(["-A", "a_test.ts", "--", "--trials", "5", "--store", "denokv"]), true);
  for (const name of ["unit", "doc", "tools", "e2e"]) assertEquals(isOnDenokv(GROUPS[name] ?? []), false, name);
  assertEquals(isOnDenokv(["a_test.ts", "--", "--store"]), false);
  assertEquals(isOnDenokv(["a_test.ts"]), false);
});

Deno.test("a flag after the task's own arguments gets to the tests", async () => {
  const folder = await Deno.makeTempDir({ prefix: "test_report_test_" });
  try {
    const path = `${folder}/a_test.ts`;
    await Deno.writeTextFile(
      path,
      `Deno.test("a", () => { if (Deno.args.join() !== "--trials,5") throw Deno.args; });\n`,
    );
    const tool = new URL("test_report.ts", import.meta.url).href;
    const args = ["run", "-A", "--no-config", tool, "--no-config", "--quiet", path, "--", "--trials", "5"];
    const { code, stdout } = await new Deno.Command(Deno.execPath(), { args, cwd: folder }).output();
    const lines = new TextDecoder().decode(stdout).trimEnd().split("\n");
    assertEquals([code, lines.at(-1)], [0, "1 passed, 0 failed"]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("the slowest tests are sorted by time without their steps", () => {
  const timed = (name: string, file: string, seconds: string) =>
    `<testcase name="${name}" classname="${file}" time="${seconds}" line="1" col="6"></testcase>\n`;
  const xml = timed("a &lt; b", "./a_test.ts", "0.5") + timed("c", "./a_test.ts", "2.000") +
    timed("c &gt; step", "./a_test.ts", "1.900") + timed("c", "./b_test.ts", "1.000");
  assertEquals(slowest(xml, 2), [
    { name: "c", file: "./a_test.ts", seconds: 2 },
    { name: "c", file: "./b_test.ts", seconds: 1 },
  ]);
  assertEquals(slowest(xml, 9).map(({ name }) => name), ["c", "c", "a < b"]);
  assertEquals(slowest("", 9), []);
});
