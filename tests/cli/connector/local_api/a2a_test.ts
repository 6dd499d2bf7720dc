/**
 * The local A2A address of a peer (D-135), called with the client of the A2A SDK and by hand: states of a task, tokens,
 * repeated messages, bounds, and which replies go to the runtime.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Role, type Task, TaskState } from "@a2a-js/sdk";
import { CONNECTOR_LIMITS as LIMIT } from "../../../../cli/connector/limits.ts";
import { LOCAL_ERRORS } from "../../../../cli/local_errors.ts";
import { flushTasks } from "../../../support/manual_clock.ts";
import { until } from "../../../support/until.ts";
import type { TestAgent, World } from "../../../support/world.ts";
import { textPart } from "../a2a_agent.ts";
import { passing } from "../bench.ts";
import { FailingDisk } from "../failing_disk.ts";
import { lost, refusal } from "../gate.ts";
import { BETA_TOKEN, client, GAMMA_TOKEN, messageOf, place } from "./a2a_place.ts";
import { ORIGIN, PORT, TOKEN } from "./local_caller.ts";
import { A2A_TASK_MS } from "../../../../cli/connector/local_api/a2a/endpoint.ts";

/** The reply of an agent to a task. */
const reply = (world: World, from: TestAgent, to: TestAgent, taskId: string, payload: object = { message: "42" }) =>
  world.message(from, to, { body: JSON.stringify(payload), headers: { "X-Svc-In-Reply-To": taskId } });

Deno.test("the client of the SDK gets the reply of the peer as the result of its task", async () => {
  await using at = await place();
  const socket = await at.online();
  const a2a = await client(at.fetchLocal);
  const asked = a2a.sendMessage({
    tenant: "",
    message: {
      messageId: "m-1",
      contextId: "talk-1",
      taskId: "",
      role: Role.ROLE_USER,
      parts: [textPart("What is it?")],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: undefined,
    metadata: undefined,
  });
  await until(() => socket.delivered.length === 1);
  const [frame] = socket.delivered;
  assertEquals([frame?.conversationId, frame?.auto], ["talk-1", undefined]);
  await reply(at.world, at.beta, at.alpha, frame?.requestId ?? "");
  const task = await asked as Task;
  assertEquals([task.id, task.contextId], [frame?.requestId ?? "", "talk-1"]);
  assertEquals(task.status?.state, TaskState.TASK_STATE_COMPLETED);
  assertEquals(task.artifacts[0]?.parts[0]?.content, { $case: "text", value: "42" });
  assertEquals((await a2a.getTask({ tenant: "", id: task.id })).status?.state, TaskState.TASK_STATE_COMPLETED);
  // The reply was processed with the task.
  assertEquals(at.bench.connector.store.received.counts().waiting, 0);
  await until(() => at.bench.eventsOf("receipt_sent").length === 1);
  await assertRejects(() => a2a.cancelTask({ tenant: "", id: task.id, metadata: undefined }), Error);
});

Deno.test("a task of an offline peer is submitted, and completed when the peer has come and replied", async () => {
  await using at = await place();
  const { body: { result: { task } } } = await at.send("hi");
  assertEquals([task.status.state, task.artifacts, task.history], ["TASK_STATE_SUBMITTED", [], []]);
  assert(/^a-[A-Za-z0-9_-]{43}$/.test(task.id) && task.contextId.length === 26);
  const socket = await at.online();
  await until(() => socket.delivered.length === 1);
  await reply(at.world, at.beta, at.alpha, task.id, { message: "42", n: 12345678901234 });
  const { text, body: { result } } = await at.rpc("GetTask", { id: task.id });
  assertEquals(result.status.state, "TASK_STATE_COMPLETED");
  assertEquals(result.artifacts[0].parts[0], { text: "42" });
  assert(text.includes('"n":12345678901234'));
});

Deno.test("the states of a message are states of its task", async (t) => {
  await t.step("rejected without a pair", async () => {
    await using at = await place({}, false);
    const { status, body } = await at.send("hi");
    assertEquals([status, body.result.task.status.state], [200, "TASK_STATE_REJECTED"]);
    assertEquals(body.result.task.status.message.parts, [{ text: at.sent()[0]?.problem }]);
  });
  await t.step("failed with the error of the reply", async () => {
    await using at = await place();
    await at.online();
    const { body: { result: { task } } } = await at.send("hi");
    assertEquals(task.status.state, "TASK_STATE_WORKING");
    await reply(at.world, at.beta, at.alpha, task.id, {
      message: "No",
      svcError: { code: "TASK_FAILED", message: "No" },
    });
    const { body } = await at.rpc("GetTask", { id: task.id });
    assertEquals(body.result.status.state, "TASK_STATE_FAILED");
    assertEquals(body.result.status.message.parts, [{ text: "TASK_FAILED: No" }]);
    assertEquals(body.result.artifacts, []);
  });
  await t.step("failed without a reply for a day", async () => {
    await using at = await place();
    const { body: { result: { task } } } = await at.send("hi");
    at.world.clock.step(A2A_TASK_MS);
    const { body } = await at.rpc("GetTask", { id: task.id });
    assertEquals(body.result.status.state, "TASK_STATE_FAILED");
  });
  await t.step("failed when the proxy does not answer, and sent again with the same ID", async () => {
    await using at = await place();
    at.proxy.answer = lost;
    const first = await at.send("hi");
    assertEquals(first.body.result.task.status.state, "TASK_STATE_FAILED");
    at.proxy.answer = null;
    const second = await at.send("hi");
    assertEquals(second.body.result.task.status.state, "TASK_STATE_SUBMITTED");
    assertEquals(second.body.result.task.id, first.body.result.task.id);
  });
});

Deno.test("a token is good for the address of its peer only, and the token of the API is not", async (t) => {
  await using at = await place();
  const call = { jsonrpc: "2.0", id: 1, method: "GetTask", params: { id: "x" } };
  const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
  const cases: [string, string, string][] = [
    ["beta's at gamma", "/a2a/gamma", BETA_TOKEN],
    ["the API's at beta", "/a2a/beta", TOKEN],
    ["gamma's at beta", "/a2a/beta", GAMMA_TOKEN],
    ["beta's at a peer that was not added", "/a2a/delta", BETA_TOKEN],
    ["none", "/a2a/beta", ""],
  ];
  for (const [what, path, token] of cases) {
    await t.step(what, async () => {
      const { status, headers, body } = await at.post(JSON.stringify(call), bearer(token), path);
      assertEquals([status, body.error.code], [401, "CONNECTOR_UNAUTHORIZED"]);
      assertEquals(headers.get("www-authenticate"), "Bearer");
    });
  }
  await t.step("beta's at the API", async () => {
    const response = await at.fetchLocal(`${ORIGIN}/v1/status`, { headers: bearer(BETA_TOKEN) });
    assertEquals(response.status, 401);
  });
  await t.step("removed", async () => {
    at.peers.shift();
    assertEquals((await at.post(JSON.stringify(call))).status, 401);
  });
});

Deno.test("the card of an added peer needs no token and has no DID; web pages and another port get nothing", async () => {
  await using at = await place();
  const url = `${ORIGIN}/a2a/beta/.well-known/agent-card.json`;
  const response = await at.fetchLocal(url);
  const text = await response.text();
  assertEquals(response.status, 200);
  assert(!text.includes("did:"), text);
  const { supportedInterfaces, capabilities } = JSON.parse(text);
  assertEquals(supportedInterfaces, [{
    url: `${ORIGIN}/a2a/beta`,
    protocolBinding: "JSONRPC",
    protocolVersion: "1.0",
  }]);
  assertEquals(capabilities, { streaming: false, pushNotifications: false, extendedAgentCard: false });
  const codeOf = async (target: string, headers: Record<string, string> = {}) => {
    const answer = await at.fetchLocal(target, { headers });
    return [answer.status, (await answer.json()).error.code];
  };
  assertEquals(await codeOf(`${ORIGIN}/a2a/delta/.well-known/agent-card.json`), [404, "NOT_FOUND"]);
  assertEquals(await codeOf(url, { "sec-fetch-site": "same-origin" }), [403, "CONNECTOR_ORIGIN_FORBIDDEN"]);
  assertEquals(await codeOf(url, { origin: ORIGIN }), [403, "CONNECTOR_ORIGIN_FORBIDDEN"]);
  at.bench.connector.api = { url: ORIGIN, movedFrom: PORT + 1 };
  assertEquals(await codeOf(url), [503, "CONNECTOR_OFF_PORT"]);
  assertEquals((await at.send("hi")).status, 503);
});

Deno.test("one messageId is one message, also for 20 calls at once, and another content makes another one", async () => {
  await using at = await place();
  const socket = await at.online();
  const answers = await Promise.all(Array.from({ length: 20 }, () => at.send("hi", { contextId: "talk" })));
  assertEquals(new Set(answers.map(({ body }) => body.result.task.id)).size, 1);
  await flushTasks();
  assertEquals([socket.delivered.length, at.sent().length], [1, 1]);
  assertEquals((await at.send("hi", { contextId: "talk" })).body.result.task.id, answers[0]?.body.result.task.id);
  const ids = new Set(answers.map(({ body }) => body.result.task.id));
  for (const more of [{ parts: [{ text: "other" }], contextId: "talk" }, { contextId: "elsewhere" }]) {
    ids.add((await at.send("hi", more)).body.result.task.id);
  }
  await flushTasks();
  assertEquals([ids.size, socket.delivered.length], [3, 3]);
});

Deno.test("tasks of another peer, and calls that are not served, have their errors", async () => {
  await using at = await place();
  const { body: { result: { task } } } = await at.send("hi");
  const codeOf = async (method: string, params: unknown, headers: Record<string, string> = {}, path?: string) =>
    (await at.rpc(method, params, headers, path)).body.error.code;
  const gamma = { Authorization: `Bearer ${GAMMA_TOKEN}` };
  assertEquals(await codeOf("GetTask", { id: task.id }, gamma, "/a2a/gamma"), -32001);
  assertEquals(await codeOf("GetTask", { id: "a-unknown" }), -32001);
  assertEquals(await codeOf("CancelTask", { id: task.id }), -32002);
  const next = (taskId: string) => ({ message: messageOf("next", { taskId }) });
  assertEquals(await codeOf("SendMessage", next("unknown")), -32001);
  assertEquals(await codeOf("SendMessage", next(task.id)), -32004);
});

Deno.test("every error has its ErrorInfo, a wrong content type its own code, and a trailing slash is no other address", async () => {
  await using at = await place();
  const errorOf = async (text: string, more: Record<string, string> = {}) => (await at.post(text, more)).body.error;
  const get = (params: unknown, method = "GetTask") => JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const found: [unknown, string, number][] = [
    [await errorOf("{"), "JSON_PARSE", -32700],
    [await errorOf("[]"), "INVALID_REQUEST", -32600],
    [await errorOf(get({}, "x")), "METHOD_NOT_FOUND", -32601],
    [await errorOf(get({})), "INVALID_PARAMS", -32602],
    [await errorOf(get({ id: "a-unknown" })), "TASK_NOT_FOUND", -32001],
    [await errorOf(get({}, "SubscribeToTask")), "UNSUPPORTED_OPERATION", -32004],
    [await errorOf(get({}, "GetExtendedAgentCard")), "EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007],
    [await errorOf(get({ id: "x" }), { "A2A-Version": "0.3" }), "VERSION_NOT_SUPPORTED", -32009],
    [await errorOf(get({ id: "x" }), { "Content-Type": "text/plain" }), "CONTENT_TYPE_NOT_SUPPORTED", -32005],
  ];
  for (const [error, reason, code] of found) {
    const { code: given, data } = error as { code: number; data: unknown };
    const info = { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason, domain: "a2a-protocol.org" };
    assertEquals([given, data], [code, [info]]);
  }
  for (const type of ["application/json; charset=utf-8", "Application/JSON"]) {
    assertEquals((await errorOf(get({ id: "x" }), { "Content-Type": type })).code, -32001);
  }
  const slash = await at.rpc("GetTask", { id: "x" }, {}, "/a2a/beta/");
  assertEquals([slash.status, slash.body.error.code], [200, -32001]);
});

Deno.test("the card has an ETag, and a client that has the card gets 304", async () => {
  await using at = await place();
  const url = `${ORIGIN}/a2a/beta/.well-known/agent-card.json`;
  const first = await at.fetchLocal(url);
  await first.body?.cancel();
  const etag = first.headers.get("etag") ?? "";
  assert(/^"[A-Za-z0-9_-]{43}"$/.test(etag), etag);
  assertEquals(first.headers.get("cache-control"), "private, max-age=60");
  for (const tags of [etag, `"other", W/${etag}`]) {
    const again = await at.fetchLocal(url, { headers: { "if-none-match": tags } });
    assertEquals([again.status, await again.text(), again.headers.get("etag")], [304, "", etag]);
  }
  const other = await at.fetchLocal(url, { headers: { "if-none-match": '"other"' } });
  assertEquals([other.status, (await other.json()).name], [200, "beta"]);
});

Deno.test("ListTasks shows the tasks of the peer, newest state first, in pages and by their properties", async () => {
  await using at = await place();
  await at.online();
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) {
    const { body } = await at.send(`m${n}`, { contextId: n === 2 ? "other" : "talk" });
    ids.push(body.result.task.id);
    at.world.clock.step(1_000);
  }
  await at.rpc("SendMessage", { message: messageOf("g"), configuration: { returnImmediately: true } }, {
    Authorization: `Bearer ${GAMMA_TOKEN}`,
  }, "/a2a/gamma");
  await at.bench.connector.sending.send({
    toDid: at.beta.agent.did,
    requestId: "a-message-of-a-program",
    conversationId: undefined,
    payload: "{}",
    origin: "program",
    mayWait: true,
  });
  // The reply makes the oldest task the one with the newest state.
  await reply(at.world, at.beta, at.alpha, ids[0] ?? "");
  const list = async (params: object) => (await at.rpc("ListTasks", params)).body.result;
  const idsOf = ({ tasks }: { tasks: { id: string }[] }) => tasks.map(({ id }) => ids.indexOf(id));
  const all = await list({});
  assertEquals([idsOf(all), all.nextPageToken, all.pageSize, all.totalSize], [[0, 2, 1], "", 50, 3]);
  assertEquals(all.tasks.map((task: object) => Object.hasOwn(task, "artifacts")), [false, false, false]);
  assertEquals(all.tasks[0].status.state, "TASK_STATE_COMPLETED");
  // The client has not seen the reply.
  assertEquals(at.bench.connector.store.received.counts().waiting, 1);
  const times = all.tasks.map(({ status }: { status: { timestamp: string } }) => status.timestamp);
  assertEquals(times, times.toSorted().reverse());

  const first = await list({ pageSize: 2 });
  assertEquals([idsOf(first), first.totalSize], [[0, 2], 3]);
  const second = await list({ pageSize: 2, pageToken: first.nextPageToken });
  assertEquals([idsOf(second), second.nextPageToken], [[1], ""]);

  assertEquals(idsOf(await list({ contextId: "talk" })), [0, 1]);
  assertEquals(idsOf(await list({ contextId: "nothing" })), []);
  assertEquals(idsOf(await list({ status: "TASK_STATE_COMPLETED" })), [0]);
  assertEquals(idsOf(await list({ statusTimestampAfter: times[1] })), [0, 2]);
  // A list of other tasks does not show the reply either.
  assertEquals(idsOf(await list({ status: "TASK_STATE_WORKING", includeArtifacts: true })), [2, 1]);
  assertEquals(at.bench.connector.store.received.counts().waiting, 1);
  const full = await list({ includeArtifacts: true });
  assertEquals(full.tasks.map(({ artifacts }: { artifacts: unknown[] }) => artifacts.length), [1, 0, 0]);
  assertEquals(at.bench.connector.store.received.counts().waiting, 0);
});

Deno.test("a task whose texts are deleted is unknown, and does not get another state", async (t) => {
  const error = { message: "No", svcError: { code: "TASK_FAILED", message: "No" } };
  for (const [state, payload] of [["TASK_STATE_FAILED", error], ["TASK_STATE_COMPLETED", { message: "42" }]] as const) {
    await t.step(state, async () => {
      await using at = await place();
      await at.online();
      const { store } = at.bench.connector, { clock } = at.world;
      const { body: { result: { task: { id } } } } = await at.send("hi");
      const { body: { result: { task: open } } } = await at.send("not answered yet");
      await reply(at.world, at.beta, at.alpha, id, payload);
      assertEquals((await at.rpc("GetTask", { id })).body.result.status.state, state);
      const unknown = async () => {
        const { body: { result: { tasks } } } = await at.rpc("ListTasks", {});
        return [(await at.rpc("GetTask", { id })).body.error?.code, tasks.map((task: { id: string }) => task.id)];
      };
      store.forgetTexts(null);
      assertEquals(await unknown(), [-32001, [open.id]]);
      assertEquals((await at.rpc("GetTask", { id: open.id })).body.result.status.state, "TASK_STATE_WORKING");
      clock.step(A2A_TASK_MS);
      store.deleteExpired(clock.now() + 1);
      assertEquals(store.received.taskReply({ toDid: at.beta.agent.did, requestId: id }), null);
      assertEquals(await unknown(), [-32001, []]);
    });
  }
});

Deno.test("a page of tasks ends before it is too long", async () => {
  await using at = await place();
  await at.online();
  const ids: string[] = [];
  for (let n = 0; n < 24; n++) {
    const { body } = await at.send(`m${n}`);
    ids.push(body.result.task.id);
    await reply(at.world, at.beta, at.alpha, body.result.task.id, { message: "x".repeat(190_000) });
  }
  const seen: string[] = [];
  let pages = 0;
  for (let pageToken = "", isOver = false; !isOver; pages++) {
    const { text, body: { result } } = await at.rpc("ListTasks", { pageToken, includeArtifacts: true });
    assert(text.length < 1.5 * 1024 ** 2);
    seen.push(...result.tasks.map(({ id }: { id: string }) => id));
    pageToken = result.nextPageToken;
    isOver = pageToken === "";
  }
  assertEquals([seen.sort(), pages], [ids.sort(), 4]);
});

Deno.test("a client that reads no answers gets 429, and so do others until it has gone", async () => {
  await using at = await place();
  const gone = Promise.withResolvers<void>(), list = async () => (await at.rpc("ListTasks", {})).status;
  at.answersOn({ completed: gone.promise });
  for (let n = 0; n < LIMIT.a2aCalls; n++) assertEquals(await list(), 200);
  assertEquals(await list(), 429);
  gone.resolve();
  await gone.promise;
  assertEquals(await list(), 200);
});

Deno.test("a body over 264 KiB is 413, and one that is not UTF-8 or not JSON is an error of JSON-RPC", async () => {
  await using at = await place();
  const large = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "SendMessage", params: "x".repeat(264 * 1024) });
  const { status, body } = await at.post(large);
  assertEquals([status, body.error.code], [413, "PAYLOAD_TOO_LARGE"]);
  for (const text of [new Uint8Array([0x7b, 0xff]), "{", ""]) {
    const answer = await at.post(text);
    assertEquals([answer.status, answer.body.error.code, answer.body.id], [200, -32700, null]);
  }
  assertEquals((await at.post(`{"a":${"[".repeat(130_000)}${"]".repeat(130_000)}}`)).body.error.code, -32600);
});

Deno.test("after a restart of the connector the reply to an open task goes to the client that asks within 30 s", async () => {
  await using at = await place({ platform: "generic" });
  await at.online();
  const { body: { result: { task } } } = await at.send("hi");
  await at.rpc("GetTask", { id: task.id });
  at.bench.kill();
  await using next = await at.restart();
  await reply(at.world, at.beta, at.alpha, task.id);
  assertEquals((await at.rpc("GetTask", { id: task.id })).body.result.status.state, "TASK_STATE_COMPLETED");
  await at.world.clock.advance(60_000);
  await flushTasks();
  assertEquals(next.handedOver, []);
});

Deno.test("a full disk is an error of the call that waits for a reply, which stays for the next call", async () => {
  const disk = new FailingDisk();
  await using at = await place({ database: disk.open });
  const socket = await at.online();
  const asked = at.send("What is it?", {}, {});
  await until(() => socket.delivered.length === 1);
  const id = socket.delivered[0]?.requestId ?? "";
  disk.isFull = true;
  // It is not stored. The next one is: then only the call that waits has something to write.
  await (await reply(at.world, at.beta, at.alpha, id)).body?.cancel();
  disk.isFull = false;
  disk.fillsUp = true;
  await (await reply(at.world, at.beta, at.alpha, id)).body?.cancel();
  const { status, body: { error } } = await asked;
  assertEquals([status, error.message], [200, LOCAL_ERRORS.CONNECTOR_DISK_FULL.when]);
  disk.fillsUp = disk.isFull = false;
  const { body: { result } } = await at.rpc("GetTask", { id });
  assertEquals([result.status.state, result.artifacts[0].parts[0].text], ["TASK_STATE_COMPLETED", "42"]);
});

Deno.test("a client sends as many messages at once as it wants, also in one context", async () => {
  await using at = await place();
  await at.online();
  // Until the proxy knows that beta's mailbox is empty, it would queue messages behind what may be there.
  await flushTasks();
  const calls = Array.from({ length: 64 }, (_, n) => at.send(`m${n}`, n < 32 ? { contextId: "talk" } : {}));
  for (const { body } of await Promise.all(calls)) {
    assertEquals(body.result.task.status.state, "TASK_STATE_WORKING");
  }
  assertEquals(at.bench.connector.status().loopGuards, 0);
});

Deno.test("the limit of the proxy is an error with the wait", async () => {
  await using at = await place();
  at.proxy.answer = refusal(429, "PROXY_RATE_LIMIT_EXCEEDED", { "Retry-After": "7" });
  const { code, message } = (await at.send("hi")).body.error;
  assertEquals([code, message.endsWith("Try again in 7 s")], [-32603, true]);
  at.proxy.answer = null;
  assertEquals((await at.send("hi")).body.result.task.status.state, "TASK_STATE_SUBMITTED");
});

Deno.test("32 calls wait for the end of their tasks, and the next ones return at once", async () => {
  await using at = await place();
  await at.online();
  const waiting = Array.from({ length: LIMIT.a2aBlockingCalls }, () => at.send("hi", {}, {}));
  await until(() => at.sent()[0]?.state === "delivered");
  const { body } = await at.send("hi", {}, {});
  assertEquals(body.result.task.status.state, "TASK_STATE_WORKING");
  await reply(at.world, at.beta, at.alpha, body.result.task.id);
  const states = (await Promise.all(waiting)).map((answer) => answer.body.result.task.status.state);
  assertEquals(states, Array(LIMIT.a2aBlockingCalls).fill("TASK_STATE_COMPLETED"));
});

Deno.test("a call that waits returns the state of its task after 120 s", async () => {
  await using at = await place();
  const asked = at.send("hi", {}, {});
  await until(() => at.sent()[0]?.state === "queued");
  await until(() => at.bench.eventsOf("queued").length === 1);
  await flushTasks();
  await at.world.clock.advance(LIMIT.a2aBlockMs);
  assertEquals((await asked).body.result.task.status.state, "TASK_STATE_SUBMITTED");
});

Deno.test("on a push platform a reply goes to the client that asks, and to the runtime only when none does", async (t) => {
  /** A task of beta, who is online, for a client of an agent with a runtime. */
  const asked = async () => {
    const at = await place({ platform: "generic" });
    await at.online();
    const { body: { result: { task: { id } } } } = await at.send("hi");
    const replied = (payload?: object) => reply(at.world, at.beta, at.alpha, id, payload);
    const state = async () => (await at.rpc("GetTask", { id })).body.result;
    return { ...at, replied, state };
  };
  await t.step("asked before", async () => {
    await using at = await asked();
    await at.state();
    await at.replied();
    await passing(at.world, 40, () => at.bench.eventsOf("receipt_sent").length === 1);
    assertEquals(at.bench.handedOver, []);
    assertEquals((await at.state()).artifacts[0].parts, [{ text: "42" }]);
    await at.replied({ message: "another one" });
    await passing(at.world, 40, () => at.bench.handedOver.length === 1);
  });
  await t.step("asked within 30 s", async () => {
    await using at = await asked();
    await at.replied();
    await at.world.clock.advance(20_000);
    assertEquals((await at.state()).status.state, "TASK_STATE_COMPLETED");
    await at.world.clock.advance(60_000);
    await flushTasks();
    assertEquals(at.bench.handedOver, []);
  });
  await t.step("not asked", async () => {
    await using at = await asked();
    await at.replied();
    await passing(at.world, 40, () => at.bench.handedOver.length === 1);
    await until(() => at.bench.eventsOf("receipt_sent").length === 1);
    const { status, artifacts } = await at.state();
    assertEquals([status.state, artifacts[0].parts], ["TASK_STATE_COMPLETED", [{ text: "42" }]]);
  });
});
