/** What an `Agent` acknowledges, gives to its handler, answers and reports (D-125). */
import { assert, assertEquals } from "@std/assert";
import type { Content, IncomingMessage } from "../../../../shared/client/library/agent_api.ts";
import { EventHandlers } from "../../../../shared/client/library/event_handlers.ts";
import { IncomingMessages } from "../../../../shared/client/library/incoming_messages.ts";
import { ReceiptQueue } from "../../../../shared/client/library/receipt_queue.ts";
import { SvcError } from "../../../../shared/client/library/svc_error.ts";
import { UnreachableError } from "../../../../shared/client/errors.ts";
import type { ProxyRequest } from "../../../../shared/client/proxy_caller.ts";
import type { DeliverFrame } from "../../../../shared/protocol/frames.ts";
import { withIdentityBlock } from "../../../../shared/protocol/identity_block.ts";
import { flushTasks, ManualClock } from "../../../support/manual_clock.ts";
import { didOf, OWNER, passing } from "./library_bench.ts";

const IDENTITY = { agentDid: didOf("B"), ownerDid: OWNER, issuer: "https://registry.example.test", aitJti: "J" };

function frameOf(requestId: string, payload: unknown, more: Partial<DeliverFrame> = {}): DeliverFrame {
  return {
    v: 1,
    id: "01KHYQ5H00FFFFFFFFFFFFFFFF",
    ts: "2026-02-21T00:00:00.000Z",
    type: "deliver",
    requestId,
    fromAgentDid: didOf("B"),
    toAgentDid: didOf("A"),
    identity: { ...IDENTITY, name: "beta" },
    contentType: "application/json",
    attempt: 1,
    payload: typeof payload === "string" ? payload : JSON.stringify(payload),
    ...more,
  };
}

interface Bench {
  incoming: IncomingMessages;
  clock: ManualClock;
  /** Receipts as the proxy got them: request ID and status. */
  receipts: [string, string][];
  replies: { to: string; content: Content; requestId: string }[];
  problems: string[];
  /** Errors of the next replies and receipts. */
  failing: { replies: unknown[]; receipts: unknown[] };
}

function bench(): Bench {
  const clock = new ManualClock();
  const events = new EventHandlers();
  const problems: string[] = [];
  events.add("problem", ({ code, message }) => problems.push(`${code}: ${message}`));
  const failing: Bench["failing"] = { replies: [], receipts: [] };
  const receipts: Bench["receipts"] = [], replies: Bench["replies"] = [];
  const proxy = {
    ask({ body }: ProxyRequest) {
      const failure = failing.receipts.shift();
      if (failure !== undefined) return Promise.reject(failure);
      const { requestId, status, senderAgentDid, recipientAgentDid } = JSON.parse(body ?? "");
      assertEquals([senderAgentDid, recipientAgentDid], [didOf("B"), didOf("A")]);
      receipts.push([requestId, status]);
      return Promise.resolve(null);
    },
  };
  const incoming = new IncomingMessages({
    clock,
    did: didOf("A"),
    events,
    receipts: new ReceiptQueue(clock, proxy, didOf("A"), events),
    aliasOf: (did) => did === didOf("B") ? "my-beta" : null,
    reply(message, content, requestId) {
      const failure = failing.replies.shift();
      if (failure !== undefined) return Promise.reject(failure);
      replies.push({ to: message.from.agentDid, content, requestId });
      return Promise.resolve();
    },
  });
  return { incoming, clock, receipts, replies, problems, failing };
}

Deno.test("a message is handled with its text, its sender and its context, and its receipt says processed", async () => {
  const { incoming, receipts, replies } = bench();
  const seen: IncomingMessage[] = [];
  incoming.handler = (message) => void seen.push(message);
  const message = withIdentityBlock("hi", IDENTITY);
  assertEquals(incoming.take(frameOf("request-1", { message }, { conversationId: "c", auto: true })), {
    accepted: true,
  });
  await flushTasks();
  const { payload, receivedAt: _, ...rest } = seen[0] as IncomingMessage;
  assertEquals([payload, rest], [{ message }, {
    id: null,
    requestId: "request-1",
    from: { agentDid: didOf("B"), ownerDid: OWNER, name: "beta", alias: "my-beta", humanName: null },
    verified: "by-proxy",
    conversationId: "c",
    inReplyTo: null,
    isReply: false,
    auto: true,
    text: "hi",
  }]);
  assertEquals([receipts, replies], [[["request-1", "processed_by_svc"]], []]);
});

Deno.test("a message is refused with the reason when it is for another agent, sealed, or not JSON", () => {
  const { incoming } = bench();
  const sealed = { svcSealed: 1, kid: "k", enc: "e", ct: "c" };
  const reason = (frame: DeliverFrame) => incoming.take(frame).reason;
  assertEquals(reason(frameOf("request-1", {}, { toAgentDid: didOf("C") })), "wrong_recipient");
  assertEquals(reason(frameOf("request-1", sealed)), "seal_key_unknown");
  assertEquals(reason(frameOf("request-1", "{")), "payload_invalid");
  assertEquals(reason(frameOf("request-1", { svcSealed: 1 })), undefined, "an ordinary payload may have such a member");
  assertEquals(reason(frameOf("request-2", `${"[".repeat(50_000)}${"]".repeat(50_000)}`)), undefined);
});

Deno.test("a repeated delivery is acknowledged and handled once, also of two senders with one request ID", async () => {
  const { incoming } = bench();
  const seen: string[] = [];
  incoming.handler = ({ from }) => void seen.push(from.agentDid);
  for (let n = 0; n < 3; n++) assertEquals(incoming.take(frameOf("request-1", {})).accepted, true);
  const other = { ...IDENTITY, agentDid: didOf("C"), name: "gamma" };
  incoming.take(frameOf("request-1", {}, { fromAgentDid: didOf("C"), identity: other }));
  await flushTasks();
  assertEquals(seen, [didOf("B"), didOf("C")]);
});

Deno.test("the 1001st message and more than 16 MiB are refused until a handler has made room", async (t) => {
  await t.step("messages", async () => {
    const { incoming } = bench();
    for (let n = 0; n < 1_000; n++) assertEquals(incoming.take(frameOf(`request-${n}`, {})).accepted, true);
    assertEquals(incoming.take(frameOf("request-x", {})), { accepted: false, reason: "inbox_full" });
    incoming.handler = () => {};
    await flushTasks();
    assertEquals(incoming.take(frameOf("request-x", {})).accepted, true);
  });
  await t.step("bytes", () => {
    const { incoming } = bench();
    const big = { message: "x".repeat(4 * 1024 ** 2 - 100) };
    for (let n = 0; n < 4; n++) assertEquals(incoming.take(frameOf(`request-${n}`, big)).accepted, true);
    assertEquals(incoming.take(frameOf("request-x", big)).reason, "inbox_full");
    assertEquals(incoming.take(frameOf("request-y", {})).accepted, true);
  });
  await t.step("bytes, not characters", () => {
    const { incoming } = bench();
    const big = { message: "€".repeat(2 * 1024 ** 2) };
    for (let n = 0; n < 2; n++) assertEquals(incoming.take(frameOf(`request-${n}`, big)).accepted, true);
    assertEquals(incoming.take(frameOf("request-x", big)).reason, "inbox_full");
  });
  await t.step("receipts that the proxy does not take count too", async () => {
    const { incoming, failing } = bench();
    failing.receipts.push(...Array.from({ length: 1_000 }, () => new UnreachableError("gone")));
    incoming.handler = () => {};
    for (let n = 0; n < 1_000; n++) incoming.take(frameOf(`request-${n}`, {}));
    await flushTasks();
    assertEquals(incoming.take(frameOf("request-x", {})).reason, "inbox_full");
  });
});

Deno.test("the first reply of the asked agent goes to the question, and no other one does", async () => {
  const { incoming, receipts } = bench();
  const handled: [string, boolean][] = [];
  incoming.handler = ({ requestId, isReply }) => void handled.push([requestId, isReply]);
  let reply: IncomingMessage | null = null;
  incoming.noteSent(didOf("B"), "question-1");
  const end = incoming.expect(didOf("B"), "question-1", (message) => reply = message);
  const third = { fromAgentDid: didOf("C"), identity: { ...IDENTITY, agentDid: didOf("C"), name: "gamma" } };
  incoming.take(frameOf("from-third", { message: "me" }, { ...third, inReplyTo: "question-1" }));
  incoming.take(frameOf("other-question", { message: "x" }, { inReplyTo: "question-2" }));
  assertEquals(reply, null);
  incoming.take(frameOf("answer-01", { message: "yes" }, { inReplyTo: "question-1" }));
  incoming.take(frameOf("answer-02", { message: "no" }, { inReplyTo: "question-1" }));
  end();
  await flushTasks();
  assert(reply !== null);
  assertEquals([(reply as IncomingMessage).text, (reply as IncomingMessage).isReply], ["yes", true]);
  assertEquals(handled, [["from-third", false], ["other-question", false], ["answer-02", true]]);
  assertEquals(receipts.find(([id]) => id === "answer-01"), ["answer-01", "processed_by_svc"]);
});

Deno.test("what a handler returns is sent with a request ID of its own, and dropped for an automatic message", async () => {
  const { incoming, replies } = bench();
  incoming.handler = ({ text }) => Promise.resolve(text === null ? undefined : `re: ${text}`);
  incoming.take(frameOf("request-1", { message: "a" }));
  incoming.take(frameOf("request-2", { message: "b" }, { auto: true }));
  incoming.take(frameOf("request-3", {}));
  await flushTasks();
  assertEquals(replies.map(({ to, content }) => [to, content]), [[didOf("B"), "re: a"]]);
  assert(/^r-[\w-]{43}$/.test(replies[0]?.requestId ?? ""));
});

Deno.test("a handler that rejects makes a dead letter and a problem", async () => {
  const { incoming, receipts, problems } = bench();
  incoming.handler = () => Promise.reject(new Error("no"));
  incoming.take(frameOf("request-1", {}));
  await flushTasks();
  assertEquals(receipts, [["request-1", "dead_lettered"]]);
  assertEquals(problems, ["null: The message request-1 was not processed: no"]);
});

Deno.test("a reply is tried again as the same message, and given up after a refusal or five tries", async (t) => {
  const refused = new SvcError("PROXY_AUTH_FORBIDDEN", "not paired", { status: 403 });
  const down = () => new SvcError("CLI_UNREACHABLE", "gone");
  for (
    const [name, failures, sent, code] of [
      ["after two failures", [down(), down()], 1, null],
      ["after five failures", Array.from({ length: 5 }, down), 0, "CLI_UNREACHABLE"],
      ["after a refusal", [refused], 0, "PROXY_AUTH_FORBIDDEN"],
    ] as const
  ) {
    await t.step(name, async () => {
      const { incoming, clock, replies, receipts, failing, problems } = bench();
      failing.replies.push(...failures);
      incoming.handler = () => "yes";
      incoming.take(frameOf("request-1", {}));
      await passing(clock, 100, () => receipts.length === 1);
      assertEquals([replies.length, receipts[0]], [sent, ["request-1", "processed_by_svc"]]);
      assertEquals(problems.map((problem) => problem.split(":")[0]), code === null ? [] : [code]);
    });
  }
});

Deno.test("at most 20 automatic replies go to a conversation in five minutes", async () => {
  const { incoming, replies, problems, receipts } = bench();
  incoming.handler = () => "again";
  for (let n = 0; n < 25; n++) incoming.take(frameOf(`request-${n}`, {}, { conversationId: "c" }));
  while (receipts.length < 25) await flushTasks();
  assertEquals([replies.length, problems.length], [20, 5]);
  assert(problems.every((problem) => problem.startsWith("CONNECTOR_LOOP_GUARD")));
});

Deno.test("receipts are tried again until the proxy takes them", async () => {
  const { incoming, clock, receipts, failing, problems } = bench();
  failing.receipts.push(...Array.from({ length: 4 }, () => new UnreachableError("gone")));
  incoming.handler = () => {};
  incoming.take(frameOf("request-1", {}));
  await passing(clock, 60, () => receipts.length === 1);
  assertEquals([receipts, problems.length], [[["request-1", "processed_by_svc"]], 1]);
});

Deno.test("messages that no handler has begun become dead letters when the agent closes", async () => {
  const { incoming, receipts } = bench();
  for (const id of ["request-1", "request-2"]) incoming.take(frameOf(id, {}));
  await incoming.close();
  assertEquals(receipts.sort(), [["request-1", "dead_lettered"], ["request-2", "dead_lettered"]]);
  assertEquals(incoming.take(frameOf("request-3", {})), { accepted: false, reason: "closed" });
});
