/** Plots show their numbers, their gaps and nothing else; the axis reaches each value with three to five lines. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { axisStep, chart, type Plot } from "../../../shared/page/chart.ts";

const NOON = Date.UTC(2026, 10, 23, 12);
const times = Array.from({ length: 60 }, (_, i) => NOON + (i - 59) * 60_000);
const plot = (more: Partial<Plot>): Plot => ({
  id: "c",
  title: "Messages",
  unit: "a minute",
  kind: "bars",
  times,
  lines: [],
  ...more,
});

Deno.test("an axis begins at 0 and reaches every value with three to five lines", () => {
  assertEquals([0, 1, 4, 5, 9, 10, 11, 47, 190, 1_001].map(axisStep), [1, 1, 1, 2, 5, 5, 5, 20, 50, 500]);
  fc.assert(fc.property(fc.nat({ max: 1e9 }), (highest) => {
    const step = axisStep(highest);
    assert(Number.isInteger(step) && step * 4 >= highest);
  }));
});

Deno.test("bars are stacked, steps without a measurement are grey fields, and the table has all numbers", () => {
  const values = (first: number) => times.map((_, i) => i < 22 ? null : first);
  const { text } = chart(
    plot({ lines: [{ name: "delivered", values: values(30) }, { name: "failed", values: values(10) }] }),
  );
  assertStringIncludes(text, `<rect class="gap" x="34" y="8" width="132" height="118"/>`);
  assertStringIncludes(text, "no data</text>");
  // 40 is the upper end: the second bar ends where the axis does.
  assertStringIncludes(text, `class="f1" d="M166.2 37.5h5.6V126h-5.6z`);
  assertStringIncludes(text, `class="f2" d="M166.2 8h5.6V37.5h-5.6z`);
  assertEquals(text.match(/<tr>/g)?.length, 61);
  assertStringIncludes(text, "<tr><td>12:00</td><td>30</td><td>10</td></tr><tr><td>11:59</td>");
  assertStringIncludes(text, "<td>no data</td><td>no data</td></tr></tbody>");
  assertStringIncludes(text, "Stacked bars, 11:01 to 12:00 UTC. delivered: 30; failed: 10.");
  assertEquals(text.match(/text-anchor="(start|middle|end)">\d\d:\d\d</g)?.length, 5);
});

Deno.test("lines break at gaps, a lone point is visible, and a value above the bound has words", () => {
  const values = times.map((_, i) => i === 0 ? 5 : i < 30 ? null : 10_001);
  const over = { above: 10_000, text: "over 10 s" };
  const { text } = chart(plot({ kind: "lines", lines: [{ name: "p95", values }], over }));
  assertStringIncludes(text, "h4M217");
  assertStringIncludes(text, "<td>over 10 s</td>");
  assertStringIncludes(text, "One line, 11:01 to 12:00 UTC. p95: 5 to over 10 s.");
});

Deno.test("no plot has NaN, and a plot without values has no shape", () => {
  const count = fc.option(fc.nat({ max: 1e7 }), { nil: null });
  fc.assert(
    fc.property(
      fc.array(count, { minLength: 60, maxLength: 60 }),
      fc.constantFrom("bars" as const, "lines" as const),
      (values, kind) => {
        const { text } = chart(plot({ kind, lines: [{ name: "<b>", values }] }));
        assert(!/NaN|Infinity|undefined|<b>/.test(text));
      },
    ),
    { numRuns: 50 },
  );
  const { text } = chart(plot({ lines: [{ name: "x", values: times.map(() => null) }] }));
  assertStringIncludes(text, `x="34" y="8" width="360"`);
});
