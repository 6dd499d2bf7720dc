/** A message that may wait is queued when its recipient does not take it, and holds up no other sender. */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import type { MailboxState } from "../../../proxy/schema/records.ts";
import { CLOSE } from "../../../shared/protocol/frames.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { FaultyKv } from "../../support/faulty_kv.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { MAX_CHECKS } from "../../support/test_store.ts";
import { until } from "../../support/until.ts";
import { codeOf, type TestAgent, type TestSocket, type World } from "../../support/world.ts";
import { inWorld, openPaired } from "../cast.ts";
import { connected, two } from "./two_instances.ts";

const ASYNC = { Prefer: "respond-async" };

async function cast() {
  const { w, a, b } = await openPaired();
  const c = await w.agent();
  await w.pair(c, b);
  return { w, a, b, c };
}

/** Sends a message that may wait. Its answer gets the milliseconds that it took. */
async function send(w: World, from: TestAgent, to: TestAgent, n: string, headers: Record<string, string> = ASYNC) {
  const began = w.clock.now();
  const response = await w.message(from, to, { body: JSON.stringify({ n }), headers });
  return { status: response.status, body: await response.json(), ms: w.clock.now() - began };
}

function texts(socket: TestSocket): string[] {
  return socket.delivered.map(({ payload }) => (JSON.parse(payload) as { n: string }).n);
}

async function pass(w: World, ms: number, step = 500): Promise<void> {
  for (let passed = 0; passed < ms; passed += step) {
    await w.clock.advance(step);
  }
}

type Run = (all: Awaited<ReturnType<typeof cast>>, t: Deno.TestContext) => Promise<void>;
const test = (name: string, run: Run) => Deno.test(name, inWorld(cast, run));

test("while the machine of a recipient is gone its messages are queued, the first within 11 s and the others within 1 s", async ({ w, a, b }) => {
  const gone = w.connect(b, "silent");
  const began = w.clock.now();
  const answers: ReturnType<typeof send>[] = [];
  for (const at of [1_000, 5_000, 19_000, 50_000]) {
    await pass(w, at - (w.clock.now() - began));
    answers.push(send(w, a, b, `+${at / 1000}`));
    if (at === 19_000) assertEquals(gone.closed, null);
  }
  await pass(w, 1_000);
  const ended = await Promise.all(answers);
  assertEquals(ended.map(({ status, body }) => [status, body.queued]), Array(4).fill([202, true]));
  const [first = 0, ...others] = ended.map(({ ms }) => ms);
  assert(first <= 11_000 && others.every((ms) => ms <= 1_000), [first, ...others].join(" "));
  assertEquals(gone.closed?.code, CLOSE.silent);
  const back = w.connect(b);
  await until(() => back.delivered.length === 4);
  assertEquals(texts(back), ["+1", "+5", "+19", "+50"]);
});

test("a message whose frame got no ack is not answered as undelivered when the mailbox is full", async ({ w, a, b, c }) => {
  assertEquals((await send(w, c, b, "first")).status, 202);
  const reader = w.connect(b);
  await until(() => reader.delivered.length === 1);
  reader.link.lost();
  const key = KEYS.mailboxState(b.agent.did);
  await until(async () => (await w.kv.get<MailboxState>(key)).value?.total === 0);
  await w.kv.set(key, { ...(await w.kv.get<MailboxState>(key)).value, total: 500 });
  const silent = w.connect(b, "silent");
  const sent = send(w, a, b, "second");
  await until(() => silent.delivered.length === 1);
  await pass(w, 11_000);
  const { status, body } = await sent;
  assertEquals([status, body.error.code], [502, "PROXY_RELAY_DELIVERY_FAILED"]);
});

Deno.test("a socket without an ack gets a heartbeat, and closes with 4408 unless a frame comes within 10 s", async () => {
  for (const alive of [false, true]) {
    const { w, a, b } = await cast();
    await using _ = w;
    const socket = w.connect(b, "silent");
    socket.alive = alive;
    const answer = w.message(a, b);
    await until(() => socket.delivered.length === 1);
    await pass(w, 10_000);
    assertEquals(await codeOf(await answer), "PROXY_RELAY_DELIVERY_FAILED");
    assertEquals(socket.frames.filter(({ type }) => type === "heartbeat").length, 1);
    await pass(w, 9_500);
    assertEquals(socket.closed, null);
    await pass(w, 500);
    assertEquals(socket.closed?.code, alive ? undefined : CLOSE.silent);
  }
});

test("a message that may wait is queued when the recipient has no space, and is tried until it has", async ({ w, a, b }) => {
  const socket = w.connect(b, "full");
  const { status, body } = await send(w, a, b, "one");
  assertEquals([status, body.delivered, body.queued], [202, false, true]);
  // The first wait is 1 s; it doubles to 60 s, and no refusal makes a dead letter.
  await pass(w, 70_000, 1_000);
  const tries = socket.delivered.length;
  assert(tries > 6 && tries < 10, `${tries} tries`);
  socket.behaviour = "ack";
  await pass(w, 60_000, 5_000);
  assertEquals(socket.delivered.length, tries + 1);
  const { receipts } = await a.client.receipts(body.requestId, b.agent.did);
  assertEquals(receipts, []);
  assertEquals((await Array.fromAsync(w.kv.list({ prefix: ["proxy", "mailbox"] }))).length, 0);
});

test("a message that waits for its next try does not wait as long as a step back of the clock", async ({ w, a, b }) => {
  const socket = w.connect(b, "full");
  assertEquals((await send(w, a, b, "one")).body.queued, true);
  await pass(w, 10_000);
  socket.behaviour = "ack";
  w.clock.step(-3_600_000);
  await pass(w, 60_000, 5_000);
  await until(async () => (await Array.fromAsync(w.kv.list({ prefix: ["proxy", "mailbox"] }))).length === 0);
});

test("a message that may not wait is refused as before", async ({ w, a, b }) => {
  w.connect(b, "full");
  const { status, body } = await send(w, a, b, "one", {});
  assertEquals([status, body.delivered, body.queued, body.reason], [202, false, undefined, "inbox_full"]);
});

test("a message that its recipient has no space for holds up no other sender", async ({ w, a, b, c }) => {
  const socket = w.connect(b, "full");
  for (let i = 0; i < 8; i++) assertEquals((await send(w, a, b, `a${i}`)).body.queued, true);
  await pass(w, 5_000);
  socket.behaviour = "ack";
  const began = w.clock.now();
  const answer = await send(w, c, b, "c");
  assertEquals([answer.body.delivered, w.clock.now() - began], [true, 0]);
  assertEquals((await send(w, c, b, "may not wait", {})).body.delivered, true);
  assert(!texts(socket).includes("a1"));
  await pass(w, 10_000);
  await until(() => texts(socket).includes("a7"));
  const arrived = texts(socket).filter((text) => text.startsWith("a"));
  assertEquals([...new Set(arrived)], Array.from({ length: 8 }, (_, i) => `a${i}`));
});

test("queued messages are delivered in turns over senders, in order for each", async ({ w, a, b, c }) => {
  for (const n of ["a1", "a2", "a3", "a4"]) await send(w, a, b, n);
  for (const n of ["c1", "c2"]) await send(w, c, b, n);
  const socket = w.connect(b);
  await until(() => socket.delivered.length === 6);
  assertEquals(texts(socket), ["a1", "c1", "a2", "c2", "a3", "a4"]);
});

test("a message whose pair ends while it waits for an ack is not queued", async ({ w, a, b }) => {
  const socket = w.connect(b, "silent");
  // While the mailbox is looked through, the message would be queued at once.
  await w.connected();
  await flushTasks();
  const answer = w.message(a, b, { headers: ASYNC });
  await until(() => socket.delivered.length === 1);
  const body = JSON.stringify({ peerAgentDid: a.agent.did });
  assertEquals((await w.fetch(await w.signed(b, { target: "/pair/remove", body }))).status, 204);
  await pass(w, 10_500);
  assertEquals(await codeOf(await answer), "PROXY_RELAY_DELIVERY_FAILED");
  assertEquals((await Array.fromAsync(w.kv.list({ prefix: ["proxy", "mailbox"] }))).length, 0);
});

Deno.test("a message is queued once when the instance of its recipient queues it after the sender's has done so", async () => {
  const store = await FaultyKv.open();
  const close = () => Promise.resolve(store[Symbol.dispose]());
  const shared = { kv: store.kv, maxChecks: MAX_CHECKS, [Symbol.asyncDispose]: close };
  await two(() => Promise.resolve(shared), async (w1, w2, a, b) => {
    const silent = await connected(w2, b, "silent");
    const held = Promise.withResolvers<void>();
    let isHeld = false;
    store.faults.before = async ({ method, keys }) => {
      if (isHeld || method !== "commit" || !keys.some((key) => key[1] === "mailbox")) return;
      isHeld = true;
      await held.promise;
    };
    const sent = send(w1, a, b, "once");
    await until(() => silent.delivered.length === 1);
    await pass(w1, LIMITS.ackTimeoutMs);
    await until(() => isHeld);
    await pass(w1, LIMITS.wayBackMs);
    assertEquals((await sent).body.queued, true);
    held.resolve();
    await w2.proxy.deps.commits.flush();
    assertEquals((await Array.fromAsync(w1.kv.list({ prefix: KEYS.mailbox(b.agent.did) }))).length, 1);
  });
});
