/** How `LocalAgent` asks through a connector: it waits, repeats what was interrupted, and ends in time. */
import { assertEquals, assertRejects } from "@std/assert";
import type { IncomingMessage } from "../../../shared/client/agent_api.ts";
import { askThrough } from "../../../shared/client/connector_calls.ts";
import { messageParts } from "../../../shared/client/inbox_reader.ts";
import { SvcError } from "../../../shared/client/svc_error.ts";
import { until } from "../../support/until.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { FakeConnector, refusal } from "./fake_connector.ts";
import { passing } from "./library_bench.ts";

const OPEN = new AbortController().signal;
const QUESTION = { members: { to: "beta", requestId: "question-1" }, payload: '{"message":"?"}' };

/** Asks; the result is a reply or an error code. */
function ask(connector: FakeConnector, timeoutMs = 60_000) {
  const state: { reply: IncomingMessage | null; code: string | null } = { reply: null, code: null };
  void askThrough(connector.local, connector.clock, QUESTION, timeoutMs, OPEN).then(
    (reply) => state.reply = reply,
    (error) => state.code = error instanceof SvcError ? error.code : String(error),
  );
  return state;
}

/** Asks, and passes at most so many seconds until it ends. */
async function asked(connector: FakeConnector, seconds: number, timeoutMs?: number) {
  const state = ask(connector, timeoutMs);
  await passing(connector.clock, seconds, isDone(state));
  return state;
}

const isDone = (state: ReturnType<typeof ask>) => () => state.reply !== null || state.code !== null;
const reply = (connector: FakeConnector) => connector.receive("answer-01", { inReplyTo: "question-1", isReply: true });

Deno.test("the reply of a question is returned and marked as read, at once and after several waits", async (t) => {
  for (const seconds of [0, 150]) {
    await t.step(`after ${seconds} s`, async () => {
      await using connector = await FakeConnector.open();
      // Each call waits as long as it may.
      connector.tamper = ({ query }) => {
        const wait = Number(query.get("wait") ?? 0) * 1000;
        if (connector.inbox.length > 0 || wait === 0) return null;
        return new Promise((resolve) => connector.clock.after(wait, () => resolve(null as unknown as Response)));
      };
      connector.clock.after(seconds * 1000, () => void reply(connector));
      const { reply: found, code } = await asked(connector, 400, 300_000);
      assertEquals([found?.requestId, found?.id, code], ["answer-01", 1, null]);
      assertEquals([connector.unread, connector.sent.length], [[], 1]);
    });
  }
});

Deno.test("a question ends without a reply at its time, after a dead letter, and when another program took it", async (t) => {
  await t.step("at its time", async () => {
    await using connector = await FakeConnector.open();
    const began = connector.clock.now();
    const { code } = await asked(connector, 10, 2_500);
    assertEquals([code, connector.clock.now() - began >= 2_500], ["NO_REPLY", true]);
  });
  for (const step of [-86_400_000, 3_600_000]) {
    await t.step(`at its time, though the clock was moved by ${step} ms`, async () => {
      await using connector = await FakeConnector.open();
      const late = ask(connector, 60_000);
      await until(() => connector.sent.length === 1);
      connector.clock.step(step);
      await connector.clock.advance(55_000);
      assertEquals(late.code, null);
      await passing(connector.clock, 60, isDone(late));
      assertEquals(late.code, "NO_REPLY");
    });
  }
  for (const state of ["dead_lettered", "refused"] as const) {
    await t.step(state, async () => {
      await using connector = await FakeConnector.open();
      connector.result = { state, problem: "not read within 7 days" };
      assertEquals((await asked(connector, 1)).code, "NO_REPLY");
    });
  }
  await t.step("taken", async () => {
    await using connector = await FakeConnector.open();
    reply(connector).readAt = "2026-02-21T00:00:00.000Z";
    assertEquals((await asked(connector, 1)).code, "NO_REPLY");
  });
});

Deno.test("a question that was interrupted is sent again with its request ID", async (t) => {
  await t.step("the connector ended before it answered", async () => {
    await using connector = await FakeConnector.open();
    let calls = 0;
    connector.tamper = () => ++calls > 2 ? null : Promise.reject(new TypeError("connection reset"));
    const again = ask(connector);
    await passing(connector.clock, 10, () => calls > 2);
    reply(connector);
    await passing(connector.clock, 10, isDone(again));
    assertEquals(connector.sent.map(({ requestId }) => requestId), ["question-1"]);
    assertEquals(again.reply?.requestId, "answer-01");
  });
  await t.step("its state is unknown", async () => {
    await using connector = await FakeConnector.open();
    connector.result = { state: "unknown" };
    const again = ask(connector);
    await passing(connector.clock, 10, () => connector.sent.length === 2);
    connector.result = {};
    reply(connector);
    await passing(connector.clock, 10, isDone(again));
    assertEquals(new Set(connector.sent.map(({ requestId }) => requestId)), new Set(["question-1"]));
    assertEquals(again.reply?.requestId, "answer-01");
  });
  await t.step("no connector came back", async () => {
    await using connector = await FakeConnector.open();
    connector.isUp = false;
    assertEquals([(await asked(connector, 10, 5_000)).code, connector.calls.length], ["CONNECTOR_DOWN", 0]);
  });
});

Deno.test("a reply is returned although the connector ended while it was marked as read", async (t) => {
  for (const isMarked of [true, false]) {
    await t.step(isMarked ? "after the mark" : "before the mark", async () => {
      await using connector = await FakeConnector.open();
      const message = reply(connector);
      let marks = 0;
      connector.tamper = ({ path }) => {
        if (path !== "/v1/inbox/read" || ++marks > 1) return null;
        if (isMarked) message.readAt = "2026-02-21T00:00:00.000Z";
        return Promise.reject(new TypeError("connection reset"));
      };
      const { reply: found, code } = await asked(connector, 10);
      assertEquals([found?.requestId, code, marks, connector.unread], ["answer-01", null, 2, []]);
    });
  }
  await t.step("no connector came back in time", async () => {
    await using connector = await FakeConnector.open();
    reply(connector);
    connector.tamper = ({ path }) =>
      path === "/v1/inbox/read" ? Promise.reject(new TypeError("connection reset")) : null;
    const { reply: found, code } = await asked(connector, 10, 3_000);
    assertEquals([found?.requestId, code], ["answer-01", null]);
  });
  await t.step("the connector ended before it was asked to mark it", async () => {
    await using connector = await FakeConnector.open();
    reply(connector);
    connector.tamper = ({ path }) => {
      connector.isUp = path !== "/v1/outbound";
      return null;
    };
    assertEquals([(await asked(connector, 10, 3_000)).code, connector.unread], ["CONNECTOR_DOWN", [1]]);
  });
});

Deno.test("a question waits as long as a refusal asks, if that is within its time", async () => {
  await using connector = await FakeConnector.open();
  let calls = 0;
  connector.tamper = () => ++calls === 1 ? refusal(429, "RATE_LIMIT_EXCEEDED", 20) : null;
  const patient = ask(connector);
  reply(connector);
  await until(() => connector.clock.pending().includes("+20000 ms"));
  await connector.clock.advance(19_000);
  assertEquals([calls, patient.reply], [1, null]);
  await passing(connector.clock, 60, isDone(patient));
  assertEquals([patient.reply?.requestId, patient.code], ["answer-01", null]);
  connector.tamper = () => refusal(429, "RATE_LIMIT_EXCEEDED", 61);
  assertEquals((await asked(connector, 1)).code, "RATE_LIMIT_EXCEEDED");
});

Deno.test("a refusal of the connector or the proxy ends a question with its code, status and request ID", async () => {
  await using connector = await FakeConnector.open();
  connector.tamper = () => refusal(404, "CONNECTOR_PEER_UNKNOWN");
  const error = await assertRejects(
    () => askThrough(connector.local, connector.clock, QUESTION, 1_000, OPEN),
    SvcError,
  );
  assertEquals([error.code, error.status], ["CONNECTOR_PEER_UNKNOWN", 404]);
  connector.tamper = () => new Response("<html>", { status: 404 });
  assertEquals((await asked(connector, 5, 1)).code, "CONNECTOR_DOWN", "something else answers on the port");
  await flushTasks();
});

Deno.test("the parts of a message have its content as payload, and let it wait for the recipient unless it may not", () => {
  const requestId = "request-1";
  const waiting: ReturnType<typeof messageParts> = {
    members: { requestId, prefer: "respond-async", keep: true },
    payload: '{"message":"hi"}',
  };
  assertEquals(messageParts("hi", { requestId }), waiting);
  const options = { onlyOnline: true, conversationId: "c", requestId };
  assertEquals(messageParts({ a: 1 }, options), { members: { requestId, conversationId: "c" }, payload: '{"a":1}' });
});
