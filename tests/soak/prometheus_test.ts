/**
 * Prometheus with the two example files watches a healthy server with messages for ten minutes: no alert is pending or
 * fires. `-- --trials n` sets the minutes.
 */
import { assert, assertEquals } from "@std/assert";
import { isInstalled } from "../support/installed.ts";
import { eventually, freePort, messageTo, Service, tempFolder, within } from "../support/process.ts";
import { trials } from "../support/trials.ts";

const MINUTES = trials(10);
const EXAMPLES = new URL("../../docs/examples/", import.meta.url);
const EVERY_MS = 5_000;

interface Rules {
  data: { groups: { rules: { name: string; state: string; health: string }[] }[] };
}

Deno.test({
  name: `Prometheus with the example files reports no alert of a healthy server for ${MINUTES} min`,
  ignore: !await isInstalled("prometheus"),
  async fn() {
    await using service = await Service.open({ METRICS_LISTEN: "127.0.0.1:0" });
    const [, target = ""] = await within(
      5_000,
      "the address of the metrics",
      service.server.stdout.match(/^metrics on http:\/\/(\S+)\/metrics$/m),
    );
    await using folder = await tempFolder();
    const example = await Deno.readTextFile(new URL("prometheus.yml", EXAMPLES));
    assert(example.includes('"127.0.0.1:9464"'));
    await Deno.writeTextFile(`${folder.path}/prometheus.yml`, example.replaceAll("127.0.0.1:9464", target));
    await Deno.copyFile(new URL("alerts.yml", EXAMPLES), `${folder.path}/alerts.yml`);
    const address = `127.0.0.1:${freePort()}`;
    const args = [
      `--config.file=${folder.path}/prometheus.yml`,
      `--storage.tsdb.path=${folder.path}/data`,
      `--web.listen-address=${address}`,
    ];
    await using prometheus = new Deno.Command("prometheus", { args, stdout: "null", stderr: "null" }).spawn();
    const { a, b } = await service.agents();
    const connector = await service.connect(b);
    const rules = async () => {
      const answer = await fetch(`http://${address}/api/v1/rules?type=alert`);
      if (!answer.ok) return void await answer.body?.cancel();
      return (await answer.json() as Rules).data.groups.flatMap((group) => group.rules);
    };
    // Before its first scrape Prometheus knows no sample, so an evaluation that comes first finds the server absent.
    await eventually(60_000, "every rule was evaluated after a scrape", async () => {
      const found = await rules().catch(() => undefined) ?? [];
      const isQuiet = found.every(({ health, state }) => health === "ok" && state === "inactive");
      return found.length > 0 && isQuiet ? true : undefined;
    });
    const end = performance.now() + MINUTES * 60_000;
    while (performance.now() < end) {
      await a.client.sendMessage(messageTo(b));
      const found = await rules() ?? [];
      assertEquals(found.filter(({ state }) => state !== "inactive"), []);
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
    await connector.close();
    prometheus.kill("SIGTERM");
    await prometheus.status;
  },
});
