/**
 * Shows the proxy's background work: it makes the proxy ready without a request, continues while the proxy runs, and
 * leaves no timer when it stops (D-70).
 */
import { assert, assertEquals } from "@std/assert";
import { outcome } from "../support/registry_world.ts";
import { flushTasks } from "../support/manual_clock.ts";
import { until } from "../support/until.ts";
import { PROXY_URL, type World } from "../support/world.ts";
import { get, openProxy, restart } from "./proxy_world.ts";

async function isHealthy(w: World): Promise<boolean> {
  return (await w.fetch(`${PROXY_URL}/health`)).status === 200;
}

Deno.test("a started proxy becomes ready without a request and answers the first one without another fetch", async () => {
  await using w = await openProxy();
  const a = await w.agent();
  let asked = 0;
  w.registryAnswer = ({ url }) => {
    // The pairing routes request the caller's session status at each request.
    if (!url.endsWith("/agent-ownership")) asked++;
    return null;
  };
  await w.proxy.start();
  await until(() => isHealthy(w));
  const before = asked;
  assertEquals([await outcome(await get(w, a, "/pair/peers")), asked], ["200", before]);
});

Deno.test("a proxy that starts while the registry is down becomes ready when it is back", async () => {
  await using w = await openProxy();
  let isDown = true;
  w.registryAnswer = () => isDown ? Promise.reject(new TypeError("connection refused")) : null;
  await w.proxy.start();
  await w.clock.advance(30_000);
  assertEquals(await isHealthy(w), false);
  isDown = false;
  await w.clock.advance(60_000);
  await until(() => isHealthy(w));
});

Deno.test("a stopped proxy sends no request and leaves no timer", async () => {
  await using w = await openProxy();
  const { b, socket } = await w.story();
  w.connect(b);
  await w.proxy.start();
  await until(() => isHealthy(w));
  assert(w.clock.waiting > 0);
  await w.proxy.stop();
  w.proxy.closeSockets();
  await until(() => w.clock.waiting === 0, () => w.clock.pending());
  assertEquals(socket.closed?.code, 1001);
  let asked = 0;
  w.registryAnswer = () => (asked++, null);
  await w.clock.advance(3_600_000);
  assertEquals(asked, 0);
  await w.proxy.stop();
});

Deno.test("pairs, tickets, receipts and limits survive a restart, and connectors reconnect", async () => {
  await using w = await openProxy();
  const { a, b, socket } = await w.story();
  assertEquals(await outcome(await w.message(a, b)), "202");
  await restart(w);
  // Its connector is on its way back.
  const early = w.message(a, b);
  for (let i = 0; i < 3; i++) await flushTasks();
  const reconnected = w.connect(b);
  await w.connected();
  await w.clock.advance(1_000);
  assertEquals(await outcome(await early), "202");
  assertEquals(await outcome(await w.message(a, b)), "202");
  assertEquals([socket.delivered.length, reconnected.delivered.length], [1, 2]);
});

Deno.test("a port for other instances beside a store that has none says in the log that it has no use", async () => {
  for (const [isSole, lines] of [[true, 1], [false, 0]] as const) {
    await using w = await openProxy();
    await w.proxy.start({ isSole, address: "127.0.0.1:8790" });
    assertEquals(w.log.filter(({ event }) => event === "no_other_instances").length, lines);
  }
});
