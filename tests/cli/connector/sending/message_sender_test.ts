/** Sending a message (D-112, D-113): the row before the request, headers, states, events, and what is not sent. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { HEADERS } from "../../../../shared/protocol/proof.ts";
import { messageTarget } from "../../../../shared/protocol/message_context.ts";
import { isUlid } from "../../../../shared/protocol/ids.ts";
import { ApiError, UnreachableError } from "../../../../shared/client/errors.ts";
import type { ProxyCaller, ProxyRequest } from "../../../../cli/link/proxy_caller.ts";
import { LocalError } from "../../../../cli/local_errors.ts";
import { LOOP_MESSAGES, LOOP_WINDOW_MS, LoopGuard } from "../../../../cli/link/loop_guard.ts";
import { PeerBook } from "../../../../cli/connector/peers/peer_book.ts";
import { MessageSender, type MessageToSend } from "../../../../cli/connector/sending/message_sender.ts";
import type { EventFields } from "../../../../cli/link/link_events.ts";
import { World } from "../../../support/world.ts";
import { Bench, story } from "../bench.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { seededRandom } from "../../../support/seeded_random.ts";
import { ALPHA, BETA, Disk, PAYLOAD, store } from "../store/disk.ts";

type Answer = (request: ProxyRequest) => { status: number; body: unknown; headers?: Record<string, string> };

const delivered: Answer = () => ({
  status: 202,
  body: { accepted: true, delivered: true, connectedSockets: 1, requestId: "request-0" },
});

const noAnswer: Answer = () => {
  throw new UnreachableError("https://proxy.example.test cannot be reached");
};

/** A sender over a disk, with a proxy that answers as the test says. */
function senderOn(disk: Disk) {
  const clock = new ManualClock();
  const parts = disk.open("pull");
  const events: { event: string; fields: EventFields | undefined }[] = [];
  const requests: ProxyRequest[] = [];
  const guard = new LoopGuard();
  const at = { answer: delivered };
  let ids = 0;
  const sender = new MessageSender({
    ...parts,
    clock,
    guard,
    random: seededRandom(),
    did: ALPHA,
    peers: new PeerBook({}, () => Promise.resolve()),
    strict: false,
    newId: () => `01KHYQ5H00AAAAAAAAAAAAAAA${ids++}`,
    proxies: {
      hostOf: () => null,
      of: () =>
        ({
          call(request: ProxyRequest) {
            requests.push(request);
            const { status, body, headers = {} } = at.answer(request);
            return Promise.resolve({ status, headers: new Headers(headers), text: JSON.stringify(body) });
          },
        }) as unknown as ProxyCaller,
    },
    emit: (event, fields) => void events.push({ event, fields }),
  });
  const send = (more: Partial<MessageToSend> = {}) =>
    sender.send({ toDid: BETA, payload: PAYLOAD, origin: "program", ...more });
  return { ...parts, clock, guard, events, requests, send, at };
}

Deno.test("a message is on disk before its request, which is signed with its context", async () => {
  await using disk = await Disk.make();
  const { sent, requests, send, at } = senderOn(disk);
  let before: unknown;
  at.answer = (request) => {
    before = sent.list({ limit: 1 }).messages.map(({ requestId, state }) => [requestId, state]);
    return delivered(request);
  };
  const options = { requestId: "request-1", conversationId: "c", inReplyTo: "question-1", auto: true, mayWait: true };
  const { sent: after } = await send(options);
  assertEquals(before, [["request-1", "sending"]]);
  const bound = {
    "Content-Type": "application/json",
    [HEADERS.requestId]: "request-1",
    [HEADERS.conversationId]: "c",
    [HEADERS.inReplyTo]: "question-1",
    [HEADERS.auto]: "1",
  };
  assertEquals(requests, [{
    method: "POST",
    target: await messageTarget(bound),
    body: PAYLOAD,
    recipient: BETA,
    headers: { ...bound, Prefer: "respond-async" },
  }]);
  const { state, conversationId, inReplyTo, auto, origin } = after;
  assertEquals({ state, conversationId, inReplyTo, auto, origin }, {
    state: "delivered",
    conversationId: "c",
    inReplyTo: "question-1",
    auto: true,
    origin: "program",
  });
});

Deno.test("a message without a request ID gets a new one", async () => {
  await using world = await World.open();
  const { a, bench } = await story(world);
  const { response, sent } = await bench.connector.sending.send({
    toDid: a.agent.did,
    payload: PAYLOAD,
    origin: "person",
    mayWait: true,
  });
  assertEquals([response?.status, sent.state, isUlid(sent.requestId)], [202, "queued", true]);
  assertEquals([response?.headers.get(HEADERS.requestId), sent.expiresAt! > world.clock.now()], [sent.requestId, true]);
});

Deno.test("each answer of the proxy gives a state, a reason and an event", async (t) => {
  const accepted = { accepted: true, delivered: false, connectedSockets: 0, requestId: "request-0" };
  const error = (code: string) => ({ error: { code, message: "No" } });
  const expiresAt = "2026-02-22T00:00:00.000Z";
  const cases: [status: number, body: unknown, state: string, problem: string | null, event: string][] = [
    [202, { ...accepted, delivered: true }, "delivered", null, "sent"],
    [202, { ...accepted, queued: true, expiresAt }, "queued", null, "queued"],
    [202, { ...accepted, reason: "inbox_full" }, "refused", "inbox_full", "not_taken"],
    [202, "?", "unknown", "the proxy's answer is not valid", "sent"],
    [403, error("PROXY_AUTH_FORBIDDEN"), "refused", "PROXY_AUTH_FORBIDDEN", "not_sent"],
    [429, error("PROXY_RATE_LIMIT_EXCEEDED"), "refused", "PROXY_RATE_LIMIT_EXCEEDED", "not_sent"],
    [502, error("PROXY_RELAY_CONNECTOR_OFFLINE"), "refused", "PROXY_RELAY_CONNECTOR_OFFLINE", "not_sent"],
    [507, error("PROXY_RELAY_MAILBOX_FULL"), "refused", "PROXY_RELAY_MAILBOX_FULL", "not_sent"],
    [502, error("PROXY_RELAY_DELIVERY_FAILED"), "unknown", "PROXY_RELAY_DELIVERY_FAILED", "not_sent"],
    [503, error("PROXY_RELAY_UNAVAILABLE"), "unknown", "PROXY_RELAY_UNAVAILABLE", "not_sent"],
    [500, "no envelope", "unknown", "status 500", "not_sent"],
  ];
  for (const [n, [status, body, state, problem, event]] of cases.entries()) {
    await t.step(`${status} ${problem ?? state}`, async () => {
      await using disk = await Disk.make();
      const { send, at, events, sent } = senderOn(disk);
      at.answer = () => ({ status, body });
      const result = await send({ requestId: `request-${n}` });
      assertEquals([result.sent.state, result.sent.problem, result.response?.status], [state, problem, status]);
      assertEquals(result.sent.expiresAt, state === "queued" ? Date.parse(expiresAt) : null);
      assertEquals(sent.find(`request-${n}`), result.sent);
      assertEquals(events, [{ event, fields: { to: BETA, status, requestId: `request-${n}`, sealed: false } }]);
    });
  }
});

Deno.test("a message whose request gets no answer is unknown, and can be sent again with its request ID", async () => {
  await using disk = await Disk.make();
  const { send, at, sent, requests } = senderOn(disk);
  at.answer = noAnswer;
  await assertRejects(() => send({ requestId: "request-1" }), UnreachableError);
  const failed = sent.find("request-1");
  assertEquals(failed?.state, "unknown");
  assertMatch(failed?.problem ?? "", /cannot be reached/);
  at.answer = delivered;
  assertEquals((await send({ requestId: "request-1" })).sent.state, "delivered");
  assertEquals([requests.length, sent.list({ limit: 10 }).messages.length], [2, 1]);
});

Deno.test("a message whose session is refused is not sent, also one that waits here", async () => {
  await using disk = await Disk.make();
  const { send, at, sent } = senderOn(disk);
  at.answer = () => {
    throw new ApiError(401, "AGENT_AUTH_REFRESH_REVOKED", "The session was ended", null);
  };
  await assertRejects(() => send({ requestId: "request-1" }), ApiError);
  const failed = sent.find("request-1");
  assertEquals(failed?.state, "refused");
  assertMatch(failed?.problem ?? "", /AGENT_AUTH_REFRESH_REVOKED/);
  const kept = (await send({ requestId: "request-2", keep: true })).sent;
  assertEquals([kept.state, kept.mayHaveArrived], ["kept", false]);
});

Deno.test("a message stays unknown when the proxy refuses the repeat of a request that got no answer", async () => {
  await using disk = await Disk.make();
  const { send, at, sent } = senderOn(disk);
  at.answer = noAnswer;
  await assertRejects(() => send({ requestId: "request-1" }), UnreachableError);
  at.answer = () => ({ status: 429, body: { error: { code: "RATE_LIMIT_EXCEEDED", message: "No" } } });
  assertEquals((await send({ requestId: "request-1" })).sent.state, "unknown");
  assertEquals(sent.find("request-1")?.problem, "RATE_LIMIT_EXCEEDED");
  assertEquals((await send({ requestId: "request-2" })).sent.state, "refused");
});

Deno.test("a message that may have arrived is not refused when it is repeated as one that may wait here", async () => {
  await using disk = await Disk.make();
  const { send, at } = senderOn(disk);
  at.answer = noAnswer;
  await assertRejects(() => send({ requestId: "request-1" }), UnreachableError);
  at.answer = () => ({ status: 403, body: { error: { code: "PROXY_AUTH_FORBIDDEN", message: "No" } } });
  assertEquals((await send({ requestId: "request-1", keep: true })).sent.state, "unknown");
  at.answer = () => ({ status: 503, body: { error: { code: "PROXY_RELAY_UNAVAILABLE", message: "No" } } });
  const { state, mayHaveArrived } = (await send({ requestId: "request-1", keep: true })).sent;
  assertEquals([state, mayHaveArrived], ["kept", true]);
});

Deno.test("a message that may have arrived is not refused by the answer to a request that left at the same time", async () => {
  await using disk = await Disk.make();
  const { send, at, sent } = senderOn(disk);
  const limited: Answer = () => ({
    status: 429,
    body: { error: { code: "PROXY_RATE_LIMIT_EXCEEDED", message: "No" } },
  });
  for (const [id, answers] of [["request-1", [noAnswer, limited]], ["request-2", [limited, noAnswer]]] as const) {
    let asked = 0;
    at.answer = (request) => (answers[asked++] ?? delivered)(request);
    await Promise.allSettled([send({ requestId: id }), send({ requestId: id })]);
    assertEquals(sent.find(id, BETA)?.state, "unknown", id);
  }
});

Deno.test("a reply has its own conversation, else that of its question, which opens one when it names none", async () => {
  await using disk = await Disk.make();
  const { inbox, send, requests } = senderOn(disk);
  store(inbox, "question-1", { conversationId: "talk" });
  store(inbox, "question-2");
  await send({ inReplyTo: "question-1" });
  await send({ inReplyTo: "question-1", conversationId: "other" });
  await send({ inReplyTo: "question-2" });
  await send({ inReplyTo: "question-1", toDid: BETA.replace(/.$/, "C") });
  const conversations = requests.map(({ headers }) => headers?.[HEADERS.conversationId]);
  assertEquals(conversations, ["talk", "other", "question-2", undefined]);
});

Deno.test("a payload over the bound is refused, and nothing is stored or sent", async () => {
  await using disk = await Disk.make();
  const { send, requests, sent } = senderOn(disk);
  const payload = (bytes: number) => `"${"é".repeat((bytes - 2) / 2)}"`;
  await send({ payload: payload(LIMITS.payloadBytes) });
  const error = await assertRejects(() => send({ payload: payload(LIMITS.payloadBytes + 2) }), LocalError);
  assertEquals([error.code, error.retryAfter], ["PAYLOAD_TOO_LARGE", null]);
  assertMatch(error.message, /196446 bytes, and at most 196444/);
  assertEquals([requests.length, sent.list({ limit: 10 }).messages.length], [1, 1]);
});

Deno.test("the 33rd question of a model is refused until the peer answers one, or has not got one", async () => {
  await using disk = await Disk.make();
  const { send, requests, clock, guard, events, at } = senderOn(disk);
  const ask = (requestId: string) => send({ origin: "model", requestId });
  await Promise.all(Array.from({ length: LOOP_MESSAGES }, (_, n) => ask(`question-${n}`)));
  await clock.advance(1_500);
  const error = await assertRejects(() => ask("question-32"), LocalError);
  assertEquals([error.code, error.retryAfter, requests.length], ["CONNECTOR_LOOP_GUARD", 3_599, LOOP_MESSAGES]);
  assertEquals(events.at(-1)?.event, "loop_guard");
  await send({ origin: "person" });
  await send({ origin: "program" });
  guard.received(BETA, "question-7");
  at.answer = () => ({ status: 403, body: { error: { code: "PROXY_AUTH_FORBIDDEN", message: "No" } } });
  await ask("question-33");
  at.answer = delivered;
  await ask("question-34");
  await assertRejects(() => ask("question-35"), LocalError);
  assertEquals([requests.length, guard.refusals], [LOOP_MESSAGES + 4, 2]);
});

Deno.test("a model answers a hundred messages of a silent peer, and repeats itself 32 times", async () => {
  await using disk = await Disk.make();
  const { send, inbox } = senderOn(disk);
  for (let n = 0; n < 100; n++) {
    store(inbox, `question-${n}`);
    await send({ origin: "model", inReplyTo: `question-${n}` });
  }
  for (let n = 0; n < LOOP_MESSAGES; n++) await send({ origin: "model", inReplyTo: "question-1" });
  await assertRejects(() => send({ origin: "model", inReplyTo: "question-1" }), LocalError);
});

Deno.test("of two answers of a model at the same time one counts as a message", async () => {
  await using disk = await Disk.make();
  const { send, inbox } = senderOn(disk);
  store(inbox, "question-1");
  const answer = () => send({ origin: "model", inReplyTo: "question-1" });
  for (let n = 1; n < LOOP_MESSAGES; n++) await send({ origin: "model" });
  await Promise.all([answer(), answer()]);
  await assertRejects(answer, LocalError);
});

Deno.test("a request ID that is sent again is not counted again", async () => {
  await using disk = await Disk.make();
  const { send, guard } = senderOn(disk);
  for (let n = 0; n <= LOOP_MESSAGES; n++) await send({ origin: "model", requestId: "request-1" });
  assertEquals(guard.refusals, 0);
});

Deno.test("an automatic reply to an automatic message is refused, also at the first time", async () => {
  await using disk = await Disk.make();
  const { send, inbox, requests, guard } = senderOn(disk);
  store(inbox, "question-1", { auto: true });
  store(inbox, "question-2");
  const error = await assertRejects(() => send({ inReplyTo: "question-1", auto: true }), LocalError);
  assertEquals([error.code, error.retryAfter], ["CONNECTOR_LOOP_GUARD", null]);
  await send({ inReplyTo: "question-1" });
  await send({ inReplyTo: "question-2", auto: true });
  await send({ auto: true });
  assertEquals([requests.length, guard.refusals], [3, 1]);
});

Deno.test("the 33rd automatic reply of a thread becomes one that says how long to wait, also with a new conversation in each turn", async () => {
  await using disk = await Disk.make();
  const { send, inbox, sent, clock } = senderOn(disk);
  // The peer answers each automatic reply, in a new conversation each time, and without the mark of a program.
  store(inbox, "of-peer-0");
  const turn = async (n: number) => {
    await send({ inReplyTo: `of-peer-${n}`, auto: true, requestId: `answer-${n}`, conversationId: `talk-${n}` });
    store(inbox, `of-peer-${n + 1}`, { inReplyTo: `answer-${n}`, conversationId: `turn-${n}` });
  };
  for (let n = 0; n < LOOP_MESSAGES; n++) await turn(n);
  await clock.advance(60_000);
  const error = await assertRejects(() => turn(LOOP_MESSAGES), LocalError);
  assertEquals([error.code, error.retryAfter], ["CONNECTOR_LOOP_GUARD", null]);
  const [busy] = sent.list({ limit: 1 }).messages;
  assert(busy);
  assertEquals([busy.state, busy.origin, busy.auto], ["kept", "runtime", true]);
  assertEquals(busy.inReplyTo, `of-peer-${LOOP_MESSAGES}`);
  const { svcError } = JSON.parse(sent.payloadOf(busy) ?? "");
  assertEquals(svcError.code, "BUSY");
  assertMatch(svcError.message, / in 3540 s\.$/);
  // What answers it gets nothing, or the two agents would go on.
  store(inbox, "of-peer-last", { inReplyTo: busy.requestId });
  await assertRejects(() => send({ inReplyTo: "of-peer-last", auto: true }), LocalError);
  assertEquals(sent.list({ limit: 1 }).messages[0]?.requestId, busy.requestId);
  // A new question is answered.
  store(inbox, "question-2");
  await send({ inReplyTo: "question-2", auto: true });
  await clock.advance(LOOP_WINDOW_MS);
  await turn(LOOP_MESSAGES);
});

Deno.test("a program that passes messages on stops after 32 in an hour", async () => {
  await using disk = await Disk.make();
  const { send, guard } = senderOn(disk);
  for (let n = 0; n < 100; n++) await send({ auto: true });
  for (let n = 1; n < LOOP_MESSAGES; n++) {
    guard.received("did:svc:other", null);
    await send({ auto: true, inReplyTo: n % 2 === 0 ? "not-of-this-peer" : undefined });
  }
  guard.received("did:svc:other", null);
  const error = await assertRejects(() => send({ auto: true }), LocalError);
  assertEquals([error.code, error.retryAfter], ["CONNECTOR_LOOP_GUARD", 3_600]);
});

Deno.test("a request that a restart interrupted is unknown", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world);
  const called = Promise.withResolvers<void>();
  bench.connector.proxy.call = () => {
    called.resolve();
    return new Promise(() => {});
  };
  void bench.connector.sending.send({
    toDid: a.agent.did,
    payload: PAYLOAD,
    origin: "program",
    requestId: "request-1",
  });
  await called.promise;
  bench.kill();
  await using again = await Bench.open(world, b, { folder: bench.folder });
  assertEquals(again.connector.store.sent.find("request-1")?.state, "unknown");
});
