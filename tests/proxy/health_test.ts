/**
 * Shows what the proxy says of itself (D-78): ready only with store, keys and list, asking nobody for it.
 */
import { assertEquals } from "@std/assert";
import { FaultyKv } from "../support/faulty_kv.ts";
import { PROXY_URL, type World } from "../support/world.ts";
import { get, openProxy, restart } from "./proxy_world.ts";

async function health(w: World): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await w.fetch(`${PROXY_URL}/health`);
  return { status: answer.status, body: await answer.json() };
}

Deno.test("health is ok with store, keys and list, and counts live sockets", async () => {
  await using w = await openProxy();
  const { a, b, socket } = await w.story();
  const ok = {
    status: "ok",
    version: "0.0.0-test",
    environment: "dev",
    ready: true,
    checks: { kv: true, registryKeys: true, crl: true },
    connectedSockets: 1,
  };
  assertEquals(await health(w), { status: 200, body: ok });
  w.connect(b);
  w.connect(a);
  assertEquals((await health(w)).body.connectedSockets, 3);
  socket.link.lost();
  assertEquals((await health(w)).body.connectedSockets, 2);
});

Deno.test("health asks nobody: it is unavailable until keys and list are there", async () => {
  await using w = await openProxy();
  let asked = 0;
  w.registryAnswer = () => (asked++, null);
  const { status, body } = await health(w);
  assertEquals([status, body.status, body.ready], [503, "unavailable", false]);
  assertEquals(body.checks, { kv: true, registryKeys: false, crl: false });
  assertEquals(asked, 0);
  const a = await w.agent();
  await get(w, a, "/pair/peers");
  assertEquals((await health(w)).status, 200);
  await restart(w);
  assertEquals((await health(w)).status, 503);
});

Deno.test("health is unavailable once the keys are too old, although the list is fresh", async () => {
  await using w = await openProxy({ proxy: { registryKeysTtlMs: 1_000 } });
  await get(w, await w.agent(), "/pair/peers");
  w.registryAnswer = ({ url }) => url.endsWith("/svc-keys.json") ? new Response(null, { status: 500 }) : null;
  w.clock.step(890_000);
  await w.proxy.deps.crl.refresh();
  assertEquals((await health(w)).status, 200);
  w.clock.step(11_000);
  const { status, body } = await health(w);
  assertEquals([status, body.ready, body.checks], [503, false, { kv: true, registryKeys: false, crl: true }]);
});

Deno.test("health does not wait for a registry that hangs", async () => {
  await using w = await openProxy();
  w.registryAnswer = () => new Promise(() => {});
  void w.proxy.deps.crl.refresh();
  assertEquals((await health(w)).status, 503);
  await w.clock.advance(5_000);
});

Deno.test("health is unavailable when the list, the keys, or the store can no longer be used, and ok again after", async (t) => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const a = await w.agent();
  await get(w, a, "/pair/peers");
  await t.step("the store", async () => {
    store.faults.fails = () => true;
    const { status, body } = await health(w);
    assertEquals([status, body.checks], [503, { kv: false, registryKeys: true, crl: true }]);
    delete store.faults.fails;
    assertEquals((await health(w)).status, 200);
  });
  await t.step("the list", async () => {
    w.clock.step(900_001);
    assertEquals((await health(w)).body.checks, { kv: true, registryKeys: true, crl: false });
    await get(w, a, "/pair/peers");
    assertEquals((await health(w)).status, 200);
  });
  await t.step("the keys", async () => {
    w.clock.step(1_200_000);
    assertEquals((await health(w)).body.checks, { kv: true, registryKeys: false, crl: false });
  });
});
