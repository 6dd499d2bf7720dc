/** Shows the proxy's health answer (D-216): ready only with store, keys and CRL, without a request to the registry. */
import { assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { STORE_CALL_MS } from "../../../shared/server/store/store_errors.ts";
import { HEALTHY_MS, PROBE_MS } from "../../../shared/server/store/store_probe.ts";
import { FaultyKv, type KvCall } from "../../support/faulty_kv.ts";
import { flushTasks, ManualClock } from "../../support/manual_clock.ts";
import { PROXY_URL, type World } from "../../support/world.ts";
import { get, openProxy, restart } from "../proxy_world.ts";

async function health(w: World): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await w.fetch(`${PROXY_URL}/health`);
  return { status: answer.status, body: await answer.json() };
}

Deno.test("health is ok with store, keys and CRL, and counts open sockets", async () => {
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

Deno.test("health is unavailable until keys and CRL are loaded, and sends no request", async () => {
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

Deno.test("health is unavailable once the keys are too old, although the CRL is fresh", async () => {
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

Deno.test("health is unavailable while CRL, keys or store are unusable, and ok again afterwards", async (t) => {
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
  await t.step("the CRL", async () => {
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

Deno.test("health is ok again by itself after the clock was set by an hour", async () => {
  for (const hours of [1, -1]) {
    await using w = await openProxy();
    await w.proxy.deps.crl.refresh();
    assertEquals((await health(w)).status, 200);
    w.clock.step(hours * 3_600_000);
    assertEquals((await health(w)).status, 503);
    await w.clock.advance(10_000);
    assertEquals((await health(w)).status, 200);
  }
});

Deno.test("health is unavailable while the store cannot be written, and ok at the next probe", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  await get(w, await w.agent(), "/pair/peers");
  let probes = 0;
  const isProbe = ({ keys, method }: KvCall) => method === "set" && keys[0]?.[1] === "probe";
  store.faults.fails = (call) => isProbe(call) && ++probes > 0 && new TypeError("database or disk is full");
  for (let i = 0; i < 3; i++) {
    const { status, body } = await health(w);
    assertEquals([status, body.ready, body.checks], [503, false, { kv: false, registryKeys: true, crl: true }]);
  }
  assertEquals(probes, 1);
  store.faults.fails = (call) => isProbe(call) && ++probes < 0;
  assertEquals((await health(w)).status, 503);
  await w.clock.advance(PROBE_MS);
  for (let i = 0; i < 3; i++) assertEquals((await health(w)).status, 200);
  assertEquals(probes, 2);
  assertEquals(typeof (await w.kv.get(KEYS.probe())).value, "number");
});

Deno.test("health checks at the same time share a read of the store, and a later one reads it again", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  await get(w, await w.agent(), "/pair/peers");
  let reads = 0;
  store.faults.fails = ({ keys, method }) => method === "get" && keys[0]?.[1] === "probe" && ++reads < 0;
  const statuses = async () =>
    (await Promise.all(Array.from({ length: 100 }, () => health(w)))).map((one) => one.status);
  assertEquals([await statuses(), reads], [Array(100).fill(200), 1]);
  assertEquals([await statuses(), reads], [Array(100).fill(200), 2]);
});

Deno.test("health is unavailable while a claim waits over 5 s, and answers within 5 s of a store that hangs", async () => {
  const clock = new ManualClock();
  using store = await FaultyKv.open({}, 1, clock);
  await using w = await openProxy({ kv: store.kv });
  await get(w, await w.agent(), "/pair/peers");
  assertEquals((await health(w)).status, 200);
  store.faults.before = ({ method }) => method === "commit" ? new Promise<void>(() => {}) : undefined;
  const claim = w.proxy.deps.commits.claim([{ key: ["x"], next: () => ({ value: 1, expireInMs: 1 }) }]).catch(() => {});
  await flushTasks();
  await w.clock.advance(HEALTHY_MS);
  assertEquals((await health(w)).status, 200);
  await w.clock.advance(1);
  assertEquals((await health(w)).body.checks, { kv: false, registryKeys: true, crl: true });
  delete store.faults.before;
  await clock.advance(STORE_CALL_MS);
  await claim;
  assertEquals((await health(w)).status, 200);
  store.faults.before = () => new Promise<void>(() => {});
  const answer = health(w);
  await flushTasks();
  await w.clock.advance(HEALTHY_MS);
  assertEquals((await answer).status, 503);
  delete store.faults.before;
  await clock.advance(STORE_CALL_MS);
});

Deno.test("readyz is 200 or 503 as health is, and healthz is 200 without the store", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const ask = async (path: string) => {
    const answer = await w.fetch(`${PROXY_URL}${path}`);
    return [answer.status, await answer.json()];
  };
  assertEquals(await ask("/readyz"), [503, { status: "unavailable", ready: false }]);
  await get(w, await w.agent(), "/pair/peers");
  assertEquals(await ask("/readyz"), [200, { status: "ok", ready: true }]);
  store.faults.fails = () => true;
  assertEquals(await ask("/readyz"), [503, { status: "unavailable", ready: false }]);
  let calls = 0;
  store.faults.before = () => void calls++;
  assertEquals(await ask("/healthz"), [200, { status: "ok" }]);
  assertEquals(calls, 0);
});
