/** The examples for operators name metrics that exist (D-179), and the rules are valid where promtool can read them. */
import { assert, assertEquals } from "@std/assert";
import { PREFIX } from "../../shared/server/metrics/samples.ts";
import { type MetricRow, METRICS } from "../../shared/server/metrics/metrics_table.ts";
import { isInstalled } from "../support/installed.ts";

const ROOT = new URL("../../", import.meta.url);
const ALERTS = "docs/examples/alerts.yml", DASHBOARD = "docs/examples/grafana.json";
const TABLE: Readonly<Record<string, MetricRow>> = METRICS;

/** Every name of a series that the table can have. */
const NAMES = new Set(
  Object.entries(TABLE).flatMap(([name, { type }]) =>
    type === "histogram" ? ["_bucket", "_sum", "_count"].map((end) => PREFIX + name + end) : [PREFIX + name]
  ),
);

for (const path of [ALERTS, DASHBOARD]) {
  Deno.test(`every metric and label of ${path} is in the table`, async () => {
    const text = await Deno.readTextFile(new URL(path, ROOT));
    const named = [...text.matchAll(/\bsvc_[a-z_]+/g)].map(([name]) => name);
    assert(named.length > 5, path);
    assertEquals(named.filter((name) => !NAMES.has(name)), []);
    for (const [, name = "", label = ""] of text.matchAll(/\bsvc_([a-z_]+)\{([a-z]+)[!=]/g)) {
      assert(TABLE[name]?.labels.some(([known]) => known === label), `${name} ${label}`);
    }
  });
}

Deno.test("the dashboard has its five rows, and each panel has an ID and an expression", async () => {
  const { panels } = JSON.parse(await Deno.readTextFile(new URL(DASHBOARD, ROOT)));
  const rows = panels.filter(({ type }: { type: string }) => type === "row");
  const titles = rows.map(({ title }: { title: string }) => title);
  assertEquals(titles, ["Delivery", "Refusals", "Freshness", "Store", "Memory"]);
  assertEquals(new Set(panels.map(({ id }: { id: number }) => id)).size, panels.length);
  for (const { type, targets } of panels) {
    if (type !== "row") assert(targets.every(({ expr }: { expr: string }) => expr));
  }
});

Deno.test({
  name: "promtool accepts the alert rules",
  ignore: !await isInstalled("promtool"),
  async fn() {
    const args = ["check", "rules", new URL(ALERTS, ROOT).pathname];
    const { code, stdout, stderr } = await new Deno.Command("promtool", { args }).output();
    const printed = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    assertEquals(code, 0, printed);
    assert(printed.includes("7 rules found"), printed);
  },
});

Deno.test("operations.md explains each alert", async () => {
  const alerts = [...(await Deno.readTextFile(new URL(ALERTS, ROOT))).matchAll(/alert: (\w+)/g)].map(([, name]) =>
    name
  );
  const text = await Deno.readTextFile(new URL("docs/operations.md", ROOT));
  assertEquals(alerts.filter((name) => !text.includes(`| \`${name}\` |`)), []);
});
