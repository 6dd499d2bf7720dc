/**
 * The client library with real processes: one program in Deno and, in the long run, in Node, a proxy that restarts, a connector that is
 * killed, and another program on the port of a killed connector.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Place } from "../cli/place.ts";
import { RunningConnector, svcHere } from "../cli/connector/people.ts";
import type { AgentEventName } from "../../shared/client/agent_api.ts";
import { LocalAgent } from "../../shared/client/local_agent.ts";
import { SvcError } from "../../shared/client/svc_error.ts";
import { bundledProgram } from "../cli/program.ts";
import { inDeno, inNode, installedClient } from "../support/client_package.ts";
import { type ChildProcess, eventually, tempFolder, within } from "../support/process.ts";
import { IS_LONG, longTest } from "../support/trials.ts";

const program = await bundledProgram();
// The package is built and installed in the long run only: it takes longer than every test here.
const client = IS_LONG ? await installedClient() : null;
globalThis.addEventListener("unload", () => client && Deno.removeSync(client.path, { recursive: true }));

/** Starts a program of client_programs/. */
type Start = (program: string, ...args: string[]) => ChildProcess | Promise<ChildProcess>;
const RUNTIMES: [name: string, start: Start][] = [["Deno", (program, ...args) => inDeno(program, args)]];
if (client !== null) RUNTIMES.push(["Node", (program, ...args) => inNode(client, program, args)]);

/** Creates the agents alpha and beta in a configuration directory. Returns their DIDs. */
async function agentsIn(dir: string, place: Place, proxyUrl: string): Promise<{ alpha: string; beta: string }> {
  const env = { SVC_API_KEY: place.apiKey, SVC_REGISTRY_URL: place.url };
  for (const [member, url] of [["registryUrl", place.url], ["proxyUrl", proxyUrl]] as const) {
    await svcHere(dir, ["config", "set", member, url]);
  }
  for (const name of ["alpha", "beta"]) await svcHere(dir, ["agent", "create", name], env);
  const didOf = (name: string) =>
    JSON.parse(Deno.readTextFileSync(`${dir}/agents/${name}/identity.json`)).did as string;
  return { alpha: didOf("alpha"), beta: didOf("beta") };
}

/** Starts the connectors of both agents, for programs that read their messages. */
async function connectorsOf(
  dir: string,
): Promise<{ alpha: RunningConnector; beta: RunningConnector } & AsyncDisposable> {
  const start = (name: string) => RunningConnector.start(dir, name, ["--inbox"], { program });
  const stack = new AsyncDisposableStack();
  const [alpha, beta] = [stack.use(await start("alpha")), stack.use(await start("beta"))];
  return { alpha, beta, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** The lines of JSON that a program printed. */
function lines(child: ChildProcess): Record<string, unknown>[] {
  return child.stdout.text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
}

async function endsWell(child: ChildProcess): Promise<Record<string, unknown>[]> {
  const { code } = await child.status;
  assertEquals([code, child.stderr.text], [0, ""], child.printed);
  return lines(child);
}

for (const [runtime, start] of RUNTIMES) {
  Deno.test(`a program asks, answers, reads a receipt, pairs and unpairs in ${runtime}`, async () => {
    await using place = await Place.open({}, true);
    await using folder = await tempFolder();
    await agentsIn(folder.path, place, place.server.address);
    await using _connectors = await connectorsOf(folder.path);
    await using child = await start("story.mjs", folder.path);
    const { payload, ...rest } = (await endsWell(child))[0] ?? {};
    assertStringIncludes((payload as { message: string }).message, "You said: hello");
    assertEquals(rest, {
      peer: true,
      peers: [[true, "beta"]],
      answered: "delivered",
      late: "NO_REPLY",
      refused: ["PROXY_AUTH_FORBIDDEN", 403],
      receipts: ["processed_by_svc"],
      from: true,
      text: "You said: hello",
      isReply: true,
      auto: true,
      conversationId: "c-1",
      verified: "end-to-end",
    });
  });
}

/** Pairs two agents of a folder. A message before alpha has pinned the key of beta would be refused, because it is not sealed. */
async function pair(dir: string, { alpha, beta }: { alpha: RunningConnector; beta: RunningConnector }): Promise<void> {
  const { ticket } = await alpha.json("POST", "/v1/pair/start", {});
  await beta.json("POST", "/v1/pair/confirm", { ticket });
  const isPinned = () =>
    Deno.readTextFile(`${dir}/agents/alpha/peers.json`).then(
      (text) => text.includes('"ticket"') || undefined,
      () => undefined,
    );
  await eventually(60_000, "alpha has pinned beta", isPinned);
}

longTest("programs work again within 30 s after a restart of the proxy", async () => {
  await using place = await Place.open({}, true);
  await using folder = await tempFolder();
  const dids = await agentsIn(folder.path, place, place.server.address);
  await using connectors = await connectorsOf(folder.path);
  await pair(folder.path, connectors);
  const [, start] = RUNTIMES.at(-1)!;
  await using alpha = await start("steady.mjs", folder.path, "alpha", dids.beta);
  await using beta = await start("steady.mjs", folder.path, "beta", dids.alpha);
  const programs = [alpha, beta];
  const areAnswered = (after: number) => {
    const isAnswered = (child: ChildProcess) => lines(child).some(({ ok, at }) => ok === true && Number(at) > after);
    return programs.every(isAnswered) || undefined;
  };
  await eventually(30_000, "both ask and answer", () => areAnswered(0));
  await place.restart();
  const back = Date.now();
  await eventually(30_000, "both work again", () => areAnswered(back));
  for (const child of programs) child.signal("SIGTERM");
  for (const child of programs) assertEquals((await child.status).code, 0, child.printed);
});

longTest("a question of LocalAgent gets its reply when its connector is killed and started again", async () => {
  await using place = await Place.open({}, true);
  await using folder = await tempFolder();
  const dir = folder.path;
  const dids = await agentsIn(dir, place, place.server.address);
  await using connectors = await connectorsOf(dir);
  const { alpha: connector, beta: betaConnector } = connectors;
  await pair(dir, connectors);
  await using alpha = await LocalAgent.open({ name: "alpha", configDir: dir });
  await using beta = await LocalAgent.open({ name: "beta", configDir: dir });
  const { promise, resolve } = Promise.withResolvers<void>();
  beta.onMessage(async ({ text }) => {
    await promise;
    return `You said: ${text}`;
  });
  const asking = alpha.ask(dids.beta, "hello", { timeoutMs: 60_000 });
  await eventually(20_000, "beta has the question", async () => {
    const { messages } = await betaConnector.json("GET", "/v1/inbox");
    return messages.length > 0 || undefined;
  });
  await connector.child.end("SIGKILL");
  await using again = await RunningConnector.start(dir, "alpha", ["--inbox"], { program });
  resolve();
  assertEquals((await asking).text, "You said: hello");
  const { messages } = await again.json("GET", "/v1/inbox");
  assertEquals(messages, [], "the reply is read, and there is one only");
});

Deno.test("LocalAgent sends nothing to a program that listens on the port of a connector that was killed", async () => {
  await using place = await Place.open({}, true);
  await using folder = await tempFolder();
  const { beta } = await agentsIn(folder.path, place, place.server.address);
  const connector = await RunningConnector.start(folder.path, "alpha", ["--inbox"], { program });
  await using agent = await LocalAgent.open({ name: "alpha", configDir: folder.path });
  const next = (event: AgentEventName) =>
    within(20_000, `the event ${event}`, new Promise((resolve) => agent.on(event, resolve)));
  const connected = next("connected");
  agent.onMessage(() => {});
  await connected;
  const disconnected = next("disconnected");
  await connector.child.end("SIGKILL");
  // A call that looked for the connector before its end would reach any program that has the port by then.
  await disconnected;
  let connections = 0;
  using listener = Deno.listen({ hostname: "127.0.0.1", port: Number(new URL(connector.file.url).port) });
  void (async () => {
    for await (const connection of listener) {
      connections++;
      connection.close();
    }
  })();
  // The agent's own look for messages and this question try again several times meanwhile.
  const error = await assertRejects(() => agent.ask(beta, "hello", { timeoutMs: 4_000 }), SvcError);
  assertEquals([error.code, connections], ["CONNECTOR_DOWN", 0]);
});
