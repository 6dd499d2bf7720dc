/** Shows that a stored report of the bench is drawn, always in the same way, as an SVG that can be read as text too. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ROOT } from "../support/process.ts";
import { figure, ratio, type Report, type Round } from "./figures.ts";
import { readOptions } from "./options.ts";
import { attainment, plot, readReport } from "./plot.ts";

function round(target: string, atOnce: number, p50: number, p99: number): Round {
  return { target, atOnce, round: 1, perSecond: 1_000, cpuUs: 700, p50, p99, loadShare: 0.4 };
}

const REPORT: Report = {
  machine: { deno: "2.9.6", cores: 2, loadBefore: 0.123456, scale: "usual", startedAt: "2026-01-01T00:00:00.000Z" },
  rows: [
    {
      name: "service: a <message> & more",
      seconds: 60,
      figures: [
        figure("service: p50", 1, "ms"),
        ratio("floor / service: CPU", 0.25, 1, { atLeast: 0.5 }),
        ratio("p50 / allowed", 1, 2, { atMost: 1 }),
        ratio("without a goal", 1, 2),
        ratio("not measured", null, 2, { atMost: 1 }),
      ],
      rounds: [
        round("floor", 64, 10, 20),
        round("service", 64, 40, 123.4),
        round("floor", 1, 0.4, 1),
        round("service", 1, 1, 3),
        { ...round("service", 1, 1.5, 5), round: 2 },
        { ...round("service", 1, 9, 50), round: 3 },
      ],
    },
    { name: "one target", seconds: 1, figures: [figure("x", 1, "ms")], rounds: [round("floor", 1, 777, 778)] },
    { name: "skipped", seconds: 0, skipped: "no program" },
    { name: "failed", seconds: 0, failed: "no answer" },
  ],
};

/** Returns the names of elements that are not closed, or closed in another order. */
function unclosed(svg: string): string[] {
  const open: string[] = [];
  for (const [, end, name = "", own] of svg.matchAll(/<(\/?)([a-z]+)[^>]*?(\/?)>/g)) {
    if (own === "/") continue;
    if (end === "") open.push(name);
    else if (open.pop() !== name) return [name];
  }
  return open;
}

Deno.test("the plot of a report is the same text each time, and closes every element", () => {
  const svg = plot([REPORT]);
  assertEquals(svg, plot([readReport(JSON.stringify(REPORT))]));
  assertEquals(unclosed(svg), []);
  assert(svg.startsWith("<svg ") && svg.endsWith("</svg>\n"), svg.slice(0, 80));
  assert(!svg.includes("NaN") && !svg.includes("undefined") && !svg.includes("<message>"), svg);
  assert(svg.includes("service: a &lt;message&gt; &amp; more"), svg);
});

Deno.test("the plot has a title, its figures as text, and colours for a light and a dark scheme", () => {
  const svg = plot([REPORT]);
  const words = /<desc id="words">([^<]*)</.exec(svg)?.[1] ?? "";
  assert(svg.includes('<title id="title">') && svg.includes('aria-labelledby="title words"'), svg);
  for (
    const fact of [
      "64 at once, service: p50 40.0 ms, p99 123 ms.",
      "1 at once, service: p50 1.50 ms, p99 5.00 ms.",
      "floor / service: CPU: 0.250 · goal at least 0.5: NOT met.",
      "p50 / allowed: 0.500 · goal at most 1: met.",
    ]
  ) assert(words.includes(fact), `${fact} is not in: ${words}`);
  assert(svg.includes("prefers-color-scheme: dark"));
  for (const absent of ["without a goal", "not measured", "777", "no program"]) assert(!svg.includes(absent), absent);
});

Deno.test("every mark of the plot is inside its frame", () => {
  const svg = plot([REPORT, REPORT]);
  const [, width = 0, height = 0] = (/viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? []).map(Number);
  assert(width > 0 && height > 0);
  for (const [mark, name = "", value] of svg.matchAll(/ (c?[xy][12]?)="([^"]*)"/g)) {
    const [least, most] = [0, name.includes("x") ? width : height];
    assert(Number(value) >= least && Number(value) <= most, mark);
  }
  for (const [mark, x, , bar] of svg.matchAll(/<rect class="m[a-z]+" x="([^"]*)" y="([^"]*)" width="([^"]*)"/g)) {
    assert(Number(x) + Number(bar) <= width, mark);
  }
});

Deno.test("a ratio at its goal attains 1, and a better one more", () => {
  assertEquals(attainment(ratio("r", 0.5, 1, { atLeast: 0.5 })), 1);
  assertEquals(attainment(ratio("r", 0.25, 1, { atLeast: 0.5 })), 0.5);
  assertEquals(attainment(ratio("r", 0.5, 1, { atMost: 1 })), 2);
  assertEquals(attainment(ratio("r", 1, 2)), 0);
});

Deno.test("a text that is not a report, and a report without anything to draw, are refused", () => {
  for (const text of ["[]", "{}", "null", '{"machine":1,"rows":[]}']) assertThrows(() => readReport(text), TypeError);
  assertThrows(() => plot([{ ...REPORT, rows: [] }]), TypeError, "nothing");
});

Deno.test("bench --from draws a stored report and measures nothing", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc_plot_" });
  try {
    const [stored, drawn] = [`${folder}/report.json`, `${folder}/plot.svg`];
    await Deno.writeTextFile(stored, JSON.stringify(REPORT));
    const bench = async (...args: string[]) => {
      const command = ["run", "-A", `${ROOT}/tests/bench/main.ts`, ...args];
      const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args: command, cwd: ROOT }).output();
      return { code, printed: new TextDecoder().decode(stdout), said: new TextDecoder().decode(stderr) };
    };
    assertEquals(await bench("--from", stored, "--svg", drawn), { code: 0, printed: "", said: "" });
    assertEquals(await Deno.readTextFile(drawn), plot([REPORT]));
    assertEquals((await bench("--from", drawn, "--svg", drawn)).code, 2, "an SVG is not a report");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  assertThrows(() => readOptions(["--from", "x"]), TypeError, "--svg");
  assertThrows(() => readOptions(["--from", "x", "--svg", "y", "--quick"]), TypeError, "measures nothing");
});
