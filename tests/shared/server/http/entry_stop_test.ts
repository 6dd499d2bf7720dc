/** Shows how the entry of a process answers while the process serves, leaves and drains. */
import { assertEquals } from "@std/assert";
import type { App } from "../../../../shared/server/http/app.ts";
import { TrustedProxies } from "../../../../shared/server/http/client_ip.ts";
import { Entry, type Served } from "../../../../shared/server/http/entry.ts";
import { Metrics } from "../../../../shared/server/metrics/metrics.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { steps } from "../../../support/steps.ts";

/** A service that answers every request, also for readiness. */
const app = {
  fetch: () => Promise.resolve(new Response("served")),
  owns: () => true,
  fixedPaths: [],
} as unknown as App;
const isReady = () => Promise.resolve(true);
const health = () => Promise.resolve({ status: 200, body: "served", headers: {} });

Deno.test("a process that leaves is not ready and serves requests, and one that drains refuses them", async (t) => {
  const kinds: [name: string, served: Served][] = [
    ["both services", { registry: app, proxy: app, isReady, health }],
    ["the proxy alone", { registry: null, proxy: app, isReady, health: null }],
    ["the registry alone", { registry: app, proxy: null, isReady, health: null }],
  ];
  await steps(t, kinds, async ([, served]) => {
    const deps = { clock: new ManualClock(), newId: () => "id", log: () => {}, metrics: new Metrics() };
    const entry = new Entry({ ...deps, trustedProxies: new TrustedProxies([]) });
    entry.open(served);
    const closes: boolean[] = [];
    const statusOf = async (path: string) => {
      const answer = await entry.answer(new Request(`http://svc.test${path}`), { from: "process" });
      await answer.body?.cancel();
      if (path === "/v1/me") closes.push(answer.headers.get("Connection") === "close");
      return answer.status;
    };
    const statuses = async () => [await statusOf("/readyz"), await statusOf("/healthz"), await statusOf("/v1/me")];
    assertEquals([await statuses(), await entry.isReady()], [[200, 200, 200], true]);
    entry.leave();
    assertEquals([await statuses(), await entry.isReady()], [[503, 200, 200], false]);
    entry.drain();
    assertEquals([await statuses(), await entry.isReady()], [[503, 200, 503], false]);
    assertEquals(closes, [false, true, true], "no connection is kept to a process that leaves");
  });
});

Deno.test("readiness names missing links, and is the same at the listener of the metrics", async () => {
  const deps = { clock: new ManualClock(), newId: () => "id", log: () => {}, metrics: new Metrics() };
  const entry = new Entry({ ...deps, trustedProxies: new TrustedProxies([]) });
  entry.open({ registry: app, proxy: app, isReady, health, linksMissing: () => ["another"] });
  const answer = await entry.answer(new Request("http://svc.test/readyz"), { from: "process" });
  const { status, body } = await entry.readiness();
  assertEquals([answer.status, await answer.text()], [status, body]);
  assertEquals(JSON.parse(String(body)).linksMissing, ["another"]);
});
