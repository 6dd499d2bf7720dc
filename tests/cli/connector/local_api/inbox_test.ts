/** Reading messages through the local API of an agent on the platform inbox (D-116). */
import { assert, assertEquals } from "@std/assert";
import { CONNECTOR_LIMITS } from "../../../../cli/connector/limits.ts";
import { LocalMessage } from "../../../../shared/client/local_shapes.ts";
import { flushTasks } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";
import { World } from "../../../support/world.ts";
import { story } from "../bench.ts";
import { asker, post } from "./local_caller.ts";

/** Agent b reads its messages; a and c are its peers. */
async function readers(world: World) {
  const { a, b, bench } = await story(world, { platform: "inbox" });
  const c = await world.agent();
  await world.pair(c, b);
  await bench.connector.updatePeers();
  return { a, b, c, bench, ask: asker(bench) };
}

Deno.test("a message has its sender, its text without the identity block, and its payload byte for byte", async () => {
  await using world = await World.open();
  const { a, b, ask } = await readers(world);
  const payload = '{ "n":12345678901234567890, "message":"hi\\u0041", "deep":' + "[".repeat(63) + "]".repeat(63) +
    "}";
  await world.message(a, b, { body: payload, headers: { "x-svc-auto": "1" } });
  const { body, text } = await ask("/v1/inbox");
  const [message] = body.messages;
  LocalMessage.parse(message);
  assertEquals([message.text, message.auto, message.isReply, message.verified], ["hiA", true, false, "by-registry"]);
  assertEquals([message.from.alias, message.from.agentDid], [a.agent.name, a.agent.did]);
  const raw = text.slice(text.indexOf('"payload":') + 10, text.lastIndexOf("}],"));
  const rest = '"deep":' + "[".repeat(63) + "]".repeat(63) + "}";
  assert(raw.startsWith('{ "n":12345678901234567890, "message":"[Svc Identity]'), raw.slice(0, 80));
  assert(raw.endsWith(rest), raw.slice(-80));
  assertEquals(text, `{"messages":[${(await ask(`/v1/inbox/${message.id}`)).text}],"more":false}`);
});

Deno.test("messages are listed by sender, conversation and position, unread or taken", async () => {
  await using world = await World.open();
  const { a, b, c, ask } = await readers(world);
  for (const [from, talk, message] of [[a, "x", "1"], [c, "x", "2"], [a, "y", "3"], [a, "x", "4"]] as const) {
    await world.message(from, b, { body: JSON.stringify({ message }), headers: { "x-svc-conversation-id": talk } });
  }
  const texts = async (query: string) => {
    const { body } = await ask(`/v1/inbox${query}`);
    return [body.messages.map(({ text }: { text: string }) => text).join(""), body.more];
  };
  assertEquals(await texts(""), ["1234", false]);
  assertEquals(await texts("?limit=3"), ["123", true]);
  assertEquals(await texts("?after=2&limit=1"), ["3", true]);
  assertEquals(await texts(`?from=${a.agent.name}&conversation=x`), ["14", false]);
  assertEquals(await texts(`?from=${c.agent.did}`), ["2", false]);
  assertEquals(await texts(`?from=${c.agent.did},${a.agent.name}&limit=2`), ["12", true]);
  assertEquals(await texts(`?except=${a.agent.name}`), ["2", false]);
  assertEquals(await texts(`?except=${c.agent.did},${a.agent.name}`), ["", false]);
  assertEquals(await texts("?newest=true&limit=2"), ["34", true]);
  const tooMany = Array.from({ length: CONNECTOR_LIMITS.sendersAtOnce + 1 }, () => a.agent.name).join(",");
  for (const from of [tooMany, `${a.agent.name},`, ","]) {
    assertEquals((await ask(`/v1/inbox?from=${from}`)).body.error.code, "CONNECTOR_INVALID_BODY");
  }
  assertEquals((await ask("/v1/inbox/read", post({ ids: [3, 1, 3, 9] }))).body, { read: [3, 1] });
  assertEquals(await texts(""), ["24", false]);
  assertEquals(await texts("?unread=false"), ["13", false]);
  const { body } = await ask("/v1/inbox/1");
  assertEquals(typeof body.readAt, "string");
});

Deno.test("a page ends at 1 MiB of payloads, and the next one begins after it", async () => {
  await using world = await World.open();
  const { a, b, ask } = await readers(world);
  for (let n = 0; n < 7; n++) await world.message(a, b, { body: JSON.stringify({ message: "x".repeat(190_000) }) });
  const first = (await ask("/v1/inbox?limit=200")).body;
  assertEquals([first.messages.length, first.more], [5, true]);
  const second = (await ask(`/v1/inbox?limit=200&after=${first.messages.at(-1).id}`)).body;
  assertEquals([second.messages.length, second.more], [2, false]);
});

Deno.test("a call waits for the first message that fits, and returns it at once when it is there", async () => {
  await using world = await World.open();
  const { a, b, c, bench, ask } = await readers(world);
  const { received } = bench.connector.store, { list } = received;
  const waiting = [`from=${c.agent.did}`, `except=${a.agent.did}`].map((which) => ask(`/v1/inbox?wait=60&${which}`));
  await flushTasks();
  let looks = 0;
  received.list = (filter) => (looks++, list.call(received, filter));
  await world.message(a, b);
  assertEquals(looks, 0, "a message that no call waits for is not looked for");
  await world.message(c, b, { body: '{"message":"from c"}' });
  for (const { body } of await Promise.all(waiting)) {
    assertEquals(body.messages.map(({ text }: { text: string }) => text), ["from c"]);
  }
  assertEquals((await ask("/v1/inbox?wait=60")).body.messages.length, 2);
  const late = ask("/v1/inbox?wait=60&after=2");
  await flushTasks();
  await world.clock.advance(60_000);
  assertEquals((await late).body, { messages: [], more: false });
  const taken = ask("/v1/inbox?wait=60&unread=false");
  await flushTasks();
  await ask("/v1/inbox/read", post({ ids: [1] }));
  assertEquals((await taken).body.messages.length, 1);
});

Deno.test("a leased message is hidden, and wakes a waiting call when it is given back or its lease ends", async () => {
  await using world = await World.open();
  const { a, b, bench, ask } = await readers(world);
  for (const n of [1, 2]) await world.message(a, b, { body: `{"message":"${n}"}` });
  const ids = async (path: string) => (await ask(path)).body.messages.map(({ id }: { id: number }) => id);
  const held = await ask("/v1/inbox/read", post({ ids: [1, 2], lease: 100, leaseId: "lease-one" }));
  assertEquals(held.body, { read: [1, 2], leaseId: "lease-one" });
  assertEquals([await ids("/v1/inbox"), bench.connector.status().inbox.waiting], [[], 2]);
  assertEquals((await ask("/v1/inbox/read", post({ ids: [1, 2] }))).body, { read: [] });
  const { leaseId, read } = (await ask("/v1/inbox/read", post({ ids: [1], lease: 5 }))).body;
  assertEquals([typeof leaseId, read], ["string", []]);
  const shown = (await ask("/v1/inbox?held=true")).body.messages as { id: number }[];
  assertEquals(shown.map(({ id }) => id), [1, 2], "a caller that only shows messages gets those too");
  const first = ids("/v1/inbox?wait=60");
  await flushTasks();
  assertEquals((await ask("/v1/inbox/read", post({ ids: [2], lease: 0, leaseId: "lease-one" }))).body.read, [2]);
  assertEquals(await first, [2]);
  assertEquals((await ask("/v1/inbox/read", post({ ids: [2] }))).body, { read: [2] });
  await world.clock.advance(50_000);
  const second = ask("/v1/inbox?wait=60");
  await flushTasks();
  await world.clock.advance(50_000);
  assertEquals((await second).body.messages.map(({ id, mayBeRepeat }: LocalMessage) => [id, mayBeRepeat]), [[1, true]]);
  for (const wrong of [{ lease: 121 }, { lease: -1 }, { lease: 1.5 }, { lease: 1, leaseId: "no" }]) {
    assertEquals((await ask("/v1/inbox/read", post({ ids: [1], ...wrong }))).body.error.code, "CONNECTOR_INVALID_BODY");
  }
});

Deno.test("a lease that a program takes while the connector ends causes no failures afterwards", async () => {
  await using world = await World.open();
  const { a, b, bench } = await readers(world);
  await world.message(a, b);
  const { connector, events } = bench;
  await connector.stop();
  assertEquals(connector.lease([1], "lease-one", 5), [1]);
  await bench.stop();
  const before = events.length;
  await world.clock.advance(60_000);
  assertEquals(events.slice(before), []);
});

Deno.test("of 20 calls that lease or take one message, one gets it", async (t) => {
  for (const [what, more] of [["lease", { lease: 5 }], ["take", {}]] as const) {
    await t.step(what, async () => {
      await using world = await World.open();
      const { a, b, bench, ask } = await readers(world);
      await world.message(a, b);
      const calls = Array.from({ length: 20 }, () => ask("/v1/inbox/read", post({ ids: [1], ...more })));
      assertEquals((await Promise.all(calls)).flatMap(({ body }) => body.read), [1]);
      if (what === "take") await until(() => bench.eventsOf("receipt_sent").length === 1);
    });
  }
});

Deno.test("a reply before, during, between and after waits is returned to each, and taken once", async (t) => {
  await using world = await World.open();
  const { a, b, bench, ask } = await readers(world);
  world.connect(a);
  await world.connected();
  let asked = 0;
  const question = (query = "") => {
    const requestId = `question-${++asked}`;
    return { requestId, answer: ask(`/v1/outbound${query}`, post({ to: a.agent.did, text: "?", requestId })) };
  };
  const reply = (requestId: string) => world.message(a, b, { headers: { "x-svc-in-reply-to": requestId } });
  const taken = async (id: number) => (await ask("/v1/inbox/read", post({ ids: [id] }))).body.read.length;
  const wonOnce = async (...ids: number[]) => {
    assertEquals(new Set(ids).size, 1);
    const counts = await Promise.all(ids.map(taken));
    assertEquals(counts.reduce((sum, count) => sum + count, 0), 1);
  };
  const idOf = (answer: { body: { reply: { id: number } } }) => answer.body.reply.id;
  await t.step("before", async () => {
    const { requestId, answer } = question();
    await answer;
    await reply(requestId);
    await wonOnce(...(await Promise.all([1, 2].map(() => ask(`/v1/outbound/${requestId}?wait=60`)))).map(idOf));
  });
  await t.step("during", async () => {
    const { requestId, answer } = question("?wait=60");
    await until(() => bench.eventsOf("sent").length === asked);
    const second = ask(`/v1/outbound/${requestId}?wait=60`);
    await reply(requestId);
    await wonOnce(idOf(await answer), idOf(await second));
  });
  await t.step("between", async () => {
    const { requestId, answer } = question("?wait=1");
    await until(() => bench.eventsOf("sent").length === asked);
    await world.clock.advance(1_000);
    assertEquals((await answer).body.reply, null);
    await reply(requestId);
    await wonOnce(idOf(await ask(`/v1/outbound/${requestId}?wait=60`)));
  });
  await t.step("after", async () => {
    const { requestId, answer } = question("?wait=1");
    await until(() => bench.eventsOf("sent").length === asked);
    await world.clock.advance(60_000);
    await answer;
    await reply(requestId);
    const { body } = await ask("/v1/inbox");
    assertEquals(body.messages.map(({ inReplyTo }: { inReplyTo: string }) => inReplyTo), [requestId]);
    await wonOnce(body.messages[0].id, idOf(await ask(`/v1/outbound/${requestId}`)));
  });
});

/** The same after `b` has asked `a` a question, whose answer the call waits for. */
async function askers(world: World) {
  const { a, b, ask } = await readers(world);
  const socket = world.connect(a);
  await world.connected();
  const asked = ask("/v1/outbound?wait=60", post({ to: a.agent.did, text: "?", requestId: "question-1" }));
  await until(() => socket.delivered.length === 1);
  return { a, b, ask, asked };
}

Deno.test("a reply that a call waits for is left to it, and listed when that call does not take it", async (t) => {
  for (const isTaken of [true, false]) {
    await t.step(isTaken ? "taken" : "not taken", async () => {
      await using world = await World.open();
      const { a, b, ask, asked } = await askers(world);
      const other = ask("/v1/inbox?wait=60"), shown = ask("/v1/inbox?held=true&wait=60");
      const headers = { "x-svc-in-reply-to": "question-1" };
      await world.message(a, b, { body: JSON.stringify({ message: "answer" }), headers });
      const { id } = (await asked).body.reply;
      const idsOf = async (call: ReturnType<typeof ask>) =>
        (await call).body.messages.map((message: { id: number }) => message.id);
      assertEquals(await idsOf(shown), [id]);
      // A message that comes before the caller has marked its reply as read shows that reply to no one else.
      await world.message(a, b, { body: JSON.stringify({ message: "another one" }) });
      assertEquals(await idsOf(other), [id + 1]);
      if (isTaken) assertEquals((await ask("/v1/inbox/read", post({ ids: [id] }))).body.read, [id]);
      await world.clock.advance(2_000);
      assertEquals(await idsOf(ask("/v1/inbox")), isTaken ? [id + 1] : [id, id + 1]);
    });
  }
});

Deno.test("a wait that left a reply to its caller shows it when the caller's time is over, and a second reply too", async () => {
  await using world = await World.open();
  const { a, b, ask, asked } = await askers(world);
  const began = world.clock.now(), headers = { "x-svc-in-reply-to": "question-1" };
  const other = ask("/v1/inbox?wait=60"), waited = other.then(() => world.clock.now() - began);
  await world.message(a, b, { body: JSON.stringify({ message: "one" }), headers });
  const { id } = (await asked).body.reply;
  await world.message(a, b, { body: JSON.stringify({ message: "two" }), headers });
  await world.clock.advance(2_000);
  await flushTasks();
  await world.clock.advance(60_000);
  assertEquals(await waited, 2_000);
  const { messages } = (await other).body;
  assertEquals(messages.map((message: { id: number }) => message.id), [id, id + 1]);
});

Deno.test("an answer to a message marks it as taken once it is sent, and not when it is refused", async () => {
  await using world = await World.open();
  const { a, b, ask } = await readers(world);
  await world.message(a, b, { headers: { "x-svc-conversation-id": "talk" } });
  const answer = () => ask("/v1/outbound", post({ replyTo: 1, text: "yes" }));
  assertEquals((await answer()).body.error.code, "PROXY_RELAY_CONNECTOR_OFFLINE");
  assertEquals((await ask("/v1/inbox")).body.messages.length, 1);
  const socket = world.connect(a);
  await world.connected();
  assertEquals((await answer()).status, 202);
  assertEquals((await ask("/v1/inbox")).body.messages, []);
  assertEquals(socket.delivered[0]?.conversationId, "talk");
});

Deno.test("a failure of the store does not hide that an answer was sent, and ends a wait with an empty body", async () => {
  await using world = await World.open();
  const { a, b, bench, ask } = await readers(world);
  await world.message(a, b);
  world.connect(a);
  await world.connected();
  const { received: inbox } = bench.connector.store;
  const fails = () => {
    throw new Error("disk full");
  };
  const { markRead, list } = inbox;
  inbox.markRead = fails;
  assertEquals((await ask("/v1/outbound", post({ replyTo: 1, text: "yes" }))).status, 202);
  inbox.markRead = markRead;
  const waiting = ask("/v1/inbox?wait=60&after=1");
  await flushTasks();
  inbox.list = fails;
  await world.message(a, b);
  assertEquals((await waiting).text, "");
  inbox.list = list;
  assertEquals(bench.eventsOf("store_failed").map(({ why }) => why), ["disk full", "disk full"]);
  assertEquals((await ask("/v1/inbox")).body.messages.length, 2);
});

Deno.test("the messages of an agent with a runtime are not listed", async () => {
  await using world = await World.open();
  const { bench } = await story(world);
  const { status, body } = await asker(bench)("/v1/inbox");
  assertEquals([status, body.error.code], [409, "CONNECTOR_RUNTIME_PUSHES"]);
});
