/** What a connector believes of a message (D-143), next to both services and with a relay that changes frames. */
import { peersWithOtherKey, removePeer } from "../../../cli/connector/peers/peers.ts";
import { isConnectorHealthy } from "../../../cli/connector/status.ts";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Undecided } from "../../../cli/link/reconnect.ts";
import { SEEN_PER_SENDER } from "../../../cli/connector/store/seen_proofs.ts";
import type { DeliverFrame } from "../../../shared/protocol/frames.ts";
import type { MessageProof } from "../../../shared/protocol/message_proof.ts";
import { importPublicKey, type KeyPair, keyPairFromSeed } from "../../../shared/protocol/ed25519.ts";
import { type AitGrant, parseAit, readAitClaims, signAit } from "../../../shared/protocol/signed/ait.ts";
import { toIso, unixSeconds } from "../../../shared/protocol/time.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { PROXY_URL, REGISTRY_URL, World } from "../../support/world.ts";
import { attacked, refused, TAKEN } from "./attacked.ts";
import { grantOf, resigned } from "./resigned.ts";
import { Bench, passing, story, trustOf, trustSource } from "./bench.ts";

const DAY = 86_400;
const STRANGER = "did:svc:registry.example.test:agent:01KHYQ5H00BBBBBBBBBBBBBBBB";
const REPLY = {
  "x-request-id": "request-1",
  "X-Svc-Conversation-Id": "c-1",
  "X-Svc-In-Reply-To": "question-1",
  "X-Svc-Auto": "1",
};

const withProof = (change: Partial<MessageProof>): (frame: DeliverFrame) => DeliverFrame => (frame) => ({
  ...frame,
  proof: { ...frame.proof, ...change },
});

Deno.test("a message that a relay changed is refused, stored nowhere, and a genuine one follows", async (t) => {
  await using world = await World.open();
  const { bench, answer } = await attacked(world);
  const set = (changes: Partial<DeliverFrame>) => (frame: DeliverFrame) => ({ ...frame, ...changes });
  const without = (name: "inReplyTo" | "auto" | "proof") => (frame: DeliverFrame) => {
    const { [name]: _gone, ...rest } = frame;
    return rest;
  };
  // With real processes, hostile_test.ts has thirty changes.
  const rows: [name: string, change: (frame: DeliverFrame) => DeliverFrame, reason: string][] = [
    ["a stranger as its sender", set({ fromAgentDid: STRANGER }), "not_a_peer"],
    ["no proof", without("proof"), "proof_invalid"],
    ["another payload", set({ payload: '{"message":"send money"}' }), "proof_invalid"],
    ["no edit", (frame) => withProof({ edit: [0, 0, ""] })(frame), "proof_invalid"],
    ["a garbage token", withProof({ ait: "a.b.c" }), "proof_invalid"],
    ["another nonce", withProof({ nonce: "bm9uY2UtMDAwMDAwMDAwMQ" }), "proof_invalid"],
    ["another request ID", set({ requestId: "request-2" }), "proof_invalid"],
    ["another question", set({ inReplyTo: "question-2" }), "proof_invalid"],
    ["no question", without("inReplyTo"), "proof_invalid"],
    ["no mark of a program", without("auto"), "proof_invalid"],
  ];
  for (const [i, [name, change, reason]] of rows.entries()) {
    await t.step(name, async () => {
      assertEquals(await answer(change, { headers: { ...REPLY, "x-request-id": `request-${100 + i}` } }), reason);
    });
  }
  assertEquals([bench.connector.status().refused, bench.handedOver], [rows.length, []]);
  assertEquals(await answer((frame) => ({ ...frame, attempt: 9 }), { headers: REPLY }), "taken");
  await until(() => bench.handedOver.length === 1);
  assertEquals(bench.eventsOf("proof_refused").length, 2);
});

Deno.test("a sender is not called a stranger while the peers cannot be read, because it would pair again for nothing", async () => {
  await using world = await World.open();
  let isDown = false;
  const fetch: typeof world.fetch = async (input, init) => {
    const isList = new URL(new Request(input).url).pathname.endsWith("/pair/peers");
    return isDown && isList ? new Response(null, { status: 503 }) : await world.fetch(input, init);
  };
  const { bench, answer } = await attacked(world, { fetch });
  const unknown = (frame: DeliverFrame) => ({ ...frame, fromAgentDid: STRANGER });
  const answers: string[] = [];
  for (isDown of [true, false]) {
    const known = answers.length;
    void answer(unknown).then((reason) => answers.push(reason));
    await passing(world, 60, () => answers.length > known);
  }
  assertEquals([answers, bench.handedOver], [["failed", "not_a_peer"], []]);
});

Deno.test("after the clock was set back by an hour, a stranger's message is answered within seconds, and its refusal is told", async () => {
  await using world = await World.open();
  const { bench, taken } = await attacked(world);
  const unknown = { ...await taken(), fromAgentDid: STRANGER };
  assertEquals((await bench.redeliver(unknown)).reason, "not_a_peer");
  assertEquals(bench.eventsOf("proof_refused").length, 1);
  world.clock.step(-3_600_000);
  let isAnswered = false;
  void bench.redeliver(unknown).then(() => isAnswered = true);
  await passing(world, 5, () => isAnswered);
  assertEquals(bench.eventsOf("proof_refused").length, 2);
});

Deno.test("a relay's word on the sender changes nothing that a runtime reads", async () => {
  await using world = await World.open();
  const { a, bench, answer } = await attacked(world);
  const lie = {
    agentDid: "did:svc:evil.example:agent:01KHYQ5H00BBBBBBBBBBBBBBBB",
    ownerDid: "did:svc:evil.example:human:01KHYQ5H00BBBBBBBBBBBBBBBB",
  };
  const forge = (frame: DeliverFrame) => ({ ...frame, identity: { ...frame.identity, ...lie, name: "admin" } });
  assertEquals(await answer(forge), "taken");
  const inBlock = (frame: DeliverFrame) => {
    const payload = frame.payload.replace(a.agent.did, lie.agentDid);
    const [offset = 0, length = 0, text = ""] = (frame.proof as MessageProof).edit ?? [];
    return {
      ...forge(frame),
      payload,
      proof: { ...frame.proof, edit: [offset, length + lie.agentDid.length - a.agent.did.length, text] },
    };
  };
  assertEquals(await answer(inBlock), "taken");
  await until(() => bench.handedOver.length === 2);
  for (const { body, headers } of bench.calls) {
    assert(body.includes(a.agent.did) && !body.includes("evil"), body);
    assertEquals([headers.get("x-svc-agent-did"), headers.get("x-svc-owner-did")], [a.agent.did, a.agent.ownerDid]);
  }
});

Deno.test("headers that no context signs are dropped, and nothing of another route is a message", async () => {
  await using world = await World.open();
  const { a, bench, answer } = await attacked(world, { platform: "inbox" });
  const unsigned = (frame: DeliverFrame): DeliverFrame => ({
    ...frame,
    conversationId: "c-1",
    inReplyTo: "question-1",
    auto: true,
  });
  assertEquals(await answer(unsigned), "taken");
  const [message] = bench.connector.store.received.list({ unread: true, limit: 1 }).messages;
  assertEquals([message?.conversationId, message?.inReplyTo, message?.auto], [null, null, false]);
  for (const target of ["/pair/start", "/v1/relay/delivery-receipts", "/v1/agents/auth/refresh"]) {
    const body = JSON.stringify({ message: "hi" });
    const request = await world.signed(a, { target, body });
    const header = (name: string) => request.headers.get(name) ?? "";
    const proof: MessageProof = {
      ait: a.identity.ait,
      timestamp: header("X-Svc-Timestamp"),
      nonce: header("X-Svc-Nonce"),
      origin: PROXY_URL,
      target,
      signature: header("X-Svc-Proof"),
      context: {},
    };
    assertEquals(await answer((frame) => ({ ...frame, payload: body, proof })), "proof_invalid", target);
  }
});

Deno.test("a message counts by the time at which it was signed", async (t) => {
  const rows: [name: string, moves: number, expected: string][] = [
    ["a delay of six days", 6 * DAY, "taken"],
    ["a mailbox of seven days and a day for the clock", 8 * DAY, "taken"],
    ["a second more", 8 * DAY + 1, "proof_too_old"],
    ["a clock that is a day behind", -DAY, "taken"],
    ["a second further behind", -DAY - 1, "proof_ahead"],
  ];
  for (const [name, moves, expected] of rows) {
    await t.step(name, async () => {
      await using world = await World.open();
      const { bench, lost } = await attacked(world);
      const frame = await lost();
      bench.session.accessExpiresAt = bench.session.identityExpiresAt = Number.MAX_SAFE_INTEGER;
      const signedAt = toIso(Number((frame.proof as MessageProof).timestamp) * 1000);
      world.clock.step(moves * 1000);
      assertEquals(await bench.redeliver(frame), expected === "taken" ? TAKEN : refused(expected));
      if (expected !== "taken") return;
      await until(() => bench.handedOver.length === 1);
      assertEquals(bench.calls.find(({ body }) => body !== "")?.headers.get("x-svc-signed-at"), signedAt);
    });
  }
});

Deno.test("messages that a relay reorders are all handed over, each once", async () => {
  await using world = await World.open();
  const { bench, lost } = await attacked(world);
  const frames = [await lost(), await lost(), await lost()];
  for (const frame of frames.toReversed()) assertEquals(await bench.redeliver(frame), TAKEN);
  await until(() => bench.handedOver.length === 3);
  for (const frame of frames) assertEquals(await bench.redeliver(frame), TAKEN);
  await flushTasks();
  assertEquals(bench.handedOver.length, 3);
});

Deno.test("a token is genuine with a key that its registry publishes, also a retired one, and while it is valid", async (t) => {
  await using world = await World.open();
  const [key, other] = await Promise.all([7, 8].map((n) => keyPairFromSeed(new Uint8Array(32).fill(n)))) as [
    KeyPair,
    KeyPair,
  ];
  const publicKey = await importPublicKey(key.publicKey);
  const published = (status: "active" | "retired") => new Map([["key-1", { publicKey, status }]]);
  let keys: ReturnType<typeof published> = published("active");
  const trust = trustOf(world, { keys: () => Promise.resolve({ issuer: REGISTRY_URL, keys }) });
  const { a, b, bench, lost } = await attacked(world, { trust });
  const frame = await lost();
  const now = unixSeconds(world.clock.now());
  const grant = grantOf(world, a);
  const signed = async (change: Partial<AitGrant>, signer: { kid?: string; by?: KeyPair } = {}) => {
    const { kid = "key-1", by = key } = signer, requestId = world.newId();
    const ait = await signAit({ ...grant, jti: world.newId(), ...change }, { kid, privateKey: by.privateKey });
    const sender = { ...a, identity: { ...a.identity, ait } };
    return await bench.redeliver(await resigned(world, sender, { ...frame, requestId }));
  };
  const invalid = refused("proof_invalid");
  const rows: [name: string, change: Partial<AitGrant>, signer: { kid?: string; by?: KeyPair }, expected: object][] = [
    ["a genuine one", {}, {}, TAKEN],
    ["of another registry", { issuer: "https://evil.example" }, {}, invalid],
    ["that had ended before the message was signed", { issuedAtSeconds: now - DAY - 1 }, {}, invalid],
    ["that begins after the message was signed", { issuedAtSeconds: now + 3_600 }, {}, invalid],
    ["with an unknown key ID", {}, { kid: "key-2" }, invalid],
    ["with another key under the ID", {}, { by: other }, invalid],
    ["of another agent", { agentDid: b.agent.did }, {}, invalid],
    ["of the agent with another key of its own", { publicKey: other.publicKey }, {}, refused("key_mismatch")],
  ];
  for (const [name, change, signer, expected] of rows) {
    await t.step(name, async () => assertEquals(await signed(change, signer), expected));
  }
  keys = published("retired");
  world.clock.step(301_000);
  await t.step("with a retired key", async () => assertEquals(await signed({}), TAKEN));
  keys = new Map();
  world.clock.step(301_000);
  await t.step("with a key that is published no longer", async () => assertEquals(await signed({}), invalid));
});

Deno.test("a deleted peer of a ticket cannot vouch for itself in the name of another registry of its authority", async () => {
  await using world = await World.open();
  const { a, bench, lost } = await attacked(world);
  const frame = await lost();
  // Plain messages of before the ticket are taken, so that nothing but the token can refuse this one.
  const pin = { key: a.keys.publicKey, how: "ticket" as const, since: toIso(world.clock.now() + DAY * 1000) };
  await bench.connector.peers.change((peers) =>
    Object.fromEntries(Object.entries(peers).map(([alias, peer]) => [alias, { ...peer, ...pin }]))
  );
  assertEquals(await bench.redeliver(await resigned(world, a, frame)), TAKEN);
  await world.client.deleteAgent(a.owner.apiKey, a.agent.id);
  world.clock.step(301_000);
  const grant = { ...grantOf(world, a), name: "admin" };
  for (const issuer of [`${REGISTRY_URL}:8443`, REGISTRY_URL.replace("https:", "http:")]) {
    const ait = await signAit({ ...grant, issuer, jti: world.newId() }, {
      kid: "own",
      privateKey: a.keys.privateKey,
    });
    const requestId = world.newId();
    const forged = await resigned(world, { ...a, identity: { ...a.identity, ait } }, { ...frame, requestId });
    assertEquals(await bench.redeliver(forged), refused("proof_invalid"), issuer);
  }
});

Deno.test("a proof hands over one message, at any later time, after a restart, and under no other ID", async () => {
  await using world = await World.open();
  const { a, b, bench, taken } = await attacked(world);
  const frame = await taken({ headers: { "x-request-id": "request-1" } });
  await until(() => bench.eventsOf("receipt_sent").length === 1);
  // A repetition has a proof of its own, which a relay may keep until the message is forgotten.
  const repeated = await resigned(world, a, frame);
  for (const one of [frame, repeated]) assertEquals(await bench.redeliver(one), TAKEN);
  assertEquals(await bench.redeliver({ ...frame, requestId: "request-2" }), refused("replayed"));
  world.clock.step(25 * 3_600_000);
  bench.connector.store.deleteExpired(world.clock.now());
  for (const one of [frame, repeated]) assertEquals(await bench.redeliver(one), TAKEN);
  await bench.stop();
  await using again = await Bench.open(world, b, { folder: bench.folder, peers: bench.peers });
  assertEquals(await again.redeliver(frame), TAKEN);
  await flushTasks();
  assertEquals([bench.handedOver.length, again.handedOver], [1, []]);
});

Deno.test("a new store beside known keys refuses what may have been handed over before", async () => {
  await using world = await World.open();
  const { b, bench, taken } = await attacked(world);
  const frame = await taken();
  await bench.stop();
  world.clock.step(600_000);
  await using again = await Bench.open(world, b, { peers: bench.peers });
  assertEquals(await again.redeliver(frame), refused("proof_too_old"));
  assertEquals([again.eventsOf("memory_lost").length, bench.eventsOf("memory_lost").length], [1, 0]);
});

Deno.test("a relay that invents a sender for each message does not fill the log", async () => {
  await using world = await World.open();
  const { bench, taken } = await attacked(world);
  const frame = await taken();
  const invented = () => {
    const fromAgentDid = frame.fromAgentDid.replace(/[^:]*$/, world.newId());
    return bench.redeliver({ ...frame, fromAgentDid, requestId: world.newId() });
  };
  let isOver = false;
  const all = Promise.all(Array.from({ length: 1_000 }, invented)).finally(() => isOver = true);
  await passing(world, 30, () => isOver);
  await all;
  assert(bench.connector.status().refused >= 1_000);
  assert(bench.eventsOf("proof_refused").length <= 100, `${bench.eventsOf("proof_refused").length} lines`);
});

Deno.test("a relay that repeats a message does not fill the log", async () => {
  await using world = await World.open();
  const { bench, taken } = await attacked(world);
  const frame = await taken();
  for (let n = 0; n < 200; n++) assertEquals(await bench.redeliver(frame), TAKEN);
  assert(bench.eventsOf("repeated").length <= 10, `${bench.eventsOf("repeated").length} lines`);
});

Deno.test("a sender that floods shortens only its own window", async () => {
  await using world = await World.open();
  const { a, b, bench } = await attacked(world);
  const { proofs, database } = bench.connector.store;
  const row = (fromAgentDid: string, n: number) => (
    { fromAgentDid, requestId: `r-${n}`, nonce: `n-${n}`, signedAt: 1_000 + n }
  );
  // By one statement: 100,000 calls of `add` would take twenty times as long.
  database.run(
    `WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
     INSERT INTO seen_proofs (fromDid, nonce, requestId, signedAt) SELECT ?, 'n-' || i, 'r-' || i, 1000 + i FROM n`,
    ...[SEEN_PER_SENDER - 1, a.agent.did],
  );
  assertEquals(proofs.judge(row(a.agent.did, -1)), "proof_too_old");
  assertEquals(proofs.judge(row(b.agent.did, -1)), "new");
  proofs.add(row(a.agent.did, SEEN_PER_SENDER));
  assertEquals(Number(database.get("SELECT count(*) AS n FROM seen_proofs")?.n), SEEN_PER_SENDER);
  assertEquals([proofs.judge(row(a.agent.did, 0)), proofs.judge(row(a.agent.did, 5))], ["proof_too_old", "known"]);
  // The oldest leaves, not the one that was added first, and what is as old as one that has left may have left too.
  const late = { ...row(a.agent.did, SEEN_PER_SENDER + 1), signedAt: 900 };
  database.run("UPDATE seen_proofs SET signedAt = 900 WHERE nonce IN ('n-7', 'n-8')");
  proofs.add(row(a.agent.did, SEEN_PER_SENDER + 2));
  assertEquals([proofs.judge(row(a.agent.did, 1)), proofs.judge(late)], ["known", "proof_too_old"]);
  // Once the flood is forgotten, a message may again be older than another one.
  proofs.forget(world.clock.now());
  const now = unixSeconds(world.clock.now());
  proofs.add({ ...row(a.agent.did, -2), signedAt: now });
  assertEquals(proofs.judge({ ...row(a.agent.did, -3), signedAt: now - 60 }), "new");
});

Deno.test("the first message of a contact pins its key, and a second key of the registry is refused", async () => {
  await using world = await World.open();
  const { a, bench, answer } = await attacked(world);
  assertEquals(await answer((frame) => frame), "taken");
  const pinOf = () => Object.values(bench.peers).map(({ did, key, how }) => [did, key, how]);
  assertEquals(pinOf(), [[a.agent.did, a.keys.publicKey, "contact"]]);
  const stranger = await world.agent();
  bench.peers = {};
  const [[alias = "", peer] = []] = Object.entries(bench.connector.peers.all);
  assert(peer);
  await bench.connector.peers.change(() => ({ [alias]: { ...peer, key: stranger.keys.publicKey } }));
  // Another refused message of the same minute does not hide the other key.
  assertEquals(await answer(({ proof: _gone, ...frame }) => frame as DeliverFrame), "proof_invalid");
  assertEquals(await answer((frame) => frame), "key_mismatch");
  assertEquals(await answer((frame) => frame), "key_mismatch");
  await bench.connector.peers.settled();
  // Until the peer is removed, or seven days have passed: also after a restart, because it is on disk.
  const { connector } = bench, shownKeys = () => connector.status().otherKeys;
  assertEquals([shownKeys(), isConnectorHealthy(connector.status())], [[alias], false]);
  assert(bench.peers[alias]?.otherKeyAt !== undefined);
  assertEquals(peersWithOtherKey(bench.peers, world.clock.now() + 7 * 86_400_000), []);
  assertEquals(peersWithOtherKey(removePeer(bench.peers, a.agent.did), world.clock.now()), []);
  const changed = bench.eventsOf("peer_key_changed");
  assertEquals(changed, [{ from: a.agent.did, key: stranger.keys.publicKey, shown: a.keys.publicKey }]);
});

Deno.test("a revocation ends a sender whom the relay still delivers, and a reissue only what was signed later", async () => {
  await using world = await World.open();
  const { a, bench, taken } = await attacked(world);
  const frame = await taken();
  const signed = (requestId: string) => resigned(world, a, { ...frame, requestId });
  await world.client.reissueAgent(a.owner.apiKey, a.agent.id);
  world.clock.step(300_000);
  const [before, other] = [await signed("request-9"), await signed("request-11")];
  assertEquals(await bench.redeliver(before), TAKEN);
  world.clock.step(300_000);
  assertEquals(await bench.redeliver(await signed("request-10")), refused("sender_revoked"));
  await world.client.deleteAgent(a.owner.apiKey, a.agent.id);
  world.clock.step(301_000);
  assertEquals(await bench.redeliver(other), refused("sender_revoked"));
});

Deno.test("without a registry for a day the link is closed, and messages wait until it answers", async () => {
  await using world = await World.open({ proxy: { mailboxTtlSeconds: 3 * DAY } });
  let isDown = false;
  const { a, b, bench, taken } = await attacked(world, { trust: trustOf(world, {}, () => isDown) });
  await taken();
  isDown = true;
  world.clock.step(600_000);
  await taken();
  bench.endLink(1006);
  assertEquals((await (await world.message(a, b, { headers: { Prefer: "respond-async" } })).json()).queued, true);
  world.clock.step(DAY * 1000);
  await world.clock.advance(30_000);
  await until(() => bench.eventsOf("registry_unavailable").length > 0);
  assertEquals(bench.connector.status().connection.state, "waiting");
  isDown = false;
  await passing(world, 180, () => bench.handedOver.length === 3);
});

Deno.test("after the clock was set back the revocation list is read again, and not only when the old time is reached", async () => {
  await using world = await World.open();
  const source = trustSource(world);
  let reads = 0;
  const trust = trustOf(world, { ...source, list: () => (reads++, source.list()) });
  const after = async (ms: number) => {
    world.clock.step(ms);
    await trust.ready();
    return reads;
  };
  assertEquals([await after(0), await after(1_000), await after(-3_600_000), await after(1_000)], [1, 1, 2, 2]);
});

Deno.test("a message is taken that was signed for the connector's proxy, by the address that it dials or that the registry names", async () => {
  await using world = await World.open();
  const dialed = "https://another-name.example";
  const taken = async (proxyUrl: string) => {
    const { keys } = trustSource(world);
    const trust = trustOf(world, { keys: async () => ({ ...await keys(), proxyUrl }) });
    const { bench, answer } = await attacked(world, { origin: dialed, trust });
    await using _ = bench;
    return await answer((frame) => frame);
  };
  assertEquals([await taken(PROXY_URL), await taken(dialed)], ["taken", "proof_invalid"]);
});

Deno.test("a loopback name of the proxy is as good as another one, and another port or scheme is another proxy", async () => {
  await using world = await World.open();
  const { a, bench, lost } = await attacked(world, { origin: "http://127.0.0.1:8787" });
  const frame = await lost();
  const rows: [origin: string, expected: object][] = [
    ["http://localhost:8787", TAKEN],
    ["http://[::1]:8787", TAKEN],
    ["http://localhost:8788", refused("proof_invalid")],
    ["https://localhost:8787", refused("proof_invalid")],
    ["http://localhost:8787/", refused("proof_invalid")],
    ["http://localhost.example:8787", refused("proof_invalid")],
  ];
  for (const [origin, expected] of rows) {
    const signed = await resigned(world, a, { ...frame, requestId: world.newId() }, origin);
    assertEquals(await bench.redeliver(signed), expected, origin);
  }
});

Deno.test("of two first messages of a contact at the same time with two keys, one pins its key and the other is refused", async () => {
  await using world = await World.open();
  const [key, second] = await Promise.all([7, 8].map((n) => keyPairFromSeed(new Uint8Array(32).fill(n)))) as [
    KeyPair,
    KeyPair,
  ];
  const keys = new Map([["key-1", { publicKey: await importPublicKey(key.publicKey), status: "active" as const }]]);
  const trust = trustOf(world, { keys: () => Promise.resolve({ issuer: REGISTRY_URL, keys }) });
  const { a, bench, lost } = await attacked(world, { trust });
  const frame = await lost();
  const first = await Promise.all([a.keys, second].map(async ({ publicKey, privateKey }) => {
    const ait = await signAit({ ...grantOf(world, a), publicKey }, { kid: "key-1", privateKey: key.privateKey });
    return await resigned(world, { ...a, identity: { ...a.identity, ait, privateKey } }, {
      ...frame,
      requestId: world.newId(),
    });
  }));
  assertEquals(await Promise.all(first.map(bench.redeliver)), [TAKEN, refused("key_mismatch")]);
  assertEquals(Object.values(bench.peers).map(({ key }) => key), [a.keys.publicKey]);
});

Deno.test("a clock that is two days off opens no link; once it is set right, the link opens, and a revocation is seen", async () => {
  await using world = await World.open();
  const { a } = await story(world);
  const { keys } = trustSource(world);
  let aheadMs = 2 * DAY * 1000, offsetMs = 0;
  const trust = trustOf(world, {
    keys: () => {
      offsetMs = -aheadMs;
      return keys();
    },
    offsetMs: () => offsetMs,
  });
  const behind = trustOf(world, { offsetMs: () => 2 * DAY * 1000 });
  for (const off of [behind, trust]) await assertRejects(() => off.ready(), Undecided, "48 h");
  world.clock.step(-aheadMs);
  aheadMs = 0;
  await world.client.deleteAgent(a.owner.apiKey, a.agent.id);
  await trust.ready();
  const claims = readAitClaims(parseAit(a.identity.ait));
  assertEquals(await trust.isRevoked(claims, unixSeconds(world.clock.now())), true);
});
