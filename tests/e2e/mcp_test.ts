/**
 * `svc mcp` as hosts run it: real processes and pipes, the real client in both kinds of protocol revisions. Two people
 * with a folder each; an agent asks with a tool, and the answer of the other one is the result of that call.
 */
import { knowEachOther } from "../support/known_peer.ts";
import { assert, assertEquals, assertNotEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { type Era, negotiationOf } from "../cli/mcp/mcp_client.ts";
import { clientFromFiles, createAgents, svcHere } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { childCommand } from "../support/child_command.ts";
import { ProcessOutput } from "../support/process_output.ts";
import { eventually, Service, SOON_MS, tempFolder, within } from "../support/process.ts";

const program = await bundledProgram();
const CALL_MS = 60_000;

// deno-lint-ignore no-explicit-any
type Data = any;

/** An MCP server of `svc mcp` with its client. */
class McpServerProcess implements AsyncDisposable {
  private constructor(readonly client: Client, readonly transport: StdioClientTransport) {}

  static async open(dir: string, agent: string, era: Era, ...options: string[]): Promise<McpServerProcess> {
    const transport = new StdioClientTransport({
      command: program.command,
      args: [...program.args, "mcp", agent, "--config-dir", dir, ...options],
      env: { HOME: dir, NO_COLOR: "1" },
      stderr: "pipe",
    });
    const client = new Client({ name: "program", version: "1" }, { versionNegotiation: negotiationOf(era) });
    await client.connect(transport);
    return new McpServerProcess(client, transport);
  }

  async call(name: string, args: Record<string, unknown> = {}): Promise<Data> {
    const call = this.client.callTool({ name, arguments: args }, { timeout: CALL_MS });
    const { content, isError, structuredContent } = await call;
    if (isError) throw new Error(`${name}: ${JSON.stringify(content)}`);
    return structuredContent;
  }

  /** Kills the process, as a crash does. */
  async kill(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.client.onclose = resolve);
    Deno.kill(this.transport.pid ?? 0, "SIGKILL");
    await within(SOON_MS, "the process ends", closed);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
  }
}

/** An MCP server whose lines a test writes and reads itself. */
class RawServer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly stdout: ProcessOutput;
  readonly stderr: ProcessOutput;
  #id = 0;

  constructor(dir: string, agent: string, ...options: string[]) {
    const args = [...program.args, "mcp", agent, "--config-dir", dir, ...options];
    this.#child = childCommand(args, {}, { command: program.command, stdin: "piped" }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.stdout = new ProcessOutput(this.#child.stdout);
    this.stderr = new ProcessOutput(this.#child.stderr);
  }

  async line(text: string): Promise<void> {
    await this.#input.write(new TextEncoder().encode(`${text}\n`));
  }

  /** Sends a request; returns its response. */
  async request(method: string, params: Record<string, unknown> = {}): Promise<Data> {
    const id = ++this.#id;
    await this.line(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return await eventually(CALL_MS, `${method} is answered`, () => this.messages.find((message) => message.id === id));
  }

  async initialize(): Promise<Data> {
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "program", version: "1" } };
    const response = await this.request("initialize", params);
    await this.line(JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" }));
    return response.result;
  }

  /** Everything on standard output: complete lines of JSON-RPC. */
  get messages(): Data[] {
    const lines = this.stdout.text.split("\n").slice(0, -1);
    const messages = lines.map((line) => JSON.parse(line));
    for (const { jsonrpc } of messages) assertEquals(jsonrpc, "2.0");
    return messages;
  }

  /** Ends standard input, or sends a signal; returns the exit code. */
  async end(signal?: Deno.Signal): Promise<number> {
    if (signal === undefined) await this.#input.close();
    else this.#child.kill(signal);
    const { code } = await within(SOON_MS, "svc mcp ends", this.#child.status);
    await Promise.all([this.stdout.ended, this.stderr.ended]);
    return code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    await this.#child.status;
    await Promise.all([this.stdout.ended, this.stderr.ended]);
  }
}

/** A folder with one agent of a person of its own. */
async function person(service: Service, agent: string) {
  const folder = await tempFolder();
  await createAgents(folder.path, service, [agent]);
  return {
    dir: folder.path,
    client: await clientFromFiles(folder.path, agent, service.url),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

/** Two people with a paired agent each. */
async function pairOfPeople(service: Service) {
  await using stack = new AsyncDisposableStack();
  const one = stack.use(await person(service, "alpha")), other = stack.use(await person(service, "beta"));
  const { ticket } = await one.client.pairStart({ agentName: "alpha", humanName: "Ada" });
  await other.client.pairConfirm(ticket, { agentName: "beta", humanName: "Bob" });
  await knowEachOther({ dir: one.dir, name: "alpha", humanName: "Ada" }, {
    dir: other.dir,
    name: "beta",
    humanName: "Bob",
  });
  const all = stack.move();
  return { one: one.dir, other: other.dir, [Symbol.asyncDispose]: () => all[Symbol.asyncDispose]() };
}

/** Waits until the agent's connector has written the aliases of its peers. */
function aliasesOf(dir: string, agent: string): Promise<true> {
  const find = () => Deno.stat(`${dir}/agents/${agent}/peers.json`).then(() => true as const, () => undefined);
  return eventually(SOON_MS, "the aliases are written", find);
}

Deno.test("an agent asks with a tool, and the answer of the other person's agent is the result of the call", async (t) => {
  await using service = await Service.here();
  await using people = await pairOfPeople(service);
  await using alpha = await McpServerProcess.open(people.one, "alpha", "2025");
  await using beta = await McpServerProcess.open(people.other, "beta", "2026");
  await Promise.all([aliasesOf(people.one, "alpha"), aliasesOf(people.other, "beta")]);

  const ask = async (asker: McpServerProcess, answerer: McpServerProcess, text: string) => {
    const asking = asker.call("send_message", { to: "beta", text, wait_seconds: 45 });
    const { messages } = await answerer.call("wait_for_message", { timeout_seconds: 45 });
    const [{ id, from, text: asked }] = messages;
    assertEquals([messages.length, asked, from.alias], [1, text, "alpha"]);
    await answerer.call("send_message", { to: "alpha", text: `${text}: 4711`, reply_to: id });
    const { state, reply } = await asking;
    assertEquals([state, reply?.text, reply?.isReply], ["processed", `${text}: 4711`, true]);
  };
  await t.step("with one server each", () => ask(alpha, beta, "Which port?"));

  await t.step("a second server uses the connector of the first, and goes on when that is killed", async () => {
    await using second = await McpServerProcess.open(people.other, "beta", "2025");
    await second.call("whoami");
    const { port } = JSON.parse(await Deno.readTextFile(`${people.other}/agents/beta/connector.json`));
    await beta.kill();
    // So the next connector has another address, and the file of the killed one still names this one.
    using _other = Deno.listen({ hostname: "127.0.0.1", port });
    const byHand = await assertRejects(() => second.call("pair_start"));
    const [, shown] = /127\.0\.0\.1:(\d+)\/v1\/pair\/start/.exec(String(byHand)) ?? [];
    const now = JSON.parse(await Deno.readTextFile(`${people.other}/agents/beta/connector.json`));
    assertNotEquals(shown, String(port));
    assertEquals(shown, String(now.port));
    await ask(alpha, second, "And now?");
    assertEquals((await second.call("read_inbox", { unread_only: false })).messages.length, 2);
  });
});

Deno.test("standard output has lines of the protocol only, and the end of standard input ends the server", async (t) => {
  await using service = await Service.here();
  await using people = await pairOfPeople(service);
  await using server = new RawServer(people.one, "alpha", "--peers", "delta,beta");
  const { protocolVersion, serverInfo } = await server.initialize();
  assertEquals([protocolVersion, serverInfo.name], ["2025-11-25", "svc"]);
  const { tools } = (await server.request("tools/list")).result;
  assertEquals(tools.length, 6);
  await aliasesOf(people.one, "alpha");
  const call = async (name: string, args = {}) =>
    (await server.request("tools/call", { name, arguments: args })).result;
  assertEquals((await call("whoami")).structuredContent.name, "alpha");
  await server.line("this is not JSON");

  await t.step("also without a proxy", async () => {
    await service.stopHere();
    const kept = await call("send_message", { to: "beta", text: "Hello", request_id: "request-1" });
    assertEquals(kept.structuredContent?.state, "kept", JSON.stringify(kept));
    assertEquals((await call("read_inbox")).structuredContent.messages, []);
  });
  assertEquals(await server.end(), 0);
  assert(server.messages.length >= 5);
  assert(server.stderr.text.includes("no peer with the alias delta"), server.stderr.text);
});

Deno.test("a host that shows no questions gets one command to paste, and it pairs while svc mcp runs the connector", async () => {
  await using service = await Service.here();
  await using one = await person(service, "alpha");
  await using other = await person(service, "beta");
  await using server = new RawServer(one.dir, "alpha");
  await server.initialize();
  const call = async (name: string, args = {}) =>
    (await server.request("tools/call", { name, arguments: args })).result;
  const paste = async (name: string, args = {}) => {
    const { isError, content: [{ text }] } = await call(name, args);
    const [, command] = /: (curl -K .*)$/.exec(text) ?? [];
    assert(isError && command !== undefined, text);
    const { stdout } = await new Deno.Command("sh", { args: ["-c", command] }).output();
    return JSON.parse(new TextDecoder().decode(stdout)) as Data;
  };
  assert((await call("list_peers")).structuredContent.next.startsWith("No peer yet. pair_start makes a ticket"));
  const { ticket } = await paste("pair_start");
  await other.client.pairConfirm(ticket, { agentName: "beta", humanName: "Bob" });
  await eventually(CALL_MS, "the peer is listed", async () => {
    const { peers } = (await call("list_peers")).structuredContent;
    return peers.length === 1 ? true : undefined;
  });
  const { ticket: given } = await other.client.pairStart({ agentName: "beta", humanName: "Bob" });
  assertEquals(typeof (await paste("pair_confirm", { ticket: given })).initiatorAgentDid, "string");
});

Deno.test("a command that a model passes on to its user names the folder of the agent", async () => {
  await using service = await Service.here();
  await using one = await person(service, "alpha");
  await Deno.remove(`${one.dir}/agents/alpha/ait.jwt`);
  await using server = new RawServer(one.dir, "alpha");
  await server.initialize();
  const { content: [{ text }] } = (await server.request("tools/call", { name: "whoami", arguments: {} })).result;
  assertStringIncludes(text, "This is for your user, not for you: ");
  assertStringIncludes(text, `run svc --config-dir ${one.dir} agent reissue alpha.`);
});

Deno.test("the tools of an agent that is deleted and made again name the new one", async () => {
  await using service = await Service.here();
  await using one = await person(service, "alpha");
  await using server = new RawServer(one.dir, "alpha");
  await server.initialize();
  const whoami = async () => (await server.request("tools/call", { name: "whoami", arguments: {} })).result;
  const before = (await whoami()).structuredContent.agentDid;
  const account = { SVC_API_KEY: service.apiKey };
  await svcHere(one.dir, ["agent", "delete", "alpha", "--yes"], account);
  await eventually(CALL_MS, "the agent is gone", async () => {
    const { isError, content: [{ text }] } = await whoami();
    return isError && text.startsWith("CLI_AGENT_UNKNOWN: ") ? true : undefined;
  });
  await svcHere(one.dir, ["agent", "create", "alpha"], account);
  const { did } = JSON.parse(await Deno.readTextFile(`${one.dir}/agents/alpha/identity.json`));
  assertNotEquals(did, before);
  await eventually(CALL_MS, "the new agent answers", async () => (await whoami()).isError ? undefined : true);
  assertEquals((await whoami()).structuredContent.agentDid, did);
});
