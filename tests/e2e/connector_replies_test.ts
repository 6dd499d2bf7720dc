/**
 * Answers of runtimes as replies, with real processes: nanobot's API as a stub, kill -9 around the answer, and a
 * proxy that is down. More kills with `-- --trials n`.
 */
import { assertEquals } from "@std/assert";
import { Listener, RunningConnector, svc } from "../cli/connector/people.ts";
import { bundledProgram, output } from "../cli/program.ts";
import { trials } from "../support/trials.ts";
import { eventually, newId, Service, tempFolder } from "../support/process.ts";
import { pairedAgents, pairedNames } from "./harness.ts";

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
  await using service = await Service.here();
  await using folder = await tempFolder();
  await using runtime = nanobot();
  const dir = folder.path;
  await pairedNames(service, dir, ["alpha", "beta"]);
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
  const TRIALS = trials(1);
  await using service = await Service.here();
  await using folder = await tempFolder();
  await using runtime = nanobot();
  const { answer } = runtime;
  runtime.answer = async (received) => {
    await pause(Math.random() * 80);
    return await answer(received);
  };
  const { a, b } = await pairedAgents(service, folder.path);
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
  await using service = await Service.here();
  await using folder = await tempFolder();
  await using runtime = nanobot();
  const { answer } = runtime;
  const isDown = Promise.withResolvers<void>();
  runtime.answer = async (received) => {
    await isDown.promise;
    return await answer(received);
  };
  const { a, b } = await pairedAgents(service, folder.path);
  await svc(folder.path, ["install", "--for", "nanobot"], {}, program);
  await using connector = await RunningConnector.start(folder.path, "b", ["--runtime-base-url", runtime.url], {
    program,
  });
  const { requestId } = await a.client.sendMessage({ recipientDid: b.agent.did, payload: '{"message":"hi"}' });
  await eventually(30_000, "the runtime has it", () => runtime.received.length === 1 || undefined);
  await service.stopHere();
  isDown.resolve();
  const count = (name: string) => connector.events.filter(({ event }) => event === name).length;
  await eventually(30_000, "the reply fails twice", () => count("reply_failed") >= 2 || undefined);
  await service.restartHere();
  const far = await service.connect(a);
  const { inReplyTo, auto } = await far.frame(1);
  assertEquals([inReplyTo, auto, far.frames.length], [requestId, true, 1]);
  await far.close();
});
