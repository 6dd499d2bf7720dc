/** What a sender's connector learns of its messages without a command in between. */
import { assertEquals } from "@std/assert";
import { REFRESH_MS } from "../../../cli/connector/sending/sending.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { Bench, INBOX, story } from "./bench.ts";
import { asker, post } from "./local_api/local_caller.ts";

const ID = "request-0001";

Deno.test("the state of a queued message follows its recipient: waits, arrived, read", async () => {
  await using world = await World.open();
  const { a, bench } = await story(world, INBOX);
  const state = () => bench.connector.store.sent.find(ID)?.state;
  await asker(bench)("/v1/outbound", post({ to: a.agent.did, text: "Hi", prefer: "respond-async", requestId: ID }));
  assertEquals(state(), "queued");
  await using peer = await Bench.open(world, a, INBOX);
  await until(() => state() === "delivered");
  const [message] = (await asker(peer)("/v1/inbox")).body.messages;
  await asker(peer)("/v1/inbox/read", post({ ids: [message.id] }));
  await until(() => state() === "processed");
  const { body } = await asker(bench)("/v1/sent");
  assertEquals(body.messages[0].state, "processed");
});

Deno.test("a sender that was offline meanwhile asks after its connect, and at most once in 10 s for a list", async () => {
  await using world = await World.open();
  const { a, b, bench } = await story(world, INBOX);
  const requests: string[] = [];
  const fetch = ((input: string, init?: RequestInit) => {
    if (input.includes("/v1/relay/deliveries")) requests.push(input);
    return world.fetch(input, init);
  }) as typeof globalThis.fetch;
  await asker(bench)("/v1/outbound", post({ to: a.agent.did, text: "Hi", prefer: "respond-async", requestId: ID }));
  bench.kill();
  await using peer = await Bench.open(world, a, INBOX);
  await until(() => peer.connector.store.received.counts().waiting === 1);
  await using again = await Bench.open(world, b, { ...INBOX, folder: bench.folder, fetch });
  await until(() => again.connector.store.sent.find(ID)?.state === "delivered");
  for (let n = 0; n < 5; n++) await asker(again)("/v1/sent");
  assertEquals(requests.length, 1);
  await world.clock.advance(REFRESH_MS);
  await asker(again)("/v1/sent");
  assertEquals(requests.length, 2);
});

Deno.test("an agent learns once that a peer has ended the pair: of the next list, or of a message that is refused", async () => {
  const ways = [
    (bench: Bench) => asker(bench)("/v1/peers"),
    (bench: Bench, to: string) => asker(bench)("/v1/outbound", post({ to, text: "Hi" })),
  ];
  for (const way of ways) {
    await using world = await World.open();
    const { a, b, bench } = await story(world, INBOX);
    const other = await world.agent();
    await world.pair(other, b);
    await bench.connector.updatePeers();
    await using peer = await Bench.open(world, a, INBOX);
    await asker(peer)("/v1/pair/remove", post({ peerAgentDid: b.agent.did }));
    assertEquals(peer.eventsOf("pair_ended"), [], "who ends it knows");
    for (let n = 0; n < 2; n++) await way(bench, a.agent.did);
    await until(() => bench.eventsOf("pair_ended").length > 0);
    await asker(bench)("/v1/pair/remove", post({ peerAgentDid: other.agent.did }));
    const told = bench.eventsOf("pair_ended").map(({ from, agentName }) => [from, agentName]);
    assertEquals(told, [[a.agent.did, a.agent.name]]);
  }
});
