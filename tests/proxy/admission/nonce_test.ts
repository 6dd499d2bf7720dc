/**
 * Shows that one signed request is accepted once (check 5, D-25): among concurrent copies, after a restart, on several
 * instances and across clock steps. Nonces in the store: senders_test.ts.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { newSender, NONCE_BYTES, nonceName, packSender, putNonce } from "../../../proxy/schema/sender_record.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import { hexDigest } from "../../../shared/server/crypto.ts";
import { expositionOf } from "../../../shared/server/metrics/metrics.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { refused, tally } from "../../support/registry_world.ts";
import type { World } from "../../support/world.ts";
import { openProxy, restart } from "../proxy_world.ts";
import { connected, sharedStore, two } from "../relay/two_instances.ts";
import { type CastTest, inWorld, openCast } from "../cast.ts";

/** Sends copies of one request at once. */
function copies(w: World, request: Request, count: number): Promise<Response>[] {
  return Array.from({ length: count }, () => w.fetch(request.clone()));
}

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

test("of 40 identical requests at once one is delivered and the others are replays", async ({ w, a, b, socket }) => {
  const request = await w.signed(a, { recipient: b.agent.did, body: '{"message":"once"}' });
  assertEquals(await tally(copies(w, request, 40)), { "202": 1, "401 PROXY_AUTH_REPLAY": 39 });
  assertEquals(socket.delivered.length, 1);
  await refused(await w.fetch(request), "PROXY_AUTH_REPLAY");
});

test("a nonce is refused again for any other request of the agent with a new signature", async ({ w, a, b, socket }) => {
  const nonce = "nonce-used-a-second-time";
  assertEquals((await w.message(a, b, { nonce })).status, 202);
  await w.clock.stepWhenIdle(10_000);
  await refused(await w.message(a, b, { nonce, body: '{"message":"another"}' }), "PROXY_AUTH_REPLAY");
  await refused(await w.fetch(await w.signed(a, { nonce, method: "GET", target: "/pair/peers" })), "PROXY_AUTH_REPLAY");
  assertEquals(socket.delivered.length, 1);
});

test("a request that failed its proof does not block the valid one, also when both run at once", async ({ w, a, b }) => {
  const nonce = "nonce-of-the-right-one";
  await refused(await w.message(a, b, { nonce, signed: { method: "PUT" } }), "PROXY_AUTH_INVALID_PROOF");
  const forged = await w.signed(a, { recipient: b.agent.did, nonce, body: "{}", signed: { method: "PUT" } });
  const right = await w.signed(a, { recipient: b.agent.did, nonce, body: "{}" });
  const answers = [...copies(w, forged, 20), w.fetch(right), ...copies(w, forged, 20)];
  assertEquals(await tally(answers), { "202": 1, "401 PROXY_AUTH_INVALID_PROOF": 40 });
});

test("a request dated 300 s ahead is refused as long as its timestamp would be accepted", async ({ w, a, b }) => {
  const timestamp = String(unixSeconds(w.clock.now()) + 300);
  const request = await w.signed(a, { recipient: b.agent.did, body: "{}", timestamp });
  assertEquals((await w.fetch(request.clone())).status, 202);
  for (let passed = 0; passed < 600; passed += 100) {
    await w.clock.stepWhenIdle(100_000);
    await refused(await w.fetch(request.clone()), "PROXY_AUTH_REPLAY");
  }
  await w.clock.stepWhenIdle(1000);
  await refused(await w.fetch(request.clone()), "PROXY_AUTH_TIMESTAMP_SKEW");
});

test("a clock that steps back does not make a request valid again, also after its nonce has expired", async ({ w, a, b }) => {
  await w.clock.stepWhenIdle(200_000);
  const request = await w.signed(a, { recipient: b.agent.did, body: "{}" });
  assertEquals((await w.fetch(request.clone())).status, 202);
  for (const stepMs of [700_000, -700_000, -100_000, 100_000]) {
    await w.clock.stepWhenIdle(stepMs);
    const code = stepMs === 700_000 ? "PROXY_AUTH_TIMESTAMP_SKEW" : "PROXY_AUTH_REPLAY";
    await refused(await w.fetch(request.clone()), code);
  }
});

test("an expired record that is still stored refuses no request with a valid timestamp", async ({ w, a, b }) => {
  const nonce = "nonce-long-forgotten";
  const now = w.clock.now();
  const put = (expiresAt: number) => {
    const nonces = new Uint8Array(NONCE_BYTES);
    const record = { name: nonceName(hexDigest(nonce)), expiresAt, timestamp: unixSeconds(now) - 301 };
    putNonce(new DataView(nonces.buffer), 0, record);
    return w.kv.set(KEYS.sender(a.agent.did), packSender({ ...newSender(now), nonces }));
  };
  await put(now);
  assertEquals((await w.message(a, b, { nonce })).status, 202);
  await put(now + 1);
  await restart(w);
  w.connect(b);
  await refused(await w.message(a, b, { nonce }), "PROXY_AUTH_REPLAY");
});

Deno.test("no message is accepted without the store, and all routes work again without a restart", async (t) => {
  for (const commits of [false, true]) {
    await t.step(commits ? "nothing can be written" : "nothing can be read", async () => {
      using store = await FaultyKv.open();
      await using w = await openProxy({ kv: store.kv });
      const { a, b, socket } = await w.story();
      await w.connected();
      const nonce = "nonce-while-the-store-failed";
      // The recipient's presence was read before.
      store.faults.fails = ({ method, keys }) =>
        (method === "commit") === commits && keys.some((key) => key[0] === "proxy" && key[1] !== "presence");
      for (let i = 0; i < 5; i++) {
        await refused(await w.message(a, b, i ? {} : { nonce }), "PROXY_AUTH_DEPENDENCY_UNAVAILABLE");
      }
      assertEquals(socket.delivered.length, 0);
      delete store.faults.fails;
      // A request that fails after check 5 has used its nonce if the store could be written.
      assertEquals((await w.message(a, b, { nonce })).status, commits ? 202 : 401);
      assertEquals((await w.message(a, b)).status, 202);
    });
  }
});

Deno.test("a message that fails on its way has used its nonce, also after a restart", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const { a, b, socket } = await w.story();
  assertEquals((await w.message(a, b)).status, 202);
  socket.link.lost();
  await flushTasks();
  const request = await w.signed(a, { recipient: b.agent.did, body: "{}" });
  // All records that the checks read are readable; the presence record is not.
  store.faults.fails = ({ method, keys }) => method === "get" && keys.some((key) => key[1] === "presence");
  assertEquals((await w.fetch(request.clone())).status, 503);
  delete store.faults.fails;
  await restart(w);
  w.connect(b);
  await refused(await w.fetch(request), "PROXY_AUTH_REPLAY");
});

Deno.test("a replay reads nothing of the store, also beside 63 others", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const { a } = await w.story();
  const stranger = await w.agent();
  // The records of a stranger are in no cache, so each request that reads ahead asks the store.
  const request = await w.signed(a, { recipient: stranger.agent.did, body: "{}" });
  await refused(await w.fetch(request.clone()), "PROXY_AUTH_FORBIDDEN");
  const reads: string[] = [];
  store.faults.before = ({ method, keys }) => {
    if (method !== "commit") reads.push(keys.join());
  };
  assertEquals(await tally(copies(w, request, 64)), { "401 PROXY_AUTH_REPLAY": 64 });
  await flushTasks();
  assertEquals(reads, []);
});

Deno.test("a refused request leaves no read behind that the store has not answered", async () => {
  using store = await FaultyKv.open();
  await using w = await openProxy({ kv: store.kv });
  const { a, b } = await w.story();
  const stranger = await w.agent();
  assertEquals((await w.message(a, b)).status, 202);
  await w.ask("POST", `/v1/agents/${a.agent.id}/reissue`, { apiKey: a.owner.apiKey });
  await w.proxy.deps.crl.refresh();
  let began = 0, open = 0;
  store.faults.before = async ({ method, keys }) => {
    if (method !== "getMany" || !keys.some((key) => key[1] === "pair")) return;
    began++;
    open++;
    await new Promise((resolve) => setTimeout(resolve, 50));
    open--;
  };
  await refused(await w.message(a, stranger), "PROXY_AUTH_REVOKED");
  assertEquals([began, open], [1, 0]);
});

Deno.test("of one request at two instances at once, one is accepted and the other counts as refused by check 5", async () => {
  await two(sharedStore, async (w1, w2, a, b) => {
    const socket = await connected(w1, b);
    const request = await w1.signed(a, { recipient: b.agent.did, body: "{}" });
    const answers = [w1, w2].map((w) => w.fetch(request.clone()));
    assertEquals(await tally(answers), { "202": 1, "401 PROXY_AUTH_REPLAY": 1 });
    assertEquals(socket.delivered.length, 1);
    const counted = [w1, w2].map(({ metrics }) => expositionOf(metrics)).join("");
    assertStringIncludes(counted, 'svc_refusals_total{code="PROXY_AUTH_REPLAY",check="5",origin="local"} 1\n');
  });
});
