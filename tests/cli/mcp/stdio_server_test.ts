/** Standard input and output of an MCP server: lines of the protocol, bounds, and its end. */
import { PassThrough, Writable } from "node:stream";
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { anyText, jsonText } from "../../shared/protocol/arbitraries.ts";
import { REQUEST_BYTES_MAX, serveMcpAgent } from "../../../cli/mcp/stdio_server.ts";
import { flushTasks } from "../../support/manual_clock.ts";
import { until } from "../../support/until.ts";
import { World } from "../../support/world.ts";
import { passing } from "../connector/bench.ts";
import { clientOfPair } from "./mcp_client.ts";

// deno-lint-ignore no-explicit-any
type Message = any;

/** A server on streams of the test, whose lines the test writes. */
async function onStreams({ isChannel = false, output = new PassThrough() as Writable, isStopped = false } = {}) {
  const world = await World.open();
  const { client: { mcp, close }, bench, write } = await clientOfPair(world, "alpha", "beta");
  const input = new PassThrough();
  const problems: string[] = [];
  const stop = new AbortController();
  if (isStopped) stop.abort();
  let text = "";
  output.on("data", (chunk) => text += chunk);
  let isOver = false;
  const ended = serveMcpAgent(mcp, {
    version: "0",
    isChannel,
    report: ({ message }) => void problems.push(message),
    signal: stop.signal,
    streams: { input, output },
  }).then(() => isOver = true);
  let id = 0;
  return {
    world,
    mcp,
    input,
    stop,
    ended,
    problems,
    isOver: () => isOver,
    message: () => write("a secret text"),
    /** The message, while it is unread. */
    unread: () => bench.connector.store.received.list({ unread: true, limit: 1 }).messages[0],
    messages: (): Message[] => text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line)),
    async request(method: string, params: Record<string, unknown> = {}): Promise<Message> {
      const own = ++id;
      input.write(`${JSON.stringify({ jsonrpc: "2.0", id: own, method, params })}\n`);
      await until(() => this.messages().some((message) => message.id === own));
      return this.messages().find((message) => message.id === own);
    },
    async initialize() {
      const clientInfo = { name: "program", version: "1" };
      return await this.request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await ended;
      await world.clock.advance(10_000);
      await close();
      await world[Symbol.asyncDispose]();
    },
  };
}

Deno.test("a line that is not a message is reported and answered by no tool", async () => {
  await using server = await onStreams();
  server.input.write('not JSON\n\n{"jsonrpc":"1.0"}\n{"jsonrpc":"2.0","method":"notifications/unknown"}\n');
  assertEquals((await server.initialize()).result.serverInfo, { name: "svc", version: "0" });
  assertEquals(server.messages().length, 1);
  assert(server.problems.length > 0);
  const unknown = await server.request("tools/call", { name: "run_shell", arguments: {} });
  assertEquals([unknown.error?.code, unknown.error?.message], [-32602, "Tool run_shell not found"]);
  assertEquals((await server.request("resources/list")).error.code, -32601);
});

Deno.test("after any lines of a client, of any JSON or none, a server answers the next request", async () => {
  await using server = await onStreams();
  const text = fc.oneof(anyText, jsonText).map((text) => text.replaceAll(/[\r\n]/g, " "));
  const call = jsonText.map((id) =>
    `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":${id.replaceAll("\n", " ")}}`
  );
  const lines = fc.sample(fc.oneof(text, call), { numRuns: 200, seed: 7 });
  server.input.write(
    `${lines.join("\n")}\n{"jsonrpc":"2.0","id":1e400,"method":${"[".repeat(50_000)}${"]".repeat(50_000)}}\n`,
  );
  assertEquals((await server.initialize()).result.serverInfo.name, "svc");
  assertEquals(server.isOver(), false);
  for (const { id, result, error } of server.messages()) {
    assert(id === 1 || error !== undefined || result?.isError, JSON.stringify(result));
  }
});

Deno.test("a message of the client over its bound ends the connection", async () => {
  await using server = await onStreams();
  await server.initialize();
  server.input.write("x".repeat(REQUEST_BYTES_MAX + 1));
  await server.ended;
  assertEquals([server.messages().length, server.problems.length > 0], [1, true]);
});

Deno.test("a server ends with its input and with its signal", async () => {
  {
    await using server = await onStreams();
    await server.initialize();
    assertEquals(server.isOver(), false);
    server.input.end();
    await server.ended;
  }
  {
    await using server = await onStreams();
    server.stop.abort();
    await server.ended;
  }
  await using stopped = await onStreams({ isStopped: true });
  await until(() => stopped.isOver());
});

Deno.test("a server ends after what it has answered is marked, and after 1 s in any case", async () => {
  for (const isMarked of [true, false]) {
    await using server = await onStreams();
    await server.initialize();
    await server.message();
    const marked = Promise.withResolvers<void>(), { connector } = server.mcp.options, { send } = connector;
    let isMarking = false;
    connector.send = async (request) => {
      const isMark = request.body?.includes("leaseId") && !request.body.includes('"lease"');
      isMarking ||= isMark === true;
      if (isMark) await marked.promise;
      return await send.call(connector, request);
    };
    await server.request("tools/call", { name: "read_inbox", arguments: {} });
    await until(() => isMarking);
    server.input.end();
    await until(() => server.input.destroyed);
    await flushTasks();
    assertEquals(server.isOver(), false);
    if (isMarked) marked.resolve();
    else await server.world.clock.advance(1_000);
    await server.ended;
    assertEquals(server.unread() === undefined, isMarked);
    marked.resolve();
  }
});

Deno.test("a channel announces once, also for a client that initializes twice, and refuses a later revision", async () => {
  await using server = await onStreams({ isChannel: true });
  const meta = { "io.modelcontextprotocol/protocolVersion": "2026-07-28" };
  assertEquals((await server.request("server/discover", { _meta: meta })).error.code, -32601);
  assertEquals((await server.initialize()).result.capabilities.experimental, { "claude/channel": {} });
  for (let n = 0; n < 2; n++) server.input.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  await server.message();
  const notices = () => server.messages().filter(({ method }) => method === "notifications/claude/channel");
  await passing(server.world, 10, () => notices().length > 0);
  await server.world.clock.advance(15_000);
  assertEquals(notices().map(({ params }) => params.meta.count), ["1"]);
  assert(!JSON.stringify(notices()).includes("secret"));
});

/** Reads the only message, with a stream in place of standard output, until `isOver` holds. */
async function readingOnto(output: Writable, isOver: (server: Server) => boolean) {
  await using server = await onStreams({ output });
  await server.message();
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "p", version: "1" } };
  const write = (message: object) => server.input.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  write({ id: 1, method: "initialize", params });
  write({ id: 2, method: "tools/call", params: { name: "read_inbox", arguments: {} } });
  await until(() => isOver(server));
  const message = server.unread();
  return message === undefined ? "read" : message.mayBeRepeat ? "held" : "unread";
}
type Server = Awaited<ReturnType<typeof onStreams>>;

Deno.test("a message is read once its answer was written, and not while the output takes nothing", async () => {
  let isHolding = false;
  const release = Promise.withResolvers<void>();
  const slow = new Writable({
    async write(chunk, _encoding, done) {
      isHolding ||= String(chunk).includes("secret");
      if (isHolding) await release.promise;
      done();
    },
  });
  assertEquals(await readingOnto(slow, (server) => isHolding && server.unread()?.mayBeRepeat === true), "held");
  release.resolve();
  const quick = new Writable({ write: (_chunk, _encoding, done) => done() });
  assertEquals(await readingOnto(quick, (server) => server.unread() === undefined), "read");
});

Deno.test("a message whose answer cannot be written is unread again, and no repeat", async () => {
  let hasFailed = false;
  const broken = new Writable({
    write(chunk, _encoding, done) {
      if (!String(chunk).includes("secret")) return done();
      hasFailed = true;
      done(new Error("EPIPE"));
    },
  });
  assertEquals(await readingOnto(broken, (server) => hasFailed && server.unread()?.mayBeRepeat === false), "unread");
});
