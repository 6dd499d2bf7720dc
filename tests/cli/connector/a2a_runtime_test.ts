/**
 * A runtime that is an A2A agent (D-134), with the server of the A2A SDK: each state of a task, a restart of the agent, a
 * kill of the connector, questions of a task, and the bounds of requests.
 */
import { assert, assertEquals } from "@std/assert";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { withIdentityBlock } from "../../../shared/protocol/identity_block.ts";
import { Database } from "../../../cli/connector/store/database.ts";
import { CONNECTOR_LIMITS as LIMIT } from "../../../cli/connector/limits.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { A2A_CARD, A2aAgent, type AgentCall, TaskState } from "./a2a_agent.ts";
import { type Behaviour, Bench, type BenchOptions, MANY, passing, story } from "./bench.ts";
import { TASK_HANDOVERS, TASK_REQUESTS } from "../../../cli/connector/runtime/task_follower.ts";

/** Options of a bench whose runtime is an A2A agent. */
function withAgent(agent: A2aAgent, more: Partial<BenchOptions["target"]> = {}): BenchOptions {
  const behaviour: Behaviour = ({ body, headers }) =>
    body === "" ? Response.json(A2A_CARD) : agent.answer(body, headers);
  return { platform: "a2a", behaviour, target: { replies: true, ...more } };
}

/** A task that works until the test ends it. */
function working() {
  const open: AgentCall[] = [];
  const ended = Promise.withResolvers<void>();
  const agent = new A2aAgent(async (call) => {
    open.push(call);
    call.say(TaskState.TASK_STATE_WORKING);
    await ended.promise;
  });
  return { agent, open, end: () => ended.resolve() };
}

/** A message of `a` to an agent, and what comes back. */
async function conversation(
  agent: A2aAgent,
  more: Partial<BenchOptions["target"]> = {},
  options: Partial<BenchOptions> = {},
) {
  const world = await World.open(MANY);
  const { a, b, bench } = await story(world, { ...withAgent(agent, more), ...options });
  let socket = world.connect(a);
  await world.connected();
  const send = (requestId: string, text = "hi", conversationId = "talk") =>
    world.message(a, b, {
      body: JSON.stringify({ message: text }),
      headers: { "x-request-id": requestId, "X-Svc-Conversation-Id": conversationId },
    });
  const replies = () => socket.delivered.map(({ inReplyTo, payload }) => ({ inReplyTo, payload: JSON.parse(payload) }));
  /** The replies without the sender's identity block. */
  const texts = () =>
    socket.delivered.map(({ payload, identity }) => {
      const { message, ...rest } = JSON.parse(payload);
      return { message: String(message).replace(withIdentityBlock("", identity), ""), ...rest };
    });
  return {
    world,
    a,
    b,
    bench,
    get socket() {
      return socket;
    },
    /** Connects the peer again, after the clock has moved further than a link without heartbeats lasts. */
    reconnect: () => void (socket = world.connect(a)),
    send,
    replies,
    texts,
    [Symbol.asyncDispose]: () => world[Symbol.asyncDispose](),
  };
}

Deno.test("each state in which a task ends becomes its reply", async (t) => {
  const cases: [string, (call: AgentCall) => void, unknown][] = [
    ["message", (call) => call.message("42"), { message: "42" }],
    ["completed", (call) => call.say(TaskState.TASK_STATE_COMPLETED, "42"), { message: "42" }],
    [
      "failed",
      (call) => call.say(TaskState.TASK_STATE_FAILED, "out of memory"),
      { message: "out of memory", svcError: { code: "TASK_FAILED", message: "out of memory" } },
    ],
    [
      "rejected",
      (call) => call.say(TaskState.TASK_STATE_REJECTED),
      {
        message: "The agent did not accept the task",
        svcError: { code: "TASK_REJECTED", message: "The agent did not accept the task" },
      },
    ],
    [
      "canceled",
      (call) => call.say(TaskState.TASK_STATE_CANCELED),
      { message: "The task was canceled", svcError: { code: "TASK_CANCELED", message: "The task was canceled" } },
    ],
    ["input required", (call) => call.say(TaskState.TASK_STATE_INPUT_REQUIRED, "Which one?"), {
      message: "Which one?",
    }],
    ["auth required", (call) => call.say(TaskState.TASK_STATE_AUTH_REQUIRED, "Who?"), { message: "Who?" }],
    ["auth required, without a text", (call) => call.say(TaskState.TASK_STATE_AUTH_REQUIRED), {
      message: "The agent needs a permission to go on",
    }],
    [
      "parts",
      (call) => {
        const rest = { metadata: undefined, filename: "", mediaType: "" };
        call.give([
          { content: { $case: "text", value: "one" }, ...rest },
          { content: { $case: "data", value: { n: 1 } }, ...rest },
          { content: { $case: "url", value: "http://x.example/" }, ...rest },
        ]);
      },
      { message: 'one\n{"n":1}\n[file left out]' },
    ],
  ];
  for (const [what, work, wanted] of cases) {
    await t.step(what, async () => {
      await using talk = await conversation(new A2aAgent(work));
      await talk.send("request-1");
      await until(() => talk.bench.eventsOf("receipt_sent").length === 1);
      await passing(talk.world, 5, () => talk.socket.delivered.length === 1);
      assertEquals(talk.texts(), [wanted as never]);
      const [frame] = talk.socket.delivered;
      assertEquals([frame?.inReplyTo, frame?.auto, frame?.conversationId], ["request-1", true, "talk"]);
      assertEquals(frame?.requestId, `r-${await sha256(`${talk.a.agent.did}\nrequest-1`)}`);
    });
  }
});

Deno.test("a message is one request with its own ID, and a context of its sender and conversation", async () => {
  const agent = new A2aAgent((call) => call.say(TaskState.TASK_STATE_COMPLETED, "ok"));
  await using talk = await conversation(agent, { hookToken: "secret" });
  await talk.send("request-1");
  await talk.send("request-2", "more");
  await talk.send("request-3", "other", "elsewhere");
  await until(() => agent.calls.length === 3);
  const requestIds = ["request-1", "request-2", "request-3"];
  const wanted = await Promise.all(requestIds.map((id) => sha256(`${talk.a.agent.did}\n${id}`)));
  const [first, second, third] = agent.calls.sort((a, b) => wanted.indexOf(a.messageId) - wanted.indexOf(b.messageId));
  assertEquals(agent.calls.map(({ messageId }) => messageId), wanted);
  assertEquals([first?.contextId, second?.contextId], Array(2).fill(await sha256(`${talk.a.agent.did}\ntalk`)));
  assert(third?.contextId !== first?.contextId);
  assert(first?.text.endsWith("\n\nhi") && first.text.includes(talk.a.agent.did), first?.text);
  assertEquals(agent.requests.at(-1)?.params.configuration, { returnImmediately: true });
  const [call] = talk.bench.calls;
  assertEquals([call?.headers.get("a2a-version"), call?.headers.get("authorization")], ["1.0", "Bearer secret"]);
});

Deno.test("a task that works is asked for after 50 ms, 250 ms and 1 s, then at doubled waits up to 15 s", async () => {
  const { agent, open, end } = working();
  await using talk = await conversation(agent);
  await talk.send("request-1");
  await until(() => talk.bench.eventsOf("receipt_sent").length === 1);
  for (const [n, wait] of [50, 250, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000].entries()) {
    await talk.world.clock.advance(wait - 1);
    assertEquals(agent.methods.length, n + 1, `before ${wait} ms`);
    await talk.world.clock.advance(1);
    await until(() => agent.methods.length === n + 2);
    // The answer is stored before the clock goes on.
    await until(() => talk.bench.database.get("SELECT polls FROM tasks")?.polls === n + 1);
  }
  assertEquals(agent.methods.slice(0, 3), ["SendMessage", "GetTask", "GetTask"]);
  open[0]?.say(TaskState.TASK_STATE_COMPLETED, "done");
  end();
  talk.reconnect();
  await passing(talk.world, 20, () => talk.socket.delivered.length === 1);
  assertEquals(talk.texts(), [{ message: "done" }]);
  assertEquals(talk.bench.database.all("SELECT * FROM tasks"), []);
});

Deno.test("a connector that is killed while a task works sends one reply after its next start", async () => {
  const { agent, open, end } = working();
  await using world = await World.open(MANY);
  const { a, b, bench } = await story(world, withAgent(agent));
  const socket = world.connect(a);
  await world.connected();
  await world.message(a, b, { headers: { "x-request-id": "request-1", "X-Svc-Conversation-Id": "talk" } });
  await until(() => bench.eventsOf("receipt_sent").length === 1);
  bench.kill();
  open[0]?.say(TaskState.TASK_STATE_COMPLETED, "done");
  end();
  await using next = await Bench.open(world, b, { ...withAgent(agent), folder: bench.folder });
  await passing(world, 20, () => socket.delivered.length === 1);
  await world.clock.advance(60_000);
  await flushTasks();
  assertEquals(socket.delivered.length, 1);
  assertEquals([socket.delivered[0]?.inReplyTo, socket.delivered[0]?.conversationId], ["request-1", "talk"]);
  assertEquals(agent.methods.filter((method) => method === "SendMessage").length, 1);
  assertEquals(next.eventsOf("task_ended").map(({ state }) => state), ["completed"]);
});

Deno.test("a task that the restarted agent does not know is lost, and so is one without a result for an hour", async (t) => {
  await t.step("unknown", async () => {
    const { agent, end } = working();
    await using talk = await conversation(agent);
    await talk.send("request-1");
    await until(() => talk.bench.eventsOf("receipt_sent").length === 1);
    agent.restart();
    await passing(talk.world, 5, () => talk.socket.delivered.length === 1);
    assertEquals(talk.replies()[0]?.payload.svcError, { code: "TASK_LOST", message: "The agent has lost the task" });
    end();
  });
  await t.step("an hour", async () => {
    const { agent, end } = working();
    await using talk = await conversation(agent);
    await talk.send("request-1");
    await until(() => talk.bench.eventsOf("receipt_sent").length === 1);
    const ms = LIMIT.taskPatienceMs - 60_000;
    talk.bench.database.run("UPDATE tasks SET startedAt = startedAt - ?", ms);
    await talk.world.clock.advance(30_000);
    assertEquals(talk.bench.eventsOf("task_ended"), []);
    await passing(talk.world, 60, () => talk.bench.eventsOf("task_ended").length === 1);
    const { sent } = talk.bench.connector.store;
    const payload = sent.payloadOf(sent.list({ limit: 1 }).messages[0] ?? { seq: 0 });
    assertEquals(JSON.parse(payload ?? "").svcError.code, "TASK_LOST");
    end();
  });
});

Deno.test("a task that ended while this machine slept for two hours has its result as the reply", async () => {
  const { agent, open, end } = working();
  await using talk = await conversation(agent);
  await talk.send("request-1");
  await until(() => talk.bench.eventsOf("receipt_sent").length === 1);
  await passing(talk.world, 30, () => agent.methods.filter((method) => method === "GetTask").length > 3);
  open[0]?.say(TaskState.TASK_STATE_COMPLETED, "done");
  end();
  talk.world.clock.step(2 * LIMIT.taskPatienceMs);
  await passing(talk.world, 60, () => talk.bench.eventsOf("task_ended").length === 1);
  assertEquals(talk.bench.eventsOf("task_ended").map(({ state }) => state), ["completed"]);
});

Deno.test("a task goes on, and its question can be answered, although the clock was moved by hours", async () => {
  const { agent, open, end } = working();
  await using talk = await conversation(agent);
  await talk.send("request-1");
  await until(() => talk.bench.eventsOf("receipt_sent").length === 1);
  for (const step of [2 * LIMIT.taskPatienceMs, -4 * LIMIT.taskPatienceMs]) {
    talk.world.clock.step(step);
    const looks = agent.methods.length;
    for (let i = 0; i < 60 && agent.methods.length < looks + 2; i++) await talk.world.clock.advance(1_000);
    assertEquals([agent.methods.length - looks, talk.bench.eventsOf("task_ended")], [2, []]);
  }
  const { tasks } = talk.bench.connector.store, { clock } = talk.world;
  assertEquals(tasks.due(clock.now() + LIMIT.taskPollMaxMs).map(({ startedAt }) => clock.now() - startedAt < 300_000), [
    true,
  ]);
  open[0]?.say(TaskState.TASK_STATE_INPUT_REQUIRED, "Which one?");
  end();
  await passing(talk.world, 60, () => talk.bench.eventsOf("task_ended").length === 1);
  talk.world.clock.step(2 * LIMIT.taskPatienceMs);
  await talk.send("request-2", "both");
  await passing(talk.world, 5, () => agent.calls.length === 2);
  assertEquals(agent.calls[1]?.taskId, open[0]?.taskId);
});

Deno.test("each task that worked when the connector was off for two days has a reply", async () => {
  await using world = await World.open(MANY);
  const { agent, end } = working();
  const { a, b, bench } = await story(world, withAgent(agent));
  const startedAt = world.clock.now();
  for (let i = 1; i <= 6; i++) {
    const task = { fromDid: a.agent.did, requestId: `request-${i}`, taskId: `task-${i}`, contextId: "c" };
    bench.connector.store.tasks.put({ ...task, state: "working", nextAt: startedAt + 60_000, polls: 3, startedAt });
  }
  bench.kill();
  world.clock.step(48 * 3_600_000);
  await using next = await Bench.open(world, b, { ...withAgent(agent), folder: bench.folder });
  await passing(world, 60, () => next.eventsOf("task_ended").length === 6);
  assertEquals(new Set(next.eventsOf("task_ended").map(({ state }) => state)), new Set(["TASK_LOST"]));
  assertEquals(next.connector.store.sent.list({ limit: 10 }).messages.length, 6);
  end();
});

Deno.test("the next message of the conversation within an hour answers the question of a task", async () => {
  const agent = new A2aAgent((call) =>
    call.continues
      ? call.say(TaskState.TASK_STATE_COMPLETED, "both")
      : call.say(TaskState.TASK_STATE_INPUT_REQUIRED, "Which one?")
  );
  await using talk = await conversation(agent);
  const replied = async (n: number) => await passing(talk.world, 5, () => talk.socket.delivered.length === n);
  await talk.send("request-1");
  await replied(1);
  await talk.send("request-2", "unrelated", "elsewhere");
  await replied(2);
  await talk.send("request-3", "both");
  await replied(3);
  await talk.send("request-4", "again");
  await replied(4);
  const [first, other, answer, fourth] = agent.calls;
  assertEquals([other?.taskId === first?.taskId, answer?.taskId === first?.taskId], [false, true]);
  assert(fourth?.taskId !== first?.taskId);
  assertEquals(talk.texts().map(({ message }) => message), ["Which one?", "Which one?", "both", "Which one?"]);
  const rows = talk.bench.connector.store.tasks;
  const asking = (ms: number) => rows.asking(first?.contextId ?? "", talk.world.clock.now() + ms)?.taskId;
  assertEquals(asking(LIMIT.taskPatienceMs - 10_000), fourth?.taskId);
  assertEquals(asking(LIMIT.taskPatienceMs), undefined);
});

Deno.test("a message that answers a question begins a new task when the agent has lost the old one", async () => {
  const agent = new A2aAgent((call) => call.say(TaskState.TASK_STATE_INPUT_REQUIRED, "Which one?"));
  await using talk = await conversation(agent);
  await talk.send("request-1");
  await passing(talk.world, 5, () => talk.socket.delivered.length === 1);
  agent.restart();
  await talk.send("request-2", "both");
  await passing(talk.world, 10, () => talk.socket.delivered.length === 2);
  assertEquals(agent.requests.map(({ params }) => "taskId" in params.message), [false, true, false]);
});

Deno.test("errors that are about the message end it at once, and others are tried again", async (t) => {
  const failing = (code: number) => Response.json({ jsonrpc: "2.0", id: 1, error: { code, message: "No" } });
  for (const code of [-32600, -32601, -32602, -32004, -32005, -32009]) {
    await t.step(`${code} is a dead letter`, async () => {
      await using world = await World.open();
      const { a, b, bench } = await story(world, { platform: "a2a", behaviour: () => failing(code) });
      await world.message(a, b);
      await until(() => bench.eventsOf("dead_letter").length === 1);
      assertEquals([bench.calls.length, bench.eventsOf("dead_letter")[0]?.why], [1, `A2A error ${code}: No`]);
    });
  }
  const later: [string, () => Response][] = [
    ["-32000", () => failing(-32_000)],
    ["-32001", () => failing(-32_001)],
    ["-32603", () => failing(-32_603)],
    ["no JSON", () => new Response("<html>")],
    ["another JSON", () => Response.json({ jsonrpc: "2.0", id: 1, result: { task: { id: "x" } } })],
  ];
  for (const [what, answer] of later) {
    await t.step(`${what} is tried again`, async () => {
      await using world = await World.open();
      const ok = { result: { message: { messageId: "m", role: "ROLE_AGENT", parts: [{ text: "ok" }] } } };
      const behaviour: Behaviour = ({ body }) =>
        body === "" ? new Response() : n++ === 0 ? answer() : Response.json(ok);
      let n = 0;
      const { a, b, bench } = await story(world, { platform: "a2a", behaviour });
      await world.message(a, b);
      await passing(world, 5, () => bench.eventsOf("handed_over").length === 1);
      assertEquals([bench.handedOver.length, bench.connector.status().runtime.problem], [2, null]);
    });
  }
});

Deno.test("no task is followed for an automatic message, or while replies are off", async (t) => {
  for (
    const [what, options, headers] of [["auto", {}, { "X-Svc-Auto": "1" }], ["off", { replies: false }, {}]] as const
  ) {
    await t.step(what, async () => {
      const { agent, end } = working();
      await using world = await World.open();
      const { a, b, bench } = await story(world, withAgent(agent, options));
      await world.message(a, b, { headers });
      await until(() => bench.eventsOf("handed_over").length === 1);
      await world.clock.advance(30_000);
      await flushTasks();
      assertEquals(agent.methods, ["SendMessage"]);
      end();
    });
  }
});

Deno.test("at most 24 requests a minute reach the agent, and 18 messages go before states of tasks", async () => {
  const { agent, end } = working();
  await using talk = await conversation(agent);
  for (let n = 0; n < 30; n++) await talk.send(`request-${n}`, `${n}`, `c${n}`);
  await passing(talk.world, 3, () => agent.methods.length === 24);
  await talk.world.clock.advance(50_000);
  await flushTasks();
  const looks = TASK_REQUESTS - TASK_HANDOVERS;
  assertEquals(agent.methods, [...Array(TASK_HANDOVERS).fill("SendMessage"), ...Array(looks).fill("GetTask")]);
  await passing(talk.world, 20, () => agent.methods.filter((method) => method === "SendMessage").length === 30);
  assert(agent.methods.length <= 2 * TASK_REQUESTS);
  end();
});

Deno.test("messages wait while 200 tasks are open, and go on when one ends", async () => {
  const { agent, end } = working();
  const database = (path: string) => {
    const db = Database.open(path);
    const far = Date.UTC(2026, 1, 21, 0, 1) + LIMIT.taskPollMaxMs;
    for (let n = 0; n < LIMIT.openTasks; n++) {
      db.run("INSERT INTO tasks VALUES ('did:x', ?, 't', 'c', 'working', ?, 0, ?)", `old-${n}`, far, far);
    }
    return db;
  };
  await using talk = await conversation(agent, {}, { database });
  await talk.send("request-1");
  await talk.world.clock.advance(5_000);
  await flushTasks();
  assertEquals([agent.methods, talk.bench.connector.status().inbox.waiting], [[], 1]);
  // The agent does not know these tasks.
  await passing(talk.world, 60, () => agent.methods.includes("SendMessage"));
  end();
});

Deno.test("a peer whose tasks do not end holds up its own messages, and not those of another one", async () => {
  const { agent, end } = working();
  await using talk = await conversation(agent);
  const { world, b, bench } = talk, far = world.clock.now() + LIMIT.taskPollMaxMs;
  for (let n = 0; n < LIMIT.openTasks / 2; n++) {
    const sql = "INSERT INTO tasks VALUES (?, ?, 't', 'c', 'working', ?, 0, ?)";
    bench.database.run(sql, talk.a.agent.did, `old-${n}`, far, far);
  }
  const quiet = await world.agent();
  await world.pair(quiet, b);
  await bench.connector.updatePeers();
  await talk.send("request-1");
  await world.message(quiet, b, { headers: { "x-request-id": "request-of-quiet" } });
  await until(() => bench.eventsOf("handed_over").length > 0);
  await world.clock.advance(5_000);
  const handedOver = () => bench.eventsOf("handed_over").map(({ requestId }) => requestId);
  assertEquals(handedOver(), ["request-of-quiet"]);
  // The agent does not know the old tasks, so they end when it is asked.
  await passing(world, 60, () => handedOver().length === 2);
  end();
});

Deno.test("a peer that writes all the time does not hold up the result of another one's task", async () => {
  const ended = Promise.withResolvers<void>();
  const agent = new A2aAgent(async (call) => {
    call.say(TaskState.TASK_STATE_WORKING);
    if (!call.text.includes("quiet")) return await new Promise(() => {});
    await ended.promise;
    call.say(TaskState.TASK_STATE_COMPLETED, "42");
  });
  await using talk = await conversation(agent);
  const { world, b, bench } = talk, quiet = await world.agent();
  await world.pair(quiet, b);
  await bench.connector.updatePeers();
  const body = JSON.stringify({ message: "quiet" });
  await world.message(quiet, b, { body, headers: { "x-request-id": "request-of-quiet" } });
  await until(() => bench.eventsOf("handed_over").length === 1);
  // The agent takes fewer messages than that.
  const taskEnds = () => bench.eventsOf("task_ended").map(({ requestId }) => requestId);
  for (let s = 0, n = 0; s < 300 && taskEnds().length === 0; s += 2) {
    if (s === 60) ended.resolve();
    await talk.send(`request-${n}`, "loud", `c${n++}`);
    await world.clock.advance(2_000);
    await flushTasks();
  }
  assertEquals(taskEnds(), ["request-of-quiet"]);
});

Deno.test("a text that does not fit is cut with a mark, and an answer over 1 MiB is a failure", async (t) => {
  const long = "\u0001é\u{1F600}".repeat(60_000);
  const cases: [string, string, (payload: { message: string; svcError?: { code: string } }) => void][] = [
    ["cut", long, ({ message }) => {
      assert(message.endsWith("\n[cut: the answer is longer]"), message.slice(-60));
      assert(message.isWellFormed());
    }],
    ["1 MiB", "x".repeat(LIMIT.taskAnswerBytes), ({ svcError }) => assertEquals(svcError?.code, "TASK_FAILED")],
  ];
  for (const [what, text, check] of cases) {
    await t.step(what, async () => {
      await using talk = await conversation(new A2aAgent((call) => call.say(TaskState.TASK_STATE_COMPLETED, text)));
      await talk.send("request-1");
      await passing(talk.world, 5, () => talk.socket.delivered.length === 1);
      check(talk.texts()[0] as never);
      const bytes = talk.bench.connector.store.sent.list({ limit: 1 }).messages[0]?.bytes ?? 0;
      assert(bytes <= LIMITS.payloadBytes, String(bytes));
      if (what === "cut") assert(bytes > LIMITS.payloadBytes - 64, String(bytes));
    });
  }
});

Deno.test("a task is first asked for after 1 s while half of the requests of a minute are used", async () => {
  const quick = new A2aAgent((call) => call.message("ok"));
  await using talk = await conversation(quick);
  for (let n = 1; n <= TASK_REQUESTS / 2; n++) {
    await talk.send(`request-${n}`, "hi", `talk-${n}`);
    await until(() => talk.bench.eventsOf("handed_over").length === n);
  }
  const slow = working();
  talk.bench.behaviour = withAgent(slow.agent).behaviour!;
  await talk.send("request-slow");
  await until(() => slow.agent.methods.length === 1);
  await until(() => talk.bench.database.get("SELECT polls FROM tasks") !== null);
  await talk.world.clock.advance(999);
  assertEquals(slow.agent.methods, ["SendMessage"]);
  await talk.world.clock.advance(1);
  await until(() => slow.agent.methods.length === 2);
  slow.end();
});
