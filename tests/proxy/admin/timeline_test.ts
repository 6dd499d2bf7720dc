/** What the proxy reports to an admin about one message: each end has the timeline that it had. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { begunOf } from "../../../proxy/schema/sender_record.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { answered, refused } from "../../support/registry_world.ts";
import { until } from "../../support/until.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { post, receiptOf } from "../proxy_world.ts";
import { look, seen, storyOf, timelineOf, tokenOf } from "./admin_world.ts";
import { inWorld, openPaired, type PairTest } from "../cast.ts";

const ID = "request-1";

async function send(w: World, a: TestAgent, b: TestAgent, id = ID, headers: Record<string, string> = {}) {
  await answered(await w.message(a, b, { headers: { [HEADERS.requestId]: id, ...headers } }), 202);
}

const queue = (w: World, a: TestAgent, b: TestAgent, id = ID) => send(w, a, b, id, { Prefer: "respond-async" });

async function receipt(w: World, b: TestAgent, status: string): Promise<void> {
  await answered(await post(w, b, "/v1/relay/delivery-receipts", { ...receiptOf(w, b, ID), status }), 201);
}

const test = (name: string, run: PairTest) => Deno.test(name, inWorld(openPaired, run));

test("a delivered message has began, acked and processed", async ({ w, a, b }) => {
  w.connect(b);
  await send(w, a, b);
  await until(async () => (await timelineOf(w, ID)).events.length === 2);
  assertEquals(await storyOf(w, ID), { state: "acked", events: ["+0 began", "+0 acked"] });
  await w.clock.advance(3_000);
  await receipt(w, b, "processed_by_svc");
  assertEquals(await storyOf(w, ID), { state: "processed", events: ["+0 began", "+0 acked", "+3 processed"] });
  const { senderAgentDid, recipientAgentDid } = await timelineOf(w, ID);
  assertEquals([senderAgentDid, recipientAgentDid], [a.agent.did, b.agent.did]);
});

test("a message that the connector refused has its reason", async ({ w, a, b }) => {
  w.connect(b, "nack");
  await send(w, a, b);
  await until(async () => (await timelineOf(w, ID)).events.length === 2);
  assertEquals(await storyOf(w, ID), {
    state: "refused_by_connector",
    events: ["+0 began", "+0 refused_by_connector: payload_invalid"],
  });
});

test("a queued message waits with its place, and then was handed over", async ({ w, a, b }) => {
  await queue(w, a, b, "request-0");
  await queue(w, a, b);
  const expiresAt = toIso(w.clock.now() + LIMITS.mailboxTtlSeconds * 1000);
  await w.clock.advance(5_000);
  assertEquals(await storyOf(w, ID), {
    state: "waiting",
    events: ["+0 began", `+0 queued: until ${expiresAt}`, "+5 waiting: place 2, refusals 0"],
  });
  w.connect(b);
  await until(async () => (await timelineOf(w, ID)).state !== "waiting");
  assertEquals((await storyOf(w, ID)).state, "handed_over");
  await receipt(w, b, "processed_by_svc");
  assertEquals(await storyOf(w, ID), {
    state: "processed",
    events: ["+0 began", `+0 queued: until ${expiresAt}`, "+5 handed_over", "+5 processed"],
  });
});

test("a queued message that the connector refuses shows its refusals and its next attempt", async ({ w, a, b }) => {
  await queue(w, a, b);
  w.connect(b, "nack");
  await until(async () => (await timelineOf(w, ID)).events.at(-1)?.detail?.includes("refusals 1") === true);
  assertMatch((await storyOf(w, ID)).events[2] ?? "", /place 1, refusals 1, not before 2026-/);
});

test("a queued message that expires ends as dead-lettered", async ({ w, a, b }) => {
  await queue(w, a, b);
  w.clock.step(LIMITS.mailboxTtlSeconds * 1000);
  await w.proxy.deps.mailboxDelivery.sweep();
  const { state, events } = await storyOf(w, ID);
  assertEquals([state, events.at(-1)], ["dead_lettered", `+${LIMITS.mailboxTtlSeconds} dead_lettered`]);
  assertEquals(events.length, 3);
});

test("a message whose request ID was used before has no receipt of the earlier one", async ({ w, a, b }) => {
  const socket = w.connect(b);
  await send(w, a, b);
  await receipt(w, b, "processed_by_svc");
  socket.link.lost();
  await w.clock.stepWhenIdle(LIMITS.sameAnswerSeconds * 1000);
  await w.renew(a);
  await queue(w, a, b);
  assertEquals((await storyOf(w, ID)).state, "waiting");
});

test("a message that the recipient gave up on ends as dead-lettered", async ({ w, a, b }) => {
  w.connect(b);
  await send(w, a, b);
  await w.clock.advance(60_000);
  await receipt(w, b, "dead_lettered");
  assertEquals(await storyOf(w, ID), { state: "dead_lettered", events: ["+0 began", "+0 acked", "+60 dead_lettered"] });
});

test("a message without an answer has only began", async ({ w, a, b }) => {
  w.connect(b, "silent");
  const sending = w.message(a, b, { headers: { [HEADERS.requestId]: ID } });
  await until(async () => begunOf(await w.kv.get(KEYS.sender(a.agent.did))).length === 1);
  assertEquals(await storyOf(w, ID), { state: "began", events: ["+0 began"] });
  await w.clock.advance(LIMITS.ackTimeoutMs);
  await refused(await sending, "PROXY_RELAY_DELIVERY_FAILED");
  assertEquals((await storyOf(w, ID)).state, "began");
});

test("an unknown request ID has no timeline, and an invalid one is refused", async ({ w }) => {
  const token = await tokenOf(w);
  assertEquals(await seen(w, "deliveries?requestId=unknown-request"), { deliveries: [] });
  const queries = [
    "",
    "?",
    "?requestId=",
    "?requestId=short",
    `?requestId=${"x".repeat(129)}`,
    "?requestId=a%00bcdefgh",
    "?requestId=request-1&requestId=request-2",
    `?requestId=${"x".repeat(10_000)}`,
  ];
  for (const query of queries) {
    await refused(await look(w, `deliveries${query}`, token), "PROXY_ADMIN_INVALID_QUERY");
  }
});

test("the same request ID of many senders has one timeline each, at most 50", async ({ w, a, b }) => {
  await queue(w, a, b);
  const state = new Uint8Array((await w.kv.get<Uint8Array>(KEYS.delivery(b.agent.did, ID, a.agent.did))).value ?? []);
  const other = (i: number) => a.agent.did.slice(0, -3) + String(i).padStart(3, "0");
  for (let i = 0; i < 60; i++) await w.kv.set(KEYS.delivery(b.agent.did, ID, other(i)), state);
  const { deliveries } = await seen<{ deliveries: { senderAgentDid: string }[] }>(w, `deliveries?requestId=${ID}`);
  assertEquals([deliveries.length, new Set(deliveries.map((one) => one.senderAgentDid)).size], [50, 50]);
});

test("a timeline holds no payload, no conversation and no secret of a connector's reason", async ({ w, a, b }) => {
  const secret = "svc_pat_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
  const socket = w.connect(b, "silent");
  const sending = w.message(a, b, {
    body: JSON.stringify({ message: "PAYLOAD-OF-THE-TEST" }),
    headers: { [HEADERS.requestId]: ID, [HEADERS.conversationId]: "CONVERSATION-OF-THE-TEST" },
  });
  await until(() => socket.delivered.length === 1);
  const head = { v: 1, id: w.newId(), ts: toIso(w.clock.now()), type: "deliver_ack", ackId: socket.delivered[0]?.id };
  socket.link.receive(JSON.stringify({ ...head, accepted: false, reason: `key ${secret} is wrong` }));
  await answered(await sending, 202);
  await until(async () => (await timelineOf(w, ID)).events.length === 2);
  const text = JSON.stringify(await timelineOf(w, ID));
  assert(!text.includes("OF-THE-TEST") && !text.includes(secret), text);
  assertMatch(text, /key \[redacted\] is wrong/);
});
