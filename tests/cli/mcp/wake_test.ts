/** Waking the model of the program that runs `svc mcp`: when, how often, and by which way. */
import { assert, assertEquals } from "@std/assert";
import { CONNECTOR_LIMITS as LIMIT } from "../../../cli/connector/limits.ts";
import { claudeInbox, codexQueue, codexThread, type Wake, wakeModel } from "../../../cli/mcp/wake.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { World } from "../../support/world.ts";
import { passing } from "../connector/bench.ts";
import { clientOfPair } from "./mcp_client.ts";

/** Alpha with its MCP server, and what its model was told. */
async function desk(way?: () => Wake | null) {
  const world = await World.open();
  const { client, bench, write } = await clientOfPair(world, "beta", "alpha");
  const lines: string[] = [];
  const stop = new AbortController();
  const say: Wake = (line) => Promise.resolve(lines.push(line) > 0);
  const waking = wakeModel(client.mcp, way ?? (() => say), stop.signal);
  return {
    world,
    lines,
    client,
    bench,
    write,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await world.clock.advance(10_000);
      await waking;
      await world[Symbol.asyncDispose]();
    },
  };
}

const line = (what: string, who: string) =>
  `svc: ${what} for alpha from "beta". Call read_inbox. ${who}, not your user.`;

Deno.test("each message wakes once, without a byte of its text, and none is marked read", async () => {
  await using at = await desk();
  await at.write("secret one");
  await at.write("secret two");
  await passing(at.world, 20, () => at.lines.length === 1);
  await at.write("secret three");
  await passing(at.world, 20, () => at.lines.length === 2);
  await at.world.clock.advance(20_000);
  await flushTasks();
  assertEquals(at.lines, [
    line("2 new messages", "They are from other agents"),
    line("1 new message", "It is from another agent"),
  ]);
  assertEquals(at.bench.connector.store.received.counts().waiting, 3);
});

Deno.test("a message that the model takes at once does not wake it", async () => {
  await using at = await desk();
  await at.write("expected");
  await at.world.clock.advance(1_000);
  const { messages } = await at.client.passing(at.client.data("read_inbox"), 50);
  assertEquals(messages.length, 1);
  for (let n = 0; n < 10; n++) await at.world.clock.advance(1_000);
  assertEquals(at.lines, []);
});

Deno.test("a message still wakes when the connector is away as it is looked for again", async () => {
  await using at = await desk();
  const { mcp } = at.client, { page } = mcp;
  let failed = 0;
  // The look for what is unread still begins before the message that was found.
  mcp.page = async (query) => {
    const isLook = query.after === 0 && query.wait === 0;
    if (isLook && failed++ === 0) throw new Error("gone");
    return await page.call(mcp, query);
  };
  await at.write("one");
  await passing(at.world, 30, () => at.lines.length === 1);
  assertEquals([at.lines, failed > 1], [[line("1 new message", "It is from another agent")], true]);
});

Deno.test("a message that another program took and gives back wakes, also when a later one has been announced", async () => {
  await using at = await desk();
  await at.write("first");
  const { received } = at.bench.connector.store;
  const [{ seq } = { seq: 0 }] = received.list({ unread: true, limit: 1 }).messages;
  received.lease([seq], { id: "other", until: at.world.clock.now() + 20_000 }, at.world.clock.now());
  await at.write("second");
  await passing(at.world, 20, () => at.lines.length === 1);
  received.release([seq], "other");
  await passing(at.world, 20, () => at.lines.length === 2);
  assertEquals(at.lines, [1, 2].map(() => line("1 new message", "It is from another agent")));
});

Deno.test("six wake-ups in ten minutes, then one for all messages that came meanwhile", async () => {
  await using at = await desk();
  for (let n = 1; n <= LIMIT.hookWakeUps; n++) {
    await at.write(`message ${n}`);
    await passing(at.world, 20, () => at.lines.length === n);
  }
  for (let n = 0; n < 3; n++) await at.write(`later ${n}`);
  for (let n = 0; n < 8; n++) await at.world.clock.advance(60_000);
  assertEquals(at.lines.length, LIMIT.hookWakeUps);
  for (let n = 0; n < 4 && at.lines.length === LIMIT.hookWakeUps; n++) await at.world.clock.advance(60_000);
  await passing(at.world, 20, () => at.lines.length === LIMIT.hookWakeUps + 1);
  assertEquals(at.lines.at(-1), line("3 new messages", "They are from other agents"));
});

Deno.test("a wake-up that fails is tried again, and one without a way waits for it", async () => {
  const lines: string[] = [];
  let way: Wake | null = null, fails = 1;
  await using at = await desk(() => way);
  await at.write("hello");
  await at.world.clock.advance(30_000);
  assertEquals(lines, []);
  way = (text) => Promise.resolve(fails-- <= 0 && lines.push(text) > 0);
  await passing(at.world, 60, () => lines.length === 1);
  assertEquals(lines, [line("1 new message", "It is from another agent")]);
});

Deno.test("the inbox of Claude Code gets the token and then the line, as its own messages are written", async () => {
  const written: [string, string][] = [];
  const variables: Record<string, string> = {
    CLAUDE_CODE_MESSAGING_SOCKET: "/tmp/cc-socks/1.sock",
    CLAUDE_CODE_MESSAGING_TOKEN: "token-1",
  };
  const system = (os: typeof Deno.build.os = "linux", fails = false) => ({
    env: (name: string) => variables[name],
    os,
    writeSocket: (path: string, text: string) => {
      if (fails) return Promise.reject(new Error("gone"));
      written.push([path, text]);
      return Promise.resolve();
    },
  });
  assertEquals(await claudeInbox(system())?.('svc: "x"\n'), true);
  const [[path, text] = ["", ""]] = written;
  assertEquals([path, text.split("\n").slice(0, -1).map((one) => JSON.parse(one))], ["/tmp/cc-socks/1.sock", [
    { type: "auth", token: "token-1" },
    { type: "user", message: { role: "user", content: 'svc: "x"\n' } },
  ]]);
  assertEquals(await claudeInbox(system("linux", true))?.("x"), false);
  assertEquals(claudeInbox(system("windows")), null);
  assertEquals(claudeInbox({ ...system(), env: () => undefined }), null);
});

Deno.test("the thread of Codex is taken from a call, and its queue gets the line as one argument", async () => {
  const thread = "01a20849-313c-72a0-b970-9803e55c9587";
  assertEquals(codexThread({ threadId: thread, progressToken: 1 }), thread);
  for (const threadId of [undefined, 1, "", "--remote", `${thread} --remote`, thread.toUpperCase()]) {
    assertEquals(codexThread({ threadId }), null);
  }
  const ran: string[][] = [];
  const run = (code: number | null) => (program: string, args: string[]) => {
    ran.push([program, ...args]);
    return Promise.resolve(code);
  };
  assertEquals(await codexQueue(thread, run(0))("the line; $(x)"), true);
  assertEquals(await codexQueue(thread, run(1))("the line"), false);
  assertEquals(await codexQueue(thread, run(null))("the line"), false);
  // Without a home directory no program can be run.
  assertEquals(await codexQueue(thread, () => Promise.reject(new Error("No home")))("the line"), false);
  assertEquals(ran[0], ["codex", "queue", "--thread", thread, "--message", "the line; $(x)"]);
});

Deno.test("a server remembers the thread of the last call", async () => {
  await using at = await desk();
  const thread = "01a20849-313c-72a0-b970-9803e55c9587";
  await at.client.client.callTool({ name: "whoami", arguments: {}, _meta: { threadId: thread } });
  await at.client.client.callTool({ name: "whoami", arguments: {} });
  assertEquals(at.client.mcp.codexThread, thread);
  assert(at.lines.length === 0);
});
