/** Senders are told the outcomes of their messages, and may ask for what they missed. */
import { assertEquals } from "@std/assert";
import { until } from "../../support/until.ts";
import { codeOf, type TestAgent, type TestSocket, World } from "../../support/world.ts";
import { inWorld, openPaired, type PairTest } from "../cast.ts";

const ASYNC = { Prefer: "respond-async" };

async function ask(w: World, agent: TestAgent, messages: object[]): Promise<Response> {
  return await w.fetch(await w.signed(agent, { target: "/v1/relay/deliveries", body: JSON.stringify({ messages }) }));
}

const statesOf = async (w: World, agent: TestAgent, to: TestAgent, ids: string[]) => {
  const messages = ids.map((requestId) => ({ requestId, recipientAgentDid: to.agent.did }));
  const { deliveries } = await (await ask(w, agent, messages)).json();
  return deliveries.map(({ requestId, state, at }: Record<string, string>) => [requestId, state, Date.parse(at ?? "")]);
};

const toldTo = (socket: TestSocket) =>
  socket.frames.flatMap((frame) =>
    frame.type === "delivery" ? [[frame.requestId, frame.state, frame.receipt?.status ?? null]] : []
  );

async function receipt(w: World, b: TestAgent, requestId: string, status: "processed_by_svc" | "dead_lettered") {
  const timestamp = new Date(w.clock.now()).toISOString();
  await b.client.submitReceipt({ requestId, recipientAgentDid: b.agent.did, status, timestamp });
}

const test = (name: string, run: PairTest) => Deno.test(name, inWorld(openPaired, run));

test("a sender is told when a queued message is handed over, processed and expired, and can ask for it", async ({ w, a, b }) => {
  const sender = w.connect(a);
  await w.connected();
  const ids = ["request-read", "request-over"];
  const headers = (id?: string) => ({ ...ASYNC, "x-request-id": id ?? "" });
  const begun = w.clock.now();
  await w.message(a, b, { headers: headers(ids[0]) });
  assertEquals(await statesOf(w, a, b, ids), [[ids[0], "queued", begun]]);
  await w.clock.advance(5_000);
  const recipient = w.connect(b);
  await until(() => toldTo(sender).length === 1);
  assertEquals(await statesOf(w, a, b, ids), [[ids[0], "delivered", begun + 5_000]]);
  await w.clock.advance(1_000);
  await receipt(w, b, ids[0] ?? "", "processed_by_svc");
  assertEquals(await statesOf(w, a, b, ids), [[ids[0], "processed", begun + 6_000]]);
  recipient.link.lost();
  await until(async () => (await w.proxy.deps.presence.holderOf(b.agent.did)) === null);
  await w.message(a, b, { headers: headers(ids[1]) });
  w.clock.step(86_400_000);
  await w.proxy.deps.mailboxDelivery.sweep();
  assertEquals(toldTo(sender), [
    [ids[0], "delivered", null],
    [ids[0], "processed", "processed_by_svc"],
    [ids[1], "dead_lettered", "dead_lettered"],
  ]);
});

test("a message that is delivered at once is delivered, and causes no frame", async ({ w, a, b }) => {
  const sender = w.connect(a);
  w.connect(b);
  await w.connected();
  await w.message(a, b, { headers: { "x-request-id": "request-0001" } });
  assertEquals(await statesOf(w, a, b, ["request-0001"]), [["request-0001", "delivered", w.clock.now()]]);
  assertEquals(toldTo(sender), []);
});

test("only the sender of a message learns its outcome, and the list is bounded", async ({ w, a, b }) => {
  await w.message(a, b, { headers: { ...ASYNC, "x-request-id": "request-0001" } });
  assertEquals(await statesOf(w, b, b, ["request-0001"]), []);
  assertEquals(await statesOf(w, await w.agent(), b, ["request-0001"]), []);
  const one = { requestId: "request-0001", recipientAgentDid: b.agent.did };
  assertEquals((await ask(w, a, Array(100).fill(one))).status, 200);
  for (const messages of [[], Array(101).fill(one), [{ ...one, requestId: "?" }]]) {
    assertEquals(await codeOf(await ask(w, a, messages)), "PROXY_RELAY_RECEIPT_INVALID");
  }
});

Deno.test("receipts cost the same commits whether their sender is told or not", async () => {
  const commitsOf = async (isConnected: boolean) => {
    await using w = await World.open({ proxy: { agentRequests: 1_000 } });
    const { a, b } = await w.pairedAgents();
    w.connect(b);
    if (isConnected) w.connect(a);
    await w.connected();
    const ids = Array.from({ length: 8 }, (_, n) => `request-${n}`);
    for (const id of ids) await w.message(a, b, { headers: { "x-request-id": id } });
    await w.proxy.deps.commits.flush();
    const { kv } = w.proxy.deps, atomic = kv.atomic.bind(kv);
    let commits = 0;
    kv.atomic = () => {
      commits++;
      return atomic();
    };
    for (const id of ids) await receipt(w, b, id, "processed_by_svc");
    kv.atomic = atomic;
    return commits;
  };
  assertEquals(await commitsOf(true), await commitsOf(false));
});

Deno.test("a question about a hundred messages counts as half as many requests of its owner", async () => {
  await using w = await World.open({ proxy: { ownerRequests: 20 } });
  const { a, b } = await w.pairedAgents();
  const many = Array.from({ length: 100 }, (_, i) => ({ requestId: `request-${i}`, recipientAgentDid: b.agent.did }));
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) statuses.push((await ask(w, a, many)).status);
  assertEquals(statuses, [200, 200, 200, 429]);
  // A refused question uses up nothing that a smaller one, or a receipt, needs.
  assertEquals((await ask(w, a, many.slice(0, 40))).status, 200);
});
