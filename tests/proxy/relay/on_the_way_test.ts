/**
 * Shows that the end of a pair reaches messages in transit (D-64), and that waiting messages keep their order under any
 * clock and lease (D-68). `tests/simulation` found these cases.
 */
import { connectRequest } from "../../support/connect_request.ts";
import { assert, assertEquals } from "@std/assert";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { codeOf, type TestAgent, type World } from "../../support/world.ts";
import { openProxy } from "../proxy_world.ts";
import { kill, sharedStore, two } from "./two_instances.ts";
import { inWorld, openPaired, type PairTest } from "../cast.ts";

async function endPair(w: World, a: TestAgent, b: TestAgent): Promise<void> {
  const body = JSON.stringify({ peerAgentDid: b.agent.did });
  assertEquals((await w.fetch(await w.signed(a, { target: "/pair/remove", body }))).status, 204);
}

const test = (name: string, run: PairTest) => Deno.test(name, inWorld(openPaired, run));

test("a message whose socket is lost after the end of the pair does not go to the next socket", async ({ w, a, b }) => {
  const [older, newer] = [w.connect(b), w.connect(b, "silent")];
  const waiting = w.message(a, b);
  await until(() => newer.delivered.length === 1);
  await endPair(w, a, b);
  newer.link.lost();
  assertEquals(await codeOf(await waiting), "PROXY_RELAY_DELIVERY_FAILED");
  assertEquals(older.delivered, []);
});

test("a message that waits behind others is not delivered once the pair has ended", async ({ w, a, b }) => {
  await w.message(a, b, { headers: { Prefer: "respond-async" } });
  const socket = w.connect(b, "silent");
  await until(() => socket.delivered.length === 1);
  const waiting = w.message(a, b);
  for (let i = 0; i < 5; i++) await flushTasks();
  await endPair(w, a, b);
  socket.ack(socket.delivered[0]?.id ?? "");
  assertEquals(await codeOf(await waiting), "PROXY_RELAY_DELIVERY_FAILED");
  assertEquals(socket.delivered.length, 1);
});

test("a message that waits until its time limit overtakes none, also when the clock is set back", async ({ w, a, b }) => {
  for (let i = 0; i < 2; i++) await w.message(a, b, { headers: { Prefer: "respond-async" } });
  const socket = w.connect(b, "silent");
  await until(() => socket.delivered.length === 1);
  const waiting = w.message(a, b, { headers: { "x-request-id": "request-late" } });
  for (let i = 0; i < 5; i++) await flushTasks();
  w.clock.step(-20_000);
  await w.clock.advance(11_000);
  assertEquals(await codeOf(await waiting), "PROXY_RELAY_DELIVERY_FAILED");
  assert(socket.delivered.every(({ requestId }) => requestId !== "request-late"));
});

/** Replaces what a world's messages find queued before them. `change()` wakes those that wait; each asks again. */
class Line {
  asked = 0;
  #step: PromiseWithResolvers<void> | undefined = Promise.withResolvers();

  constructor(w: World) {
    w.proxy.deps.mailboxDelivery.inProgress = () => {
      this.asked++;
      return this.#step?.promise;
    };
  }

  change({ isOver = false } = {}): void {
    const before = this.#step;
    this.#step = isOver ? undefined : Promise.withResolvers();
    before?.resolve();
  }
}

test("a message whose wait is over is delivered, although its sender has another line in the same moment", async ({ w, a, b }) => {
  const socket = w.connect(b), line = new Line(w), waiting = w.message(a, b);
  await until(() => line.asked > 0);
  for (let i = 0; i < 5; i++) await flushTasks();
  line.change({ isOver: true });
  await Promise.resolve();
  line.change();
  await until(() => socket.delivered.length === 1);
  assertEquals((await waiting).status, 202);
});

test("a message that has failed at its time limit is not woken for as long as its sender has a line", async ({ w, a, b }) => {
  w.connect(b);
  const line = new Line(w), waiting = w.message(a, b);
  await until(() => line.asked > 0);
  for (let i = 0; i < 5; i++) await flushTasks();
  await w.clock.advance(11_000);
  assertEquals(await codeOf(await waiting), "PROXY_RELAY_DELIVERY_FAILED");
  const { asked } = line;
  for (let i = 0; i < 5; i++) {
    line.change();
    await flushTasks();
  }
  assert(line.asked <= asked + 1, `${line.asked - asked} times`);
});

test("a message gets its answer within twice its time limit when the clock is set back while it waits", async ({ w, a, b }) => {
  await w.message(a, b, { headers: { Prefer: "respond-async" } });
  const socket = w.connect(b, "silent");
  await until(() => socket.delivered.length === 1);
  let code: string | undefined;
  void w.message(a, b).then(codeOf).then((text) => code = text);
  for (let i = 0; i < 5; i++) await flushTasks();
  w.clock.step(-3_600_000);
  socket.ack(socket.delivered[0]?.id ?? "");
  await until(() => socket.delivered.length === 2);
  await w.clock.advance(10_000);
  for (let i = 0; i < 5; i++) await flushTasks();
  assertEquals(code, "PROXY_RELAY_DELIVERY_FAILED");
});

Deno.test("a message that another instance reads after the end of the pair is not delivered", () =>
  two(sharedStore, async (w1, w2, a, b) => {
    const socket = w2.connect(b);
    await w2.proxy.deps.presence.claim(b.agent.did, connectRequest(w2.clock));
    // The note is read after the pair has ended.
    const { inbox } = w2.proxy.deps;
    const { onNote } = inbox;
    const notes: Parameters<typeof onNote>[] = [];
    inbox.onNote = (...note) => void notes.push(note);
    const waiting = w1.message(a, b);
    await until(() => notes.length === 1);
    await endPair(w1, a, b);
    inbox.onNote = onNote;
    for (const note of notes) inbox.onNote(...note);
    assertEquals(await codeOf(await waiting), "PROXY_RELAY_DELIVERY_FAILED");
    assertEquals(socket.delivered, []);
  }));

Deno.test("a repeat at another instance does not wait for a message whose recipient left during its commit", () =>
  two(sharedStore, async (w1, w2, a, b) => {
    const socket = w1.connect(b);
    await w1.proxy.deps.presence.claim(b.agent.did, connectRequest(w1.clock));
    const { here } = w1.proxy.deps, deliver = here.deliver.bind(here);
    here.deliver = (...message) => {
      socket.link.lost();
      return deliver(...message);
    };
    const headers = { "x-request-id": "request-0001" };
    assertEquals(await codeOf(await w1.message(a, b, { headers })), "PROXY_RELAY_CONNECTOR_OFFLINE");
    let code: string | undefined;
    void w2.message(a, b, { headers }).then(codeOf).then((text) => code = text);
    await until(() => code !== undefined);
    assertEquals([code, socket.delivered], ["PROXY_RELAY_CONNECTOR_OFFLINE", []]);
  }));

Deno.test("an agent that returns while its presence is read keeps its new socket", async () => {
  await using w = await openProxy();
  const b = await w.agent();
  const { forwarder, presence } = w.proxy.deps, { holderOf } = presence, away = w.newId();
  w.connect(b);
  let returned: ReturnType<World["connect"]> | undefined;
  presence.holderOf = async (agentDid) => {
    if (returned) return await holderOf.call(presence, agentDid);
    await presence.claim(b.agent.did, connectRequest(w.clock));
    returned = w.connect(b);
    return away;
  };
  await forwarder.moved(b.agent.did);
  assertEquals(returned?.closed, null);
});

Deno.test("messages queued for an instance that seemed dead are delivered by that instance at once", () =>
  two(sharedStore, async (w1, w2, a, b) => {
    const socket = w2.connect(b);
    await w2.proxy.deps.presence.claim(b.agent.did, connectRequest(w2.clock));
    // A lease that is renewed too late.
    await kill(w2);
    await w1.clock.advance(16_000);
    const answer = await w1.message(a, b, { headers: { Prefer: "respond-async" } });
    assertEquals((await answer.json()).queued, true);
    await until(() => socket.delivered.length === 1);
  }));
