/**
 * Sending and waiting for a reply through the local API, next to a runtime that gets all other messages: a reply for a
 * caller is kept for it, and no reply is lost.
 */
import { assert, assertEquals } from "@std/assert";
import type { OutboundResult } from "../../../../shared/client/local_shapes.ts";
import { LOOP_MESSAGES } from "../../../../cli/link/loop_guard.ts";
import { flushTasks } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";
import { type TestAgent, World } from "../../../support/world.ts";
import { Bench, isDown, passing, story } from "../bench.ts";
import { asker, post } from "./local_caller.ts";

const QUESTION = "question-1";

/** Agent b with a connector, and agent a that answers by hand. */
async function talk(world: World) {
  const { a, b, bench } = await story(world);
  const socket = world.connect(a);
  await world.connected();
  return { a, b, bench, socket, ask: asker(bench) };
}

function reply(world: World, from: TestAgent, to: TestAgent, inReplyTo = QUESTION, body = '{"message":"42"}') {
  return world.message(from, to, { body, headers: { "x-svc-in-reply-to": inReplyTo } });
}

Deno.test("a call that waits returns the reply, which the runtime gets when no caller takes it", async (t) => {
  await using world = await World.open();
  const { a, b, bench, ask } = await talk(world);
  const to = a.agent.did;

  await t.step("taken", async () => {
    const waiting = ask("/v1/outbound?wait=60", post({ to, text: "What is it?", requestId: QUESTION }));
    await until(() => bench.eventsOf("sent").length === 1);
    assertEquals((await reply(world, a, b)).status, 202);
    const { status, body } = await waiting;
    assertEquals([status, body.state, body.to], [200, "processed", to]);
    assertEquals([body.reply.text, body.reply.isReply], ["42", true]);
    assertEquals((await ask("/v1/inbox/read", post({ ids: [body.reply.id] }))).body, { read: [body.reply.id] });
    assertEquals((await ask("/v1/inbox/read", post({ ids: [body.reply.id] }))).body, { read: [] });
    await passing(world, 40, () => bench.eventsOf("receipt_sent").length === 1);
    assertEquals(bench.handedOver, []);
    const again = (await ask(`/v1/outbound/${QUESTION}`)).body as OutboundResult;
    assertEquals([again.reply?.id, typeof again.reply?.readAt], [body.reply.id, "string"]);
    assertEquals([again.replies, typeof again.stateAt], [[body.reply.id], "string"]);
  });

  await t.step("not taken within 30 s", async () => {
    const waiting = ask("/v1/outbound?wait=60", post({ to, text: "And now?", requestId: "question-2" }));
    await until(() => bench.eventsOf("sent").length === 2);
    await reply(world, a, b, "question-2");
    assertEquals((await waiting).body.reply.text, "42");
    await flushTasks();
    assertEquals(bench.handedOver, []);
    await passing(world, 31, () => bench.handedOver.length === 1);
    assertEquals(bench.handedOver.length, 1);
  });

  await t.step("without a waiting call the runtime gets it at once", async () => {
    assertEquals((await ask("/v1/outbound", post({ to, text: "Later", requestId: "question-3" }))).status, 202);
    await reply(world, a, b, "question-3");
    await until(() => bench.handedOver.length === 2);
  });
});

Deno.test("a reply between two waits and shortly after one is kept for the caller", async () => {
  await using world = await World.open();
  const { a, b, bench, ask } = await talk(world);
  const first = ask("/v1/outbound?wait=1", post({ to: a.agent.did, text: "Hello", requestId: QUESTION }));
  await until(() => bench.eventsOf("sent").length === 1);
  await world.clock.advance(1_000);
  const { body } = await first;
  assertEquals([body.state, body.reply], ["delivered", null]);
  await world.clock.advance(9_000);
  await reply(world, a, b);
  await flushTasks();
  assertEquals(bench.handedOver, []);
  const { body: second } = await ask(`/v1/outbound/${QUESTION}?to=${a.agent.name}&wait=60`);
  assertEquals([second.state, second.reply.text], ["processed", "42"]);
});

Deno.test("a reply that is kept for a caller goes to the runtime after a restart", async () => {
  await using world = await World.open();
  const { a, b, bench, ask } = await talk(world);
  const waiting = ask("/v1/outbound?wait=60", post({ to: a.agent.did, text: "Hello", requestId: QUESTION }));
  await until(() => bench.eventsOf("sent").length === 1);
  await reply(world, a, b);
  await waiting;
  assertEquals(bench.handedOver, []);
  bench.kill();
  await using again = await Bench.open(world, b, { folder: bench.folder });
  await until(() => again.handedOver.length === 1);
});

Deno.test("20 calls wait for one reply, and one of their 20 reads gets it", async () => {
  await using world = await World.open();
  const { a, b, ask } = await talk(world);
  await ask("/v1/outbound", post({ to: a.agent.did, text: "Hello", requestId: QUESTION }));
  const waiting = Array.from({ length: 20 }, () => ask(`/v1/outbound/${QUESTION}?wait=60`));
  await flushTasks();
  await reply(world, a, b);
  const ids = (await Promise.all(waiting)).map(({ body }) => body.reply.id as number);
  assertEquals(new Set(ids).size, 1);
  const reads = await Promise.all(ids.map((id) => ask("/v1/inbox/read", post({ ids: [id] }))));
  assertEquals(reads.flatMap(({ body }) => body.read), [ids[0]]);
});

Deno.test("a third agent cannot answer a question", async () => {
  await using world = await World.open();
  const { a, b, bench, ask } = await talk(world);
  const c = await world.agent();
  await world.pair(c, b);
  const waiting = ask("/v1/outbound?wait=5", post({ to: a.agent.did, text: "Hello", requestId: QUESTION }));
  await until(() => bench.eventsOf("sent").length === 1);
  await reply(world, c, b, QUESTION, '{"message":"I am a"}');
  await until(() => bench.handedOver.length === 1);
  await world.clock.advance(5_000);
  assertEquals((await waiting).body.reply, null);
});

Deno.test("a wait ends at a dead letter and asks the proxy for it after 1, 2, 4, 8, then every 15 s", async () => {
  await using world = await World.open();
  const { a, bench, ask } = await talk(world);
  const asked: number[] = [];
  const real = bench.connector.proxy.ask.bind(bench.connector.proxy);
  bench.connector.proxy.ask = (...asking) => {
    asked.push(world.clock.now());
    return real(...asking);
  };
  const began = world.clock.now();
  const waiting = ask("/v1/outbound?wait=60", post({ to: a.agent.did, text: "Hello", requestId: QUESTION }));
  await until(() => bench.eventsOf("sent").length === 1);
  for (let second = 0; second < 40; second++) {
    await world.clock.advance(1_000);
    await flushTasks();
  }
  assertEquals(asked.map((at) => (at - began) / 1_000), [1, 3, 7, 15, 30]);
  const receipt = { requestId: QUESTION, recipientAgentDid: a.agent.did, status: "dead_lettered" };
  await world.fetch(
    await world.signed(a, {
      target: "/v1/relay/delivery-receipts",
      body: JSON.stringify({ ...receipt, timestamp: new Date(world.clock.now()).toISOString() }),
    }),
  );
  await world.clock.advance(5_000);
  const { body } = await waiting;
  assertEquals([body.state, body.reply], ["dead_lettered", null]);
});

Deno.test("a reply can say why there is no answer, and only a reply can", async (t) => {
  await using world = await World.open();
  const { a, b, socket, ask } = await talk(world);
  const to = a.agent.did, error = { code: "OUT_OF_PAPER", message: "No paper" };
  await t.step("sent", async () => {
    await world.message(a, b, { headers: { "x-request-id": QUESTION } });
    for (const more of [{ error }, { error, text: "Sorry" }]) {
      assertEquals((await ask("/v1/outbound", post({ to, inReplyTo: QUESTION, ...more }))).status, 202);
    }
    await until(() => socket.delivered.length === 2);
    assertEquals(socket.delivered.map(({ payload }) => JSON.parse(payload).svcError), [error, error]);
    assert(socket.delivered[1]?.payload.includes("Sorry"));
  });
  await t.step("refused", async () => {
    const cases = [
      [{ to, error }, "error needs replyTo or inReplyTo"],
      [
        { to, text: "Hello", requestId: `a-${"x".repeat(43)}` },
        "requestId has the form of an A2A task; choose another one",
      ],
      [{ to, inReplyTo: QUESTION, payload: {}, error }, "error must be without payload"],
      [{ to, inReplyTo: QUESTION, error: { code: "not a code", message: "" } }, "error.code must be"],
    ] as const;
    for (const [body, why] of cases) {
      const refused = await ask("/v1/outbound", post(body));
      assertEquals([refused.status, refused.body.error.code], [400, "CONNECTOR_INVALID_BODY"]);
      assert(refused.body.error.message.includes(why), refused.body.error.message);
    }
  });
  await t.step("received", async () => {
    const texts = [
      [{ message: "No", svcError: error }, error],
      [{ message: "No", svcError: { ...error, message: "x".repeat(600) } }, { ...error, message: "x".repeat(512) }],
      [{ svcError: { code: "not a code", message: "" } }, null],
      [{ svcError: "x" }, null],
      [{ error }, null],
    ] as const;
    for (const [n, [body, expected]] of texts.entries()) {
      const requestId = `asked-${n}-of-a`;
      const waiting = ask("/v1/outbound?wait=60", post({ to, text: "?", requestId }));
      await until(() => socket.delivered.some((frame) => frame.requestId === requestId));
      await reply(world, a, b, requestId, JSON.stringify(body));
      const { reply: { error }, replyError } = (await waiting).body;
      assertEquals([error, replyError], [expected, expected?.code ?? null], JSON.stringify(body));
    }
    const listed = async () => (await ask("/v1/sent?limit=5")).body.messages.at(-1);
    assertEquals([(await listed()).replyError, (await listed()).replies.length], [error.code, 1]);
    await reply(world, a, b, "asked-0-of-a", JSON.stringify({ message: "Paper came" }));
    await until(async () => (await listed()).replies.length === 2);
    assertEquals((await listed()).replyError, null);
  });
});

Deno.test("refusals are passed on, and nothing is sent when the call may not wait", async () => {
  await using world = await World.open();
  const { a, bench, ask } = await talk(world);
  const to = a.agent.did;
  const stranger = await world.agent();
  const refused = await ask("/v1/outbound?wait=60", post({ to: stranger.agent.did, text: "Hello" }));
  assertEquals([refused.status, refused.body.error.code], [403, "PROXY_AUTH_FORBIDDEN"]);
  const waits = Array.from({ length: 64 }, () => bench.connector.waits.begin());
  const busy = await ask("/v1/outbound?wait=1", post({ to, text: "Hello", requestId: QUESTION }));
  assertEquals([busy.status, busy.body.error.code, busy.headers.get("retry-after")], [429, "CONNECTOR_BUSY", "1"]);
  assertEquals((await ask(`/v1/outbound/${QUESTION}`)).body.error.code, "CONNECTOR_MESSAGE_UNKNOWN");
  assertEquals((await ask("/v1/outbound?wait=0", post({ to, text: "Hello" }))).body.state, "delivered");
  for (const wait of waits) wait?.[Symbol.dispose]();
  for (let n = 0; n < LOOP_MESSAGES; n++) {
    assertEquals((await ask("/v1/outbound", post({ to, text: "x", origin: "model" }))).status, 202);
  }
  const guarded = await ask("/v1/outbound", post({ to, text: "x", origin: "model" }));
  assertEquals([guarded.status, guarded.body.error.code], [429, "CONNECTOR_LOOP_GUARD"]);
  assert(Number(guarded.headers.get("retry-after")) > 0);
});

Deno.test("a stop answers every waiting call at once", async () => {
  await using world = await World.open();
  const { a, bench, ask } = await talk(world);
  await ask("/v1/outbound", post({ to: a.agent.did, text: "Hello", requestId: QUESTION }));
  const waiting = Array.from({ length: 10 }, () => ask(`/v1/outbound/${QUESTION}?wait=60`));
  await flushTasks();
  const before = world.clock.now();
  void bench.connector.stop();
  const states = (await Promise.all(waiting)).map(({ status, body }) => [status, body.state]);
  assertEquals(states, Array(10).fill([200, "delivered"]));
  assertEquals(world.clock.now(), before);
});

Deno.test("a payload that stops readers is refused, and nothing is stored or sent", async (t) => {
  await using world = await World.open();
  const { a, bench, ask } = await talk(world);
  const payloads = ["[".repeat(65) + "]".repeat(65), `{"n":-${"1".repeat(300)}}`];
  for (const payload of payloads) {
    await t.step(payload.slice(0, 6), async () => {
      const { status, body } = await ask("/v1/outbound", post(`{"to":"${a.agent.did}","payload":${payload}}`));
      assertEquals([status, body.error.code], [400, "CONNECTOR_INVALID_BODY"]);
    });
  }
  assertEquals(bench.connector.store.sent.list({ limit: 10 }).messages, []);
});

Deno.test("what a caller sends twice, wrongly or for another agent is refused", async (t) => {
  await using world = await World.open();
  const { a, b, bench, ask } = await talk(world);
  bench.behaviour = isDown;
  await world.message(a, b, { headers: { "x-request-id": "request-of-a", "x-svc-conversation-id": "talk" } });
  await until(() => bench.connector.store.received.counts().waiting === 1);
  const to = a.agent.did, other = (await world.agent()).agent.did;
  const id = 1;
  const cases: [string, unknown, number, string][] = [
    ["neither recipient nor message", { text: "x" }, 400, "CONNECTOR_INVALID_BODY"],
    ["neither text nor payload", { to }, 400, "CONNECTOR_INVALID_BODY"],
    ["text and payload", { to, text: "x", payload: {} }, 400, "CONNECTOR_INVALID_BODY"],
    ["another recipient than its sender", { to: other, replyTo: id, text: "x" }, 400, "CONNECTOR_INVALID_BODY"],
    ["another question", { replyTo: id, inReplyTo: QUESTION, text: "x" }, 400, "CONNECTOR_INVALID_BODY"],
    ["an unknown message", { replyTo: 99, text: "x" }, 404, "CONNECTOR_MESSAGE_UNKNOWN"],
    ["a message ID that is not one", { replyTo: 0, text: "x" }, 400, "CONNECTOR_INVALID_BODY"],
    ["an origin of the connector", { to, text: "x", origin: "runtime" }, 400, "CONNECTOR_INVALID_BODY"],
    ["a payload that is too large", { to, text: "x".repeat(196_445) }, 413, "PAYLOAD_TOO_LARGE"],
  ];
  for (const [what, body, status, code] of cases) {
    await t.step(what, async () => {
      const answer = await ask("/v1/outbound", post(body));
      assertEquals([answer.status, answer.body.error.code], [status, code]);
    });
  }
  await t.step("replyTo sets recipient, question and conversation", async () => {
    assertEquals((await ask("/v1/outbound", post({ replyTo: id, text: "x" }))).status, 202);
    const { messages } = (await ask(`/v1/sent?to=${a.agent.name}`)).body;
    const [{ to: sentTo, inReplyTo, conversationId }] = messages;
    assertEquals(sentTo, { agentDid: to, alias: a.agent.name });
    assertEquals([inReplyTo, conversationId], ["request-of-a", "talk"]);
  });
  for (const target of ["/v1/outbound/x", "/v1/outbound/%ff", `/v1/outbound/${"x".repeat(129)}`, "/v1/inbox/0x1"]) {
    await t.step(target, async () => assertEquals((await ask(target)).status, 404));
  }
});
