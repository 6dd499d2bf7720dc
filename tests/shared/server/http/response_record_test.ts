/** What a request leaves in metrics and log: its row, never its path, and nothing of its sender. */
import { assert, assertEquals } from "@std/assert";
import { expositionOf } from "../../../../shared/server/metrics/metrics.ts";
import { parseExposition } from "../../../support/exposition.ts";
import { TestApp } from "./small_app.ts";

function requests(app: TestApp): Record<string, number> {
  const samples = parseExposition(expositionOf(app.metrics)).get("svc_http_requests_total")?.samples ?? [];
  return Object.fromEntries(
    samples.map(({ labels: { route, method, status }, value }) => [`${method} ${route} ${status}`, value]),
  );
}

Deno.test("a request is counted under the path of its row, with method and status", async () => {
  using app = await TestApp.open();
  for (const id of ["1", "2", "404"]) {
    await app.ask(`/things/${id}`, { method: "POST", headers: { "x-key": "k" }, body: '{"name":"n"}' });
  }
  await app.ask("/open");
  await app.ask("/open", { method: "HEAD" });
  await app.ask("/nowhere");
  await app.ask("/open", { method: "DELETE" });
  assertEquals(requests(app), {
    "POST /things/:id 201": 2,
    "POST /things/:id 404": 1,
    "GET /open 200": 1,
    "HEAD /open 200": 1,
    "GET none 404": 1,
    "DELETE none 405": 1,
  });
  const families = parseExposition(expositionOf(app.metrics));
  const codes = families.get("svc_refusals_total")?.samples.map(({ labels }) => [labels.code, labels.check]);
  assertEquals(codes, [["AGENT_NOT_FOUND", "none"], ["NOT_FOUND", "none"], ["METHOD_NOT_ALLOWED", "none"]]);
});

Deno.test("a call within the process is not counted and not logged", async () => {
  using app = await TestApp.open(false, true);
  await app.ask("/open", {}, { from: "process" });
  assertEquals([requests(app), app.log], [{}, []]);
});

Deno.test("different paths, methods, agents and request IDs add no series and none of their text", async () => {
  using app = await TestApp.open();
  const size = () => expositionOf(app.metrics).split("\n").length;
  await app.ask("/nowhere");
  await app.ask("/nowhere", { method: "PATCH" });
  const before = size();
  for (let i = 0; i < 2_000; i++) {
    await app.ask(`/hostile-${i}/svc_pat_${i}?did:svc:x=${i}`, {
      method: i % 2 === 0 ? "GET" : "PATCH",
      headers: { "User-Agent": `hostile"\\n{${i}}`, "x-request-id": `hostile-${i}-${i}` },
    });
  }
  assertEquals(size(), before);
  assert(!expositionOf(app.metrics).includes("hostile"));
});

Deno.test("the access log has one line for each success with the path of the row, and is off by default", async () => {
  using app = await TestApp.open(false, true);
  const init = { method: "POST", headers: { "x-key": "k", "x-request-id": "request-0001" }, body: '{"name":"n"}' };
  await app.ask("/things/7?token=svc_pat_secret", init);
  await app.ask("/things/404", init);
  const done = app.log.filter(({ event }) => event === "request_done");
  assertEquals(done, [{
    level: "info",
    event: "request_done",
    fields: {
      requestId: "request-0001",
      method: "POST",
      route: "/things/:id",
      status: 201,
      ms: 0,
      ip: "192.0.2.1",
      agentDid: undefined,
    },
  }]);
  using quiet = await TestApp.open();
  await quiet.ask("/open");
  assertEquals(quiet.log, []);
});
