/**
 * The client library with real processes (D-125): one program with each class in Deno and in Node, a proxy that restarts,
 * access tokens that expire, kills during a refresh, and an agent that has a connector.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Place } from "../cli/place.ts";
import { RunningConnector, svc } from "../cli/connector/people.ts";
import { AgentDirectory } from "../../shared/client/library/directory_store.ts";
import { LocalAgent } from "../../shared/client/library/local_agent.ts";
import { hostSystem } from "../../shared/client/library/system.ts";
import { openLink } from "../../shared/client/link.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { bundledProgram } from "../cli/program.ts";
import { inDeno, inNode, installedClient } from "../support/client_package.ts";
import { type ChildProcess, deps, eventually, newId, tempFolder } from "../support/process.ts";
import { trials } from "../support/trials.ts";

const program = await bundledProgram();
const client = await installedClient();
globalThis.addEventListener("unload", () => client && Deno.removeSync(client.path, { recursive: true }));

/** Starts a program of client_programs/. */
type Start = (program: string, ...args: string[]) => ChildProcess | Promise<ChildProcess>;
const RUNTIMES: [name: string, start: Start | null][] = [
  ["Deno", (program, ...args) => inDeno(program, args)],
  ["Node", client && ((program, ...args) => inNode(client, program, args))],
];

/** Creates the agents alpha and beta in a configuration directory. Returns their DIDs. */
async function agentsIn(dir: string, place: Place, proxyUrl: string): Promise<{ alpha: string; beta: string }> {
  const env = { SVC_API_KEY: place.apiKey, SVC_REGISTRY_URL: place.url };
  await svc(dir, ["config", "set", "registryUrl", place.url], {}, program);
  await svc(dir, ["config", "set", "proxyUrl", proxyUrl], {}, program);
  for (const name of ["alpha", "beta"]) await svc(dir, ["agent", "create", name], env, program);
  const didOf = (name: string) =>
    JSON.parse(Deno.readTextFileSync(`${dir}/agents/${name}/identity.json`)).did as string;
  return { alpha: didOf("alpha"), beta: didOf("beta") };
}

/** Starts the connectors of both agents, for programs that read their messages. */
async function connectorsOf(dir: string): Promise<AsyncDisposable> {
  const stack = new AsyncDisposableStack();
  for (const name of ["alpha", "beta"]) {
    stack.use(await RunningConnector.start(dir, name, ["--inbox"], { program }));
  }
  return stack;
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
  Deno.test({
    name: `one program with each class asks, answers, reads a receipt, pairs and unpairs in ${runtime}`,
    ignore: start === null,
    async fn(t) {
      await using place = await Place.open({}, true);
      await using folder = await tempFolder();
      const { beta: did } = await agentsIn(folder.path, place, place.server.address);
      const known = { friend: { did, agentName: "beta", humanName: "h" } };
      Deno.writeTextFileSync(`${folder.path}/agents/alpha/peers.json`, JSON.stringify(known), { mode: 0o600 });
      for (const kind of ["Agent", "LocalAgent"]) {
        await t.step(kind, async () => {
          await using _connectors = kind === "LocalAgent" ? await connectorsOf(folder.path) : null;
          await using child = await start?.("story.mjs", kind, folder.path) as ChildProcess;
          const { payload, alias, ...rest } = (await endsWell(child))[0] ?? {};
          // A connector reads its new peer from the proxy, which may take longer than the reply.
          if (kind === "Agent") assertEquals(alias, "friend");
          assertStringIncludes((payload as { message: string }).message, "You said: hello");
          assertEquals(rest, {
            kind,
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
            verified: "by-proxy",
          });
        });
      }
    },
  });
}

/** Pairs alpha and beta with the program of the story, which unpairs them, and then with the commands' own API. */
async function paired(dir: string): Promise<void> {
  await using connectors = new AsyncDisposableStack();
  const [alpha, beta] = await Promise.all(["alpha", "beta"].map(async (name) => {
    return connectors.use(await RunningConnector.start(dir, name, ["--inbox"], { program }));
  }));
  const { ticket } = await alpha?.json("POST", "/v1/pair/start", {});
  await beta?.json("POST", "/v1/pair/confirm", { ticket });
}

/** Runs alpha and beta as steady programs with each class. */
async function steady(
  start: Start,
  kind: string,
  dir: string,
  dids: { alpha: string; beta: string },
  work: (programs: ChildProcess[]) => Promise<void>,
): Promise<void> {
  await using stack = new AsyncDisposableStack();
  if (kind === "LocalAgent") stack.use(await connectorsOf(dir));
  const alpha = stack.use(await start("steady.mjs", kind, dir, "alpha", dids.beta));
  const beta = stack.use(await start("steady.mjs", kind, dir, "beta", dids.alpha));
  const programs = [alpha, beta];
  const isAnswered = (child: ChildProcess) => lines(child).some(({ ok }) => ok === true);
  await eventually(30_000, "both ask and answer", () => programs.every(isAnswered) || undefined);
  await work(programs);
  for (const child of programs) child.signal("SIGTERM");
  for (const child of programs) assertEquals((await child.status).code, 0, child.printed);
}

Deno.test("agents of both classes work again within 30 s after a restart of the proxy", async (t) => {
  await using place = await Place.open({}, true);
  await using folder = await tempFolder();
  const dids = await agentsIn(folder.path, place, place.server.address);
  await paired(folder.path);
  const start = RUNTIMES.findLast(([, start]) => start !== null)?.[1] as Start;
  for (const kind of ["Agent", "LocalAgent"]) {
    await t.step(kind, () =>
      steady(start, kind, folder.path, dids, async (programs) => {
        await place.server.end("SIGTERM", 20_000);
        await place.restart();
        const back = Date.now();
        const worksAgain = (child: ChildProcess) => lines(child).some(({ ok, at }) => ok === true && Number(at) > back);
        await eventually(30_000, "both work again", () => programs.every(worksAgain) || undefined);
      }));
  }
});

Deno.test("agents of both classes work for 60 s without an error while access tokens live 20 s", async () => {
  await using place = await Place.open({
    ACCESS_TOKEN_TTL_SECONDS: "20",
    SESSION_REVALIDATE_INTERVAL_MS: "500",
    AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "1000",
  }, true);
  const start = RUNTIMES.findLast(([, start]) => start !== null)?.[1] as Start;
  // Both classes at once, each with agents of its own.
  await Promise.all(["Agent", "LocalAgent"].map(async (kind) => {
    await using folder = await tempFolder();
    const dids = await agentsIn(folder.path, place, place.server.address);
    await paired(folder.path);
    await steady(start, kind, folder.path, dids, async (programs) => {
      await new Promise((resolve) => setTimeout(resolve, 60_000));
      for (const child of programs) {
        const results = lines(child);
        assert(results.filter(({ ok }) => ok === true).length >= 10, child.printed);
        assertEquals(results.filter(({ ok, problem }) => ok === false || problem !== undefined), [], child.printed);
      }
    });
  }));
});

Deno.test({
  name: "an agent in Node works after each of 20 kills during a refresh",
  ignore: client === null,
  async fn() {
    assert(client);
    // Every call needs a refresh.
    await using place = await Place.open({ ACCESS_TOKEN_TTL_SECONDS: "1" }, true);
    await using folder = await tempFolder();
    await agentsIn(folder.path, place, place.server.address);
    const agent = `${folder.path}/agents/alpha`;
    let kills = 0;
    for (let n = 0; n < trials(20); n++) {
      await using child = await inNode(client, "peers.mjs", [agent]);
      place.tamper = async (request, forward) => {
        if (!new URL(request.url).pathname.endsWith("/refresh")) return await forward();
        // Before the request, after it, and in the moments in which the files are written.
        if (n % 3 === 0) child.signal("SIGKILL");
        const response = await forward();
        if (n % 3 === 1) child.signal("SIGKILL");
        else setTimeout(() => child.signal("SIGKILL"), n);
        return response;
      };
      if ((await child.status).signal === "SIGKILL") kills++;
      place.tamper = null;
      await using next = await inNode(client, "peers.mjs", [agent]);
      assertEquals(await endsWell(next), [{ peers: 0 }], `after kill ${n}`);
    }
    console.log(`${kills} kills during a refresh`);
    assert(kills >= 10);
  },
});

Deno.test("an agent does not open while its connector runs", async () => {
  await using place = await Place.open({}, true);
  await using folder = await tempFolder();
  await agentsIn(folder.path, place, place.server.address);
  const connector = await RunningConnector.start(folder.path, "alpha", ["--inbox"], { program });
  const open = async (name: string) => {
    await using child = inDeno("peers.mjs", [`${folder.path}/agents/${name}`]);
    const { code } = await child.status;
    return [code, /The connector of \w+ runs/.exec(child.stderr.text)?.[0]];
  };
  assertEquals(await open("alpha"), [1, "The connector of alpha runs"]);
  assertEquals(await open("beta"), [0, undefined]);
  await connector.child.end("SIGKILL");
  assertEquals(await open("alpha"), [0, undefined], "the discovery file of a killed connector does not count");
});

Deno.test("an agent stops with a problem when other links of the agent replace its own", async () => {
  await using place = await Place.open({}, true);
  await using folder = await tempFolder();
  const { beta } = await agentsIn(folder.path, place, place.server.address);
  await using agent = inDeno("steady.mjs", ["Agent", folder.path, "alpha", beta]);
  const printed = (what: (line: Record<string, unknown>) => boolean) =>
    eventually(20_000, `the agent prints it\n${agent.printed}`, () => lines(agent).some(what) || undefined);
  await printed(({ connected }) => connected === true);
  const { identity } = await (await AgentDirectory.open(hostSystem(), `${folder.path}/agents/alpha`)).session();
  const others = await Promise.all(Array.from({ length: LIMITS.socketsPerAgent }, () => {
    return openLink({ ...deps, newId }, place.server.address, identity, {
      deliver: () => Promise.resolve({ accepted: true }),
      closed: () => {},
    });
  }));
  await printed(({ problem, code }) => problem !== undefined && code === "CONNECTOR_RUNNING");
  await printed(({ ok, code }) => ok === false && code === "CONNECTOR_RUNNING");
  for (const link of others) link.close();
});

Deno.test("a question of LocalAgent gets its reply when its connector is killed and started again", async () => {
  await using place = await Place.open({}, true);
  await using folder = await tempFolder();
  const dir = folder.path;
  const dids = await agentsIn(dir, place, place.server.address);
  await paired(dir);
  await using betaConnector = await RunningConnector.start(dir, "beta", ["--inbox"], { program });
  const connector = await RunningConnector.start(dir, "alpha", ["--inbox"], { program });
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
  await using running = inDeno("steady.mjs", ["LocalAgent", folder.path, "alpha", beta]);
  await eventually(20_000, "it calls the connector", () => lines(running).some(({ ok }) => ok === false) || undefined);
  await connector.child.end("SIGKILL");
  let connections = 0;
  const listener = Deno.listen({ hostname: "127.0.0.1", port: Number(new URL(connector.file.url).port) });
  void (async () => {
    for await (const connection of listener) {
      connections++;
      connection.close();
    }
  })();
  const killedAt = Date.now();
  const down = () => lines(running).some(({ at, code }) => Number(at) > killedAt && code === "CONNECTOR_DOWN");
  await eventually(20_000, "the connector is down", () => down() || undefined);
  assertEquals(connections, 0);
  listener.close();
});
