/**
 * Honest agents are never silenced, and rings of agents that answer by themselves end (D-113): a thousand questions to each
 * program of docs/agents.md and to a runtime, a thousand rounds of two models, rings of real processes. Fewer with
 * `-- --trials n`.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { LOOP_MESSAGES } from "../../cli/link/loop_guard.ts";
import { PairedAgents } from "../cli/connector/paired_agents.ts";
import { Listener, RunningConnector } from "../cli/connector/people.ts";
import { bundledProgram, output } from "../cli/program.ts";
import { pairedNames } from "../e2e/harness.ts";
import { McpPipe } from "../support/mcp_pipe.ts";
import { ANSWERING, block, HAS_PYTHON } from "../support/page_programs.ts";
import { Service, tempFolder } from "../support/process.ts";
import { trials } from "../support/trials.ts";

const MANY = trials(1_000);
const ASKS = Math.min(MANY, 200);
const program = await bundledProgram();

/** Asks `count` questions, one after the other; each must get its answer. */
async function askAll(asker: RunningConnector, count: number, answer: (text: string) => string): Promise<void> {
  for (let n = 1; n <= count; n++) {
    const text = `question ${n}`;
    const { reply, state } = await asker.json("POST", "/v1/outbound?wait=60", { to: "beta", text });
    assertEquals([reply?.text, reply?.error], [answer(text), null], `${n}: ${state}`);
  }
}

for (const { name, ignore, start, answer } of ANSWERING) {
  Deno.test({
    name: `${name} answers ${MANY} questions of one peer in a row`,
    ignore,
    async fn() {
      await using agents = await PairedAgents.open(program);
      await using alpha = await agents.connector("alpha");
      await using beta = await agents.connector("beta");
      await using _answering = start({ dir: agents.dir, svc: agents.words, agent: "beta" });
      await askAll(alpha, MANY, (text) => answer("alpha", text));
      const counts = [alpha, beta].map(async (one) => (await one.json("GET", "/v1/status")).loopGuards);
      assertEquals(await Promise.all(counts), [0, 0]);
    },
  });
}

Deno.test({
  name: `ask.py asks ${ASKS} questions in a row and leaves none of their answers unread`,
  ignore: !HAS_PYTHON,
  async fn() {
    await using agents = await PairedAgents.open(program);
    await using alpha = await agents.connector("alpha");
    await using _beta = await agents.connector("beta");
    const { start, answer } = ANSWERING[0]!;
    await using _answering = start({ dir: agents.dir, svc: agents.words, agent: "beta" });
    await Deno.writeTextFile(`${agents.dir}/ask.py`, block("ask.py"));
    for (let n = 0; n < ASKS; n++) {
      const args = [`${agents.dir}/ask.py`, "alpha", "beta", `${n}`];
      const { code, stdout, stderr } = await output("python3", args, { SVC_CONFIG_DIR: agents.dir });
      assertEquals([code, stdout], [0, `${answer("alpha", `${n}`)}\n`], stderr);
    }
    assertEquals((await alpha.json("GET", "/v1/inbox")).messages, []);
  },
});

Deno.test("each program waits for the limit of the proxy and answers everything", async (t) => {
  // Ten messages in three seconds, so that a burst of 40 has to wait several times.
  const limit = { AGENT_RATE_LIMIT_REQUESTS_PER_MINUTE: "10", AGENT_RATE_LIMIT_WINDOW_MS: "3000" };
  for (const { name, ignore, start, answer } of ANSWERING) {
    await t.step({
      name,
      ignore,
      async fn() {
        await using agents = await PairedAgents.open(program, limit);
        await using alpha = await agents.connector("alpha");
        await using _beta = await agents.connector("beta");
        await using _answering = start({ dir: agents.dir, svc: agents.words, agent: "beta" });
        const ask = async (text: string): Promise<string> => {
          while (true) {
            const response = await alpha.call("POST", "/v1/outbound?wait=60", { to: "beta", text });
            const body = await response.json();
            if (response.status === 200) return body.reply?.text;
            assertEquals(response.status, 429, JSON.stringify(body));
            await new Promise((resolve) => setTimeout(resolve, Number(response.headers.get("Retry-After")) * 1000));
          }
        };
        const texts = Array.from({ length: 40 }, (_, n) => `question ${n}`);
        assertEquals(await Promise.all(texts.map(ask)), texts.map((text) => answer("alpha", text)));
      },
    });
  }
});

Deno.test(`a runtime answers ${MANY} questions of one peer in a row`, async () => {
  await using service = await Service.open();
  await using folder = await tempFolder();
  await using runtime = new Listener();
  runtime.answer = () => Response.json({ reply: "x" });
  await pairedNames(service, folder.path, ["alpha", "beta"]);
  const options = ["--runtime-base-url", runtime.url, "--replies", "on"];
  await using alpha = await RunningConnector.start(folder.path, "alpha", ["--inbox"], { program });
  await using beta = await RunningConnector.start(folder.path, "beta", options, { program });
  await askAll(alpha, MANY, () => "x");
  assertEquals((await beta.json("GET", "/v1/status")).loopGuards, 0);
});

/** Servers of `svc mcp` for agents that are all paired. */
async function models(stack: AsyncDisposableStack, names: readonly string[]): Promise<McpPipe[]> {
  const service = stack.use(await Service.open());
  const { path } = stack.use(await tempFolder());
  await pairedNames(service, path, names);
  const pipes: McpPipe[] = [];
  for (const name of names) pipes.push(stack.use(await McpPipe.open(program, path, name)));
  return pipes;
}

/** Answers each message that comes, until a number of them is answered. */
async function answerAll(model: McpPipe, count: number): Promise<void> {
  for (let answered = 0; answered < count;) {
    const { messages } = await model.call("wait_for_message");
    for (const { id, from, text } of messages) {
      const args = { to: from.agentDid, text: `You said: ${text}`, reply_to: id };
      const { reply } = await model.call("send_message", args);
      // A peer that was faster than the result of the tool has its next message in it, which no later call shows.
      if (reply !== null) messages.push(reply);
      answered++;
    }
  }
}

Deno.test(`two models work together for ${MANY} rounds, also when each answer answers the last one`, async (t) => {
  for (const isThread of [false, true]) {
    await t.step(isThread ? "one thread" : "a question each", async () => {
      await using stack = new AsyncDisposableStack();
      const [alpha, beta] = await models(stack, ["alpha", "beta"]);
      const asks = async () => {
        let last: number | null = null;
        for (let n = 0; n < MANY; n++) {
          const thread: Record<string, number> = isThread && last !== null ? { reply_to: last } : {};
          const answer = await alpha!.call("send_message", { to: "beta", text: `${n}`, wait_seconds: 45, ...thread });
          assertEquals(answer.reply?.text, `You said: ${n}`, JSON.stringify(answer));
          last = answer.reply.id;
        }
      };
      // Together: a question that fails ends both programs, and would be hidden by the error of the other one.
      await Promise.all([asks(), answerAll(beta!, MANY)]);
    });
  }
});

Deno.test("a model gets 32 answers to 32 questions at once, many times", async () => {
  await using stack = new AsyncDisposableStack();
  const [alpha, beta] = await models(stack, ["alpha", "beta"]);
  const rounds = Math.ceil(MANY / 32);
  const asks = async () => {
    for (let round = 0; round < rounds; round++) {
      const texts = Array.from({ length: 32 }, (_, n) => `${round}.${n}`);
      const asked = texts.map((text) => alpha!.call("send_message", { to: "beta", text, wait_seconds: 45 }));
      const answers = (await Promise.all(asked)).map(({ reply }) => reply?.text);
      assertEquals(answers, texts.map((text) => `You said: ${text}`));
    }
  };
  await Promise.all([asks(), answerAll(beta!, rounds * 32)]);
});

Deno.test("three models that pass everything on stop within 100 messages", async () => {
  await using stack = new AsyncDisposableStack();
  const names = ["alpha", "beta", "gamma"];
  const members = await models(stack, names);
  let sent = 0, refusal = "";
  const passOn = async (i: number) => {
    await members[i]!.call("send_message", { to: names[(i + 1) % 3], text: "Pass it on" }).then(
      () => void sent++,
      (error) => void (refusal = error.message),
    );
  };
  await passOn(0);
  for (let i = 1; refusal === ""; i = (i + 1) % 3) {
    const { messages } = await members[i]!.call("wait_for_message", { timeout_seconds: 45 });
    assertEquals(messages.length, 1);
    await passOn(i);
  }
  assertEquals(sent, 3 * LOOP_MESSAGES);
  assertStringIncludes(refusal, "CONNECTOR_LOOP_GUARD");
});
