/**
 * The examples for operators name metrics that exist, and the rules are valid where promtool can read them. The units
 * for denokv and its instances fit each other.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { PREFIX } from "../../shared/server/metrics/metrics.ts";
import { type MetricRow, METRICS } from "../../shared/server/metrics/metrics_table.ts";
import { Denokv, findDenokv, unitOptions } from "../support/denokv.ts";
import { isInstalled } from "../support/installed.ts";
import { tempFolder } from "../support/process.ts";

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
    const named = [...text.matchAll(/\bsvc_[a-z0-9_]+/g)].map(([name]) => name);
    assert(named.length > 5, path);
    assertEquals(named.filter((name) => !NAMES.has(name)), []);
    for (const [, name = "", label = ""] of text.matchAll(/\bsvc_([a-z0-9_]+)\{([a-z]+)[!=]/g)) {
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
  name: "promtool accepts the configuration of Prometheus and its alert rules",
  ignore: !await isInstalled("promtool"),
  async fn() {
    const args = ["check", "config", new URL("docs/examples/prometheus.yml", ROOT).pathname];
    const { code, stdout, stderr } = await new Deno.Command("promtool", { args }).output();
    const printed = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    assertEquals(code, 0, printed);
    assert(printed.includes("13 rules found"), printed);
  },
});

Deno.test("operations.md explains each alert", async () => {
  const alerts = [...(await Deno.readTextFile(new URL(ALERTS, ROOT))).matchAll(/alert: (\w+)/g)].map(([, name]) =>
    name
  );
  const text = await Deno.readTextFile(new URL("docs/operations.md", ROOT));
  assertEquals(alerts.filter((name) => !text.includes(`| \`${name}\` |`)), []);
});

Deno.test("route, denokv and the instances have one address", async () => {
  const [unit, instances] = await Promise.all(
    ["denokv.service", "instances.conf"].map((name) => Deno.readTextFile(new URL(`docs/examples/${name}`, ROOT))),
  );
  const [, address = "", host = ""] = unit?.match(/--addr ((127\.0\.0\.\d+):\d+) /) ?? [];
  assertStringIncludes(
    unit ?? "",
    ` replace local ${host} dev lo table local proto kernel scope host src ${host} quickack 1`,
  );
  assertStringIncludes(instances ?? "", `KV_URL=http://${address}\n`);
});

Deno.test("an agent behind nginx sees the time of the service, because nginx otherwise sends its own", async () => {
  const text = await Deno.readTextFile(new URL("docs/examples/nginx.conf", ROOT));
  assertStringIncludes(text, "\n        proxy_pass_header Date;\n");
});

Deno.test("nginx.conf says how nginx takes more agents than its 768 connections allow, at two for each agent", async () => {
  const text = await Deno.readTextFile(new URL("docs/examples/nginx.conf", ROOT));
  const [agents = 0] = [...text.matchAll(/limit_conn svc_addresses (\d+);/g)].map(([, count]) => Number(count));
  const [connections = 0] = [...text.matchAll(/worker_connections (\d+);/g)].map(([, count]) => Number(count));
  assert(agents > 0 && connections >= 2 * agents, `${connections} connections for ${agents} agents`);
});

Deno.test("npm installs Deno without a package.json, because deno ci would refuse the lockfile beside it", async () => {
  for (const path of ["docs/examples/svc.service", "docs/operations.md"]) {
    const [, ...installs] = (await Deno.readTextFile(new URL(path, ROOT))).split("npm install ");
    assertEquals(installs.filter((text) => /^\S*deno@/.test(text)), [], path);
  }
});

Deno.test("a unit may ask the registries of other servers, because FEDERATION is on by default", async () => {
  for (const name of ["svc.service", "instances.conf"]) {
    const text = await Deno.readTextFile(new URL(`docs/examples/${name}`, ROOT));
    const start = text.replaceAll("\\\n", "").split("\n").findLast((line) => line.startsWith("ExecStart="));
    assert(start?.includes(" -P=server ") && !start.includes("--allow-net"), start);
  }
});

Deno.test("systemd does not give up on denokv, whose unit ends at once while the disk is full", async () => {
  const text = await Deno.readTextFile(new URL("docs/examples/denokv.service", ROOT));
  assertStringIncludes(text, "\nRestart=always\n");
  assertStringIncludes(text.slice(0, text.indexOf("[Service]")), "\nStartLimitIntervalSec=0\n");
});

const denokv = await findDenokv();

Deno.test({
  name: "denokv keeps a commit with the options of its unit",
  ignore: denokv === null,
  async fn() {
    await using folder = await tempFolder();
    // Each worker would have a database of its own in memory.
    await using server = await Denokv.start(denokv ?? "", `${folder.path}/denokv.sqlite`, 0, await unitOptions());
    using kv = await Deno.openKv(server.address);
    assert((await kv.atomic().set(["kept"], 1).commit()).ok);
    assertEquals((await kv.get(["kept"])).value, 1);
  },
});
