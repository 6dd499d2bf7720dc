/**
 * Shows what the 20 ms mean in which the outcome of a message may wait for its commit: every reader in the process sees
 * it, a stop writes it, and a crash leaves the delivery as begun.
 */
import { assert, assertEquals } from "@std/assert";
import { begunOf } from "../../../proxy/schema/sender_record.ts";
import { EndOfDelivery, recordOf } from "../../../proxy/message/delivery.ts";
import { packDelivery, unpackDelivery } from "../../../proxy/schema/delivery_record.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { JOINING_WAIT_MS } from "../../../shared/server/store/group_commit.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { answered, outcome } from "../../support/registry_world.ts";
import { openTestKv } from "../../support/test_store.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { seen, tokenOf } from "../admin/admin_world.ts";
import { type Cast, openCast } from "../cast.ts";
import { post, receiptOf, restart } from "../proxy_world.ts";

const ID = "request-1";

function send({ w, a, b }: Cast, requestId = ID): Promise<Response> {
  return w.message(a, b, { body: '{"message":"hi"}', headers: { [HEADERS.requestId]: requestId } });
}

/** The state of the delivery in the store. */
async function stored({ w, a, b }: Cast): Promise<"begun" | "answered" | null> {
  const record = unpackDelivery((await w.kv.get(KEYS.delivery(b.agent.did, ID, a.agent.did))).value, ID);
  if (record) return record.answer ? "answered" : "begun";
  const begun = begunOf(await w.kv.get(KEYS.sender(a.agent.did)));
  return begun.some(({ requestId }) => requestId === ID) ? "begun" : null;
}

Deno.test("the outcome of a message is stored with the next message, or after 20 ms", async () => {
  for (const how of ["message", "time"]) {
    const all = await openCast();
    await using w = all.w;
    await answered(await send(all), 202);
    await flushTasks();
    assertEquals(await stored(all), "begun");
    if (how === "message") await answered(await send(all, "request-2"), 202);
    else await w.clock.advance(JOINING_WAIT_MS);
    assertEquals(await stored(all), "answered", how);
  }
});

Deno.test("an answer that comes after the sweep has settled its delivery is stored with the hash of the message", () => {
  const id = { sender: "a", recipient: "b", requestId: ID }, bodySha256 = "A".repeat(43);
  const open = { bodySha256, startedAt: 1, instance: "i", answer: null, answeredAt: 0, receiptAt: 0 };
  const answer = { accepted: true as const, delivered: true, connectedSockets: 1, requestId: ID };
  const settled = packDelivery({ ...recordOf({ ...id, startedAt: 1, instance: "i" }), instance: null });
  const change = new EndOfDelivery(id, open, answer, "i", 2).next(settled);
  assert(typeof change === "object" && "value" in change);
  assertEquals(unpackDelivery(change.value, ID)?.bodySha256, bodySha256);
});

Deno.test("the outcome of an attempt keeps when its message was handed over and when its receipt came", () => {
  const id = { sender: "a", recipient: "b", requestId: ID };
  const answer = { accepted: true as const, delivered: false, connectedSockets: 0, requestId: ID };
  const times = { handedOverAt: 3, receiptAt: 4 };
  const handedOver = packDelivery({ ...recordOf({ ...id, startedAt: 1, instance: "i" }), ...times });
  for (const given of [answer, null]) {
    const change = new EndOfDelivery(id, undefined, given, "i", 5).next(handedOver);
    assert(typeof change === "object" && "value" in change);
    const { handedOverAt, receiptAt } = unpackDelivery(change.value, ID) ?? {};
    assertEquals({ handedOverAt, receiptAt }, times);
  }
});

Deno.test("a duplicate within the 20 ms gets the answer, with its recipient connected or offline", async () => {
  for (const isOffline of [false, true]) {
    const all = await openCast();
    await using _ = all.w;
    const first = await answered(await send(all), 202);
    if (isOffline) all.socket.link.lost();
    assertEquals(await stored(all), "begun");
    assertEquals(await answered(await send(all), 202), first);
    const { w, a, b } = all;
    const headers = { [HEADERS.requestId]: ID };
    assertEquals(
      await outcome(await w.message(a, b, { body: '{"message":"ho"}', headers })),
      "409 PROXY_HOOK_REQUEST_ID_REUSED",
    );
    assertEquals(all.socket.delivered.length, 1);
  }
});

Deno.test("a receipt within the 20 ms is stored after the outcome", async () => {
  const all = await openCast();
  const { w, a, b } = all;
  await using _ = w;
  await answered(await send(all), 202);
  await answered(await post(w, b, "/v1/relay/delivery-receipts", receiptOf(w, b, ID)), 201);
  const { value } = await w.kv.get(KEYS.delivery(b.agent.did, ID, a.agent.did));
  const record = unpackDelivery(value, ID);
  assertEquals([record?.answer?.delivered, record?.receiptAt], [true, w.clock.now()]);
});

Deno.test("an admin's timeline shows an outcome that waits", async () => {
  const all = await openCast();
  await using w = all.w;
  await tokenOf(w);
  await answered(await send(all), 202);
  const { deliveries } = await seen<{ deliveries: { state: string }[] }>(w, `deliveries?requestId=${ID}`);
  assertEquals(deliveries.map(({ state }) => state), ["acked"]);
});

Deno.test("a stop stores the outcomes that wait", async () => {
  const all = await openCast();
  await using w = all.w;
  const first = await answered(await send(all), 202);
  await w.proxy.stop();
  assertEquals(await stored(all), "answered");
  await restart(w);
  assertEquals(await answered(await send(all), 202), first);
  assertEquals(all.socket.delivered.length, 1);
});

Deno.test("a crash within the 20 ms leaves a delivery as begun, and a duplicate is a new attempt", async () => {
  using kv = await openTestKv();
  {
    await using w1 = await World.open({ kv, seed: 1 });
    await using w2 = await World.open({ kv, seed: 2, clock: w1.clock });
    const { a, b } = await w1.pairedAgents();
    const socket = w1.connect(b);
    await w1.connected();
    const crashed: Cast = { w: w1, a, b, socket };
    await answered(await send(crashed), 202);
    assertEquals([await stored(crashed), socket.delivered.length], ["begun", 1]);
    // The lease of the first instance has ended. The clock stands still, so nothing writes the outcome.
    await w1.proxy.deps.leases.stop();
    const after = w2.connect(b);
    await w2.connected();
    const again = send({ ...crashed, w: w2 });
    await until(() => after.delivered.length === 1);
    assertEquals(await outcome(await again), "202");
    assertEquals(after.delivered.map(({ requestId }) => requestId), [ID]);
  }
  await flushTasks();
});
