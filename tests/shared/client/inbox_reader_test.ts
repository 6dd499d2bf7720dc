/** Which messages of a connector's inbox `LocalAgent` gives to its handler, and when it marks them as read. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { assert, assertEquals } from "@std/assert";
import type { IncomingMessage } from "../../../shared/client/agent_api.ts";
import { EventHandlers, InboxReader, messageParts } from "../../../shared/client/inbox_reader.ts";
import { readMessages, sendAndWait } from "../../../shared/client/local_client.ts";
import { localMessage } from "../../support/local_message.ts";
import { until } from "../../support/until.ts";
import { asSvcError } from "../../../shared/client/svc_error.ts";
import { FakeConnector, refusal } from "./fake_connector.ts";
import type { LocalMessage } from "../../../shared/client/local_shapes.ts";
import { didOf, passing } from "./library_bench.ts";

async function bench() {
  const connector = await FakeConnector.open();
  const events = new EventHandlers();
  const told: string[] = [];
  for (const event of ["connected", "disconnected", "problem"] as const) {
    events.add(event, ({ code }) => told.push(code === null ? event : `${event} ${code}`));
  }
  const { local, clock } = connector;
  const reader = new InboxReader(local, clock, events, async ({ id }, content, requestId) => {
    const { members, payload } = messageParts(content, { requestId });
    const message = { members: { ...members, replyTo: id, auto: true }, payload, waitSeconds: 0 };
    await sendAndWait(local, clock, message).catch((error) => {
      throw asSvcError(error);
    });
  });
  /** Sets a handler whose calls end as `outcomes` say. Returns the IDs of the messages that it gets. */
  const handle = (outcomes: (() => unknown)[] = []) => {
    const seen: string[] = [];
    reader.handler = ({ requestId }) => {
      seen.push(requestId);
      return outcomes.shift()?.() as undefined;
    };
    return seen;
  };
  const allRead = () => connector.unread.length === 0;
  const end = async () => {
    await reader.stop();
    await connector[Symbol.asyncDispose]();
  };
  return { connector, reader, told, handle, allRead, [Symbol.asyncDispose]: end };
}

Deno.test("each unread message is handled once and then marked as read, also those that come while it waits", async () => {
  await using b = await bench();
  for (let n = 1; n <= 45; n++) b.connector.receive(`request-${n}`);
  const seen = b.handle();
  await until(b.allRead);
  b.connector.receive("request-46");
  await until(b.allRead);
  assertEquals([seen.length, new Set(seen).size, b.told], [46, 46, ["connected"]]);
  assert(b.connector.calls.every(({ query }) => Number(query.get("limit") ?? 0) <= 20));
});

Deno.test("a peer whose many messages are handled slowly holds up no message of another one", async () => {
  await using b = await bench();
  for (let n = 1; n <= 45; n++) b.connector.receive(`loud-message-${n}`);
  const [{ from }] = b.connector.inbox as [LocalMessage];
  const busy = Promise.withResolvers<void>();
  const seen = b.handle([() => busy.promise]);
  await until(() => seen.length === 1);
  b.connector.receive("quiet-message", { from: { ...from, agentDid: didOf("Q") } });
  await until(() => seen.length === 2);
  assertEquals(seen, ["loud-message-1", "quiet-message"]);
  busy.resolve();
  await until(b.allRead);
  assertEquals(
    seen.filter((id) => id !== "quiet-message"),
    Array.from({ length: 45 }, (_, n) => `loud-message-${n + 1}`),
  );
  assertEquals(b.told, ["connected"]);
});

Deno.test("a message is tried again after 1, 2, 4 and 8 s, and stays unread with a problem after five tries", async () => {
  await using b = await bench();
  b.connector.receive("request-1");
  const fail = () => Promise.reject(new Error("no"));
  const seen = b.handle([fail, fail, fail, fail, fail]);
  for (const [n, wait] of [[1, 1_000], [2, 2_000], [3, 4_000], [4, 8_000]] as const) {
    await until(() => seen.length === n);
    await b.connector.clock.advance(wait - 1);
    assertEquals(seen.length, n);
    await b.connector.clock.advance(1);
  }
  await until(() => seen.length === 5 && b.told.includes("problem"));
  await b.connector.clock.advance(120_000);
  assertEquals([seen.length, b.connector.unread], [5, [1]]);
});

Deno.test("a later try handles and marks the message", async () => {
  await using b = await bench();
  b.connector.receive("request-1");
  const seen = b.handle([() => Promise.reject(new Error("no")), () => undefined]);
  await passing(b.connector.clock, 5, b.allRead);
  assertEquals([seen.length, b.told], [2, ["connected"]]);
});

Deno.test("what a handler returns is sent once with the mark auto, and not for an automatic message", async () => {
  await using b = await bench();
  b.connector.receive("request-1");
  b.connector.receive("request-2", { auto: true });
  b.reader.handler = ({ text }) => `re: ${text}`;
  await until(b.allRead);
  const [sent, ...more] = b.connector.sent;
  assertEquals(more, []);
  const { requestId, ...rest } = sent;
  assertEquals(rest, {
    replyTo: 1,
    auto: true,
    payload: { message: "re: request-1" },
    prefer: "respond-async",
    keep: true,
  });
  assert(/^r-[\w-]{43}$/.test(requestId));
});

Deno.test("a reply that fails is sent again as the same message without a second call of the handler", async () => {
  await using b = await bench();
  b.connector.receive("request-1");
  const ids: string[] = [];
  b.connector.tamper = ({ path, body }) => {
    if (path !== "/v1/outbound") return null;
    ids.push(body.requestId);
    return ids.length < 3 ? refusal(502, "CONNECTOR_PROXY_UNREACHABLE") : null;
  };
  const seen = b.handle([() => "yes"]);
  await passing(b.connector.clock, 10, b.allRead);
  assertEquals([ids.length, new Set(ids).size, seen.length], [3, 1, 1]);
});

Deno.test("a reply waits as long as each refusal asks, and is then sent once", async () => {
  await using b = await bench();
  b.connector.receive("request-1");
  let calls = 0;
  b.connector.tamper = ({ path }) =>
    path === "/v1/outbound" && ++calls <= 10 ? refusal(429, "RATE_LIMIT_EXCEEDED", 30) : null;
  const seen = b.handle([() => "yes"]);
  await passing(b.connector.clock, 600, b.allRead);
  assertEquals([calls, b.connector.sent.length, seen.length, b.told], [11, 1, 1, ["connected"]]);
  assert(b.connector.clock.now() >= 10 * 30_000);
});

Deno.test("a refusal that asks to wait for years holds up a handler for a minute", async () => {
  await using b = await bench();
  b.connector.receive("request-1");
  let calls = 0;
  b.connector.tamper = ({ path }) =>
    path === "/v1/outbound" && ++calls === 1 ? refusal(429, "RATE_LIMIT_EXCEEDED", 999_999_999) : null;
  b.handle([() => "yes"]);
  await passing(b.connector.clock, 70, b.allRead);
});

Deno.test("a message is read, with a problem, when the loop guard or the proxy refuses its reply", async (t) => {
  const refusals = { CONNECTOR_LOOP_GUARD: 429, PROXY_AUTH_FORBIDDEN: 403, PROXY_HOOK_REQUEST_ID_REUSED: 409 };
  for (const [code, status] of Object.entries(refusals)) {
    await t.step(code, async () => {
      await using b = await bench();
      b.connector.receive("request-1");
      b.connector.tamper = ({ path }) => path === "/v1/outbound" ? refusal(status, code) : null;
      b.reader.handler = () => "yes";
      await until(b.allRead);
      assertEquals(b.told, ["connected", `problem ${code}`]);
    });
  }
});

Deno.test("a connector of a push platform is a problem, and is not asked again", async () => {
  await using b = await bench();
  b.connector.tamper = () => refusal(409, "CONNECTOR_RUNTIME_PUSHES");
  b.reader.handler = () => {};
  await until(() => b.told.length > 0);
  await b.connector.clock.advance(600_000);
  assertEquals([b.told, b.connector.calls.length], [["problem CONNECTOR_RUNTIME_PUSHES"], 1]);
});

Deno.test("messages are handled after the connector has ended and another one has started", async () => {
  await using b = await bench();
  const seen = b.handle();
  await until(() => b.told.includes("connected"));
  b.connector.isUp = false;
  await passing(b.connector.clock, 70, () => b.told.includes("disconnected"));
  b.connector.receive("request-1");
  await b.connector.clock.advance(120_000);
  const { length } = b.connector.calls;
  await b.connector.clock.advance(120_000);
  assertEquals(b.connector.calls.length, length, "nothing is sent while no process has the ID");
  b.connector.isUp = true;
  await passing(b.connector.clock, 70, b.allRead);
  assertEquals([seen, b.told.at(-1)], [["request-1"], "connected"]);
});

/** Lets a handler read request-2, and then makes request-1, which has a lower number, unread again. */
async function withLowerNumber(b: Awaited<ReturnType<typeof bench>>): Promise<string[]> {
  const hidden = b.connector.receive("request-1");
  hidden.readAt = "2026-02-21T00:00:01.000Z";
  b.connector.receive("request-2");
  const seen = b.handle();
  await until(b.allRead);
  hidden.readAt = null;
  return seen;
}

Deno.test("messages with lower numbers are handled: of a new database, of a replay and after a lease", async (t) => {
  await t.step("a connector whose database was moved away", async () => {
    await using b = await bench();
    for (let n = 1; n <= 9; n++) b.connector.receive(`request-${n}`);
    const seen = b.handle();
    await until(b.allRead);
    b.connector.isUp = false;
    await passing(b.connector.clock, 70, () => b.told.includes("disconnected"));
    b.connector.inbox.length = 0;
    b.connector.isUp = true;
    b.connector.receive("request-of-new-database");
    await passing(b.connector.clock, 200, b.allRead);
    assertEquals([seen.length, seen.at(-1)], [10, "request-of-new-database"]);
  });
  await t.step("a message that is unread again", async () => {
    await using b = await bench();
    const seen = await withLowerNumber(b);
    await passing(b.connector.clock, 200, b.allRead);
    assertEquals(seen, ["request-2", "request-1"]);
  });
  await t.step("a message that is unread again while a peer writes all the time", async () => {
    await using b = await bench();
    const seen = await withLowerNumber(b);
    for (let n = 3; n <= 15 && !seen.includes("request-1"); n++) {
      b.connector.receive(`request-${n}`);
      await until(() => seen.includes(`request-${n}`));
      await b.connector.clock.advance(5_000);
    }
    assert(seen.includes("request-1"));
  });
});

Deno.test("a message whose mark fails because the connector is down is marked when it is back", async () => {
  await using b = await bench();
  b.connector.receive("request-1");
  const seen = b.handle([() => void (b.connector.isUp = false)]);
  await until(() => seen.length === 1);
  await b.connector.clock.advance(300_000);
  assertEquals(b.connector.unread, [1]);
  b.connector.isUp = true;
  await passing(b.connector.clock, 120, b.allRead);
  assertEquals(seen.length, 1);
});

Deno.test("a reply that an ask waits for is left to it, and goes to the handler when the ask does not take it", async (t) => {
  for (const isTaken of [true, false]) {
    await t.step(isTaken ? "taken" : "not taken", async () => {
      await using b = await bench();
      b.reader.expect("question-1");
      const seen = b.handle();
      const message = b.connector.receive("answer-01", { isReply: true, inReplyTo: "question-1" });
      b.connector.receive("request-2");
      await until(() => seen.length === 1);
      assertEquals(seen, ["request-2"]);
      b.reader.release("question-1", isTaken ? message as unknown as IncomingMessage : null);
      if (isTaken) await readMessages(b.connector.local, { ids: [message.id] });
      await until(b.allRead);
      assertEquals(seen, isTaken ? ["request-2"] : ["request-2", "answer-01"]);
    });
  }
});

Deno.test("a page that was read before a question took its reply does not give the reply to the handler", async () => {
  await using b = await bench();
  b.reader.expect("question-1");
  const reply = b.connector.receive("answer-01", { isReply: true, inReplyTo: "question-1" });
  const asked = Promise.withResolvers<void>(), gate = Promise.withResolvers<void>();
  b.connector.tamper = ({ path }) => {
    if (path !== "/v1/inbox") return null;
    b.connector.tamper = () => null;
    const page = Response.json({ messages: [reply], more: false });
    asked.resolve();
    return gate.promise.then(() => page);
  };
  const seen = b.handle();
  await asked.promise;
  await readMessages(b.connector.local, { ids: [reply.id] });
  b.reader.release("question-1", reply as unknown as IncomingMessage);
  gate.resolve();
  b.connector.receive("request-2");
  await until(b.allRead);
  assertEquals(seen, ["request-2"]);
});

Deno.test("a program that only asks keeps a bounded number of replies in memory", async () => {
  await using b = await bench();
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  let asked = 0;
  const heapAfter = (questions: number) => {
    for (; asked < questions; asked++) {
      const reply = localMessage(`${asked}`.padStart(1_024, "0")) as unknown as IncomingMessage;
      b.reader.expect("question-1");
      b.reader.release("question-1", reply);
    }
    collect();
    return Deno.memoryUsage().heapUsed;
  };
  const before = heapAfter(10_000);
  assert(heapAfter(20_000) - before < 4 * 1024 ** 2);
});

Deno.test("stop() ends the wait at once, and messages that failed stay unread", async () => {
  const b = await bench();
  b.connector.receive("request-1");
  const seen = b.handle([() => Promise.reject(new Error("no"))]);
  await until(() => seen.length === 1);
  await b.reader.stop();
  assertEquals([b.connector.unread, b.connector.clock.waiting], [[1], 0]);
  await b.connector[Symbol.asyncDispose]();
});
