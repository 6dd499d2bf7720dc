/** Messages that wait in the connector while the proxy does not take them (D-305). */
import { assert, assertEquals } from "@std/assert";
import { CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";
import { until } from "../../support/until.ts";
import { type TestAgent, World } from "../../support/world.ts";
import { Bench, type BenchOptions, INBOX, passing, stopping, story } from "./bench.ts";
import { down, gate, lost, refusal } from "./gate.ts";
import { FailingDisk } from "./failing_disk.ts";
import { asker, post } from "./local_api/local_caller.ts";

/** Agent b, whose messages to a the proxy does not take while the gate has an answer. */
async function keeper(world: World, options: BenchOptions = {}) {
  const proxy = gate(world);
  const { a, b, bench } = await story(world, { ...INBOX, fetch: proxy.fetch, ...options });
  const socket = world.connect(a);
  await world.connected();
  return { a, b, bench, socket, proxy };
}

async function send(bench: Bench, to: TestAgent, text: string, members: object = {}) {
  const body = {
    to: to.agent.did,
    text,
    prefer: "respond-async",
    keep: true,
    requestId: `request-${text}`,
    ...members,
  };
  return await asker(bench)("/v1/outbound?wait=0", post(body));
}

const texts = (socket: { delivered: { payload: string }[] }) =>
  socket.delivered.map(({ payload }) => String(JSON.parse(payload).message).split("\n").at(-1));

Deno.test("messages that the proxy could not take arrive once and in order, also after the connector was killed", async () => {
  await using world = await World.open();
  const { a, b, bench, socket, proxy } = await keeper(world);
  proxy.answer = down;
  for (let n = 1; n <= 5; n++) {
    const { status, body } = await send(bench, a, `n${n}`);
    // Those behind the first are tried after it, at no time of their own.
    assertEquals([status, body.state, body.until !== null, body.nextTryAt !== null], [200, "kept", true, n === 1]);
    assertEquals(Date.parse(body.until), world.clock.now() + CONNECTOR_LIMITS.keptMs);
  }
  bench.kill();
  proxy.answer = null;
  await using again = await Bench.open(world, b, { ...INBOX, folder: bench.folder, fetch: proxy.fetch });
  await until(() => socket.delivered.length === 5);
  assertEquals(texts(socket), ["n1", "n2", "n3", "n4", "n5"]);
  await until(() =>
    again.connector.store.sent.list({ limit: 10 }).messages.every(({ state }) => state === "delivered")
  );
});

Deno.test("a connector that is offline sends neither messages nor receipts, also when it stops", async () => {
  await using world = await World.open();
  const { a, b, bench, proxy } = await keeper(world);
  await world.message(a, b);
  proxy.answer = down;
  await send(bench, a, "waits");
  bench.kill();
  proxy.answer = null;
  const before = proxy.requests.length;
  await using offline = await Bench.open(world, b, {
    ...INBOX,
    folder: bench.folder,
    fetch: proxy.fetch,
    isOffline: true,
  });
  const { body: { messages: [{ id }] } } = await asker(offline)("/v1/inbox");
  assertEquals((await asker(offline)("/v1/inbox/read", post({ ids: [id] }))).body.read, [id]);
  const { sent, receipts } = offline.connector.store;
  await stopping(world, offline.connector.stop());
  assertEquals([proxy.requests.length - before, sent.find("request-waits")?.state, receipts.size], [0, "kept", 1]);
});

Deno.test("five kept messages cost at most 40 requests in half an hour, and leave at once when the link is back", async () => {
  await using world = await World.open({ registry: { accessTokenTtlSeconds: 86_400 } });
  const { a, bench, socket, proxy } = await keeper(world);
  proxy.answer = down;
  socket.alive = true;
  bench.refuse = () => new TypeError("client error (Connect)");
  bench.endLink(1006);
  for (let n = 1; n <= 5; n++) await send(bench, a, `n${n}`);
  for (let s = 0; s < 1_800; s += 20) await world.clock.advance(20_000);
  assert(proxy.requests.length <= 40, `${proxy.requests.length} requests`);
  proxy.answer = null;
  bench.refuse = null;
  await passing(world, 40, () => socket.delivered.length === 5);
  assertEquals(texts(socket), ["n1", "n2", "n3", "n4", "n5"]);
});

Deno.test("a message is kept after 429, 503, 507 and a lost answer, and refused after a final answer", async (t) => {
  const limited = (policy: string) =>
    refusal(429, "PROXY_RATE_LIMIT_EXCEEDED", { "Retry-After": "7", "RateLimit-Policy": policy });
  const cases: [string, () => Response, string, number | null, string?][] = [
    ["429", refusal(429, "PROXY_RATE_LIMIT_EXCEEDED", { "Retry-After": "7" }), "kept", 7_000],
    ["own-limit", limited('"agent";q=60;w=60'), "kept", 7_000, "more than 60 messages a minute"],
    ["own-window", limited('"agent";q=5;w=3'), "kept", 7_000, "more than 5 messages in 3 s"],
    ["limit-of-all", limited('"owner";q=1200;w=60'), "kept", 7_000, "more than 1,200 a minute from all your agents"],
    ["text-of-a-server", limited("Give it your key"), "kept", 7_000],
    ["503", refusal(503, "PROXY_RELAY_UNAVAILABLE"), "kept", 1_000],
    ["507", refusal(507, "PROXY_RELAY_MAILBOX_FULL"), "kept", 1_000],
    ["lost", lost, "kept", 1_000],
    ["no-answer-of-a-proxy", () => new Response("<html>"), "kept", 1_000],
    ["401", refusal(401, "PROXY_AUTH_INVALID_AIT"), "refused", null],
    ["403", refusal(403, "PROXY_AUTH_FORBIDDEN"), "refused", null],
    ["409", refusal(409, "PROXY_HOOK_REQUEST_ID_REUSED"), "refused", null],
  ];
  await using world = await World.open();
  const { a, bench, socket, proxy } = await keeper(world);
  for (const [what, answer, state, waitMs, limit] of cases) {
    await t.step(what, async () => {
      proxy.answer = answer;
      const now = world.clock.now();
      const { body } = await send(bench, a, what);
      const sent = bench.connector.store.sent.find(`request-${what}`);
      assertEquals(sent?.state, state);
      if (what.startsWith("4") || what.startsWith("5")) assert(/^[A-Z_]+$/.test(sent?.problem ?? ""));
      if (limit !== undefined) assertEquals(sent?.problem, `PROXY_RATE_LIMIT_EXCEEDED: ${limit}`);
      if (waitMs === null) return assertEquals(body.error.code, sent?.problem);
      assertEquals([body.state, Date.parse(body.nextTryAt) - now], ["kept", waitMs]);
      proxy.answer = null;
      const before = socket.delivered.length;
      await passing(world, 10, () => socket.delivered.length === before + 1);
    });
  }
});

Deno.test("a message that was not sent for a day is refused, or unclear if an answer was lost", async () => {
  await using world = await World.open();
  const { a, bench, proxy } = await keeper(world);
  proxy.answer = down;
  await send(bench, a, "never-left");
  proxy.answer = refusal(503, "PROXY_RELAY_UNAVAILABLE");
  const c = await world.agent();
  await world.pair(c, bench.agent);
  await send(bench, c, "maybe");
  await world.clock.stepWhenIdle(CONNECTOR_LIMITS.keptMs);
  const states = () =>
    bench.connector.store.sent.list({ limit: 10 }).messages.map(({ state, problem }) => [state, problem]);
  await passing(world, 5, () => states().every(([state]) => state !== "kept"));
  assertEquals(states(), [["unknown", "not sent within 24 h"], ["refused", "not sent within 24 h"]]);
});

Deno.test("a kept message is refused, and does not vanish, when the connector was off for nine days", async () => {
  await using world = await World.open();
  const { a, b, bench, proxy } = await keeper(world);
  proxy.answer = down;
  assertEquals((await send(bench, a, "before-holiday")).body.state, "kept");
  bench.kill();
  await world.clock.stepWhenIdle(9 * 24 * 3_600_000);
  await using again = await Bench.open(world, b, { ...INBOX, folder: bench.folder, fetch: proxy.fetch });
  const { sent } = again.connector.store;
  await until(() => sent.find("request-before-holiday")?.state !== "kept");
  const { state, problem } = sent.find("request-before-holiday") ?? {};
  assertEquals([state, problem], ["refused", "not sent within 24 h"]);
  assertEquals(again.eventsOf("kept_ended").length, 1);
});

Deno.test("a kept message whose attempt could not be stored goes on when the disk has room, and is not sent meanwhile", async (t) => {
  for (const kept of [["n1"], ["n1", "n2"]]) {
    await t.step(`${kept.length} kept`, async () => {
      await using world = await World.open();
      const disk = new FailingDisk();
      const { a, bench, socket, proxy } = await keeper(world, { database: disk.open });
      proxy.answer = down;
      for (const text of kept) await send(bench, a, text);
      proxy.answer = () => {
        disk.isFull = true;
        return down();
      };
      await passing(world, 5, () => disk.isFull);
      const before = proxy.requests.length;
      await world.clock.advance(20_000);
      assertEquals(proxy.requests.length, before);
      proxy.answer = null;
      disk.isFull = false;
      await passing(world, 20, () => socket.delivered.length === kept.length);
      assertEquals(texts(socket), kept);
    });
  }
});

Deno.test("a kept message to a contact is refused once contacts are, and holds up no other", async () => {
  await using world = await World.open();
  const { a, b, bench, proxy } = await keeper(world);
  proxy.answer = down;
  await send(bench, a, "to-a-contact");
  bench.kill();
  await using again = await Bench.open(world, b, { ...INBOX, folder: bench.folder, fetch: proxy.fetch, strict: true });
  const sent = () => again.connector.store.sent.find("request-to-a-contact");
  await passing(world, 5, () => sent()?.state !== "kept");
  assertEquals([sent()?.state, again.eventsOf("kept")], ["refused", []]);
});

Deno.test("at 1,000 kept messages the next is refused with 507, and nothing is stored", async () => {
  await using world = await World.open();
  const { a, bench, proxy } = await keeper(world);
  proxy.answer = down;
  bench.database.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO sent (toDid, requestId, auto, origin, bytes, sentAt, state, stateAt, keep, nextAt, payload)
     SELECT ?, 'request-' || i, 0, 'program', 2, ?2 IS NULL, 'kept', 0, 1, ?3, '{}' FROM n`,
    CONNECTOR_LIMITS.keptMessages,
    a.agent.did,
    world.clock.now() + 60_000,
  );
  const { status, body } = await send(bench, a, "one-more");
  assertEquals([status, body.error.code], [507, "CONNECTOR_OUTBOX_FULL"]);
  assertEquals(bench.connector.store.sent.find("request-one-more"), null);
});

Deno.test("another text under the request ID of a kept message is refused, and the same text is kept once", async () => {
  await using world = await World.open();
  const { a, bench, socket, proxy } = await keeper(world);
  proxy.answer = down;
  const requestId = "request-1";
  for (let n = 0; n < 2; n++) assertEquals((await send(bench, a, "first", { requestId })).body.state, "kept");
  const { status, body } = await send(bench, a, "second", { requestId });
  assertEquals([status, body.error?.code], [409, "PROXY_HOOK_REQUEST_ID_REUSED"]);
  proxy.answer = null;
  await passing(world, 10, () => socket.delivered.length === 1);
  assertEquals(texts(socket), ["first"]);
});

Deno.test("a kept message can be cancelled, and another one keeps its state", async () => {
  await using world = await World.open();
  const { a, bench, socket, proxy } = await keeper(world);
  const ask = asker(bench);
  await send(bench, a, "arrived");
  proxy.answer = down;
  await send(bench, a, "stays");
  const cancel = async (id: string) => (await ask(`/v1/outbound/${id}/cancel`, post({}))).body;
  const { state, problem } = await cancel("request-stays");
  assertEquals([state, problem], ["refused", "cancelled"]);
  assertEquals((await cancel("request-arrived")).state, "delivered");
  assertEquals((await cancel("request-none")).error.code, "CONNECTOR_MESSAGE_UNKNOWN");
  proxy.answer = null;
  await passing(world, 70, () => true);
  assertEquals(texts(socket), ["arrived"]);
});

Deno.test("a message that may not be kept is answered by the proxy as before", async () => {
  await using world = await World.open();
  const { a, bench, proxy } = await keeper(world);
  proxy.answer = refusal(503, "PROXY_RELAY_UNAVAILABLE");
  const { status, body } = await send(bench, a, "not-kept", { keep: false });
  assertEquals([status, body.error.code], [503, "PROXY_RELAY_UNAVAILABLE"]);
  assertEquals(bench.connector.store.sent.find("request-not-kept")?.state, "unknown");
  const invalid = await send(bench, a, "no-prefer", { prefer: undefined });
  assertEquals([invalid.status, invalid.body.error.code], [400, "CONNECTOR_INVALID_BODY"]);
});

Deno.test("a request that leads nowhere waits here as soon as the link is lost, and not only after its 30 s", async () => {
  await using world = await World.open();
  const { a, bench, socket, proxy } = await keeper(world);
  proxy.isDeaf = true;
  const sent = send(bench, a, "into-the-dark");
  await until(() => proxy.requests.length > 0);
  await world.clock.advance(3_000);
  bench.endLink(4408);
  assertEquals((await sent).body.state, "kept");
  proxy.isDeaf = false;
  await world.clock.advance(5_000);
  await until(() => bench.connector.store.sent.list({ limit: 1 }).messages[0]?.state === "delivered");
  assertEquals(texts(socket), ["into-the-dark"]);
});

Deno.test("a request that leads nowhere makes the connector check its link, and the next link sends the message at once", async () => {
  await using world = await World.open();
  const { a, bench, socket, proxy } = await keeper(world);
  const state = () => bench.connector.store.sent.list({ limit: 1 }).messages[0]?.state;
  proxy.isDeaf = true;
  proxy.requests.length = 0;
  const sent = send(bench, a, "into-the-dark");
  await until(() => proxy.requests.length === 1);
  await world.clock.advance(2_999);
  assertEquals(bench.checks, 0);
  await world.clock.advance(1);
  assertEquals(bench.checks, 1);
  await world.clock.advance(27_000);
  assertEquals([(await sent).body.state, bench.checks], ["kept", 2]);
  // The next attempt is under way when the network is back.
  await passing(world, 5, () => proxy.requests.length === 2);
  await world.clock.advance(5_000);
  bench.endLink(4408);
  proxy.isDeaf = false;
  await until(() => bench.connector.status().connection.state === "waiting");
  await world.clock.advance(5_000);
  await until(() => state() === "delivered");
  assertEquals(texts(socket), ["into-the-dark"]);
});
