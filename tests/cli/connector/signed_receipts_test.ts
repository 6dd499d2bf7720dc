/** What a sender believes of receipts (D-154): two connectors next to both services, and a relay between them. */
import { assert, assertEquals } from "@std/assert";
import type { DeliveryFrame } from "../../../shared/protocol/frames.ts";
import { signReceipt } from "../../../shared/protocol/receipt_token.ts";
import { toIso, unixSeconds } from "../../../shared/protocol/time.ts";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { tempFolder } from "../../support/process.ts";
import { until } from "../../support/until.ts";
import { type TestAgent, World } from "../../support/world.ts";
import { Bench } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";
import { two } from "./two_connectors.ts";

type Row = Record<string, unknown>;

/** Two connectors whose agents a ticket paired, and a relay that changes the receipts on their way to the first one. */
async function paired(world: World, { plain = false } = {}) {
  const relay = { questions: 0, change: (rows: Row[]): Row[] => rows };
  const through = (async (input: string, init?: RequestInit) => {
    const response = await world.fetch(input, init);
    if (!new URL(input).pathname.endsWith("/delivery-receipts") || init?.method !== "GET") return response;
    relay.questions++;
    const { receipts } = await response.json();
    return Response.json({ receipts: relay.change(receipts) }, { headers: response.headers });
  }) as typeof fetch;
  const retell = (frame: DeliveryFrame) => {
    const [receipt] = frame.receipt === undefined ? [] : relay.change([frame.receipt]);
    return {
      ...frame,
      ...(receipt === undefined ? {} : { receipt: receipt as NonNullable<DeliveryFrame["receipt"]> }),
    };
  };
  const { a, b, one: sender, other: recipient, ticketOf, confirm, pinned } = await two(world, {
    fetch: through,
    retell,
  });
  assertEquals((await confirm(await ticketOf({ plain }))).status, 201);
  await sender.connector.updatePeers();
  if (plain) await until(() => sender.connector.peers.of(b.agent.did) !== null);
  else await pinned();
  const send = async (requestId: string) => {
    const body = { to: b.agent.did, text: "Hello", requestId, conversationId: "c-1" };
    assertEquals((await asker(sender)("/v1/outbound", post(body))).body.delivered, true);
    const [message] = recipient.connector.store.received.list({ unread: true, limit: 1 }).messages;
    return message?.seq ?? 0;
  };
  const take = async (seq: number) => {
    assertEquals((await asker(recipient)("/v1/inbox/read", post({ ids: [seq] }))).body.read, [seq]);
    await until(() => recipient.eventsOf("receipt_sent").some(({ requestId }) => requestId !== undefined));
  };
  const receipts = async (requestId: string): Promise<Row[]> => {
    const query = new URLSearchParams({ requestId, to: b.agent.did });
    return (await asker(sender)(`/v1/receipts?${query}`)).body.receipts;
  };
  const stateOf = (requestId: string) => sender.connector.store.sent.find(requestId)?.state;
  return { a, b, sender, recipient, relay, send, take, receipts, stateOf };
}

Deno.test("a ticket peer's receipt is signed, and its message processed", async () => {
  await using world = await World.open();
  const { b, sender, relay, send, take, receipts, stateOf } = await paired(world);
  await take(await send("request-1"));
  await until(() => stateOf("request-1") === "processed");
  assertEquals(relay.questions, 0, "the receipt came with the news");
  const [receipt, ...others] = await receipts("request-1");
  assertEquals([receipt?.verified, receipt?.problem, others], ["signed", undefined, []]);
  assertEquals([typeof receipt?.signed, receipt?.ait], ["string", b.identity.ait]);
  assertEquals(sender.eventsOf("receipt_invalid"), []);
});

Deno.test("the word of a relay that a ticket peer has processed a message changes nothing", async () => {
  await using world = await World.open();
  const { b, sender, relay, send, take, receipts, stateOf } = await paired(world);
  const lie = (requestId: string) =>
    sender.connector.sending.told({
      requestId,
      recipientAgentDid: b.agent.did,
      state: "processed",
      at: toIso(world.clock.now()),
    });
  const seq = await send("request-1");
  lie("request-1");
  await flushTasks();
  assertEquals([stateOf("request-1"), await receipts("request-1")], ["delivered", []]);
  // The relay takes the signature off, then lets everything through.
  relay.change = (rows) => rows.map(({ signed: _signed, ait: _ait, ...row }) => row);
  await take(seq);
  const [stripped] = await receipts("request-1");
  assertEquals([stripped?.verified, typeof stripped?.problem], ["by-proxy", "string"]);
  await until(() => sender.eventsOf("receipt_invalid").length === 1);
  assertEquals(stateOf("request-1"), "delivered");
  relay.change = (rows) => rows;
  lie("request-1");
  await until(() => stateOf("request-1") === "processed");
});

Deno.test("a wrong receipt is reported once a minute, also after the clock was set back by an hour", async () => {
  await using world = await World.open();
  const { b, sender, send } = await paired(world);
  await send("request-1");
  const key = { requestId: "request-1", toDid: b.agent.did };
  const forged = {
    requestId: "request-1",
    recipientAgentDid: b.agent.did,
    status: "processed_by_svc",
    receivedAt: toIso(world.clock.now()),
  } as const;
  const reports = async () => {
    await sender.connector.sending.checked([forged], key);
    return sender.eventsOf("receipt_invalid").length;
  };
  assertEquals([await reports(), await reports()], [1, 1]);
  world.clock.step(-3_600_000);
  assertEquals(await reports(), 2);
});

Deno.test("a receipt that a relay forged, changed, swapped or replayed is shown as the proxy's word, with what is wrong", async (t) => {
  await using world = await World.open();
  const { a, b, sender, relay, send, take, receipts, stateOf } = await paired(world);
  const stranger = await world.agent(undefined, "gamma");
  await take(await send("request-1"));
  const [good] = await receipts("request-1");
  const seq = await send("request-2");
  const sent = sender.connector.store.sent.proofOf("request-2", b.agent.did);
  const claims = {
    iss: b.agent.did,
    sub: a.agent.did,
    jti: world.newId(),
    iat: unixSeconds(world.clock.now()),
    requestId: "request-2",
    nonce: "A".repeat(24),
    bodySha256: sent?.bodySha256 ?? "",
    payloadSha256: sent?.payloadSha256 ?? "",
    status: "processed_by_svc" as const,
    conversationId: "c-1",
  };
  const by = async (agent: TestAgent, more: Partial<typeof claims> = {}) => {
    const { ait, privateKey } = agent.identity;
    const signed = await signReceipt({ ...claims, ...more }, { publicKey: agent.keys.publicKey, privateKey });
    return { signed, ait };
  };
  const row = { requestId: "request-2", recipientAgentDid: b.agent.did, status: "processed_by_svc" };
  const rows: [name: string, shown: Row, problem: string][] = [
    ["a text", { signed: "a.b.c", ait: "x" }, "not 64 bytes"],
    ["signed by another agent", await by(stranger), "another key"],
    ["the receipt of another message", { signed: good?.signed, ait: good?.ait }, "request ID"],
    ["of another recipient", await by(b, { iss: stranger.agent.did }), "recipient"],
    ["for another sender", await by(b, { sub: stranger.agent.did }), "sender"],
    ["another status", await by(b, { status: "dead_lettered" as never }), "status"],
    ["another body", await by(b, { bodySha256: await sha256("x") }), "body"],
    ["another payload", await by(b, { payloadSha256: await sha256("x") }), "payload"],
    ["another conversation", await by(b, { conversationId: "c-2" }), "conversation"],
  ];
  for (const [name, shown, problem] of rows) {
    await t.step(name, async () => {
      relay.change = () => [{ ...row, receivedAt: toIso(world.clock.now()), ...shown }];
      const [receipt] = await receipts("request-2");
      assertEquals(receipt?.verified, "by-proxy");
      assert(String(receipt?.problem).includes(problem), String(receipt?.problem));
    });
  }
  await t.step("one of an earlier message with this ID is no mistake, and proves nothing", async () => {
    const earlier = await by(b, { bodySha256: await sha256("x"), iat: claims.iat - 90_000 });
    relay.change = () => [{ ...row, receivedAt: toIso(world.clock.now()), ...earlier }];
    const [receipt] = await receipts("request-2");
    assertEquals([receipt?.verified, receipt?.problem], ["by-proxy", undefined]);
  });
  assertEquals([stateOf("request-2"), sender.eventsOf("receipt_invalid").length], ["delivered", 1]);
  relay.change = (all) => [
    {
      requestId: "request-2",
      recipientAgentDid: b.agent.did,
      status: "dead_lettered",
      receivedAt: "2026-02-21T00:00:00Z",
    },
    ...all,
  ];
  await take(seq);
  await until(() => stateOf("request-2") === "processed");
  assertEquals((await receipts("request-2")).map(({ status, verified }) => [status, verified]), [
    ["dead_lettered", "by-proxy"],
    ["processed_by_svc", "signed"],
  ]);
});

Deno.test("receipts that a relay sends in great number, or too large, are not kept, and the message is asked about", async () => {
  await using world = await World.open();
  const { b, sender, relay, send, take, receipts, stateOf } = await paired(world);
  const { sending } = sender.connector, recipientAgentDid = b.agent.did;
  const tell = (requestId: string, receipt?: Row) =>
    sending.told({ requestId, recipientAgentDid, state: "processed", at: toIso(world.clock.now()) }, receipt);
  // Neither the news nor the answer to the question about them has the receipt.
  relay.change = () => [{}];
  await take(await send("request-1"));
  await until(() => relay.questions === 1);
  relay.change = (rows) => rows;
  const [good] = await receipts("request-1");
  relay.change = () => [{}];
  const questions = relay.questions;
  tell("request-1", { ...good, signed: `${good?.signed}${"A".repeat(4_096)}` });
  await until(() => relay.questions === questions + 1);
  assertEquals(sender.eventsOf("receipt_invalid"), []);
  const other = { toDid: recipientAgentDid, conversationId: null, inReplyTo: null, auto: false, payload: "{}" };
  for (let n = 0; n < 1_000; n++) {
    const requestId = `other-${n}`;
    sender.connector.store.sent.begin({ ...other, requestId, origin: "program" }, world.clock.now());
    tell(requestId);
  }
  tell("request-1", good);
  await until(() => relay.questions === questions + 2);
  assertEquals(stateOf("request-1"), "delivered");
  tell("request-1", good);
  await until(() => stateOf("request-1") === "processed");
  assertEquals(relay.questions, questions + 2);
});

Deno.test("of a contact whose key is not known, the proxy's word is all there is", async () => {
  await using world = await World.open();
  const { send, take, receipts, stateOf } = await paired(world, { plain: true });
  await take(await send("request-1"));
  await until(() => stateOf("request-1") === "processed");
  const [receipt] = await receipts("request-1");
  assertEquals([receipt?.verified, receipt?.problem], ["by-proxy", undefined]);
});

Deno.test("a receipt is the same text at each attempt, also after a restart", async () => {
  await using world = await World.open();
  const sent: string[] = [];
  const [a, b] = [await world.agent(undefined, "alpha"), await world.agent(undefined, "beta")];
  await world.pair(a, b);
  const down = (async (input: string, init?: RequestInit) => {
    if (!new URL(input).pathname.endsWith("/delivery-receipts")) return await world.fetch(input, init);
    sent.push(JSON.parse(String(init?.body)).signed);
    return new Response(null, { status: 503 });
  }) as typeof fetch;
  await using folder = await tempFolder();
  for (let run = 0; run < 2; run++) {
    const bench = await Bench.open(world, b, { platform: "inbox", fetch: down, folder: folder.path });
    if (run === 0) {
      await world.message(a, b);
      const [message] = bench.connector.store.received.list({ unread: true, limit: 1 }).messages;
      bench.connector.store.received.markRead([message?.seq ?? 0], world.clock.now());
    }
    await until(() => bench.eventsOf("receipt_failed").length > 0);
    await bench.stop();
  }
  assert(sent.length >= 2);
  assertEquals(new Set(sent).size, 1);
});

Deno.test("what a relay tells of a message that was never sent is not looked at", async () => {
  await using world = await World.open();
  const { b, sender, send, take, stateOf } = await paired(world);
  const recipientAgentDid = b.agent.did, signed = `e30.e30.${"A".repeat(86)}`;
  const receivedAt = toIso(world.clock.now()), status = "processed_by_svc";
  const tell = (requestId: string) =>
    sender.connector.sending.told(
      { requestId, recipientAgentDid, state: "processed", at: receivedAt },
      { requestId, recipientAgentDid, status, receivedAt, signed },
    );
  for (let n = 0; n < 100; n++) tell(`invented-${n}`);
  // The news of a real message is looked at after these.
  await take(await send("request-1"));
  await until(() => stateOf("request-1") === "processed");
  assertEquals(sender.eventsOf("receipt_invalid"), []);
});
