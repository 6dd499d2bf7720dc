/**
 * Answers of runtimes as replies, with real processes (D-114): nanobot's API as a stub, kill -9 around the answer, a proxy
 * that is down, and two runtimes that answer each other, also behind a relay that hides it (D-113). 20 kills; more with
 * `-- --trials n`.
 */
import { assert, assertEquals } from "@std/assert";
import { Listener, RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram, output } from "../cli/program.ts";
import { TamperingRelay } from "../support/tampering_relay.ts";
import { trials } from "../support/trials.ts";
import { eventually, newId, Service, tempFolder } from "../support/process.ts";
import { pairedAgents, pairedNames } from "./harness.ts";

/** Long enough for a loop to go on. */
const SILENCE_MS = 3_000;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const program = await bundledProgram();

/** nanobot's API, which repeats the last line of the message. */
function nanobot(): Listener {
  const runtime = new Listener();
  runtime.answer = ({ body }) => {
    const { messages: [{ content }] } = JSON.parse(body) as { messages: [{ content: string }] };
    return Response.json({
      choices: [{ message: { role: "assistant", content: `You said: ${content.split("\n").at(-1)}` } }],
    });
  };
  return runtime;
}

Deno.test("svc send --wait prints the answer of nanobot, unless its replies are off", async (t) => {
  await using service = await Service.open();
  await using folder = await tempFolder();
  await using runtime = nanobot();
  const dir = folder.path;
  await pairedNames(service, dir, program, ["alpha", "beta"]);
  await svc(dir, ["install", "--for", "nanobot", "--agent-name", "beta"], {}, program);
  const start = (...more: string[]) =>
    RunningConnector.start(dir, "beta", ["--runtime-base-url", runtime.url, ...more], { program });
  const send = (...more: string[]) =>
    output(program.command, [...program.args, "send", "beta", "Hello", "--wait", ...more], {
      SVC_CONFIG_DIR: dir,
      SVC_AGENT: "alpha",
    });
  await t.step("on by default", async () => {
    await using connector = await start();
    assertEquals(connector.events.find(({ event }) => event === "started")?.replies, true);
    const { code, stdout, stderr } = await send();
    assertEquals([code, stdout], [0, "You said: Hello\n"], stderr);
  });
  await t.step("off", async () => {
    await using connector = await start("--replies", "off");
    assertEquals(connector.events.find(({ event }) => event === "started")?.replies, false);
    const before = runtime.received.length;
    assertEquals((await send("--timeout", "3")).code, 6);
    assertEquals(runtime.received.length, before + 1);
  });
});

Deno.test("a connector that is killed around the runtime's answers sends exactly one reply to each message", async () => {
  const TRIALS = trials(20);
  await using service = await Service.open();
  await using folder = await tempFolder();
  await using runtime = nanobot();
  const { answer } = runtime;
  runtime.answer = async (received) => {
    await pause(Math.random() * 80);
    return await answer(received);
  };
  const { a, b } = await pairedAgents(service, folder.path, program);
  const far = await service.connect(a);
  await svc(folder.path, ["install", "--for", "nanobot"], {}, program);
  const start = () => RunningConnector.start(folder.path, "b", ["--runtime-base-url", runtime.url], { program });
  let connector = await start();
  const asked: string[] = [];
  try {
    for (let trial = 0; trial < TRIALS; trial++) {
      const requestId = newId();
      const before = runtime.received.length;
      const message = { recipientDid: b.agent.did, payload: '{"message":"hi"}', requestId } as const;
      await eventually(30_000, "the message is accepted", async () => {
        const { accepted } = await a.client.sendMessage({ ...message, prefer: "respond-async" }).catch(() => ({
          accepted: false,
        }));
        return accepted || undefined;
      });
      asked.push(requestId);
      await eventually(30_000, "the runtime has it", () => runtime.received.length > before || undefined);
      await pause(Math.random() * 80);
      connector.child.signal("SIGKILL");
      await connector.child.status;
      connector = await start();
      await eventually(
        30_000,
        "the reply arrives",
        () => far.frames.some((frame) => frame.inReplyTo === requestId) || undefined,
      );
    }
    await pause(500);
  } finally {
    await connector[Symbol.asyncDispose]();
  }
  const replies = Map.groupBy(far.frames, ({ inReplyTo }) => inReplyTo ?? "");
  assertEquals(asked.map((id) => replies.get(id)?.length), asked.map(() => 1));
  assertEquals(new Set(far.frames.map(({ requestId }) => requestId)).size, TRIALS);
  console.log(`${TRIALS} kills, one reply each; ${runtime.received.length} hand-overs`);
  await far.close();
});

Deno.test("a reply arrives when the proxy is back", async () => {
  await using service = await Service.open();
  await using folder = await tempFolder();
  await using runtime = nanobot();
  const { answer } = runtime;
  const isDown = Promise.withResolvers<void>();
  runtime.answer = async (received) => {
    await isDown.promise;
    return await answer(received);
  };
  const { a, b } = await pairedAgents(service, folder.path, program);
  await svc(folder.path, ["install", "--for", "nanobot"], {}, program);
  await using connector = await RunningConnector.start(folder.path, "b", ["--runtime-base-url", runtime.url], {
    program,
  });
  const { requestId } = await a.client.sendMessage({ recipientDid: b.agent.did, payload: '{"message":"hi"}' });
  await eventually(30_000, "the runtime has it", () => runtime.received.length === 1 || undefined);
  await service.server.end();
  isDown.resolve();
  const count = (name: string) => connector.events.filter(({ event }) => event === name).length;
  await eventually(30_000, "the reply fails twice", () => count("reply_failed") >= 2 || undefined);
  await service.restart(0);
  const far = await service.connect(a);
  const { inReplyTo, auto } = await far.frame(1);
  assertEquals([inReplyTo, auto, far.frames.length], [requestId, true, 1]);
  await far.close();
});

/** Two agents whose runtimes answer every message, and what their runtimes get. */
async function talk(
  service: Service,
  dir: string,
  options: readonly string[],
): Promise<[Listener, Listener, RunningConnector[]]> {
  await pairedNames(service, dir, program, ["alpha", "beta"]);
  const runtimes = [new Listener(), new Listener()] as const;
  const connectors = [];
  for (const [n, name] of ["alpha", "beta"].entries()) {
    const runtime = runtimes[n] as Listener;
    runtime.answer = () => Response.json({ reply: "x" });
    const line = ["--runtime-base-url", runtime.url, "--replies", "on", ...options];
    connectors.push(await RunningConnector.start(dir, name, line, { program }));
  }
  await connectors[0]?.json("POST", "/v1/outbound", { to: "beta", payload: { message: "hi" } });
  return [...runtimes, connectors];
}

Deno.test("two runtimes that answer everything exchange one automatic reply, then are silent", async () => {
  await using service = await Service.open();
  await using folder = await tempFolder();
  const [alpha, beta, connectors] = await talk(service, folder.path, []);
  await eventually(30_000, "the reply arrives", () => alpha.received.length === 1 || undefined);
  await pause(SILENCE_MS);
  assertEquals([alpha.received.length, beta.received.length], [1, 1]);
  assertEquals(alpha.received[0]?.headers.get("x-svc-auto"), "1");
  for (const running of [...connectors, alpha, beta]) await running[Symbol.asyncDispose]();
});

Deno.test("behind a relay that hides which messages are automatic, each sends at most 20 replies", async () => {
  await using service = await Service.open();
  await using folder = await tempFolder();
  await using relay = new TamperingRelay(service.url, (frame) => frame.replace(',"auto":true', ""));
  const [alpha, beta, connectors] = await talk(service, folder.path, ["--proxy-ws-url", relay.wsUrl]);
  const stops = () => connectors.flatMap(({ events }) => events).filter(({ event }) => event === "loop_guard").length;
  await eventually(60_000, "the loop guard stops a reply", () => stops() === 1 || undefined);
  await pause(SILENCE_MS);
  // The first message is not a reply.
  assertEquals([alpha.received.length, beta.received.length, stops()], [20, 21, 1]);
  assert(alpha.received.every(({ headers }) => headers.get("x-svc-auto") === null));
  const counts = await Promise.all(connectors.map(async (one) => (await one.json("GET", "/v1/status")).loopGuards));
  assertEquals(counts, [0, 1]);
  for (const running of [...connectors, alpha, beta]) await running[Symbol.asyncDispose]();
});
