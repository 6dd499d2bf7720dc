/** Sealed payloads between connectors that a ticket paired (D-151, D-152), next to both services and a relay that reads. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { ACK_REASONS } from "../../../shared/protocol/ack_reasons.ts";
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { contextText, messageTarget } from "../../../shared/protocol/message_context.ts";
import { openingKey, openPayload, sealPayload } from "../../../shared/protocol/sealed_body.ts";
import { toIso } from "../../../shared/protocol/time.ts";
import type { Peers } from "../../../cli/connector/peers/peers.ts";
import { until } from "../../support/until.ts";
import { type TestAgent, World, type WorldOptions } from "../../support/world.ts";
import { Bench, type BenchOptions } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";
import { held, two } from "./two_connectors.ts";

const SECRET = "the-port-is-8443";
const DAY_MS = 86_400_000;
const unread = ({ connector }: Bench) => connector.store.received.list({ unread: true, limit: 200 }).messages;

/** Two agents whose connectors a ticket has paired, with what passed the relay: requests, answers and frames. */
async function pair(world: World, { of = {}, byPlainTicket = false }: {
  of?: BenchOptions;
  byPlainTicket?: boolean;
} = {}) {
  const passed: string[] = [], frames: DeliverFrame[] = [];
  /** Loses this many answers to messages. */
  const lose = { answers: 0 };
  const fetch = (async (input: string, init?: RequestInit) => {
    passed.push(`${input}\n${JSON.stringify(init?.headers)}\n${init?.body ?? ""}`);
    const response = await world.fetch(input, init);
    passed.push(await response.clone().text());
    if (input.includes("/hooks/agent") && lose.answers-- > 0) throw new TypeError("connection reset");
    return response;
  }) as typeof globalThis.fetch;
  const tamper = (frame: DeliverFrame) => {
    passed.push(JSON.stringify(frame));
    frames.push(frame);
    return frame;
  };
  const { a, b, one: alpha, other: beta, ticketOf, confirm, pinned } = await two(world, { fetch }, {
    fetch,
    tamper,
    ...of,
  });
  const plain = byPlainTicket;
  await confirm(await ticketOf({ plain }));
  await until(() => alpha.connector.peers.of(b.agent.did) !== null);
  if (!plain) await pinned();
  const send = (body: object, query = "") =>
    asker(alpha)(`/v1/outbound${query}`, post({ to: plain ? "contact-beta" : "beta", ...body }));
  return { a, b, alpha, beta, passed, frames, lose, send };
}

/** Every key and value of the store, and every line of the log, as text. */
async function kept(world: World): Promise<string> {
  const texts = [JSON.stringify(world.log)];
  for await (const { key, value } of world.kv.list({ prefix: [] })) {
    const bytes = value instanceof Uint8Array ? new TextDecoder().decode(value) : "";
    texts.push(Deno.inspect([key, value], { depth: 20, strAbbreviateSize: Infinity, iterableLimit: Infinity }), bytes);
  }
  return texts.join("\n");
}

/** A message as its sender would sign it, with any body. */
async function signedMessage(
  world: World,
  from: TestAgent,
  to: TestAgent,
  bodyOf: (context: string) => Promise<string> | string,
) {
  const headers = { "Content-Type": "application/json", "x-request-id": world.newId() };
  const body = await bodyOf(contextText(headers));
  const answer = await world.message(from, to, { target: await messageTarget(headers), headers, body });
  return await answer.json();
}

Deno.test("nothing of a message between peers of a ticket can be read at the proxy", async () => {
  await using world = await World.open();
  const { a, alpha, beta, passed, frames, send } = await pair(world);
  const { status, headers } = await send({ text: SECRET, conversationId: "c-1" });
  assertEquals([status, headers.get("X-Svc-Sealed")], [202, "1"]);
  assertEquals(alpha.eventsOf("sent").map(({ sealed }) => sealed), [true]);
  const [message] = unread(beta);
  assert(message);
  assertEquals([message.verified, message.conversationId], ["end-to-end", "c-1"]);
  const { body } = await asker(beta)(`/v1/inbox/${message.seq}`);
  assertEquals([body.text, body.from.agentDid, body.verified], [SECRET, a.agent.did, "end-to-end"]);
  await beta.stop();
  await world.connected();
  const queued = await send({ text: SECRET, prefer: "respond-async" });
  assertEquals([queued.body.queued, queued.headers.get("X-Svc-Sealed")], [true, "1"]);
  const all = passed.join("\n") + await kept(world);
  assertEquals(all.includes(SECRET), false);
  assert(all.includes(frames[0]?.requestId ?? "?") && frames[0]?.payload.startsWith('{"svcSealed":1,'));
});

Deno.test("a message to a contact is plain, and says so", async () => {
  await using world = await World.open();
  const { alpha, beta, frames, send } = await pair(world, { byPlainTicket: true });
  const { headers } = await send({ text: "hello" });
  assertEquals([headers.get("X-Svc-Sealed"), alpha.eventsOf("sent").map(({ sealed }) => sealed)], ["0", [false]]);
  assert(frames[0]?.payload.includes("hello"));
  assertEquals(unread(beta).map(({ verified }) => verified), ["by-registry"]);
  const sent = await send({ text: "hello" }, "?wait=0");
  assertEquals(sent.headers.get("X-Svc-Sealed"), "0");
});

Deno.test("a repeat after a lost answer sends the same bytes, arrives once, and gets the first answer", async () => {
  await using world = await World.open();
  const { b, alpha, beta, passed, lose, send } = await pair(world);
  const requestId = "request-1";
  lose.answers = 1;
  assertEquals((await send({ text: SECRET, requestId })).status, 502);
  const again = await send({ text: SECRET, requestId });
  assertEquals([again.status, again.body.delivered, again.body.requestId], [202, true, requestId]);
  const bodies = passed.flatMap((text) => /\n(\{"svcSealed".*\})$/.exec(text)?.[1] ?? []);
  assertEquals([bodies.length, new Set(bodies).size, unread(beta).length], [2, 1, 1]);
  const left = alpha.connector.store.sent.find(requestId, b.agent.did);
  assert(left);
  assertEquals(alpha.connector.store.sent.bodyOf(left)?.body, bodies[0]);
  const other = await send({ text: "another text", requestId });
  assertEquals([other.status, other.body.error.code], [409, "PROXY_HOOK_REQUEST_ID_REUSED"]);
  assertEquals(alpha.connector.store.sent.bodyOf(left)?.body, bodies[0]);
});

Deno.test("of two calls with one message at a time both send one body", async () => {
  await using world = await World.open();
  const { beta, send } = await pair(world);
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => send({ text: SECRET, requestId: "request-1", prefer: "respond-async" })),
  );
  assertEquals(answers.filter(({ status }) => status === 409).map(({ body }) => body), []);
  await until(() => unread(beta).length === 1);
});

Deno.test("a stored body is dropped after a day, and then the ID names a new message", async () => {
  await using world = await World.open();
  const { b, alpha, send } = await pair(world);
  const requestId = "request-1", { sent } = alpha.connector.store;
  await send({ text: SECRET, requestId });
  const first = sent.find(requestId, b.agent.did);
  assert(first);
  const { payloadSha256, bodySha256 } = sent.bodyOf(first) ?? {};
  world.clock.step(DAY_MS + 60_000);
  alpha.connector.store.deleteExpired(world.clock.now());
  const { body, salt, ...hashes } = sent.bodyOf(first) ?? {};
  assertEquals([body, typeof salt, hashes], [null, "string", { payloadSha256, bodySha256 } as typeof hashes]);
  await send({ text: SECRET, requestId });
  const second = sent.find(requestId, b.agent.did);
  assertNotEquals(second && sent.bodyOf(second)?.bodySha256, bodySha256);
});

Deno.test("the largest payload arrives, and one byte more is refused before anything leaves", async () => {
  await using world = await World.open();
  const { beta, passed, send } = await pair(world);
  const payload = "x".repeat(LIMITS.payloadBytes - 2);
  assertEquals((await send({ payload })).status, 202);
  assertEquals(unread(beta).map(({ payload }) => payload.length), [LIMITS.payloadBytes]);
  const before = passed.length;
  const { status, body } = await send({ payload: `${payload}x` });
  assertEquals([status, body.error.code, passed.length], [413, "PAYLOAD_TOO_LARGE", before]);
});

Deno.test("20 messages that waited for seven days in the mailbox all open", async () => {
  const proxy: WorldOptions["proxy"] = { mailboxTtlSeconds: 7 * 86_400, agentRequests: 1_000 };
  await using world = await World.open({ proxy });
  const { b, beta, send } = await pair(world);
  await beta.stop();
  const states = new Set<string>();
  for (let i = 0; i < 20; i++) {
    const { body } = await send({ text: `${SECRET}-${i}`, prefer: "respond-async" });
    states.add(body.queued ? "queued" : JSON.stringify(body));
  }
  assertEquals([...states], ["queued"]);
  world.clock.step(7 * DAY_MS - 60_000);
  await using again = await Bench.open(world, b, { platform: "inbox", folder: beta.folder, peers: beta.peers });
  await until(() => unread(again).length === 20);
  for (const { payload, verified } of unread(again)) {
    assertEquals([payload.includes(SECRET), verified], [true, "end-to-end"]);
  }
});

Deno.test("of a peer of a ticket only what is sealed to this message is taken", async (t) => {
  await using world = await World.open();
  const { a, b, beta } = await pair(world);
  const stranger = await world.agent();
  const binding = (context: string) => ({ from: a.agent.did, to: b.agent.did, context });
  const seal = (payload: string) => (context: string) =>
    sealPayload({ payload, salt: world.random.bytes(32) }, b.keys.publicKey, binding(context));
  const rows: [name: string, bodyOf: (context: string) => Promise<string> | string, reason: string][] = [
    ["a plain message", () => '{"message":"hi"}', "seal_required"],
    ["a sealed one with white space", async (context) => ` ${await seal('{"message":"hi"}')(context)}`, "seal_invalid"],
    ["one that is sealed for another message", (context) => seal('"hi"')(`${context}x`), "seal_invalid"],
    ["one for another agent", async (context) =>
      await sealPayload(
        { payload: "1", salt: world.random.bytes(32) },
        a.keys.publicKey,
        binding(context),
      ), "seal_invalid"],
    [
      "one that another agent sealed",
      (context) =>
        sealPayload({ payload: '"hi"', salt: world.random.bytes(32) }, b.keys.publicKey, {
          ...binding(context),
          from: stranger.agent.did,
        }),
      "seal_invalid",
    ],
    ["one that is not JSON", seal("hello"), "seal_invalid"],
    ["one that nests too deep", seal("[".repeat(65) + "]".repeat(65)), "payload_invalid"],
    ["a number that is too long", seal("1".repeat(301)), "payload_invalid"],
    ["a text twice", seal('{"message":"a","message":"b"}'), "payload_invalid"],
  ];
  for (const [name, bodyOf, reason] of rows) {
    await t.step(name, async () => {
      const { delivered, reason: shown } = await signedMessage(world, a, b, bodyOf);
      assertEquals([delivered, shown], [false, reason]);
    });
  }
  await t.step("a sealed one without a signed context", async () => {
    const body = await seal("1")("");
    assertEquals((await (await world.message(a, b, { body })).json()).reason, "seal_required");
  });
  assertEquals(unread(beta), []);
  assertEquals((await signedMessage(world, a, b, seal('{"message":"genuine"}'))).delivered, true);
  assertEquals(unread(beta).length, 1);
});

Deno.test("what a contact signed before its ticket arrives, and as that of a contact; --strict refuses it", async () => {
  for (const strict of [false, true]) {
    await using world = await World.open();
    const { a, b, beta } = await pair(world, { of: { strict } });
    // The ticket comes a minute from now: until then the sender could not seal.
    const since = toIso(world.clock.now() + 60_000);
    await beta.connector.peers.change((all) => ({ alpha: { ...all.alpha as Peers[string], since } }));
    const { delivered, reason } = await signedMessage(world, a, b, () => '{"message":"hi"}');
    assertEquals([delivered, reason], strict ? [false, "seal_required"] : [true, undefined]);
    const [message] = unread(beta);
    assertEquals(message?.verified, strict ? undefined : "by-registry");
    await world.clock.advance(60_000);
    assertEquals((await signedMessage(world, a, b, () => '{"message":"hi"}')).reason, "seal_required");
  }
});

Deno.test("of a contact nothing that is sealed is taken", async () => {
  await using world = await World.open();
  const { a, b } = await pair(world, { byPlainTicket: true });
  const sealed = (context: string) =>
    sealPayload({ payload: "1", salt: world.random.bytes(32) }, b.keys.publicKey, {
      from: a.agent.did,
      to: b.agent.did,
      context,
    });
  const answering = signedMessage(world, a, b, sealed);
  // The peers are read once more before the refusal, at most every 3 s.
  let answer: { reason?: string } | null = null;
  void answering.then((found) => answer = found);
  while (answer === null) await world.clock.advance(500);
  assertEquals((await answering).reason, "peer_unconfirmed");
  assertEquals((await signedMessage(world, a, b, () => '"hi"')).delivered, true);
});

Deno.test("a strict connector refuses contacts in both directions, and takes and sends what is sealed", async () => {
  await using world = await World.open();
  const { a, b, beta, passed, send } = await pair(world, { of: { strict: true } });
  const [contact, sender] = [await world.agent(undefined, "gamma"), asker(beta)];
  await world.pair(contact, b);
  await beta.connector.updatePeers();
  const refusing = world.message(contact, b).then((answer) => answer.json());
  let reason: string | null = null;
  void refusing.then((found) => reason = found.reason);
  // The peers are read once more before the refusal, at most every 3 s.
  while (reason === null) await world.clock.advance(500);
  assertEquals([reason, unread(beta)], ["peer_unconfirmed", []]);
  assertStringIncludes(ACK_REASONS.peer_unconfirmed.when, "takes no contacts");
  const before = passed.length;
  for (const to of ["contact-gamma", contact.agent.did]) {
    const { status, body } = await sender("/v1/outbound", post({ to, text: SECRET }));
    assertEquals([status, body.error.code, passed.length], [409, "CONNECTOR_PEER_UNCONFIRMED", before]);
  }
  assertEquals((await send({ text: SECRET })).body.delivered, true);
  assertEquals((await sender("/v1/outbound", post({ to: a.agent.did, text: SECRET }))).body.delivered, true);
});

Deno.test("a runtime gets the same bytes of a sealed message as of a plain one", async () => {
  const bodies: string[] = [];
  for (const byPlainTicket of [false, true]) {
    await using world = await World.open({ seed: 7 });
    const { beta, send } = await pair(world, { of: { platform: "generic" }, byPlainTicket });
    await send({ text: "[Svc Identity]\nhello" });
    await until(() => beta.handedOver.length === 1);
    const aitJti = /aitJti: (\w+)/.exec(beta.handedOver[0] ?? "")?.[1] ?? "?";
    bodies.push((beta.handedOver[0] ?? "").replaceAll(aitJti, "JTI"));
    const verified = beta.calls.find(({ body }) => body !== "")?.headers.get("x-svc-verified");
    assertEquals(verified, byPlainTicket ? "by-registry" : "end-to-end");
  }
  assert(bodies[0]?.startsWith('{"message":"[Svc Identity]\\nagentDid: '), bodies[0]);
  assertEquals(bodies[0], bodies[1]);
});

Deno.test("a message that comes before the answer to a confirmation is read from the peer of the ticket", async () => {
  await using world = await World.open();
  const answer = held(world, "/pair/confirm");
  let arrived = 0;
  const tamper = (frame: DeliverFrame) => (arrived++, frame);
  const { one: alpha, other: beta, ticketOf, confirm, pinned } = await two(world, {}, { fetch: answer.fetch, tamper });
  const confirming = confirm(await ticketOf());
  await pinned();
  const sending = asker(alpha)("/v1/outbound", post({ to: "beta", text: SECRET }));
  await until(() => arrived === 1);
  answer.release();
  assertEquals((await confirming).status, 201);
  assertEquals((await sending).body.delivered, true);
  assertEquals(unread(beta).map(({ verified }) => verified), ["end-to-end"]);
});

Deno.test("what a peer sealed before its key was known here opens after the peers are read again", async () => {
  await using world = await World.open();
  const { b, alpha, beta, frames } = await pair(world, { byPlainTicket: true });
  const { ticket } = (await asker(beta)("/v1/pair/start", post({}))).body;
  const held = Promise.withResolvers<void>(), { updatePeers } = beta.connector;
  // The list that names the key of the other side comes late.
  beta.connector.updatePeers = async () => {
    await held.promise;
    return await updatePeers.call(beta.connector);
  };
  await asker(alpha)("/v1/pair/confirm", post({ ticket }));
  const sending = asker(alpha)("/v1/outbound", post({ to: "beta", text: SECRET }));
  await until(() => frames.length === 1);
  held.resolve();
  assertEquals((await sending).body.delivered, true);
  assertEquals(unread(beta).map(({ verified }) => verified), ["end-to-end"]);
  assertEquals(alpha.connector.peers.of(b.agent.did)?.how, "ticket");
});

Deno.test("a sealed body of a capture opens with no other key", async () => {
  await using world = await World.open();
  const { a, b, frames, send } = await pair(world);
  await send({ text: SECRET });
  const [frame] = frames;
  assert(frame);
  const { context } = frame.proof as { context: Record<string, string> };
  const binding = { from: a.agent.did, to: b.agent.did, context: contextText(context) };
  const c = await world.agent();
  assertEquals(await openPayload(frame.payload, await openingKey(c.keys), binding), null);
  assertEquals(
    (await openPayload(frame.payload, await openingKey(b.keys), binding))?.payload,
    `{"message":"${SECRET}"}`,
  );
});
