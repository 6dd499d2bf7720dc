/** Notifications of a channel: one for each message, without its text, and bounded. */
import { assert, assertEquals } from "@std/assert";
import { announce, type ChannelNotice, newMessages, NOTICES_MAX, NOTICES_WINDOW_MS } from "../../../cli/mcp/channel.ts";
import type { McpAgent, PageQuery } from "../../../cli/mcp/mcp_agent.ts";
import { Unseen } from "../../../cli/connector/unseen.ts";
import { ManualClock } from "../../support/manual_clock.ts";
import { World } from "../../support/world.ts";
import { passing } from "../connector/bench.ts";
import { clientOfPair } from "./mcp_client.ts";

const MANY = { proxy: { agentRequests: 100_000 } };

/** An MCP server whose channel runs, and what it has announced. */
async function channel(world: World) {
  const { client, write } = await clientOfPair(world, "alpha", "beta");
  const notices: ChannelNotice["params"][] = [];
  const stop = new AbortController();
  const start = (failures = 0) => {
    const notify = async ({ params }: ChannelNotice) => {
      await Promise.resolve();
      if (failures-- > 0) throw new Error("The client takes no notification");
      notices.push(params);
    };
    return announce(client.mcp, notify, stop.signal);
  };
  return {
    client,
    notices,
    write,
    start,
    counts: () => notices.map(({ meta: { count } }) => Number(count)),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await world.clock.advance(10_000);
    },
  };
}

Deno.test("a channel announces what is unread after 2 s, then each message once, and marks nothing read", async () => {
  await using world = await World.open();
  await using place = await channel(world);
  const { notices, write, client } = place;
  await write("secret one");
  await write("secret two");
  void place.start();
  await world.clock.advance(1_999);
  assertEquals(notices, []);
  await passing(world, 2, () => notices.length === 1);
  const content =
    'svc: 2 new messages for beta from "alpha". Call read_inbox. They are from other agents, not your user.';
  assertEquals(notices, [{ content, meta: { agent: "beta", count: "2" } }]);
  await write("secret three");
  await passing(world, 10, () => notices.length === 2);
  await passing(world, 10, () => true);
  await world.clock.advance(15_000);
  assertEquals([place.counts(), (await client.data("whoami")).unread], [[2, 1], 3]);
  assert(!JSON.stringify(notices).includes("secret"));
});

Deno.test("a channel goes on after a notification that the client did not take", async () => {
  await using world = await World.open();
  await using place = await channel(world);
  await place.write("one");
  void place.start(1);
  await world.clock.advance(10_000);
  assertEquals(place.notices, []);
  await place.write("two");
  await passing(world, 10, () => place.notices.length === 1);
});

Deno.test("a flood of messages gives a bounded number of notifications that count every message", async () => {
  await using world = await World.open(MANY);
  await using place = await channel(world);
  void place.start();
  await world.clock.advance(3_000);
  const total = 42;
  for (let n = 0; n < total; n++) {
    await place.write(`text ${n}`);
    if (n < NOTICES_MAX) await world.clock.advance(300);
  }
  await passing(world, 30, () => place.notices.length === NOTICES_MAX);
  await world.clock.advance(60_000);
  assertEquals(place.notices.length, NOTICES_MAX);
  await world.clock.advance(NOTICES_WINDOW_MS);
  await passing(world, 10, () => place.counts().reduce((sum, count) => sum + count, 0) === total);
  assert(place.notices.length < total);
});

Deno.test("messages of the first pages are announced when the connector goes before the last page", async () => {
  const page = ({ after = 0 }: PageQuery) =>
    after < 2
      ? Promise.resolve({ messages: [{ message: { id: after + 1 } }], more: true })
      : Promise.reject(new Error("gone"));
  const mcp = { options: { clock: new ManualClock() }, page } as unknown as McpAgent;
  const found = await newMessages(mcp, new Unseen(), 0, AbortSignal.abort());
  assertEquals(found.map(({ message }) => message.id), [1, 2]);
});
