/** Answers of nanobot's API, a stub, as replies: kill -9 of the connector around the answer. More with `-- --trials n`. */
import { assertEquals } from "@std/assert";
import { Listener, RunningConnector, svcHere } from "../cli/connector/people.ts";
import { bundledProgram } from "../cli/program.ts";
import { trials } from "../support/trials.ts";
import { eventually, newId, Service } from "../support/process.ts";
import { pairedAgents } from "./harness.ts";

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

Deno.test("a connector that is killed around the runtime's answers sends exactly one reply to each message", async () => {
  const TRIALS = trials(1);
  await using service = await Service.here();
  await using runtime = nanobot();
  const { answer } = runtime;
  runtime.answer = async (received) => {
    await pause(Math.random() * 80);
    return await answer(received);
  };
  const { a, b } = await pairedAgents(service, service.home);
  const far = await service.connect(a);
  await svcHere(service.home, ["install", "--for", "nanobot"]);
  const start = () => RunningConnector.start(service.home, "b", ["--runtime-base-url", runtime.url], { program });
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
