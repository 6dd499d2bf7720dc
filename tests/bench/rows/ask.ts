/**
 * Time of a question and its answer through the tools of two agents: from the line that a host writes to the line
 * with the answer, each way through `svc mcp`, which runs the connector, and the proxy. The other agent answers at once. A
 * commit to a file of this disk is measured beside it, because the way has several of them one after the other.
 */
import { bundledProgram } from "../../cli/program.ts";
import { pairedNames } from "../../e2e/harness.ts";
import { mcpArgs, McpPipe } from "../../support/mcp_pipe.ts";
import { figure, type Outcome, percentile, ratio } from "../figures.ts";
import { cpuOf, UNLIMITED, type World } from "../world.ts";
import { bareCommits } from "./store.ts";

const GOAL_MS = 12;
const GOAL_P99_MS = 40;
/** Questions before those that count, while the runtime loads the code. */
const WARM_UP = 20;
/** Share of the questions for the figures of the first and the last ones: V8 compiles for the first seconds. */
const PART = 1 / 3;

export async function ask(world: World): Promise<Outcome> {
  const { place: { proxyUrl: url }, admin: { apiKey } } = await world.together(UNLIMITED);
  const { single } = await bareCommits(world);
  const program = await bundledProgram();
  const [run = "", ...options] = program.args;
  const dir = `${world.folder}/ask`;
  await pairedNames({ apiKey, url }, dir, ["alpha", "beta"]);
  const open = async (agent: string) =>
    await McpPipe.over(
      world.spawn([run, ...world.profiling, ...options, ...mcpArgs(dir, agent)], { NO_COLOR: "1" }, program.command),
    );
  await using alpha = await open("alpha");
  await using beta = await open("beta");
  const count = WARM_UP + world.scale.asks;
  const answering = answerAll(beta, count);
  const times: number[] = [];
  let before: number | null = null;
  for (let n = 0; n < count; n++) {
    if (n % 50 === 0) world.say(`${n} questions`);
    if (n === WARM_UP) before = cpuOf([alpha.child, beta.child]);
    const began = performance.now();
    const { reply } = await alpha.call("send_message", { to: "beta", text: "Which port?", wait_seconds: 45 });
    if (reply?.text !== "8443") throw new Error(`Question ${n} got no answer`);
    if (n >= WARM_UP) times.push(performance.now() - began);
  }
  const after = cpuOf([alpha.child, beta.child]);
  await answering;
  const part = Math.ceil(times.length * PART);
  const [first, last, p99] = [
    percentile(times.slice(0, part).sort(ascending), 0.5),
    percentile(times.slice(-part).sort(ascending), 0.5),
    percentile(times.toSorted(ascending), 0.99),
  ];
  const cpuMs = before === null || after === null ? null : (after - before) * 1000 / times.length;
  return {
    figures: [
      figure(`question to answer: p50 of the first ${part}`, first, "ms"),
      figure(`question to answer: p50 of the last ${part}`, last, "ms"),
      figure("question to answer: p99 of all", p99, "ms"),
      figure("CPU of both programs for a question", cpuMs, "ms"),
      ratio(`p50 of the last ${part} / ${GOAL_MS} ms`, last, GOAL_MS, { atMost: 1 }),
      ratio(`p99 / ${GOAL_P99_MS} ms`, p99, GOAL_P99_MS, { atMost: 1 }),
      ratio("p50 of the last / a bare commit", last, single.us / 1000),
    ],
  };
}

const ascending = (a: number, b: number) => a - b;

/** Answers as many questions as come. */
async function answerAll(beta: McpPipe, count: number): Promise<void> {
  for (let answered = 0; answered < count;) {
    const { messages } = await beta.call("wait_for_message", { timeout_seconds: 45 });
    for (const { id, from } of messages) {
      await beta.call("send_message", { to: from.agentDid, text: "8443", reply_to: id });
    }
    answered += messages.length;
  }
}
