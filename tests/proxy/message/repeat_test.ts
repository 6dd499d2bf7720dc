/**
 * Shows the rules of request IDs (D-69): a duplicate within one day of its 202 gets that answer again and is not sent
 * again. After any other answer the ID starts a new attempt.
 */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { begunOf } from "../../../proxy/schema/sender_record.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { JOINING_WAIT_MS } from "../../../shared/server/store/group_commit.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { answered, outcome, refused, tally } from "../../support/registry_world.ts";
import { restart } from "../proxy_world.ts";
import { type Cast, type CastTest, inWorld, openCast } from "../cast.ts";

const REUSED = "409 PROXY_HOOK_REQUEST_ID_REUSED";
const FAILED = "502 PROXY_RELAY_DELIVERY_FAILED";
const OFFLINE = "502 PROXY_RELAY_CONNECTOR_OFFLINE";
const ID = "request-1";

function send({ w, a, b }: Cast, message = "hi", requestId = ID): Promise<Response> {
  return w.message(a, b, { body: JSON.stringify({ message }), headers: { [HEADERS.requestId]: requestId } });
}

/** Waits until all work in progress has stopped. */
async function rest(): Promise<void> {
  for (let i = 0; i < 3; i++) await flushTasks();
}

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

test("a duplicate gets the same answer, and no second frame is sent", async (all) => {
  const first = await answered(await send(all), 202);
  assertEquals(first, { accepted: true, delivered: true, connectedSockets: 1, requestId: ID });
  all.w.connect(all.b);
  for (let i = 0; i < 3; i++) {
    assertEquals(await answered(await send(all), 202), first, "also with another socket open");
  }
  all.socket.link.lost();
  assertEquals(await answered(await send(all), 202), first);
  assertEquals(all.socket.delivered.length, 1);
});

test("a refusal by the connector is stored as an answer too", async (all) => {
  all.socket.behaviour = "nack";
  const first = await answered(await send(all), 202);
  all.socket.behaviour = "ack";
  assertEquals(await answered(await send(all), 202), first);
  assertEquals([first.delivered, all.socket.delivered.length], [false, 1]);
});

test("the answer survives a restart, and each copy needs a new signature and counts", async (all) => {
  const { w } = all;
  const first = await answered(await send(all), 202);
  await restart(w);
  const again = await send(all);
  assertEquals(await answered(again, 202), first);
  assert(again.headers.get("ratelimit")?.startsWith('"agent";r='));
  const { left } = await remaining(all);
  await send(all);
  assertEquals((await remaining(all)).left, left - 2);
});

async function remaining(all: Cast): Promise<{ left: number }> {
  const answer = await send(all, "hi", ID);
  await answer.body?.cancel();
  return { left: Number(/r=(\d+)/.exec(answer.headers.get("ratelimit") ?? "")?.[1]) };
}

test("the same ID with another body is refused after a 202", async (all) => {
  await answered(await send(all), 202);
  assertEquals(await outcome(await send(all, "ho")), REUSED);
  assertEquals(await outcome(await send(all, "hi ")), REUSED);
  all.socket.link.lost();
  assertEquals(await outcome(await send(all, "ho")), REUSED, "also without a connector");
  assertEquals(all.socket.delivered.length, 1);
});

test("an ID belongs to one sender and one recipient: other pairs may use it too", async (all) => {
  const { w } = all;
  const c = await w.agent();
  await w.pair(c, all.b);
  await w.pair(all.a, c);
  const ofC = w.connect(c);
  await answered(await send(all), 202);
  await answered(await send({ ...all, a: c }, "from c"), 202);
  await answered(await send({ ...all, b: c }, "to c"), 202);
  assertEquals([all.socket.delivered.length, ofC.delivered.length], [2, 1]);
});

test("an ID is a new message one day after its 202", async (all) => {
  const { w } = all;
  const first = await answered(await send(all), 202);
  const freshly = async (message: string) => {
    await w.renew(all.a);
    return await send(all, message);
  };
  await w.clock.stepWhenIdle(86_400_000 - 1);
  assertEquals(await answered(await freshly("hi"), 202), first);
  assertEquals(await outcome(await freshly("ho")), REUSED);
  await w.clock.stepWhenIdle(1);
  await answered(await freshly("ho"), 202);
  assertEquals(all.socket.delivered.length, 2);
  assertEquals(await outcome(await freshly("hi")), REUSED);
});

Deno.test("the same ID starts a new attempt after any answer except 202, also with another body", async (t) => {
  await t.step("no connector", async () => {
    const all = await openCast();
    await using w = all.w;
    all.socket.link.lost();
    assertEquals(await outcome(await send(all)), OFFLINE);
    const socket = w.connect(all.b);
    assertEquals(await outcome(await send(all, "ho")), "202");
    assertEquals(socket.delivered.map((frame) => frame.requestId), [ID]);
  });
  await t.step("no ack", async () => {
    const all = await openCast({ proxy: { ackTimeoutMs: 1_000 } });
    await using w = all.w;
    all.socket.behaviour = "silent";
    const sending = send(all);
    await rest();
    await w.clock.advance(1_000);
    assertEquals(await outcome(await sending), FAILED);
    all.socket.behaviour = "ack";
    assertEquals(await outcome(await send(all)), "202");
    const [first, second] = all.socket.delivered;
    assertEquals([first?.requestId, second?.requestId], [ID, ID]);
    assert(first?.id !== second?.id);
  });
  await t.step("a refusal before it was sent", async () => {
    const all = await openCast();
    await using w = all.w;
    const headers = { [HEADERS.requestId]: ID, "Content-Type": "text/plain" };
    await refused(await w.message(all.a, all.b, { headers }), "PROXY_HOOK_UNSUPPORTED_MEDIA_TYPE");
    assertEquals(await outcome(await send(all)), "202");
  });
  await t.step("a crash before the answer", async () => {
    const all = await openCast();
    await using w = all.w;
    all.socket.behaviour = "silent";
    void send(all).then((answer) => answer.body?.cancel());
    await rest();
    assertEquals(all.socket.delivered.length, 1);
    await restart(w);
    const socket = w.connect(all.b);
    assertEquals(await outcome(await send(all)), "202");
    assertEquals(socket.delivered.length, 1);
    await w.clock.advance(10_000);
  });
});

test("copies wait for the answer of the first attempt, and one frame is sent", async (all) => {
  all.socket.behaviour = "silent";
  const copies = Array.from({ length: 20 }, () => send(all));
  const other = send(all, "ho");
  await rest();
  assertEquals(all.socket.delivered.length, 1);
  const [frame] = all.socket.delivered;
  const sentFirst = JSON.parse(frame?.payload ?? "").message.endsWith("hi");
  all.socket.ack(frame?.id ?? "");
  const counts = await tally([...copies, other]);
  assertEquals(counts, sentFirst ? { "202": 20, [REUSED]: 1 } : { "202": 1, [REUSED]: 20 });
  assertEquals(all.socket.delivered.length, 1);
});

Deno.test("copies of a failed attempt are new attempts, one after another", async () => {
  const all = await openCast({ proxy: { ackTimeoutMs: 1_000 } });
  await using w = all.w;
  all.socket.behaviour = "silent";
  const copies = Array.from({ length: 3 }, () => send(all));
  await rest();
  assertEquals(all.socket.delivered.length, 1);
  await w.clock.advance(1_000);
  await rest();
  assertEquals(all.socket.delivered.length, 2);
  all.socket.behaviour = "ack";
  all.socket.ack(all.socket.delivered[1]?.id ?? "");
  assertEquals(await tally(copies), { [FAILED]: 1, "202": 2 });
  assertEquals(all.socket.delivered.length, 2);
});

Deno.test("the last of many copies waits no longer than for a few attempts", async () => {
  const all = await openCast({ proxy: { ackTimeoutMs: 1_000 } });
  await using w = all.w;
  all.socket.behaviour = "silent";
  const copies = Array.from({ length: 20 }, () => send(all));
  for (let second = 0; second < 8; second++) {
    await rest();
    await w.clock.advance(1_000);
  }
  assertEquals(await tally(copies), { [FAILED]: 20 });
  assert(all.socket.delivered.length <= 8, `${all.socket.delivered.length}`);
});

Deno.test("a copy gets the answer of the first attempt when the connector has left meanwhile", async () => {
  for (let round = 0; round < 2; round++) {
    const all = await openCast();
    await using _ = all.w;
    all.socket.behaviour = "silent";
    const copies = [send(all), send(all)];
    await rest();
    all.socket.ack(all.socket.delivered[0]?.id ?? "");
    all.socket.link.lost();
    assertEquals(await tally(copies), { "202": 2 });
  }
});

test("concurrent messages with different IDs are all delivered", async (all) => {
  const counts = await tally(Array.from({ length: 20 }, (_, i) => send(all, "hi", `request-of-its-own-${i}`)));
  assertEquals([counts, all.socket.delivered.length], [{ "202": 20 }, 20]);
});

Deno.test("a repeat gets the answer that could not be stored, which is stored later", async () => {
  using store = await FaultyKv.open();
  const all = await openCast({ kv: store.kv });
  await using w = all.w;
  const isOutcome = (keys: readonly Deno.KvKey[]) =>
    keys.some((key) => key[1] === "delivery") && !keys.some((key) => key[1] === "sender");
  store.faults.fails = ({ method, keys }) => method === "commit" && isOutcome(keys);
  assertEquals(await outcome(await send(all)), "202");
  await w.clock.advance(JOINING_WAIT_MS);
  await rest();
  await w.clock.advance(6_000);
  delete store.faults.fails;
  const stored = () => Array.fromAsync(w.kv.list({ prefix: ["proxy", "delivery"] }));
  assertEquals((await stored()).length, 0);
  assertEquals([await outcome(await send(all)), all.socket.delivered.length], ["202", 1]);
  await w.clock.advance(6_000);
  await rest();
  assertEquals((await stored()).length, 1);
  assertEquals([await outcome(await send(all)), all.socket.delivered.length], ["202", 1]);
  assertEquals(await outcome(await send(all, "hi", "request-2")), "202");
  const begun = begunOf(await w.kv.get(KEYS.sender(all.a.agent.did))).map(({ requestId }) => requestId);
  assertEquals(begun, ["request-2"], "it takes no place in the record of its sender any longer");
});

Deno.test("an answer that cannot be stored is still sent, and is logged", async () => {
  using store = await FaultyKv.open();
  const all = await openCast({ kv: store.kv });
  await using w = all.w;
  all.socket.behaviour = "silent";
  const sending = send(all);
  await rest();
  store.faults.fails = ({ method, keys }) => method !== "list" && keys.some((key) => key[1] === "delivery");
  all.socket.ack(all.socket.delivered[0]?.id ?? "");
  assertEquals(await outcome(await sending), "202");
  await w.clock.advance(JOINING_WAIT_MS);
  assert(w.log.some((line) => line.event === "delivery_outcome_lost" && line.fields.requestId === ID));
});
