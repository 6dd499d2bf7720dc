/**
 * The metrics listener of a real server: what it serves, what it does not, what it survives, and how it answers while
 * the server stops.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { EXPOSITION_TYPE } from "../../shared/server/metrics/metrics.ts";
import { parseExposition, totalOf } from "../support/exposition.ts";
import { isInstalled } from "../support/installed.ts";
import { Connector, messageTo, refusedHere, Service, SOON_MS, tempFolder, within } from "../support/process.ts";
import { outputFor, PIPED } from "../support/process_output.ts";
import { RawConnection } from "../support/raw_http.ts";

const CONNECTIONS = 300;

async function scrape(address: string): Promise<string> {
  const answer = await fetch(`${address}/metrics`);
  assertEquals([answer.status, answer.headers.get("content-type")], [200, EXPOSITION_TYPE]);
  return await answer.text();
}

const HAS_PROMTOOL = await isInstalled("promtool");

async function assertPromtoolAccepts(text: string): Promise<void> {
  const child = new Deno.Command("promtool", { ...PIPED, args: ["check", "metrics"] }).spawn();
  const { code, stdout, stderr } = await outputFor(text, child);
  assertEquals([code, stdout + stderr], [0, ""]);
}

Deno.test("the metrics listener serves three paths, and survives what clients send", async (t) => {
  await using service = await Service.open({ METRICS_LISTEN: "127.0.0.1:0", ACCESS_LOG: "on" });
  const { server, url } = service;
  const [, address = ""] = await within(
    SOON_MS,
    "the address of the metrics",
    server.stdout.match(/^metrics on (http:\S+)\/metrics$/m),
  );
  const { a, b } = await service.agents();
  const connector = await service.connect(b);
  await a.client.sendMessage(messageTo(b));

  await t.step("a scrape has the message, and nothing that names anyone", async () => {
    const text = await scrape(address);
    const families = parseExposition(text);
    assertStringIncludes(text, 'svc_relay_messages_total{outcome="delivered",origin="local"} 1\n');
    const positive = [
      "process_start_time_seconds",
      "process_resident_memory_bytes",
      "relay_sockets",
      "ready",
      "agents",
      "store_bytes",
      "store_free_bytes",
      "store_reserve_bytes",
    ];
    for (const name of positive) assert(totalOf(families, `svc_${name}`) > 0, name);
    assert(families.has("svc_http_requests_in_flight"));
    assert(text.split("\n").length < 3_000);
    assert(!text.includes("did:"));
    assert(!/[0-9A-HJKMNP-TV-Z]{26}/.test(text), "no ULID");
    assert(!/\d+\.\d+\.\d+\.\d+/.test(text), "no address");
  });
  await t.step({
    name: "promtool accepts the scrape",
    ignore: !HAS_PROMTOOL,
    fn: async () => await assertPromtoolAccepts(await scrape(address)),
  });
  await t.step("other paths, methods and the public port have no metrics", async () => {
    for (
      const [at, init, status] of [
        [`${address}/`, {}, 404],
        [`${address}/health`, {}, 404],
        [`${address}/v1/me`, {}, 404],
        [`${address}/metrics/x`, {}, 404],
        [`${address}/metrics`, { method: "POST", body: "x" }, 405],
        [`${address}/metrics?x=1`, {}, 200],
        [`${address}/healthz`, {}, 200],
        [`${address}/readyz`, {}, 200],
        [`${url}/metrics`, {}, 404],
        [`${url}/readyz`, {}, 200],
        [`${url}/healthz`, { method: "HEAD" }, 200],
      ] as const
    ) {
      const answer = await fetch(at, init);
      await answer.body?.cancel();
      assertEquals(answer.status, status, at);
    }
  });
  await t.step("rubbish, half a request and many connections do not stop it", async () => {
    const connections: RawConnection[] = [];
    try {
      for (let i = 0; i < CONNECTIONS; i++) {
        const connection = await RawConnection.open(address);
        connections.push(connection);
        if (i % 3 === 0) await connection.send(i % 2 === 0 ? "\0\xff rubbish\r\n\r\n" : "GET /metrics HTTP/1.1\r\nHos");
      }
      parseExposition(await scrape(address));
    } finally {
      for (const connection of connections) await connection[Symbol.asyncDispose]();
    }
    parseExposition(await scrape(address));
  });
  await t.step("the access log has the path of the row and no target", async () => {
    await within(SOON_MS, "the line of the message", server.stderr.match(/"request_done".*"\/hooks\/agent".*\n/));
    const lines = server.stderr.text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
    const done = lines.filter(({ event }) => event === "request_done");
    const { level, method, route, status, ip, agentDid, ms } = done.find((line) => line.route === "/hooks/agent");
    assertEquals({ level, method, route, status, ip, agentDid, ms: typeof ms }, {
      level: "info",
      method: "POST",
      route: "/hooks/agent",
      status: 202,
      ip: "127.0.0.1",
      agentDid: a.identity.did,
      ms: "number",
    });
    assert(done.every((line) => line.status < 400 && !("path" in line)));
  });
  await t.step("readyz is 503 within 100 ms of the signal while healthz is 200", async () => {
    await connector.close();
    const silent = await Connector.open(service.place, b, () => new Promise<never>(() => {}));
    const sending = a.client.sendMessage(messageTo(b)).catch(() => {});
    await silent.frame(1);
    const ready = async () => {
      const answer = await fetch(`${address}/readyz`);
      return [answer.status, (await answer.json()).ready];
    };
    assertEquals(await ready(), [200, true]);
    server.signal("SIGTERM");
    let seen = await ready();
    while (seen[0] === 200) seen = await ready();
    assertEquals(seen, [503, false]);
    const alive = await fetch(`${address}/healthz`);
    assertEquals([alive.status, await alive.json()], [200, { status: "ok" }]);
    assertEquals((await within(SOON_MS, "the end", server.status)).code, 0);
    await Promise.all([sending, silent.closed]);
  });
});

Deno.test("a metrics address that cannot be used is refused with one line", async () => {
  await using folder = await tempFolder();
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const inUse = `127.0.0.1:${(taken.addr as Deno.NetAddr).port}`;
  for (const METRICS_LISTEN of [inUse, "9464", "127.0.0.1:99999", "::1:9464", "127.0.0.1:9464/metrics"]) {
    const message = await refusedHere({ folder: folder.path, env: { METRICS_LISTEN } });
    assertMatch(message, /^The configuration cannot be used:\n {2}METRICS_LISTEN: [^\n]+$/, METRICS_LISTEN);
  }
});
