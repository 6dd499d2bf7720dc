/**
 * Shows delivery receipts (D-72): the recipient submits one for each status, and only that recipient and the sender of
 * that delivery see it.
 */
import { assert, assertEquals } from "@std/assert";
import type { ReceiptStatus } from "../../../shared/protocol/api/receipts.ts";
import { HEADERS } from "../../../shared/protocol/proof.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import { listReceipts } from "../../../proxy/receipts/store.ts";
import { KEYS } from "../../../proxy/schema/kv_keys.ts";
import { answered, outcome, refused, tally } from "../../support/registry_world.ts";
import type { TestAgent, World } from "../../support/world.ts";
import { get, openProxy, post, receiptOf, restart } from "../proxy_world.ts";
import { type CastTest, inWorld, openCast } from "../cast.ts";

const PATH = "/v1/relay/delivery-receipts";
const ID = "request-1";
const PROCESSED = "processed_by_svc", DEAD = "dead_lettered";

interface Receipt {
  requestId: string;
  recipientAgentDid: string;
  status: ReceiptStatus;
  receivedAt: string;
}

/** Sends a message with a request ID. */
async function send(w: World, from: TestAgent, to: TestAgent, requestId = ID): Promise<void> {
  await answered(await w.message(from, to, { headers: { [HEADERS.requestId]: requestId } }), 202);
}

function submit(w: World, as: TestAgent, more: Record<string, unknown> = {}): Promise<Response> {
  return post(w, as, PATH, { ...receiptOf(w, as, ID), ...more });
}

async function list(w: World, as: TestAgent, recipient: TestAgent, requestId = ID): Promise<Receipt[]> {
  const query = new URLSearchParams({ requestId, recipientAgentDid: recipient.agent.did });
  return (await answered<{ receipts: Receipt[] }>(await get(w, as, `${PATH}?${query}`))).receipts;
}

const test = (name: string, run: CastTest) => Deno.test(name, inWorld(openCast, run));

test("the recipient's receipt is visible to the sender and to the recipient", async ({ w, a, b }) => {
  await send(w, a, b);
  for (const reader of [a, b]) assertEquals(await list(w, reader, b), []);
  await w.clock.stepWhenIdle(5_000);
  const receipt = {
    requestId: ID,
    recipientAgentDid: b.agent.did,
    status: PROCESSED,
    receivedAt: toIso(w.clock.now()),
  };
  assertEquals(await answered(await submit(w, b, { senderAgentDid: a.agent.did }), 201), { receipt });
  for (const reader of [a, b]) assertEquals(await list(w, reader, b) as unknown, [receipt]);
  await restart(w);
  assertEquals(await list(w, a, b) as unknown, [receipt]);
});

test("only the recipient can submit a receipt", async ({ w, a, b }) => {
  await send(w, a, b);
  const c = await w.agent();
  for (const other of [a, c]) {
    await refused(await submit(w, other, { recipientAgentDid: b.agent.did }), "PROXY_RELAY_RECEIPT_FORBIDDEN");
  }
  assertEquals(await list(w, b, b), []);
});

test("no other agent sees a receipt, with or without a pair", async ({ w, a, b }) => {
  const peer = await w.agent();
  await w.pair(peer, b);
  const stranger = await w.agent();
  await send(w, a, b);
  await answered(await submit(w, b), 201);
  assertEquals((await list(w, a, b)).length, 1);
  for (const other of [peer, stranger]) assertEquals(await list(w, other, b), []);
  // An agent without pairs still sees the receipts of what it sent.
  await answered(await post(w, a, "/pair/remove", { peerAgentDid: b.agent.did }), 204);
  assertEquals((await list(w, a, b)).length, 1);
});

test("the first receipt of each status counts among concurrent and later ones; both are listed by arrival", async ({ w, a, b }) => {
  await send(w, a, b);
  const receivedAt = toIso(w.clock.now());
  assertEquals(await tally(Array.from({ length: 20 }, () => submit(w, b))), { "201": 20 });
  assertEquals((await list(w, a, b)).map(({ status }) => status), [PROCESSED]);
  await w.clock.stepWhenIdle(60_000);
  const { receipt } = await answered<{ receipt: Receipt }>(await submit(w, b), 201);
  assertEquals(receipt.receivedAt, receivedAt, "the first receipt stays");
  await answered(await submit(w, b, { status: DEAD }), 201);
  const all = await list(w, a, b);
  assertEquals(all.map(({ status, receivedAt: at }) => [status, at]), [[PROCESSED, receivedAt], [
    DEAD,
    toIso(w.clock.now()),
  ]]);
});

test("receipts are listed by the time they arrived, for any status", async ({ w, a, b }) => {
  await send(w, a, b);
  await answered(await submit(w, b, { status: DEAD }), 201);
  await w.clock.stepWhenIdle(1);
  await answered(await submit(w, b), 201);
  assertEquals((await list(w, a, b)).map(({ status }) => status), [DEAD, PROCESSED]);
});

test("two senders' messages with one ID have separate receipts", async ({ w, a, b }) => {
  const c = await w.agent();
  await w.pair(c, b);
  for (const sender of [a, c]) await send(w, sender, b);
  await refused(await submit(w, b), "PROXY_RELAY_RECEIPT_INVALID");
  await answered(await submit(w, b, { senderAgentDid: a.agent.did }), 201);
  assertEquals([(await list(w, a, b)).length, await list(w, c, b)], [1, []]);
  await answered(await submit(w, b, { senderAgentDid: c.agent.did, status: DEAD }), 201);
  assertEquals((await list(w, a, b)).map(({ status }) => status), [PROCESSED]);
  assertEquals((await list(w, c, b)).map(({ status }) => status), [DEAD]);
  assertEquals((await list(w, b, b)).length, 2);
});

test("one sender's messages to two recipients with one ID have separate receipts", async ({ w, a, b }) => {
  const c = await w.agent();
  await w.pair(a, c);
  w.connect(c);
  for (const recipient of [b, c]) await send(w, a, recipient);
  await answered(await submit(w, b), 201);
  assertEquals([(await list(w, a, b)).length, await list(w, a, c)], [1, []]);
});

Deno.test("the time of a receipt is the proxy's time, and the connector's is ignored", async (t) => {
  for (const timestamp of ["9999-12-31T23:59:59Z", "2000-01-01T00:00:00-12:00"]) {
    await t.step(timestamp, async () => {
      const { w, a, b } = await openCast();
      await using _ = w;
      await send(w, a, b);
      await answered(await submit(w, b, { timestamp }), 201);
      assertEquals((await list(w, a, b))[0]?.receivedAt, toIso(w.clock.now()));
    });
  }
});

Deno.test("a receipt without a stored delivery is 404 and not stored, with or without a sender", async (t) => {
  const claims: [name: string, more: (a: TestAgent) => Record<string, unknown>][] = [
    ["without a sender", () => ({})],
    ["with a sender", (a) => ({ senderAgentDid: a.agent.did })],
  ];
  for (const [name, more] of claims) {
    await t.step(name, async () => {
      const { w, a, b } = await openCast();
      await using _ = w;
      await refused(await submit(w, b, more(a)), "PROXY_RECEIPT_DELIVERY_NOT_FOUND");
      assertEquals([await list(w, a, b), await list(w, b, b)], [[], []]);
      assertEquals(await Array.fromAsync(w.kv.list({ prefix: ["proxy", "receipt"] })), []);
      await send(w, a, b);
      await answered(await submit(w, b, more(a)), 201);
      assertEquals((await list(w, a, b)).length, 1);
    });
  }
});

test("a message without an ack may have a receipt: the connector stored it and its ack was lost", async ({ w, a, b, socket }) => {
  socket.behaviour = "silent";
  const sending = w.message(a, b, { headers: { [HEADERS.requestId]: ID } });
  while (socket.delivered.length === 0) await w.clock.advance(0);
  socket.link.lost();
  assertEquals(await outcome(await sending), "502 PROXY_RELAY_DELIVERY_FAILED");
  await answered(await submit(w, b), 201);
  assertEquals((await list(w, a, b)).length, 1);
});

test("a receipt that names an agent that is not the sender is 404", async ({ w, a, b }) => {
  const c = await w.agent();
  await send(w, a, b);
  await refused(await submit(w, b, { senderAgentDid: c.agent.did }), "PROXY_RECEIPT_DELIVERY_NOT_FOUND");
  assertEquals([await list(w, a, b), await list(w, b, b), await list(w, c, b)], [[], [], []]);
});

const HOUR_MS = 3_600_000, DAY_MS = 24 * HOUR_MS;

/** Moves the clock and renews the agents' access tokens. */
async function later(w: World, ms: number, ...agents: TestAgent[]): Promise<void> {
  await w.clock.stepWhenIdle(ms);
  for (const agent of agents) await w.renew(agent);
}

test("a receipt is accepted for 8 days after the answer, and for 24 h after the first receipt", async ({ w, a, b }) => {
  await send(w, a, b);
  await send(w, a, b, "request-2");
  await later(w, 8 * DAY_MS - 1, a, b);
  await answered(await submit(w, b), 201);
  await later(w, 1, b);
  await refused(await submit(w, b, { requestId: "request-2" }), "PROXY_RECEIPT_DELIVERY_NOT_FOUND");
  await later(w, DAY_MS - 2, b);
  await answered(await submit(w, b, { status: DEAD }), 201);
  await later(w, 1, b);
  for (const status of [PROCESSED, DEAD]) {
    await refused(await submit(w, b, { status }), "PROXY_RECEIPT_DELIVERY_NOT_FOUND");
  }
});

Deno.test("a receipt of a queued message is accepted for 8 days after its mailbox lifetime ends", async () => {
  await using w = await openProxy({ proxy: { mailboxTtlSeconds: 7 * 86_400 } });
  const { a, b } = await w.pairedAgents();
  const headers = { [HEADERS.requestId]: ID, Prefer: "respond-async" };
  assertEquals((await answered<{ queued: boolean }>(await w.message(a, b, { headers }), 202)).queued, true);
  await later(w, 15 * DAY_MS - 1, b);
  await answered(await submit(w, b), 201);
});

Deno.test("a receipt is listed for its retention, counted from when it was recorded", async () => {
  await using w = await openProxy({ proxy: { receiptKeptMs: HOUR_MS } });
  const { a, b } = await w.story();
  await send(w, a, b);
  await later(w, DAY_MS, a, b);
  await answered(await submit(w, b), 201);
  await later(w, HOUR_MS - 1, a, b);
  assertEquals([(await list(w, a, b)).length, (await list(w, b, b)).length], [1, 1]);
  await later(w, 1, a, b);
  assertEquals([await list(w, a, b), await list(w, b, b)], [[], []]);
});

Deno.test("a receipt is recorded again when its retention is over and its delivery is still on record", async () => {
  await using w = await openProxy({ proxy: { receiptKeptMs: HOUR_MS } });
  const { a, b } = await w.story();
  await send(w, a, b);
  await answered(await submit(w, b), 201);
  await later(w, HOUR_MS, a, b);
  await answered(await submit(w, b), 201);
  assertEquals([(await list(w, a, b)).length, (await list(w, b, b)).length], [1, 1]);
});

test("a receipt of a message whose request ID was used before takes the place of the earlier one", async ({ w, a, b }) => {
  const outcome = async () => {
    const messages = [{ requestId: ID, recipientAgentDid: b.agent.did }];
    const { deliveries } = await answered<{ deliveries: { state: string }[] }>(
      await post(w, a, "/v1/relay/deliveries", { messages }),
    );
    return deliveries.map(({ state }) => state);
  };
  await send(w, a, b);
  await later(w, HOUR_MS, a, b);
  const { receipt: first } = await answered<{ receipt: Receipt }>(await submit(w, b), 201);
  await later(w, DAY_MS, a, b);
  await send(w, a, b);
  assertEquals([await outcome(), await list(w, a, b), await list(w, b, b)], [["delivered"], [], []]);
  const again = await Promise.all(Array.from({ length: 5 }, () => submit(w, b)));
  for (const answer of again) {
    const { receipt } = await answered<{ receipt: Receipt }>(answer, 201);
    assertEquals(receipt.receivedAt, toIso(w.clock.now()));
  }
  assertEquals(first.receivedAt === toIso(w.clock.now()), false);
  assertEquals([(await list(w, a, b)).length, await outcome()], [1, ["processed"]]);
});

test("a receipt whose delivery has ended is not listed for a later message with its ID, whose 202 waits for its commit", async ({ w, a, b }) => {
  await send(w, a, b);
  await answered(await submit(w, b), 201);
  await later(w, DAY_MS, a, b);
  // As the sweep does with a delivery that has ended.
  await w.kv.delete(KEYS.delivery(b.agent.did, ID, a.agent.did));
  await send(w, a, b);
  // Asked without a request, because the commit of a request would take the 202 along.
  const question = { requestId: ID, recipientAgentDid: b.agent.did };
  assertEquals(await listReceipts(w.proxy.deps, a.agent.did, question), []);
});

test("the first of 20 concurrent receipts counts, and the delivery keeps its answer for a duplicate", async ({ w, a, b }) => {
  await send(w, a, b);
  const copies = Array.from({ length: 5 }, () => send(w, a, b));
  assertEquals(await tally(Array.from({ length: 20 }, () => submit(w, b))), { "201": 20 });
  await Promise.all(copies);
  assertEquals((await list(w, a, b)).length, 1);
});

test("a signed receipt is kept as it is, with the token of its request, and the first one stays", async ({ w, a, b }) => {
  const signed = `${"x".repeat(4_000)}.y.${"z".repeat(86)}`;
  await send(w, a, b);
  const wrong = [
    "",
    "x",
    `${signed}=`,
    `${"x".repeat(10)}.y.${"z".repeat(85)}`,
    `x.${"y".repeat(4_096)}.${"z".repeat(86)}`,
    1,
  ];
  for (const text of wrong) await refused(await submit(w, b, { signed: text }), "PROXY_RELAY_RECEIPT_INVALID");
  assertEquals(await list(w, a, b), []);
  const { receipt } = await answered<{ receipt: Receipt }>(await submit(w, b, { signed }), 201);
  assertEquals(receipt as unknown, {
    requestId: ID,
    recipientAgentDid: b.agent.did,
    status: PROCESSED,
    receivedAt: toIso(w.clock.now()),
    signed,
    ait: b.identity.ait,
  });
  const later = { signed: signed.replace("y", "w") };
  assertEquals(await answered<{ receipt: Receipt }>(await submit(w, b, later), 201), { receipt });
  await restart(w);
  for (const reader of [a, b]) assertEquals(await list(w, reader, b), [receipt]);
});

Deno.test("signed receipts leave two reserves of the disk, so that they end no queued message, and known ones are answered", async () => {
  const disk = { freeBytes: 2_000_000, totalBytes: 5_000_000 };
  const { w, a, b } = await openCast({ diskSpace: () => ({ ...disk }) });
  await using _ = w;
  await send(w, a, b);
  const signed = `${"x".repeat(4_000)}.y.${"z".repeat(86)}`;
  await answered(await submit(w, b, { signed }), 201);
  disk.freeBytes = 1_000_000;
  await w.clock.stepWhenIdle(1_000);
  await answered(await submit(w, b, { signed }), 201);
  const full = await refused(await submit(w, b, { signed, status: DEAD }), "SERVICE_UNAVAILABLE");
  assert(full.includes("The disk of the proxy has no space left for receipts"), full);
  assertEquals((await list(w, a, b)).length, 1);
  const { queued } = await answered<{ queued: boolean }>(
    await w.message(b, a, { headers: { Prefer: "respond-async" } }),
    202,
  );
  assertEquals(queued, true);
  disk.freeBytes = 2_000_000;
  await w.clock.stepWhenIdle(1_000);
  await answered(await submit(w, b, { signed, status: DEAD }), 201);
});

Deno.test("signed receipts of one person take at most half of the room, and those of others are still stored", async () => {
  const disk = { freeBytes: 1_014_000, totalBytes: 5_000_000 };
  const { w, a, b } = await openCast({ diskSpace: () => ({ ...disk }) });
  await using _ = w;
  w.connect(a);
  await w.connected();
  await send(w, a, b);
  await send(w, b, a);
  const signed = `${"x".repeat(4_000)}.y.${"z".repeat(86)}`;
  // The pairing has written to the disk in this second.
  await w.clock.stepWhenIdle(1_000);
  await answered(await submit(w, b, { signed }), 201);
  await w.clock.stepWhenIdle(1_000);
  const full = await refused(await submit(w, b, { signed, status: DEAD }), "SERVICE_UNAVAILABLE");
  assert(full.includes("The disk of the proxy has no space left for receipts"), full);
  await answered(await submit(w, b, { status: DEAD }), 201);
  await w.clock.stepWhenIdle(1_000);
  await answered(await submit(w, a, { signed }), 201);
  await later(w, 3 * DAY_MS, a, b);
  await send(w, a, b, "request-2");
  await answered(await submit(w, b, { signed, requestId: "request-2" }), 201);
});

test("a list of receipts is short, also when many messages have one request ID", async ({ w, b }) => {
  for (let n = 0; n < 50; n++) {
    await w.kv.set(KEYS.receipt(b.agent.did, ID, `sender-${n}`, PROCESSED), { receivedAt: w.clock.now() });
  }
  assertEquals((await list(w, b, b)).length, 20);
});

test("a receipt without a sender reads few of its agent's peers", async ({ w, b }) => {
  for (let n = 0; n < 200; n++) await w.kv.set(KEYS.pair(b.agent.did, `peer-${n}`), {});
  const { getMany } = w.kv;
  let reads = 0;
  w.kv.getMany = (keys, options) => {
    reads += keys.length;
    return getMany.call(w.kv, keys, options) as never;
  };
  await refused(await submit(w, b), "PROXY_RECEIPT_DELIVERY_NOT_FOUND");
  assert(reads < 50, `${reads} records`);
});
