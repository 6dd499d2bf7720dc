/**
 * The local API of a connector process: its answers are valid against its OpenAPI document, payloads come back byte for
 * byte, and waiting calls end with their caller and with the connector.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { RunningConnector, svcHere } from "../cli/connector/people.ts";
import { LOOP_MESSAGES } from "../../cli/link/loop_guard.ts";
import { bundledProgram } from "../cli/program.ts";
import { type ApiDocument, problemOf, type Recorded } from "../support/openapi_answer.ts";
import { eventually, Service } from "../support/process.ts";
import { pairedAgents } from "./harness.ts";

const program = await bundledProgram();

/** Calls the local API and keeps the answers. */
class Caller {
  readonly answers: Recorded[] = [];

  constructor(readonly connector: RunningConnector) {}

  /** @param body JSON text; `path` names the route in the document */
  async send(
    method: "GET" | "POST",
    path: string,
    { target = path, body, headers = {} }: { target?: string; body?: string; headers?: Record<string, string> } = {},
  ) {
    const { url, token } = this.connector.file;
    const response = await fetch(url + target, {
      method,
      headers: { Authorization: `Bearer ${token}`, ...headers },
      body: body ?? null,
    });
    const text = await response.text();
    this.answers.push({ method, path, status: response.status, headers: response.headers, text });
    assertEquals(response.headers.get("cross-origin-resource-policy"), "same-origin");
    return { status: response.status, text, json: text === "" ? null : JSON.parse(text) };
  }

  post(path: string, body: unknown, target = path) {
    return this.send("POST", path, { target, body: typeof body === "string" ? body : JSON.stringify(body) });
  }

  get(path: string, target = path, headers: Record<string, string> = {}) {
    return this.send("GET", path, { target, headers });
  }
}

/** A service, and agent b with a connector that its program reads messages from; a is paired with it. */
async function story(dir: string, service: Service) {
  const { a } = await pairedAgents(service, dir);
  await svcHere(dir, ["install", "--for", "inbox"]);
  const connector = await RunningConnector.start(dir, "b", [], { program });
  const b = JSON.parse(Deno.readTextFileSync(`${dir}/agents/b/identity.json`)) as { did: string };
  return { a, b, connector };
}

Deno.test("all answers of a local API are valid against its OpenAPI document, which has every route", async () => {
  await using service = await Service.here();
  const { a, b, connector } = await story(service.home, service);
  await using _connector = connector;
  const socket = await service.connect(a);
  const to = a.identity.did;
  const caller = new Caller(connector);
  const document: ApiDocument = (await caller.get("/openapi.json")).json;

  for (const refusal of [{ Authorization: "Bearer x" }, { Origin: "http://x" }, { "Sec-Fetch-Site": "same-site" }]) {
    await caller.get("/v1/status", "/v1/status", refusal);
  }
  await caller.get("/v1/status");
  await caller.get("/v1/status", "/v1/status?x=1");

  const payload = '{ "message":"hi", "n":12345678901234567890, "again":1e400, "n":-0.10 }';
  await a.client.sendMessage({ recipientDid: b.did, payload, requestId: "request-1", conversationId: "talk" });
  const page = await caller.get("/v1/inbox", "/v1/inbox?wait=30&from=a&conversation=talk");
  const [{ id, text, from }] = page.json.messages;
  assertEquals([text, from.alias, from.humanName], ["hi", "a", "A"]);
  const raw = page.text.slice(page.text.indexOf('"payload":') + 10, page.text.lastIndexOf("}],"));
  assertStringIncludes(raw, '"n":12345678901234567890, "again":1e400, "n":-0.10 }');
  for (const query of ["?from=nobody", "?limit=201", "?unread=maybe", "?wait=61", "?unread=false"]) {
    await caller.get("/v1/inbox", `/v1/inbox${query}`);
  }
  for (const one of [id, 99]) await caller.get("/v1/inbox/{id}", `/v1/inbox/${one}`);
  for (const body of [{ ids: [id] }, { ids: [] }, { ids: [id, id, 99] }]) await caller.post("/v1/inbox/read", body);

  const question = `{"to":"a","requestId":"question-1","payload":${payload}}`;
  assertEquals((await caller.post("/v1/outbound", question)).status, 202);
  assertEquals((await socket.frame(1)).payload.includes("12345678901234567890"), true);
  await a.client.sendMessage({ recipientDid: b.did, payload: '"yes"', inReplyTo: "question-1" });
  const { json: ended } = await caller.get("/v1/outbound/{requestId}", "/v1/outbound/question-1?wait=30");
  assertEquals([ended.state, ended.reply.isReply, ended.reply.text, ended.reply.payload], [
    "processed",
    true,
    null,
    "yes",
  ]);
  await caller.get("/v1/outbound/{requestId}", "/v1/outbound/question-2");
  const cancel = "/v1/outbound/{requestId}/cancel";
  for (const id of ["question-1", "question-2"]) await caller.post(cancel, {}, cancel.replace("{requestId}", id));
  for (
    const [target, body] of [
      ["/v1/outbound?wait=0", { replyTo: id, text: "thanks" }],
      ["/v1/outbound?wait=0", { to: "nobody", text: "x" }],
      ["/v1/outbound", { to, replyTo: 99, text: "x" }],
      ["/v1/outbound", { to, text: "x", unknown: 1 }],
      ["/v1/outbound", { to: b.did, text: "x" }],
      ["/v1/outbound", { to, text: "x".repeat(200_000) }],
      ["/v1/outbound", { to, text: "x".repeat(300_000) }],
    ] as const
  ) await caller.post("/v1/outbound", body, target);
  for (let n = 0; n <= LOOP_MESSAGES; n++) await caller.post("/v1/outbound", { to, text: "x", origin: "model" });
  assertEquals(caller.answers.at(-1)?.status, 429);
  for (const query of ["", "?to=a&limit=1", "?limit=1&before=2", "?to=nobody"]) {
    await caller.get("/v1/sent", `/v1/sent${query}`);
  }
  for (const query of ["", "?peer=a&limit=1", "?search=hi", "?after=0-0", "?before=x", "?peer=nobody"]) {
    await caller.get("/v1/log", `/v1/log${query}`);
  }
  for (const body of [{ peer: "a" }, { peer: "nobody" }, { all: 1 }]) await caller.post("/v1/log/forget", body);
  await caller.get("/v1/receipts", "/v1/receipts?to=a&requestId=question-1");
  await caller.get("/v1/receipts");
  for (const query of ["", "?limit=x"]) await caller.get("/v1/dead-letter", `/v1/dead-letter${query}`);
  for (const path of ["/v1/dead-letter/replay", "/v1/dead-letter/purge"]) {
    for (const body of [{ all: true }, { ids: ["1"] }, "["]) await caller.post(path, body);
  }
  const { json: { ticket } } = await caller.post("/v1/pair/start", { ttlSeconds: 60 });
  await caller.post("/v1/pair/start", { ttlSeconds: 0 });
  await caller.post("/v1/pair/status", { ticket });
  await caller.post("/v1/pair/confirm", { ticket: "svcpair1_x" });
  const { ticket: theirs } = await a.client.pairStart({ agentName: "a", humanName: "A" });
  await caller.post("/v1/pair/confirm", { ticket: theirs });
  await caller.get("/v1/pair/peers");
  await caller.get("/v1/peers");
  const card = "/a2a/{alias}/.well-known/agent-card.json";
  const { token } = await svcHere(service.home, ["a2a", "add", "a"]);
  for (const alias of ["a", "nobody"]) await caller.get(card, card.replace("{alias}", alias));
  const call = (method: string, params: unknown, bearer = token) =>
    caller.send("POST", "/a2a/{alias}", {
      target: "/a2a/a",
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      headers: { Authorization: `Bearer ${bearer}`, "Content-Type": "application/json" },
    });
  const message = { messageId: "m", role: "ROLE_USER", parts: [{ text: "hi" }] };
  const asked = await call("SendMessage", { message, configuration: { returnImmediately: true } });
  // The bound of a model is used up by now; an A2A client is a program.
  assert(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].includes(asked.json.result.task.status.state));
  await call("GetTask", { id: "x" });
  await call("GetTask", { id: "x" }, "wrong");

  for (const alias of ["anna", "svc", "anna"]) await caller.post("/v1/peers/rename", { peer: "a", alias });
  for (const path of ["/v1/peers/block", "/v1/peers/unblock"]) {
    for (const peer of ["anna", "nobody", 1]) await caller.post(path, { peer });
    await caller.post("/v1/outbound", { to: "a", text: "x" });
  }

  // The sixth address waits until one of the five is opened or over.
  for (let n = 0; n < 6; n++) await caller.post("/v1/page-codes", {});
  assertEquals(caller.answers.at(-1)?.status, 429);
  await caller.post("/v1/pair/remove", { to: "a" });
  await caller.post("/v1/outbound", { to, text: "x" }, "/v1/outbound?wait=0");

  await socket.close();

  const { answers } = caller;
  const wrong = answers.flatMap((answer) => {
    const problem = problemOf(document, answer);
    return problem ? [`${answer.method} ${answer.path} ${answer.status} ${answer.text.slice(0, 200)}: ${problem}`] : [];
  });
  assertEquals(wrong, []);
  assertEquals(answers.filter(({ status }) => status >= 500), []);
  const operations = Object.entries<Record<string, unknown>>(document.paths)
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
  const recorded = new Set(answers.map(({ method, path }) => `${method} ${path}`));
  assertEquals(operations.filter((operation) => !recorded.has(operation)), []);
  const [first] = answers;
  assert(first);
  for (const foreign of [{ ...first, status: 418 }, { ...first, path: "/v1/status" }]) {
    assert(problemOf(document, foreign), JSON.stringify(foreign).slice(0, 200));
  }
});

Deno.test("waiting calls end with their caller, and with the connector", async (t) => {
  await using service = await Service.here();
  const { connector } = await story(service.home, service);
  await using _connector = connector;
  const { url, token } = connector.file;
  const headers = { Authorization: `Bearer ${token}` };
  const wait = (signal: AbortSignal | null = null) => fetch(`${url}/v1/inbox?wait=60`, { headers, signal });
  /** The responses of 64 calls that wait: each has its head when it begins to wait. */
  const full = () =>
    eventually(20_000, "64 calls wait", async () => {
      const callers = new AbortController();
      const responses = await Promise.all(Array.from({ length: 64 }, () => wait(callers.signal)));
      if (responses.every(({ status }) => status === 200)) return { responses, callers };
      callers.abort();
      return undefined;
    });

  await t.step("one more is refused", async () => {
    const { callers } = await full();
    const { status, headers, body } = await wait();
    await body?.cancel();
    assertEquals([status, headers.get("retry-after")], [429, "1"]);
    callers.abort();
  });

  await t.step("callers that go make room, and a connector that stops answers the others", async () => {
    const { responses } = await full();
    const ended = connector.child.end("SIGTERM");
    const pages = await Promise.all(responses.map((response) => response.json()));
    assertEquals(pages, Array(64).fill({ messages: [], more: false }));
    await ended;
  });
});
