/** A connector on the platform inbox (D-116), next to both services: messages are unread until the agent takes them. */
import { received } from "./store/disk.ts";
import { assert, assertEquals } from "@std/assert";
import { NOT_READ } from "../../../cli/connector/store/received_messages.ts";
import { CLEANUP_EVERY_MS } from "../../../cli/connector/connector.ts";
import { isConnectorHealthy, statusFields } from "../../../cli/connector/status.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { Bench, story } from "./bench.ts";
import { SENDER_MESSAGES } from "../../../cli/connector/store/received_bounds.ts";

const DAY = 24 * 3_600_000;
const HEADERS = (id: string) => ({ "x-request-id": id });

Deno.test("a message is delivered without a receipt until the agent reads it", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "inbox" });
  const response = await world.message(a, b, {
    headers: { ...HEADERS("request-1"), "X-Svc-In-Reply-To": "question-1", "X-Svc-Auto": "1" },
  });
  assertEquals((await response.json()).delivered, true);
  assertEquals([await bench.receiptsOf(a, "request-1"), bench.calls], [[], []]);
  const [message] = bench.connector.store.received.list({ unread: true, limit: 10 }).messages;
  assertEquals([message?.inReplyTo, message?.auto, message?.isReply], ["question-1", true, false]);
  assertEquals(bench.connector.store.received.markRead([1], world.clock.now()), [1]);
  await until(() => bench.eventsOf("receipt_sent").length === 1);
  assertEquals(await bench.receiptsOf(a, "request-1"), ["processed_by_svc"]);
});

Deno.test("the status names no runtime, and the connector is healthy", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "inbox" });
  await world.message(a, b);
  const status = bench.connector.status();
  const expected: typeof status.runtime = {
    platform: "inbox",
    url: null,
    source: null,
    replies: false,
    reachable: true,
    checkedAt: null,
    problem: null,
  };
  assertEquals([status.runtime, isConnectorHealthy(status)], [expected, true]);
  const fields = Object.fromEntries(statusFields(status).map(([label, value]) => [label, String(value)]));
  assertEquals(fields.runtime, "inbox: the agent reads its messages");
  assert(fields.inbox?.startsWith("1 unread"), fields.inbox);
});

Deno.test("a message that stays unread for seven days ends as a dead letter with its receipt", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "inbox" });
  await world.message(a, b, { headers: HEADERS("request-1") });
  await world.clock.stepWhenIdle(7 * DAY);
  bench.session.onRenew = async () => {
    const { accessToken } = await world.client.refresh(b.identity, b.agentAuth.refreshToken);
    bench.session.identity = { ...bench.session.identity, accessToken };
    return true;
  };
  await world.clock.advance(2 * CLEANUP_EVERY_MS);
  await until(() => bench.eventsOf("receipt_sent").length > 0);
  assertEquals(bench.eventsOf("dead_letter"), [{ from: a.agent.did, requestId: "request-1", why: NOT_READ }]);
  assertEquals(bench.connector.status().deadLetters, 1);
  assertEquals(bench.connector.store.received.replay(null, world.clock.now()), 1);
  assertEquals(bench.connector.store.received.list({ unread: true, limit: 1 }).messages.length, 1);
});

Deno.test("unread messages of a kill are unread once after the next start", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "inbox" });
  await world.message(a, b);
  bench.kill();
  await using again = await Bench.open(world, b, { folder: bench.folder, platform: "inbox" });
  assertEquals(again.connector.store.received.list({ unread: true, limit: 10 }).messages.length, 1);
});

Deno.test("unread messages go to the runtime when the agent gets one", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "inbox" });
  await world.message(a, b, { headers: HEADERS("request-1") });
  await bench.stop();
  await using again = await Bench.open(world, b, { folder: bench.folder });
  await until(() => again.eventsOf("receipt_sent").length === 1);
  assertEquals(again.calls.map(({ headers }) => headers.get("x-request-id")), ["request-1"]);
});

Deno.test("a peer with 1,000 unread messages is refused, which is said once a minute, and another one is not", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "inbox" });
  const c = await world.agent();
  await world.pair(c, b);
  const all = Array.from({ length: SENDER_MESSAGES }, (_, n) => received(`request-${n}`, { from: a.agent.did }));
  bench.connector.store.received.take(all, world.clock.now());
  const results = [];
  for (const sender of [a, c]) {
    const { delivered, reason } = await (await world.message(sender, b)).json();
    results.push([delivered, reason]);
  }
  assertEquals(results, [[false, "inbox_full"], [true, undefined]]);
  for (let n = 0; n < 3; n++) await (await world.message(a, b)).body?.cancel();
  assertEquals(bench.eventsOf("inbox_full").length, 1);
});

Deno.test("a reply of another agent than the one that was asked is not a reply", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, { platform: "inbox" });
  const c = await world.agent();
  await world.pair(c, b);
  const send = {
    toDid: a.agent.did,
    payload: "{}",
    origin: "program",
    requestId: "question-1",
    mayWait: true,
  } as const;
  await bench.connector.sending.send(send);
  for (const from of [c, a]) await world.message(from, b, { headers: { "X-Svc-In-Reply-To": "question-1" } });
  const { messages } = bench.connector.store.received.list({ unread: true, limit: 2 });
  assertEquals(messages.map(({ fromDid, isReply }) => [fromDid, isReply]), [[c.agent.did, false], [a.agent.did, true]]);
  assertEquals(bench.connector.store.sent.find("question-1")?.state, "processed");
});
