/**
 * A delivery that has begun is in the record of its sender, and only its end is a delivery record. Duplicates, receipts
 * and the timeline see both the same way, in progress, after a crash, and without room in the record.
 */
import { assert, assertEquals } from "@std/assert";
import { SETTLED_MS } from "../../../proxy/message/deliveries.ts";
import { BEGUN_MAX } from "../../../proxy/message/delivery.ts";
import { deliveryEnd, unpackDelivery } from "../../../proxy/schema/delivery_record.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { begunOf } from "../../../proxy/schema/sender_record.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { SWEEP_REST_MS } from "../../../shared/server/store/expiry_sweeper.ts";
import { JOINING_WAIT_MS } from "../../../shared/server/store/group_commit.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { answered, outcome, refused, tally } from "../../support/registry_world.ts";
import { MAX_CHECKS } from "../../support/test_store.ts";
import { until } from "../../support/until.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { storyOf } from "../admin/admin_world.ts";
import { type Cast, openCast } from "../cast.ts";
import { openProxy, post, receiptOf, restart } from "../proxy_world.ts";
import { UNDER_WAY_LOOK_MS } from "../../../proxy/relay/deliver.ts";
import { connected, sharedStore, two } from "../relay/two_instances.ts";

const ID = "request-1";
const DAY_MS = 86_400_000;

const send = ({ w, a, b }: Pick<Cast, "w" | "a" | "b">, id = ID, message = "hi") =>
  w.message(a, b, { body: JSON.stringify({ message }), headers: { [HEADERS.requestId]: id } });

/** The request IDs of the begun deliveries in the record of an agent. */
async function begunBy(w: World, { agent }: TestAgent): Promise<string[]> {
  return begunOf(await w.kv.get(KEYS.sender(agent.did))).map(({ requestId }) => requestId);
}

async function recordOf({ w, a, b }: Pick<Cast, "w" | "a" | "b">, id = ID) {
  return unpackDelivery((await w.kv.get(KEYS.delivery(b.agent.did, id, a.agent.did))).value, id);
}

function receipt(w: World, b: TestAgent, sender?: TestAgent, requestId = ID): Promise<Response> {
  return post(w, b, "/v1/relay/delivery-receipts", {
    ...receiptOf(w, b, requestId),
    ...(sender ? { senderAgentDid: sender.agent.did } : {}),
  });
}

Deno.test("a delivery in progress is in the record of its sender, and its end writes one record", async () => {
  const all = await openCast();
  await using w = all.w;
  all.socket.behaviour = "silent";
  const sending = send(all);
  await until(() => all.socket.delivered.length === 1);
  assertEquals([await begunBy(w, all.a), await recordOf(all)], [[ID], null]);
  all.socket.ack(all.socket.delivered[0]?.id ?? "");
  await answered(await sending, 202);
  await w.clock.advance(JOINING_WAIT_MS);
  await until(async () => await recordOf(all) !== null);
  assertEquals((await recordOf(all))?.answer?.delivered, true);
  all.socket.behaviour = "ack";
  await answered(await send(all, "request-2"), 202);
  assertEquals(await begunBy(w, all.a), ["request-2"], "an ended one leaves with the next request");
});

Deno.test("a receipt of a delivery in progress is recorded, with or without its sender, and shortens its record", async (t) => {
  for (const isNamed of [true, false]) {
    await t.step(isNamed ? "named" : "not named", async () => {
      const all = await openCast();
      await using w = all.w;
      all.socket.behaviour = "silent";
      const sending = send(all);
      await until(() => all.socket.delivered.length === 1);
      await refused(
        await receipt(w, all.b, isNamed ? all.b : undefined, "request-2"),
        "PROXY_RECEIPT_DELIVERY_NOT_FOUND",
      );
      await answered(await receipt(w, all.b, isNamed ? all.a : undefined), 201);
      all.socket.ack(all.socket.delivered[0]?.id ?? "");
      await answered(await sending, 202);
      const receivedAt = w.clock.now();
      await w.clock.advance(JOINING_WAIT_MS);
      await until(async () => (await recordOf(all))?.answer !== null);
      const record = await recordOf(all);
      assert(record);
      assertEquals([record.receiptAt, deliveryEnd(record)], [receivedAt, receivedAt + DAY_MS]);
    });
  }
});

Deno.test("a begun delivery of a crashed instance gets a record from the sweep, and its receipt for eight days", async () => {
  const all = await openCast();
  await using w = all.w;
  all.socket.behaviour = "silent";
  void send(all).then((answer) => answer.body?.cancel());
  await until(() => all.socket.delivered.length === 1);
  const startedAt = w.clock.now();
  await restart(w);
  assertEquals([await begunBy(w, all.a), await storyOf(w, ID)], [[ID], { state: "began", events: ["+0 began"] }]);
  await w.proxy.start();
  await w.clock.advance(LIMITS.ackTimeoutMs + LIMITS.wayBackMs + SETTLED_MS + 1 + SWEEP_REST_MS);
  for (let i = 0; i < 3; i++) await flushTasks();
  assertEquals(await begunBy(w, all.a), []);
  const record = await recordOf(all);
  assertEquals([record?.startedAt, record?.instance, record?.answer], [startedAt, null, null]);
  assertEquals(await storyOf(w, ID), { state: "began", events: ["+0 began"] });
  await w.clock.stepWhenIdle(startedAt + 8 * DAY_MS - 1 - w.clock.now());
  await w.renew(all.b);
  await answered(await receipt(w, all.b, all.a), 201);
});

Deno.test("a delivery without room in the record of its sender begins with a delivery record", async () => {
  const all = await openCast();
  await using w = all.w;
  all.socket.behaviour = "silent";
  const count = BEGUN_MAX + 4;
  const ids = Array.from({ length: count }, (_, i) => `request-${100 + i}`);
  const sending: Promise<Response>[] = [];
  for (const id of ids) {
    sending.push(send(all, id));
    await until(() => all.socket.delivered.length === sending.length);
  }
  assertEquals(await begunBy(w, all.a), ids.slice(0, BEGUN_MAX));
  const records = await Promise.all(ids.map((id) => recordOf(all, id)));
  assertEquals(records.map((record) => record !== null), ids.map((_, i) => i >= BEGUN_MAX));
  const duplicates = ids.map((id) => send(all, id));
  for (const { id } of all.socket.delivered) all.socket.ack(id);
  assertEquals(await tally([...sending, ...duplicates]), { "202": 2 * count });
  assertEquals(all.socket.delivered.length, count);
  assertEquals(await tally(ids.map((id) => send(all, id, "another body"))), {
    "409 PROXY_HOOK_REQUEST_ID_REUSED": count,
  });
});

Deno.test("a copy at another instance gets the answer at once although the record still has the delivery", async () => {
  await two(sharedStore, async (w1, w2, a, b) => {
    const socket = await connected(w1, b);
    const first = await answered(await send({ w: w1, a, b }), 202);
    await w1.clock.advance(JOINING_WAIT_MS);
    await until(async () => await recordOf({ w: w1, a, b }) !== null);
    assertEquals(await begunBy(w1, a), [ID]);
    assertEquals(await answered(await send({ w: w2, a, b }), 202), first);
    assertEquals(await outcome(await send({ w: w2, a, b }, ID, "another")), "409 PROXY_HOOK_REQUEST_ID_REUSED");
    assertEquals(socket.delivered.length, 1);
  });
});

Deno.test("a repeat begins at once after an attempt that found no recipient, also when its end could not be stored", async (t) => {
  for (const isStored of [true, false]) {
    await t.step(isStored ? "at another instance, its end stored" : "at the same instance", async () => {
      const store = await FaultyKv.open();
      const close = () => Promise.resolve(store[Symbol.dispose]());
      const shared = { kv: store.kv, maxChecks: MAX_CHECKS, [Symbol.asyncDispose]: close };
      await two(() => Promise.resolve(shared), async (w1, w2, a, b) => {
        const gone = await connected(w2, b);
        const key = KEYS.presence(b.agent.did), presence = await w2.kv.get(key);
        gone.link.lost();
        await until(async () => (await w2.kv.get(key)).value === null);
        // The presence of an instance that could not remove it yet.
        await w2.kv.set(key, presence.value);
        store.faults.fails = ({ method, keys }) =>
          !isStored && method === "commit" && keys.some((key) => key[1] === "delivery") &&
          !keys.some((key) => key[1] === "sender");
        const first = isStored ? "502 PROXY_RELAY_CONNECTOR_OFFLINE" : "503 PROXY_RELAY_UNAVAILABLE";
        assertEquals(await outcome(await send({ w: w1, a, b })), first);
        store.faults = {};
        const record = await recordOf({ w: w1, a, b });
        assertEquals([await begunBy(w1, a), record?.answer], [[ID], isStored ? null : undefined]);
        const at = isStored ? w2 : w1, socket = await connected(at, b);
        const again = send({ w: at, a, b });
        await until(() => socket.delivered.length === 1);
        assertEquals(await outcome(await again), "202");
      });
    });
  }
});

Deno.test("a copy at another instance waits for the first attempt although its recipient has gone offline", async () => {
  await two(sharedStore, async (w1, w2, a, b) => {
    const socket = await connected(w1, b, "silent");
    const first = send({ w: w1, a, b });
    await until(() => socket.delivered.length === 1);
    await w1.kv.delete(KEYS.presence(b.agent.did));
    let isOver = false;
    const copy = send({ w: w2, a, b }).finally(() => isOver = true);
    for (let i = 0; i < 5; i++) await w1.clock.advance(UNDER_WAY_LOOK_MS);
    assertEquals(isOver, false);
    socket.ack(socket.delivered[0]?.id ?? "");
    await w1.clock.advance(JOINING_WAIT_MS);
    const answer = await answered(await first, 202);
    await w1.clock.advance(UNDER_WAY_LOOK_MS);
    assertEquals(await answered(await copy, 202), answer);
  });
});

Deno.test("a message whose commit fails leaves no begun delivery behind once its sender goes on", async () => {
  using store = await FaultyKv.open();
  const all = await openCast({ kv: store.kv });
  await using w = all.w;
  await answered(await send(all, "request-0"), 202);
  await w.clock.advance(JOINING_WAIT_MS);
  // The commit takes effect, but its answer and its mark cannot be read.
  let isLost = false;
  store.faults.loses = ({ method, keys }) => isLost ||= method === "commit" && keys.some((key) => key[1] === "sender");
  store.faults.fails = () => isLost;
  assertEquals(await outcome(await send(all)), "503 PROXY_AUTH_DEPENDENCY_UNAVAILABLE");
  store.faults = {};
  assertEquals(await begunBy(w, all.a), [ID]);
  await answered(await send(all, "request-2"), 202);
  assertEquals(await begunBy(w, all.a), ["request-2"]);
  assertEquals(all.socket.delivered.map(({ requestId }) => requestId), ["request-0", "request-2"]);
});

Deno.test("the outcome of a delivery that could not be stored is open until the sweep, and a duplicate is sent", async () => {
  using store = await FaultyKv.open();
  const all = await openCast({ kv: store.kv });
  await using w = all.w;
  store.faults.fails = ({ method, keys }) =>
    method === "commit" && keys.some((key) => key[1] === "delivery") && !keys.some((key) => key[1] === "sender");
  await answered(await send(all), 202);
  await w.clock.advance(JOINING_WAIT_MS);
  for (let i = 0; i < 3; i++) await flushTasks();
  store.faults = {};
  assertEquals([await begunBy(w, all.a), await recordOf(all)], [[ID], null]);
  await answered(await send(all, "request-2"), 202);
  assertEquals(await begunBy(w, all.a), [ID, "request-2"]);
  await answered(await receipt(w, all.b, all.a), 201);
  assertEquals((await recordOf(all))?.receiptAt, w.clock.now());
});

Deno.test("the sweep changes nothing of deliveries in progress", async () => {
  await using w = await openProxy();
  const { a, b, socket } = await w.story();
  socket.behaviour = "silent";
  const sending = send({ w, a, b });
  await until(() => socket.delivered.length === 1);
  const stored = await w.kv.get(KEYS.sender(a.agent.did));
  await w.proxy.deps.deliveries.settle(stored);
  assertEquals((await w.kv.get(KEYS.sender(a.agent.did))).versionstamp, stored.versionstamp);
  socket.ack(socket.delivered[0]?.id ?? "");
  await answered(await sending, 202);
});
