/**
 * Questions and replies between real connectors: a third agent cannot answer (D-112), one of twenty readers gets a message
 * (D-117), and a reply reaches a terminal without its control characters (D-120).
 */
import { assert, assertEquals } from "@std/assert";
import { clientFromFiles, svc } from "../cli/connector/people.ts";
import { PairedAgents } from "../cli/connector/paired_agents.ts";
import { bundledProgram, ended } from "../cli/program.ts";
import { eventually, within } from "../support/process.ts";

const END_MS = 90_000;
const HOSTILE = "\u001b[2J\u0007\r\u009b31m\u202e";
const program = await bundledProgram();

Deno.test("a third agent cannot answer a question, and the right reply is printed without control characters", async () => {
  await using agents = await PairedAgents.open(program);
  const { dir, service } = agents;
  const env = { SVC_API_KEY: service.apiKey, SVC_REGISTRY_URL: service.url };
  await svc(dir, ["agent", "create", "gamma"], env, program);
  const client = (name: string) => clientFromFiles(dir, name, service.url);
  const [alpha, beta, gamma] = [await client("alpha"), await client("beta"), await client("gamma")];
  const { ticket } = await alpha.pairStart({ agentName: "alpha", humanName: "A" });
  await gamma.pairConfirm(ticket, { agentName: "gamma", humanName: "C" });
  await using alphas = await agents.connector("alpha");
  await using betas = await agents.connector("beta");
  const recipientDid = (JSON.parse(Deno.readTextFileSync(`${dir}/agents/alpha/identity.json`)) as { did: string }).did;

  const asking = agents.spawn("alpha", [
    "send",
    "beta",
    "a question",
    "--wait",
    "--timeout",
    "60",
    "--request-id",
    "question-1",
  ]);
  const answer = within(END_MS, "the answer", ended(asking));
  await eventually(END_MS, "beta has the question", async () => {
    const { messages } = await betas.json("GET", "/v1/inbox");
    return messages.length > 0 || undefined;
  });
  const reply = (message: string) => ({
    recipientDid,
    payload: JSON.stringify({ message }),
    inReplyTo: "question-1",
    requestId: `reply-${message.length}`,
  });
  assert((await gamma.sendMessage(reply("from gamma"))).delivered);
  const { messages } = await alphas.json("GET", "/v1/inbox?wait=10");
  assertEquals(messages.map(({ text, isReply }: Record<string, unknown>) => [text, isReply]), [["from gamma", false]]);
  assert((await beta.sendMessage(reply(`from ${HOSTILE}beta`))).delivered);
  const { code, stdout, stderr } = await answer;
  assertEquals([code, stdout], [0, "from \\u001b[2J\\u0007\\u000d\\u009b31m\\u202ebeta\n"], stderr);
});

Deno.test("one of twenty calls that read a message at the same time gets it", async () => {
  await using agents = await PairedAgents.open(program);
  await using betas = await agents.connector("beta");
  assertEquals((await agents.run("alpha", "svc send beta hello")).code, 0);
  const { messages } = await betas.json("GET", "/v1/inbox?wait=10");
  const ids = messages.map(({ id }: { id: number }) => id);
  assertEquals(ids.length, 1);
  const reads = await Promise.all(Array.from({ length: 20 }, () => betas.json("POST", "/v1/inbox/read", { ids })));
  assertEquals(reads.flatMap(({ read }) => read), ids);
});
