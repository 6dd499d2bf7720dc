/** Sending a message (D-112, D-113, D-115): the row before the request, headers, states, events, and what is not sent. */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { HEADERS } from "../../../../shared/protocol/proof.ts";
import { messageTarget } from "../../../../shared/protocol/message_context.ts";
import { isUlid } from "../../../../shared/protocol/ids.ts";
import { CLIENT_LIMITS } from "../../../../shared/client/limits.ts";
import { UnreachableError } from "../../../../shared/client/errors.ts";
import type { ProxyRequest } from "../../../../shared/client/proxy_caller.ts";
import { LoopGuard } from "../../../../shared/client/loop_guard.ts";
import {
  MessageSender,
  type MessageToSend,
  SendRefusedError,
} from "../../../../cli/connector/delivery/message_sender.ts";
import type { EventFields } from "../../../../shared/client/link_events.ts";
import { World } from "../../../support/world.ts";
import { Bench, story } from "../bench.ts";
import { until } from "../../../support/until.ts";
import { ManualClock } from "../../../support/manual_clock.ts";
import { BETA, Disk, PAYLOAD, store } from "./disk.ts";

type Answer = (request: ProxyRequest) => { status: number; body: unknown; headers?: Record<string, string> };

const delivered: Answer = () => ({
  status: 202,
  body: { accepted: true, delivered: true, connectedSockets: 1, requestId: "request-0" },
});

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
    newId: () => `01KHYQ5H00AAAAAAAAAAAAAAA${ids++}`,
    proxy: {
      call(request) {
        requests.push(request);
        const { status, body, headers = {} } = at.answer(request);
        return Promise.resolve({ status, headers: new Headers(headers), text: JSON.stringify(body) });
      },
    },
    tell: (event, fields) => void events.push({ event, fields }),
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
  await using _ = bench;
  const { response, sent } = await bench.connector.sender.send({
    toDid: a.agent.did,
    payload: PAYLOAD,
    origin: "person",
    mayWait: true,
  });
  assertEquals([response.status, sent.state, isUlid(sent.requestId)], [202, "queued", true]);
  assertEquals([response.headers.get(HEADERS.requestId), sent.expiresAt! > world.clock.now()], [sent.requestId, true]);
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
      assertEquals([result.sent.state, result.sent.problem, result.response.status], [state, problem, status]);
      assertEquals(result.sent.expiresAt, state === "queued" ? Date.parse(expiresAt) : null);
      assertEquals(sent.find(`request-${n}`), result.sent);
      assertEquals(events, [{ event, fields: { to: BETA, status, requestId: `request-${n}` } }]);
    });
  }
});

Deno.test("a message whose request gets no answer is unknown, and can be sent again with its request ID", async () => {
  await using disk = await Disk.make();
  const { send, at, sent, requests } = senderOn(disk);
  at.answer = () => {
    throw new UnreachableError("https://proxy.example.test cannot be reached");
  };
  await assertRejects(() => send({ requestId: "request-1" }), UnreachableError);
  const failed = sent.find("request-1");
  assertEquals(failed?.state, "unknown");
  assertMatch(failed?.problem ?? "", /cannot be reached/);
  at.answer = delivered;
  assertEquals((await send({ requestId: "request-1" })).sent.state, "delivered");
  assertEquals([requests.length, sent.list({ limit: 10 }).messages.length], [2, 1]);
});

Deno.test("a message stays unknown when the proxy refuses the repeat of a request that got no answer", async () => {
  await using disk = await Disk.make();
  const { send, at, sent } = senderOn(disk);
  at.answer = () => {
    throw new UnreachableError("https://proxy.example.test cannot be reached");
  };
  await assertRejects(() => send({ requestId: "request-1" }), UnreachableError);
  at.answer = () => ({ status: 429, body: { error: { code: "RATE_LIMIT_EXCEEDED", message: "No" } } });
  assertEquals((await send({ requestId: "request-1" })).sent.state, "unknown");
  assertEquals(sent.find("request-1")?.problem, "RATE_LIMIT_EXCEEDED");
  assertEquals((await send({ requestId: "request-2" })).sent.state, "refused");
});

Deno.test("a reply has the conversation of its question, or its own", async () => {
  await using disk = await Disk.make();
  const { inbox, send, requests } = senderOn(disk);
  store(inbox, "question-1", { conversationId: "talk" });
  store(inbox, "question-2");
  await send({ inReplyTo: "question-1" });
  await send({ inReplyTo: "question-1", conversationId: "other" });
  await send({ inReplyTo: "question-2" });
  await send({ inReplyTo: "question-1", toDid: BETA.replace(/.$/, "C") });
  const conversations = requests.map(({ headers }) => headers?.[HEADERS.conversationId]);
  assertEquals(conversations, ["talk", "other", undefined, undefined]);
});

Deno.test("a payload over the bound is refused, and nothing is stored or sent", async () => {
  await using disk = await Disk.make();
  const { send, requests, sent } = senderOn(disk);
  const payload = (bytes: number) => `"${"é".repeat((bytes - 2) / 2)}"`;
  await send({ payload: payload(CLIENT_LIMITS.payloadBytes) });
  const error = await assertRejects(() => send({ payload: payload(CLIENT_LIMITS.payloadBytes + 2) }), SendRefusedError);
  assertEquals([error.code, error.retryAfter], ["PAYLOAD_TOO_LARGE", null]);
  assertMatch(error.message, /196446 bytes, and at most 196444/);
  assertEquals([requests.length, sent.list({ limit: 10 }).messages.length], [1, 1]);
});

Deno.test("the sixth message of a model in a minute is refused, and a message of the peer allows the next", async () => {
  await using disk = await Disk.make();
  const { send, requests, clock, guard, events } = senderOn(disk);
  for (let n = 0; n < 5; n++) await send({ origin: "model" });
  await clock.advance(1_500);
  const error = await assertRejects(() => send({ origin: "model" }), SendRefusedError);
  assertEquals([error.code, error.retryAfter, requests.length], ["CONNECTOR_LOOP_GUARD", 59, 5]);
  assertEquals(events.at(-1)?.event, "loop_guard");
  await send({ origin: "person" });
  guard.received(BETA);
  await send({ origin: "model" });
  assertEquals([requests.length, guard.refusals], [7, 1]);
});

Deno.test("a request ID that is sent again is not counted again", async () => {
  await using disk = await Disk.make();
  const { send, guard } = senderOn(disk);
  for (let n = 0; n < 10; n++) await send({ origin: "model", requestId: "request-1" });
  assertEquals(guard.refusals, 0);
});

Deno.test("an automatic reply to an automatic message is refused, also at the first time", async () => {
  await using disk = await Disk.make();
  const { send, inbox, requests, guard } = senderOn(disk);
  store(inbox, "question-1", { auto: true });
  store(inbox, "question-2");
  const error = await assertRejects(() => send({ inReplyTo: "question-1", auto: true }), SendRefusedError);
  assertEquals([error.code, error.retryAfter], ["CONNECTOR_LOOP_GUARD", null]);
  await send({ inReplyTo: "question-1" });
  await send({ inReplyTo: "question-2", auto: true });
  await send({ auto: true });
  assertEquals([requests.length, guard.refusals], [3, 1]);
});

Deno.test("20 automatic replies in a conversation stop the next ones", async () => {
  await using disk = await Disk.make();
  const { send, inbox, requests } = senderOn(disk);
  store(inbox, "question-1", { conversationId: "talk" });
  for (let n = 0; n < 20; n++) await send({ inReplyTo: "question-1", auto: true });
  const error = await assertRejects(() => send({ inReplyTo: "question-1", auto: true }), SendRefusedError);
  assertEquals([error.code, error.retryAfter, requests.length], ["CONNECTOR_LOOP_GUARD", 600, 20]);
});

Deno.test("a request that a restart interrupted is unknown", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world);
  bench.connector.proxy.call = () => new Promise(() => {});
  void bench.connector.sender.send({ toDid: a.agent.did, payload: PAYLOAD, origin: "program", requestId: "request-1" });
  await until(() => bench.connector.sent.find("request-1") !== null);
  bench.kill();
  await using again = await Bench.open(world, b, { folder: bench.folder });
  assertEquals(again.connector.sent.find("request-1")?.state, "unknown");
});
