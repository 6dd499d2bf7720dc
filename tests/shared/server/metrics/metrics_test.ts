/** The metrics in memory and as text: names, closed label sets, buckets, and the format. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import fc from "fast-check";
import { expositionOf, Metrics } from "../../../../shared/server/metrics/metrics.ts";
import { type MetricRow, METRICS } from "../../../../shared/server/metrics/metrics_table.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { parseExposition } from "../../../support/exposition.ts";

Deno.test("each row has a name of its type, a help, and labels with different values", () => {
  for (const [name, row] of Object.entries<MetricRow>(METRICS)) {
    assertMatch(name, /^[a-z][a-z0-9_]*[a-z0-9]$/);
    assertEquals(row.type === "counter", name.endsWith("_total"), name);
    assertEquals(row.type === "histogram", row.buckets !== undefined, name);
    assertEquals(row.buckets?.toSorted((a, b) => a - b), row.buckets, name);
    assert(row.help.length > 10 && !row.help.endsWith("."), name);
    for (const [label, values] of row.labels) {
      assertMatch(label, /^[a-z]+$/);
      if (values !== "routes") assertEquals(new Set(values).size, values.length, `${name} ${label}`);
    }
  }
});

Deno.test("the text has help, type, labels and cumulative buckets of each metric", () => {
  const metrics = new Metrics();
  metrics.describe({ version: '1"\\\n', service: "all" }, new ManualClock());
  metrics.count("relay_frames_total", "deliver", "out");
  metrics.add("relay_frame_bytes_total", 12, "deliver", "out");
  metrics.set("held_bytes", 5);
  metrics.read("relay_sockets", () => 2);
  metrics.read("relay_sockets", () => 3);
  for (const value of [0.001, 0.0011, 99, -3]) metrics.observe("http_request_duration_seconds", value, "/x");
  const text = expositionOf(metrics);
  const part = (name: string) => text.split("# HELP ").find((one) => one.startsWith(`svc_${name} `))?.split("\n") ?? [];
  assertEquals(part("build_info").slice(1, -1), [
    "# TYPE svc_build_info gauge",
    `svc_build_info{version="1\\"\\\\\\n",deno="${Deno.version.deno}",service="all"} 1`,
  ]);
  assertEquals(part("relay_frames_total")[2], 'svc_relay_frames_total{type="deliver",direction="out"} 1');
  assertEquals(part("relay_frame_bytes_total")[2], 'svc_relay_frame_bytes_total{type="deliver",direction="out"} 12');
  assertEquals(part("held_bytes")[2], "svc_held_bytes 5");
  assertEquals(part("relay_sockets")[2], "svc_relay_sockets 5");
  const lines = part("http_request_duration_seconds");
  const series = (end: string) => lines.find((line) => line.includes(end));
  assertEquals(series('le="0.001"'), 'svc_http_request_duration_seconds_bucket{route="other",le="0.001"} 2');
  assertEquals(series('le="0.0025"'), 'svc_http_request_duration_seconds_bucket{route="other",le="0.0025"} 3');
  assertEquals(series('le="+Inf"'), 'svc_http_request_duration_seconds_bucket{route="other",le="+Inf"} 4');
  assertEquals(series("_count"), 'svc_http_request_duration_seconds_count{route="other"} 4');
  parseExposition(text);
});

Deno.test("what is measured before a read is in the text, and what fails or has no value is left out", async () => {
  const metrics = new Metrics();
  metrics.beforeRead(() => Promise.reject(new Error("no store")));
  metrics.beforeRead(() => Promise.resolve(metrics.set("agents", 3, "active")));
  metrics.read("store_bytes", () => null);
  await metrics.measure();
  const text = expositionOf(metrics);
  assert(text.includes('svc_agents{status="active"} 3\n'));
  assert(!text.includes("svc_store_bytes"));
});

Deno.test("a counter with one small label set shows each of its series before the first count", () => {
  const text = expositionOf(new Metrics());
  for (const result of ["ok", "conflict", "error"]) {
    assert(text.includes(`svc_store_commits_total{result="${result}"} 0\n`), result);
  }
  assert(text.includes("svc_agents_registered_total 0\n"));
  assert(text.includes("svc_relay_ack_seconds_count 0\n"));
});

Deno.test("10,000 label values outside of their sets add one series", () => {
  const metrics = new Metrics();
  metrics.addRoutes(["/v1/me"]);
  const before = expositionOf(metrics).split("\n").length;
  for (let i = 0; i < 10_000; i++) {
    metrics.count("http_requests_total", `/${i}`, `M${i}`, String(1000 + i));
    metrics.count("refusals_total", `CODE_${i}\n`, `"${i}`, "local");
  }
  const text = expositionOf(metrics);
  assert(text.includes('svc_http_requests_total{route="other",method="other",status="other"} 10000\n'));
  assert(text.includes('svc_refusals_total{code="other",check="other",origin="local"} 10000\n'));
  assertEquals(text.split("\n").length - before, 6);
});

Deno.test("any values give a text that the format allows, with buckets that add up", () => {
  const values = fc.array(fc.double({ noNaN: true, min: -10, max: 1e6 }), { maxLength: 50 });
  fc.assert(fc.property(values, fc.string(), (seconds, label) => {
    const metrics = new Metrics();
    for (const one of seconds) {
      metrics.observe("store_commit_seconds", one);
      metrics.count("refusals_total", label, label, label);
      metrics.set("held_bytes", one);
    }
    const families = parseExposition(expositionOf(metrics));
    const samples = families.get("svc_store_commit_seconds")?.samples ?? [];
    const buckets = samples.filter(({ name }) => name.endsWith("_bucket")).map(({ value }) => value);
    assertEquals(buckets, buckets.toSorted((a, b) => a - b));
    assertEquals(buckets.at(-1), seconds.length);
  }));
});
