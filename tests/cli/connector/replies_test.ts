/** Answers of a runtime as replies to its peers, and the loop guard between two agents (D-113). */
import { resigned } from "./resigned.ts";
import { assert, assertEquals } from "@std/assert";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { withIdentityBlock } from "../../../shared/protocol/identity_block.ts";
import { LOOP_MESSAGES } from "../../../cli/link/loop_guard.ts";
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import type { ReplyContent } from "../../../cli/platforms/platform.ts";
import { CONNECTOR_OPTIONS } from "../../../cli/commands/connector/connector.ts";
import { PLATFORMS } from "../../../cli/platforms/table.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { type TestAgent, World } from "../../support/world.ts";
import { down, gate, refusal } from "./gate.ts";
import { type Behaviour, Bench, type BenchOptions, MANY, passing, story } from "./bench.ts";
import { ANSWER_BYTES } from "../../../cli/connector/runtime/runtime_room.ts";
import { CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";

const FAILS = { status: 500 };
const ON: BenchOptions = { target: { replies: true } };
const says = (reply: unknown): Behaviour => () => Response.json({ reply });

/** A conversation with an agent whose runtime answers. */
async function asked(world: World, options: BenchOptions, headers: Record<string, string> = {}) {
  const { a, b, bench } = await story(world, options);
  const socket = world.connect(a);
  // A reply sent before the store knows the connection is queued first, so its state would be another one.
  await world.connected();
  await world.message(a, b, { headers: { "x-request-id": "request-1", ...headers } });
  await until(() => bench.eventsOf("receipt_sent").length === 1);
  return { a, b, bench, socket };
}

const sentBy = (bench: Bench) => bench.connector.store.sent.list({ limit: 100 }).messages;

Deno.test("the answer of nanobot goes back with its question, its conversation and the mark of a program", async () => {
  await using world = await World.open();
  const behaviour: Behaviour = () => Response.json({ choices: [{ message: { role: "assistant", content: "42" } }] });
  const options: BenchOptions = { platform: "nanobot", behaviour, target: { replies: true } };
  const { a, b, bench, socket } = await asked(world, options, { "X-Svc-Conversation-Id": "talk" });
  await until(() => socket.delivered.length === 1);
  const [frame] = socket.delivered;
  assert(frame);
  const { requestId, inReplyTo, auto, conversationId, fromAgentDid, payload, identity } = frame;
  assertEquals({ requestId, inReplyTo, auto, conversationId, fromAgentDid }, {
    requestId: `r-${await sha256(`${a.agent.did}\nrequest-1`)}`,
    inReplyTo: "request-1",
    auto: true,
    conversationId: "talk",
    fromAgentDid: b.agent.did,
  });
  assertEquals(JSON.parse(payload), { message: withIdentityBlock("42", identity) });
  await until(() => sentBy(bench)[0]?.state === "delivered");
  assertEquals(sentBy(bench).map(({ origin, toDid }) => [origin, toDid]), [["runtime", a.agent.did]]);
});

Deno.test("an object in the answer of a generic runtime is the payload of the reply, byte for byte", async () => {
  await using world = await World.open();
  const body = '{"x":1, "reply" : {"n":12345678901234567890,"m": 1.0}}';
  const { socket } = await asked(world, { ...ON, behaviour: () => new Response(body) });
  await until(() => socket.delivered.length === 1);
  assertEquals(socket.delivered[0]?.payload, '{"n":12345678901234567890,"m": 1.0}');
});

Deno.test("a reply for an offline peer waits at the proxy", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { ...ON, behaviour: says("hi") });
  await world.message(a, b);
  await until(() => bench.eventsOf("queued").length === 1);
  const socket = world.connect(a);
  await until(() => socket.delivered.length === 1);
});

Deno.test("each platform finds the reply in its answer, and none in any other text", async (t) => {
  const chat = (content: unknown) => JSON.stringify({ choices: [{ message: { content } }, 7] });
  const cases: ["nanobot" | "generic", string, ReplyContent | null][] = [
    ["nanobot", chat("hi"), { text: "hi" }],
    ["nanobot", chat(null), null],
    ["nanobot", '{"choices":[]}', null],
    ["nanobot", '{"choices":{"0":{"message":{"content":"x"}}}}', null],
    ["nanobot", "[]", null],
    ["generic", '{"reply":"hi"}', { text: "hi" }],
    ["generic", '{"reply":"a","reply":"b"}', { text: "b" }],
    ["generic", '{"reply":{"reply":"x"}}', { payload: '{"reply":"x"}' }],
    ["generic", '{"a":{"reply":"x"}}', null],
    ...["null", "7", "true", "[1]"].map((value): ["generic", string, null] => ["generic", `{"reply":${value}}`, null]),
    ...["", "ok", '"reply"', '[{"reply":"x"}]', "null", '{"reply":'].map((text): ["generic", string, null] => [
      "generic",
      text,
      null,
    ]),
  ];
  for (const [platform, text, expected] of cases) {
    await t.step(`${platform} ${text}`, () => {
      assertEquals(PLATFORMS[platform].replyOf?.(text) ?? null, expected);
    });
  }
  const replying = (["openclaw", "hermes", "nanobot", "generic"] as const).map((id) => {
    const { replyOf, repliesByDefault } = PLATFORMS[id];
    return [id, replyOf !== undefined, repliesByDefault];
  });
  assertEquals(replying, [["openclaw", false, false], ["hermes", false, false], ["nanobot", true, true], [
    "generic",
    true,
    false,
  ]]);
});

Deno.test("the help of --replies names the platforms whose answers are replies unless told otherwise", () => {
  const { summary } = CONNECTOR_OPTIONS.replies;
  const named = Object.keys(PLATFORMS).filter((id) => summary.split(/\W/).includes(id));
  const replying = Object.entries(PLATFORMS).filter(([, row]) => "repliesByDefault" in row && row.repliesByDefault);
  assertEquals(named, replying.map(([id]) => id));
});

Deno.test("no reply is sent for a blank answer, for an automatic message, or while replies are off", async (t) => {
  const cases: [string, BenchOptions, Record<string, string>][] = [
    ["blank", { ...ON, behaviour: says(" \n") }, {}],
    ["automatic", { ...ON, behaviour: says("hi") }, { "X-Svc-Auto": "1" }],
    ["off", { target: { replies: false }, behaviour: says("hi") }, {}],
    [
      "not accepted",
      { ...ON, behaviour: (_, n) => n === 1 ? Response.json({ reply: "x" }, FAILS) : new Response() },
      {},
    ],
  ];
  for (const [what, options, headers] of cases) {
    await t.step(what, async () => {
      await using world = await World.open();
      const { a, b, bench } = await story(world, options);
      await world.message(a, b, { headers });
      await passing(world, 5, () => bench.eventsOf("receipt_sent").length === 1);
      assertEquals(sentBy(bench), []);
    });
  }
});

Deno.test("an answer over 256 KiB, or a reply over the bound of a payload, is handed over without a reply", async (t) => {
  const cases = [
    ["answer", () => new Response(`{"reply":"x","more":"${"x".repeat(ANSWER_BYTES)}"}`)],
    ["payload", says("x".repeat(LIMITS.payloadBytes - 13))],
  ] as const;
  for (const [what, behaviour] of cases) {
    await t.step(what, async () => {
      await using world = await World.open();
      const { a, bench } = await asked(world, { ...ON, behaviour });
      assertEquals(bench.eventsOf("reply_too_large"), [{ to: a.agent.did, requestId: "request-1" }]);
      assertEquals([bench.eventsOf("handed_over").length, sentBy(bench)], [1, []]);
    });
  }
  await t.step("the largest reply is sent", async () => {
    await using world = await World.open();
    const { bench, socket } = await asked(world, {
      ...ON,
      behaviour: says("x".repeat(LIMITS.payloadBytes - 14)),
    });
    await until(() => socket.delivered.length === 1);
    assertEquals(sentBy(bench)[0]?.bytes, LIMITS.payloadBytes);
  });
});

Deno.test("an answer that would stop the readers of a reply is handed over without a reply", async (t) => {
  for (const reply of [`{"n":${"1".repeat(301)}}`, `{"deep":${"[".repeat(64)}${"]".repeat(64)}}`]) {
    await t.step(reply.slice(0, 6), async () => {
      await using world = await World.open();
      const { bench } = await asked(world, { ...ON, behaviour: () => new Response(`{"reply":${reply}}`) });
      assertEquals([bench.eventsOf("reply_invalid").length, sentBy(bench)], [1, []]);
    });
  }
});

/** An answer that breaks off after its status. */
const broken: Behaviour = () =>
  new Response(
    new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"reply":'));
      },
      pull(controller) {
        controller.error(new TypeError("reset"));
      },
    }),
  );

Deno.test("an answer that breaks off after its status is handed over without a reply", async () => {
  await using world = await World.open();
  const { bench } = await asked(world, { ...ON, behaviour: broken });
  assertEquals([bench.eventsOf("reply_lost").length, bench.eventsOf("handed_over").length], [1, 1]);
  assertEquals([bench.calls.length, sentBy(bench)], [1, []]);
});

Deno.test("the asker of an A2A agent whose answer breaks off is told that the task is lost", async () => {
  await using world = await World.open();
  const { bench, socket } = await asked(world, { ...ON, platform: "a2a", behaviour: broken });
  await until(() => socket.delivered.length === 1);
  const { svcError } = JSON.parse(socket.delivered[0]?.payload ?? "");
  assertEquals(svcError, { code: "TASK_LOST", message: "The agent's answer broke off; it may still work on the task" });
  assertEquals([bench.eventsOf("reply_lost").length, bench.eventsOf("handed_over").length], [1, 1]);
});

Deno.test("a reply is sent again until the proxy has it, with growing waits", async (t) => {
  const cases = [
    ["no connection", down],
    ["503", refusal(503, "PROXY_RELAY_UNAVAILABLE")],
    ["502", refusal(502, "PROXY_RELAY_DELIVERY_FAILED")],
    ["429", refusal(429, "PROXY_RATE_LIMIT_EXCEEDED", { "Retry-After": "2" })],
  ] as const;
  for (const [what, answer] of cases) {
    await t.step(what, async () => {
      await using world = await World.open();
      const proxy = gate(world);
      proxy.answer = answer;
      const { bench, socket } = await asked(world, { ...ON, fetch: proxy.fetch, behaviour: says("hi") });
      await until(() => bench.eventsOf("reply_failed").length === 1);
      for (let s = 0; s < 10; s++) await world.clock.advance(1_000);
      const waits = bench.eventsOf("reply_failed").map(({ nextInMs }) => nextInMs);
      assertEquals(waits, what === "429" ? [2_000, 2_000, 4_000, 8_000] : [1_000, 2_000, 4_000, 8_000]);
      assertEquals([sentBy(bench)[0]?.state, sentBy(bench)[0]?.attempts], ["kept", 4]);
      proxy.answer = null;
      await passing(world, 10, () => socket.delivered.length === 1);
      assertEquals(new Set(proxy.requests).size, 1, "each attempt has the same request ID");
      await until(() => sentBy(bench)[0]?.state === "delivered");
    });
  }
});

Deno.test("a reply that the proxy refuses permanently ends at once", async (t) => {
  for (const status of [400, 413]) {
    await t.step(String(status), async () => {
      await using world = await World.open();
      const proxy = gate(world);
      proxy.answer = refusal(status, "PROXY_AUTH_FORBIDDEN");
      const { bench } = await asked(world, { ...ON, fetch: proxy.fetch, behaviour: says("hi") });
      await until(() => bench.eventsOf("reply_refused").length === 1);
      for (let s = 0; s < 10; s++) await world.clock.advance(1_000);
      assertEquals(proxy.requests.length, 1);
      assertEquals([sentBy(bench)[0]?.state, sentBy(bench)[0]?.problem], ["refused", "PROXY_AUTH_FORBIDDEN"]);
    });
  }
});

Deno.test("a reply that could not be sent for a day ends as refused", async () => {
  await using world = await World.open();
  const proxy = gate(world);
  proxy.answer = down;
  const { bench } = await asked(world, { ...ON, fetch: proxy.fetch, behaviour: says("hi") });
  await until(() => bench.eventsOf("reply_failed").length === 1);
  await world.clock.stepWhenIdle(CONNECTOR_LIMITS.keptMs);
  await passing(world, 5, () => bench.eventsOf("reply_refused").length === 1);
  assertEquals(sentBy(bench).map(({ state, problem }) => [state, problem]), [["refused", "not sent within 24 h"]]);
});

Deno.test("a reply that finds no room among those that wait for its peer is told as not sent", async () => {
  await using world = await World.open();
  const proxy = gate(world);
  proxy.answer = down;
  const { a, b, bench } = await asked(world, { ...ON, fetch: proxy.fetch, behaviour: says("hi") });
  await until(() => bench.eventsOf("reply_failed").length === 1);
  bench.connector.store.database.run(`UPDATE sent SET bytes = ${CONNECTOR_LIMITS.keptReplyBytes}`);
  await world.message(a, b, { headers: { "x-request-id": "request-2" } });
  await until(() => bench.eventsOf("handed_over").length === 2);
  const why = "too many replies wait for this peer";
  const refused = sentBy(bench).flatMap(({ state, toDid: to, requestId }) =>
    state === "refused" ? [{ to, requestId, why }] : []
  );
  assertEquals([refused.length, sentBy(bench)[0]?.problem], [1, why]);
  assertEquals(bench.eventsOf("reply_refused"), refused);
});

Deno.test("a reply whose peer cannot be reached does not delay a reply to another peer, and keeps its order", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { ...ON, behaviour: ({ body }) => Response.json({ reply: body }) });
  const c = await world.agent();
  await world.pair(c, b);
  const { call } = bench.connector.proxy;
  let isBlocked = true;
  bench.connector.proxy.call = (request) => {
    if (isBlocked && request.recipient === a.agent.did) {
      return Promise.resolve({ status: 507, headers: new Headers(), text: "" });
    }
    return call.call(bench.connector.proxy, request);
  };
  const sockets = [world.connect(a), world.connect(c)] as const;
  for (const n of [1, 2, 3]) await world.message(a, b, { body: JSON.stringify({ message: `${n}` }) });
  await until(() => bench.eventsOf("handed_over").length === 3);
  await world.message(c, b);
  await until(() => sockets[1].delivered.length === 1);
  assertEquals(sockets[0].delivered, []);
  isBlocked = false;
  await passing(world, 10, () => sockets[0].delivered.length === 3);
  const texts = sockets[0].delivered.map(({ payload }) => /(\d)\\"}"}$/.exec(payload)?.[1]);
  assertEquals(texts, ["1", "2", "3"]);
});

Deno.test("a reply that a kill left is sent once after the next start, also when its answer was lost", async () => {
  await using world = await World.open();
  const proxy = gate(world);
  const { a, b, bench } = await story(world, { ...ON, fetch: proxy.fetch, behaviour: says("hi") });
  const socket = world.connect(a);
  // The proxy gets the request, and its answer does not arrive.
  const { fetch } = proxy;
  Object.assign(bench.connector.proxy.deps, {
    fetch: async (...request: Parameters<typeof fetch>) => {
      const response = await fetch(...request);
      return String(request[0]).includes("/hooks/agent") ? await new Promise(() => {}) : response;
    },
  });
  await world.message(a, b);
  await until(() => socket.delivered.length === 1);
  bench.kill();
  await using again = await Bench.open(world, b, { folder: bench.folder, ...ON, behaviour: says("other") });
  await until(() => sentBy(again)[0]?.state === "delivered");
  await flushTasks();
  assertEquals([socket.delivered.length, again.calls.length], [1, 0]);
});

Deno.test("a message that is handed over again after a kill causes one reply", async () => {
  await using world = await World.open();
  let answered = 0;
  const { a, b, bench } = await story(world, {
    ...ON,
    behaviour: async () => {
      answered++;
      await new Promise(() => {});
      return new Response();
    },
  });
  const socket = world.connect(a);
  await world.message(a, b);
  await until(() => answered === 1);
  bench.kill();
  await using again = await Bench.open(world, b, { folder: bench.folder, ...ON, behaviour: says("hi") });
  await until(() => socket.delivered.length === 1 && again.eventsOf("receipt_sent").length === 1);
});

/** Two agents whose runtimes answer each message, and both connectors. */
async function pairOfRuntimes(
  world: World,
  optionsOf: BenchOptions | ((a: TestAgent, b: TestAgent) => BenchOptions),
): Promise<{ a: TestAgent; b: TestAgent; benches: Bench[] }> {
  const [a, b] = [await world.agent(), await world.agent()];
  await world.pair(a, b);
  const options = typeof optionsOf === "function" ? optionsOf(a, b) : optionsOf;
  const benches = [];
  for (const agent of [a, b]) benches.push(await Bench.open(world, agent, { ...ON, behaviour: says("x"), ...options }));
  return { a, b, benches };
}

Deno.test("two runtimes that answer everything exchange exactly one automatic reply", async () => {
  await using world = await World.open(MANY);
  const { a, b, benches } = await pairOfRuntimes(world, {});
  await world.message(a, b);
  await until(() => benches.every((bench) => bench.eventsOf("handed_over").length === 1));
  await world.clock.advance(30_000);
  assertEquals(benches.map((bench) => [bench.handedOver.length, sentBy(bench).length]), [[1, 0], [1, 1]]);
});

Deno.test("programs that do not say which messages are automatic cause 32 replies of each, then one that says so", async () => {
  // Frames come without both, as of a program that passes on neither.
  const hide = ({ auto: _, conversationId: _own, ...frame }: DeliverFrame): DeliverFrame => frame;
  await using world = await World.open(MANY);
  const { a, b, benches } = await pairOfRuntimes(world, (one, two) => ({
    tamper: (frame) => resigned(world, frame.fromAgentDid === one.agent.did ? one : two, hide(frame)),
  }));
  await world.message(a, b);
  await until(() => benches.reduce((sum, bench) => sum + bench.eventsOf("loop_guard").length, 0) === 2);
  await world.clock.advance(30_000);
  const sent = benches.map(sentBy);
  assertEquals(sent.map((one) => one.filter(({ state }) => state !== "refused").length), [LOOP_MESSAGES, 33]);
  // Beta's runtime was asked first, so its thread is full first. Alpha's answer to its refusal is refused too.
  assertEquals(sent.flat().filter(({ state }) => state === "refused").map(({ problem }) => problem), [
    "loop_guard",
  ]);
  const [busy] = sent[1] ?? [];
  assertEquals(JSON.parse(benches[1]?.connector.store.sent.payloadOf(busy!) ?? "").svcError.code, "BUSY");
  assertEquals(benches.map((bench) => bench.connector.status().loopGuards), [1, 1]);
});

Deno.test("seventy questions of a peer in a row get their answers, also in one conversation", async () => {
  await using world = await World.open(MANY);
  const { a, b, bench } = await story(world, { ...ON, behaviour: says("hi") });
  const socket = world.connect(a);
  for (let n = 1; n <= 70; n++) {
    const conversation: Record<string, string> = n > 35 ? { "X-Svc-Conversation-Id": "talk" } : {};
    await world.message(a, b, { headers: { "x-request-id": `question-${n}`, ...conversation } });
    await until(() => socket.delivered.length === n);
  }
  const replies = socket.delivered.map(({ inReplyTo, conversationId }) => [inReplyTo, conversationId]);
  const expected = Array.from({ length: 70 }, (_, i) => `question-${i + 1}`);
  assertEquals(replies, expected.map((id, i) => [id, i >= 35 ? "talk" : id]));
  assertEquals(bench.eventsOf("loop_guard"), []);
});
