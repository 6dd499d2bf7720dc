/** Another server that does not answer holds up nothing of the peers at the own server. */
import { assertEquals } from "@std/assert";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { Bench, INBOX, passing } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";
import { GONE, local, losing, request, send, TwoServers } from "./two_servers.ts";

/** Beta has a ticket peer at its own server too, gamma. */
async function withGamma(two: TwoServers): Promise<Bench> {
  const { world, bench } = two.b, gamma = await world.agent(undefined, "gamma");
  const its = await Bench.open(world, gamma, INBOX);
  const { ticket } = await local<{ ticket: string }>(its, "/v1/pair/start", {});
  await local(bench, "/v1/pair/confirm", { ticket });
  await until(() => "beta" in its.peers);
  return its;
}

/** Alpha's server does not answer requests of beta for one path. */
function deaf({ a, b }: TwoServers, isHeld: (url: string) => boolean): { asked: number } {
  const { proxy } = a.world, reach = proxy.fetch, state = { asked: 0 };
  proxy.fetch = async (request, peer) => {
    const isOfBeta = request.headers.get("authorization")?.includes(b.agent.identity.ait);
    if (!isOfBeta || !isHeld(request.url)) return await reach(request, peer);
    state.asked++;
    return await new Promise<never>((_, reject) => request.signal.addEventListener("abort", () => reject(new Error())));
  };
  return state;
}

Deno.test("a server that does not say whether messages are read hides no reader at the own server", async () => {
  await using two = await TwoServers.open();
  const { b, a } = two;
  await two.pair();
  await using gamma = await withGamma(two);
  for (let n = 0; n < 5; n++) await send(b.bench, "alpha@a.example", `message ${n}`);
  const { requestId } = await send(b.bench, "gamma", "are you there?");
  const { messages } = b.bench.connector.store.sent.list({ toDid: a.agent.agent.did, limit: 5 });
  const held = deaf(two, (url) => url.includes("/v1/relay/delivery-receipts"));
  for (const { requestId } of messages) {
    b.bench.connector.sending.told({
      requestId,
      recipientAgentDid: a.agent.agent.did,
      state: "processed",
      at: "2026-02-21T00:01:00.000Z",
    });
  }
  await until(() => held.asked > 0);
  const { body: { messages: [{ id }] } } = await asker(gamma)("/v1/inbox");
  await asker(gamma)("/v1/inbox/read", post({ ids: [id] }));
  // Less in all than the deadline of the request that is held.
  await passing(b.world, 20, () => b.bench.connector.store.sent.find(requestId)?.state === "processed");
});

Deno.test("a server that does not say how messages ended hides no older outcome at the own server", async () => {
  await using two = await TwoServers.open();
  const { b, a, clock } = two;
  await two.pair();
  await using gamma = await withGamma(two);
  const { requestId } = await send(b.bench, gamma.agent.agent.did, "first");
  b.bench.database.run("UPDATE sent SET state = 'queued' WHERE requestId = ?", requestId);
  b.bench.database.run(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
     INSERT INTO sent (toDid, requestId, auto, origin, bytes, sentAt, state, stateAt, payload)
     SELECT ?, 'request-' || i, 0, 'program', 2, ?2, 'queued', ?2, '{}' FROM n`,
    a.agent.agent.did,
    clock.now(),
  );
  const held = deaf(two, (url) => url.includes("/v1/relay/deliveries"));
  await clock.advance(11_000);
  void b.bench.connector.sending.refresh();
  await until(() => held.asked > 0);
  await clock.advance(1_000);
  assertEquals(b.bench.connector.store.sent.find(requestId)?.state, "delivered");
});

Deno.test("a server that does not confirm its ticket holds up no message of a contact", async () => {
  await using two = await TwoServers.open();
  const { b, clock } = two, delta = await b.world.agent(undefined, "delta");
  await b.world.pair(delta, b.agent);
  const ticket = await two.ticket(), held = deaf(two, (url) => url.includes("/pair/confirm"));
  const confirmed = request(b.bench, "/v1/pair/confirm", { ticket });
  await until(() => held.asked > 0);
  const sent = b.world.message(delta, b.agent);
  await until(() => b.bench.connector.store.received.list({ unread: true, limit: 5 }).messages.length === 1);
  await sent;
  await clock.advance(31_000);
  assertEquals((await confirmed).status >= 500, true);
});

Deno.test("a server that does not confirm its ticket holds up no other ticket that this agent goes on with", async () => {
  await using two = await TwoServers.open();
  const { b, clock } = two, gamma = await b.world.agent(undefined, "gamma");
  await using its = await Bench.open(b.world, gamma, INBOX);
  const tickets = [await two.ticket(), (await local<{ ticket: string }>(its, "/v1/pair/start", {})).ticket];
  const back = [two.away(), losing(b.world.proxy, "/pair/confirm", () => Promise.reject(GONE))];
  for (const ticket of tickets) {
    assertEquals((await request(b.bench, "/v1/pair/confirm", { ticket })).status >= 500, true);
  }
  for (const end of back.reverse()) end();
  const held = deaf(two, (url) => url.includes("/pair/confirm"));
  b.bench.endLink(1006);
  // In small steps, because the timer of the next connect may be set after the first one, and less in all than the
  // deadline of the request that is held.
  for (let second = 0; second < 20 && held.asked === 0; second++) {
    await clock.advance(1_000);
    await flushTasks();
  }
  await until(() => held.asked > 0 && b.bench.peers.gamma?.how === "ticket");
});
