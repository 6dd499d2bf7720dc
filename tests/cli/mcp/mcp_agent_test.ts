/** What an MCP server may see and take (D-128): `--read-only`, `--peers`, several servers, and one that has ended. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import { until } from "../../support/until.ts";
import { type TestAgent, World, type WorldOptions } from "../../support/world.ts";
import { Bench } from "../connector/bench.ts";
import { McpClient, type McpClientOptions } from "./mcp_client.ts";

/** Beta with a connector, and its peers alpha and gamma. */
async function betaWithPeers(options: WorldOptions = {}) {
  const world = await World.open(options);
  const [a, b, c] = [await world.agent(undefined, "alpha"), await world.agent(undefined, "beta"), await world.agent()];
  await world.pair(a, b);
  const { ticket } = await c.client.pairStart({ agentName: "gamma", humanName: "C" });
  await b.client.pairConfirm(ticket, { agentName: "beta", humanName: "B" });
  const bench = await Bench.open(world, b, { platform: "inbox" });
  await until(() => Object.keys(bench.peers).length === 2);
  const write = async (from: TestAgent, text: string, headers: Record<string, string> = {}) => {
    assertEquals((await world.message(from, b, { body: JSON.stringify({ message: text }), headers })).status, 202);
  };
  const client = (options: McpClientOptions = {}) => McpClient.open(world, bench, options);
  return { world, a, b, c, bench, write, client, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

const textsOf = ({ messages }: { messages: { text: string }[] }) => messages.map(({ text }) => text);

Deno.test("an MCP server that only reads has no tool that sends or pairs, and marks nothing read", async () => {
  await using beta = await betaWithPeers();
  const client = await beta.client({ isReadOnly: true });
  const { tools } = await client.client.listTools();
  const names = ["whoami", "list_peers", "read_inbox", "wait_for_message", "delivery_status"];
  assertEquals(tools.map(({ name }) => name), names);
  for (const { name, description = "" } of tools) assert(!/\btake|returned once/i.test(description), name);
  for (let n = 1; n <= 12; n++) await beta.write(beta.a, `text ${n}`);
  // The newest, since the older ones stay unread.
  assertEquals(textsOf(await client.data("read_inbox", { limit: 2 })), ["text 11", "text 12"]);
  assertEquals(textsOf(await client.data("read_inbox", { id: 1 })), ["text 1"]);
  assertEquals(textsOf(await client.data("wait_for_message")).length, 12);
  const waiting = client.call("wait_for_message");
  await beta.write(beta.a, "text 13");
  assertEquals(textsOf((await client.passing(waiting)).data), ["text 13"]);
  assertEquals([(await client.data("whoami")).unread, client.sent("/read")], [13, []]);
  await beta.write(beta.c, "of gamma");
  await beta.write(beta.a, "text 15");
  assertEquals(textsOf(await client.data("wait_for_message", { from: "alpha" })).at(-1), "text 15");
  assertEquals(textsOf(await client.data("wait_for_message", { from: "gamma" })), ["of gamma"]);
  for (const name of ["send_message", "pair_start"]) {
    const refused = await client.client.callTool({ name, arguments: {} }).then(() => null, (error) => String(error));
    assert(refused?.includes(`Tool ${name} not found`), refused ?? "");
  }
});

Deno.test("an MCP server for some peers knows nothing of the other ones", async () => {
  await using beta = await betaWithPeers();
  const every = await beta.client();
  const client = await beta.client({ only: ["alpha"] });
  const { tools } = await client.client.listTools();
  assertEquals(tools.filter(({ name }) => name.startsWith("pair")), []);
  await beta.write(beta.c, "of gamma");
  await beta.write(beta.a, "of alpha");
  const sent = await every.data("send_message", { to: "gamma", text: "Hello gamma", request_id: "to-gamma-1" });
  assertEquals(sent.state, "queued");

  assertEquals((await client.data("whoami")).unread, 1);
  assertEquals((await client.data("list_peers")).peers.map(({ alias }: { alias: string }) => alias), ["alpha"]);
  assertEquals(textsOf(await client.data("wait_for_message")), ["of alpha"]);
  assertEquals(textsOf(await client.data("read_inbox")), []);
  assertEquals((await client.passing(client.data("wait_for_message", { timeout_seconds: 6 }))).timedOut, true);
  const calls = [
    ["read_inbox", { from: "gamma" }],
    ["read_inbox", { from: beta.c.agent.did }],
    ["read_inbox", { id: 1 }],
    ["wait_for_message", { from: "gamma" }],
    ["send_message", { to: "gamma", text: "x" }],
    ["send_message", { to: beta.c.agent.did, text: "x" }],
    ["send_message", { to: "alpha", text: "x", reply_to: 1 }],
    ["delivery_status", { request_id: "to-gamma-1" }],
    ["delivery_status", { request_id: "to-gamma-1", to: "gamma" }],
  ] as const;
  for (const [name, args] of calls) {
    const text = await client.failure(name, args);
    assert(/^CONNECTOR_(PEER|MESSAGE)_UNKNOWN: /.test(text), text);
    assert(!text.includes(beta.c.agent.did) || JSON.stringify(args).includes(beta.c.agent.did), text);
  }
  assertEquals(textsOf(await every.data("read_inbox")), ["of gamma"]);
  assertEquals(textsOf(await client.data("read_inbox", { unread_only: false })), ["of alpha"]);
});

Deno.test("an MCP server for peers that do not exist shows no message, and waits its time", async () => {
  await using beta = await betaWithPeers();
  const client = await beta.client({ only: ["delta"] });
  await beta.write(beta.a, "of alpha");
  assertEquals((await client.data("whoami")).unread, 0);
  assertEquals(textsOf(await client.data("read_inbox")), []);
  assertEquals((await client.passing(client.data("wait_for_message", { timeout_seconds: 6 }))).timedOut, true);
  await client.failure("send_message", { to: "alpha", text: "x" }, "CONNECTOR_PEER_UNKNOWN");
  assertEquals(client.sent("/v1/inbox"), []);
});

Deno.test("a model that begins with its inbox gets what the server still sends over the new link", async () => {
  await using beta = await betaWithPeers();
  const client = await beta.client({ isLinkNew: true });
  const reading = client.data("read_inbox");
  await beta.world.clock.advance(500);
  for (const text of ["first", "second"]) await beta.write(beta.a, text);
  assertEquals(textsOf(await client.passing(reading)), ["first", "second"]);
  assertEquals((await client.data("read_inbox")).next, "No unread message.");
  // Nor does an inbox seem new for an hour after the clock was set back.
  beta.world.clock.step(-3_600_000);
  const since = beta.world.clock.now();
  await client.passing(client.data("read_inbox"));
  assert(beta.world.clock.now() - since < 3_000);
});

Deno.test("an empty inbox says why messages may be missing", async (t) => {
  const cases = [
    [
      "connection",
      { state: "waiting", problem: "no route" },
      "may wait at the server, to which there is no link: no route.",
    ],
    ["inbox", { problem: "the disk is full" }, "cannot be stored here, which your user must know: the disk is full."],
  ] as const;
  for (const [part, change, why] of cases) {
    await t.step(part, async () => {
      await using beta = await betaWithPeers();
      const { agentName, send } = (await beta.client()).mcp.options.connector;
      const connector: LocalCalls = {
        agentName,
        async send(request) {
          const answer = await send(request), isStatus = request.target === "/v1/status";
          const status = isStatus ? JSON.parse(answer.text) : {};
          return isStatus
            ? { ...answer, text: JSON.stringify({ ...status, [part]: { ...status[part], ...change } }) }
            : answer;
        },
      };
      const client = await beta.client({ connector });
      // At once, because nothing comes before the link is opened again.
      assertEquals((await client.data("read_inbox")).next, `No unread message. New ones ${why}`);
      const waiting = client.data("wait_for_message", { timeout_seconds: 1 });
      assertStringIncludes((await client.passing(waiting)).next, why);
      assertEquals((await client.data("whoami")).problem, change.problem);
    });
  }
});

Deno.test("of 100 messages each is returned by one of two servers", async () => {
  await using beta = await betaWithPeers({ proxy: { agentRequests: 100_000 } });
  const one = await beta.client();
  const two = await beta.client({ era: "2026" });
  for (let n = 0; n < 100; n++) await beta.write(n % 2 === 0 ? beta.a : beta.c, `text ${n}`);
  const readAll = async (client: McpClient, name: string): Promise<string[]> => {
    const texts: string[] = [];
    for (let idle = 0; idle < 3;) {
      const { messages } = await client.data(name, name === "read_inbox" ? { limit: 3 } : { timeout_seconds: 1 });
      texts.push(...textsOf({ messages }));
      idle = messages.length === 0 ? idle + 1 : 0;
    }
    return texts;
  };
  const reading = Promise.all([
    readAll(one, "read_inbox"),
    readAll(two, "read_inbox"),
    readAll(one, "wait_for_message"),
  ]);
  const read = (await one.passing(reading)).flat();
  assertEquals([read.length, new Set(read).size], [100, 100]);
});

Deno.test("twenty calls at the same time get one message once", async () => {
  await using beta = await betaWithPeers();
  const one = await beta.client();
  const two = await beta.client();
  await beta.write(beta.a, "once");
  const calls = Array.from(
    { length: 20 },
    (_, n) => (n % 2 === 0 ? one : two).data("read_inbox", n < 10 ? {} : { id: 1 }),
  );
  const texts = (await Promise.all(calls)).flatMap(textsOf);
  // A call with the ID may come after it was read, and then shows it again.
  assert(texts.length >= 1);
  assertEquals(new Set(texts), new Set(["once"]));
  const byList = (await Promise.all(calls.slice(0, 10))).flatMap(textsOf);
  assert(byList.length <= 1);
});

Deno.test("a message in an answer that never left is unread again when its lease ends, as a possible repeat", async () => {
  await using beta = await betaWithPeers();
  const client = await beta.client();
  await beta.write(beta.a, "held");
  // Leased, and the process ends before its answer.
  assertEquals(await client.mcp.answers.begin(99, new AbortController().signal).hold([1]), [1]);
  const next = await beta.client();
  assertEquals(textsOf(await next.data("read_inbox")), []);
  assertStringIncludes((await next.data("read_inbox", { id: 1 })).next, "Another program reads this message now.");
  const { messages } = await next.passing(next.data("wait_for_message", { timeout_seconds: 40 }));
  assertEquals([messages.length, messages[0].text, messages[0].mayBeRepeat], [1, "held", true]);
  assertEquals(textsOf(await client.data("read_inbox", { unread_only: false })), ["held"]);
});

Deno.test("a reply that another server has read is named and not returned", async () => {
  await using beta = await betaWithPeers();
  const one = await beta.client();
  const two = await beta.client();
  const question = { to: "alpha", text: "?", request_id: "question-1" };
  assertEquals((await one.data("send_message", question)).reply, null);
  await beta.write(beta.a, "the answer", { "x-svc-in-reply-to": "question-1" });
  assertEquals(textsOf(await two.data("read_inbox")), ["the answer"]);
  const { reply, next } = await one.data("send_message", question);
  const read = "The reply is message 1, which has been read already: read_inbox with id shows it.";
  assertEquals([reply, next], [null, read]);
  assertEquals(textsOf(await one.data("read_inbox", { id: 1 })), ["the answer"]);
});

Deno.test("the same request ID is the same message, also from two servers at once", async () => {
  await using beta = await betaWithPeers();
  const socket = beta.world.connect(beta.a);
  await beta.world.connected();
  // A message that may wait is queued behind a mailbox that is still looked through.
  await until(() => beta.world.proxy.deps.mailboxDelivery.inProgress(beta.a.agent.did, beta.b.agent.did) === undefined);
  const one = await beta.client();
  const two = await beta.client();
  const message = { to: "alpha", text: "once", request_id: "request-1" };
  const both = await Promise.all([one.data("send_message", message), two.data("send_message", message)]);
  assertEquals(both.map(({ requestId }) => requestId), ["request-1", "request-1"]);
  await one.data("send_message", message);
  assertEquals(new Set(socket.delivered.map(({ requestId }) => requestId)), new Set(["request-1"]));
  assertEquals((await one.data("delivery_status", { request_id: "request-1" })).state, "delivered");
});

Deno.test("a peer with a long alias is named by its DID, and passes for no peer with a shorter one", async () => {
  await using world = await World.open();
  const a = await world.agent(), c = await world.agent(), b = await world.agent(undefined, "beta");
  for (const [agent, agentName] of [[a, "x".repeat(32)], [c, "x".repeat(64)]] as const) {
    const { ticket } = await agent.client.pairStart({ agentName, humanName: "A" });
    await b.client.pairConfirm(ticket, { agentName: "beta", humanName: "B" });
  }
  const bench = await Bench.open(world, b, { platform: "inbox" });
  await until(() => Object.keys(bench.peers).length === 2);
  const short = "x".repeat(32), { did } = c.agent;
  const client = await McpClient.open(world, bench);
  const { peers } = await client.data("list_peers");
  assertEquals(new Set(peers.map(({ alias }: { alias: string }) => alias)), new Set([short, did]));
  await world.message(c, b, { body: JSON.stringify({ message: "Hi" }) });
  const { messages: [message] } = await client.data("wait_for_message");
  assertEquals([message.from.alias, message.from.agentDid], [null, did]);
  const sent = await client.data("send_message", { to: did, text: "Hello" });
  assertEquals([sent.state, sent.to], ["queued", did]);
});
