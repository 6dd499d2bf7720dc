/** Many proxy instances on one store behave as one: delivery, order, fencing, single use, limits, mailbox. */
import { assert, assertEquals } from "@std/assert";
import { KEYS } from "../../proxy/keys.ts";
import { nameFailures } from "../../shared/server/kv.ts";
import { settle } from "../support/manual_clock.ts";
import { codeOf, type TestAgent, World, type WorldOptions } from "../support/world.ts";

/** Two instances on one store, with agents a and b paired. */
async function two(
  run: (w1: World, w2: World, a: TestAgent, b: TestAgent) => Promise<void>,
  options: WorldOptions = {},
): Promise<void> {
  const kv = await Deno.openKv(":memory:");
  nameFailures(kv);
  {
    await using w1 = await World.open({ ...options, kv, seed: 1 });
    await using w2 = await World.open({ ...options, kv, seed: 2, clock: w1.clock });
    await Promise.all([w1.proxy.start(), w2.proxy.start()]);
    const a = await w1.agent();
    const b = await w1.agent();
    await w1.pair(a, b);
    await run(w1, w2, a, b);
  }
  await settle();
  kv.close();
}

async function until(done: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 500 && !(await done()); i++) await settle();
}

/** Connects an agent to an instance and waits until the store says so. */
async function connected(w: World, agent: TestAgent, behaviour: "ack" | "nack" | "silent" = "ack") {
  const socket = w.connect(agent, behaviour);
  await until(async () => {
    const { value } = await w.kv.get<{ instance: string }>(KEYS.presence(agent.agent.did));
    return value?.instance === w.proxy.deps.bus.instance;
  });
  return socket;
}

const numbered = (n: number) => ({ body: JSON.stringify({ n }) });
const numbers = (frames: { payload: string }[]) =>
  frames.map((frame) => (JSON.parse(frame.payload) as { n: number }).n);

Deno.test("100 of 100 messages posted to one instance reach the socket of another, in order, once", () =>
  two(async (w1, w2, a, b) => {
    const socket = await connected(w2, b);
    for (let n = 0; n < 100; n++) {
      const response = await w1.message(a, b, numbered(n));
      assertEquals([response.status, (await response.json()).delivered], [202, true]);
    }
    assertEquals(numbers(socket.delivered), Array.from({ length: 100 }, (_, n) => n));
  }, { proxy: { agentRequests: 1000 } }));

Deno.test("a large payload crosses byte for byte, and leaves nothing in the store", () =>
  two(async (w1, w2, a, b) => {
    const socket = await connected(w2, b);
    const body = JSON.stringify({ text: "€".repeat(80_000) });
    assertEquals((await w1.message(a, b, { body })).status, 202);
    assertEquals(socket.delivered[0]?.payload, body);
    await until(async () => (await Array.fromAsync(w1.kv.list({ prefix: ["proxy", "inbox_part"] }))).length === 0);
    assertEquals((await Array.fromAsync(w1.kv.list({ prefix: ["proxy", "inbox_part"] }))).length, 0);
  }));

Deno.test("a refusal by the connector, and its silence, come back from the other instance", () =>
  two(async (w1, w2, a, b) => {
    const socket = await connected(w2, b, "nack");
    assertEquals((await (await w1.message(a, b)).json()).delivered, false);
    socket.behaviour = "silent";
    const waiting = w1.message(a, b);
    await until(() => socket.delivered.length === 2);
    await w1.clock.advance(11_000);
    assertEquals(await codeOf(await waiting), "PROXY_RELAY_DELIVERY_FAILED");
  }));

Deno.test("a connect at another instance moves the session there and closes the older sockets with 4409", () =>
  two(async (w1, w2, a, b) => {
    const first = await connected(w1, b);
    const second = await connected(w2, b);
    await until(() => first.closed !== null);
    assertEquals(first.closed?.code, 4409);
    assertEquals((await w1.message(a, b)).status, 202);
    assertEquals([first.delivered.length, second.delivered.length], [0, 1]);
  }));

Deno.test("an instance that only thinks it has the socket sends it nothing", () =>
  two(async (w1, w2, a, b) => {
    const stale = await connected(w1, b);
    // Deaf: the note that the session has moved does not reach it.
    w1.proxy.deps.bus.onNote = () => {};
    const newest = await connected(w2, b);
    void w1.message(a, b).catch(() => {});
    await until(() => newest.delivered.length === 1);
    assertEquals([stale.delivered.length, newest.delivered.length], [0, 1]);
    assertEquals(stale.closed?.code, 4409);
  }));

Deno.test("the agents of an instance that dies are offline within 15 s, and back when they connect anywhere", () =>
  two(async (w1, w2, a, b) => {
    await connected(w2, b);
    // Killed: it shows no sign of life any more, and says goodbye to nobody.
    w2.proxy.deps.bus.stop = () => Promise.resolve();
    await w2.kv.set(KEYS.instance(w2.proxy.deps.bus.instance), { until: w1.clock.now() + 12_000 });
    w1.clock.step(15_000);
    assertEquals(await codeOf(await w1.message(a, b)), "PROXY_RELAY_CONNECTOR_OFFLINE");
    await connected(w1, b);
    assertEquals((await w1.message(a, b)).status, 202);
  }));

Deno.test("a message queued at one instance is handed over by the one to which the recipient comes", () =>
  two(async (w1, w2, a, b) => {
    for (let n = 0; n < 3; n++) {
      const response = await w1.message(a, b, { ...numbered(n), headers: { Prefer: "respond-async" } });
      assertEquals((await response.json()).queued, true);
    }
    const socket = await connected(w2, b);
    await until(() => socket.delivered.length === 3);
    assertEquals(numbers(socket.delivered), [0, 1, 2]);
  }));

Deno.test("a message queued while its recipient connects to another instance is handed over", () =>
  two(async (w1, w2, a, b) => {
    for (let n = 0; n < 5; n++) {
      const sending = w1.message(a, b, { ...numbered(n), headers: { Prefer: "respond-async" } });
      const socket = w2.connect(b);
      assertEquals((await sending).status, 202);
      await until(() => socket.delivered.length === 1);
      assertEquals(numbers(socket.delivered), [n]);
      socket.link.lost();
      await settle();
    }
  }));

Deno.test("of one signed request sent to both instances many times, one is accepted", () =>
  two(async (w1, w2, a, b) => {
    await connected(w1, b);
    const request = await w1.signed(a, { recipient: b.agent.did, body: "{}" });
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) => (i % 2 ? w1 : w2).fetch(request.clone())),
    );
    assertEquals(answers.filter((answer) => answer.status === 202).length, 1);
    assertEquals(answers.filter((answer) => answer.status === 401).length, 39);
  }, { proxy: { agentRequests: 1000 } }));

Deno.test("the limit of an agent holds over both instances", () =>
  two(async (w1, w2, a, b) => {
    await connected(w1, b);
    const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => (i % 2 ? w1 : w2).message(a, b)));
    assertEquals(answers.filter((answer) => answer.status === 202).length, 18);
    assertEquals(answers.filter((answer) => answer.status === 429).length, 22);
  }, { proxy: { agentRequests: 19 } }));

Deno.test("a pairing confirmed at one instance is told to the initiator's socket at the other", () =>
  two(async (w1, w2, a) => {
    const socket = await connected(w2, a);
    const c = await w1.agent();
    await w1.pair(a, c);
    await until(() => socket.frames.some((frame) => frame.type === "paired"));
    assert(socket.frames.some((frame) => frame.type === "paired" && frame.peerAgentDid === c.agent.did));
  }));

Deno.test("an agent revoked through one instance's registry is closed at the other", () =>
  two(async (w1, w2, _a, b) => {
    const socket = await connected(w2, b);
    await w1.client.deleteAgent(b.owner.apiKey, b.agent.id);
    await until(() => socket.closed !== null);
    assertEquals(socket.closed?.code, 4401);
  }));

Deno.test("a copy of a message that another instance is delivering waits for that one's answer", () =>
  two(async (w1, w2, a, b) => {
    const socket = await connected(w1, b, "silent");
    const copy = { ...numbered(1), headers: { "x-request-id": "request-0001" } };
    const first = w1.message(a, b, copy);
    await until(() => socket.delivered.length === 1);
    const second = w2.message(a, b, copy);
    for (let i = 0; i < 10; i++) await w1.clock.advance(100);
    assertEquals(socket.delivered.length, 1);
    socket.ack(socket.delivered[0]?.id ?? "");
    const answer = await (await first).json();
    for (let i = 0; i < 3; i++) await w1.clock.advance(100);
    assertEquals(await (await second).json(), answer);
    assertEquals(socket.delivered.length, 1);
  }));

Deno.test("a copy of a message whose instance died is a new attempt once that one's time is over", () =>
  two(async (w1, w2, a, b) => {
    const lost = await connected(w1, b, "silent");
    const copy = { ...numbered(1), headers: { "x-request-id": "request-0001" } };
    void w1.message(a, b, copy).catch(() => {});
    await until(() => lost.delivered.length === 1);
    const socket = await connected(w2, b);
    const second = w2.message(a, b, copy);
    for (let i = 0; i < 110; i++) await w1.clock.advance(100);
    assertEquals((await second).status, 202);
    assertEquals(socket.delivered.length, 1);
  }));
