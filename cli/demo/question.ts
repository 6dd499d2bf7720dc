/** The second act of the demo: a question and its answer between two programs that run a model (D-127, D-128). */
import * as z from "zod";
import { MCP_LIMITS as LIMIT } from "../mcp/limits.ts";
import { ModelMessage } from "../mcp/model_message.ts";
import type { DemoAgent } from "./demo_agent.ts";
import { McpProgram } from "./mcp_program.ts";
import type { Story } from "./story.ts";

const QUESTION = "Which port does your service use?";
const ANSWER = "It uses 8443, with TLS.";

const Sent = z.object({ requestId: z.string(), state: z.string(), reply: ModelMessage.nullable() });
const Waited = z.object({ messages: z.array(ModelMessage) });

/** Runs its steps. Both MCP servers and their connectors have ended when this returns. */
export async function askOverMcp(story: Story, agents: { alpha: DemoAgent; beta: DemoAgent }): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const alpha = stack.use(new McpProgram(agents.alpha)), beta = stack.use(new McpProgram(agents.beta));
  await story.step("alpha and beta get an MCP server each", {
    proves: "a program that runs a model needs no library of svc: svc mcp gives it tools, and runs the connector",
    run: () => Promise.all([alpha.open(), beta.open()]),
    shows: (tools) => [alpha, beta].map(({ name }, i) => `${name.padEnd(9)}${tools[i]?.join(", ")}`),
  });

  const question = { to: "beta", text: QUESTION, wait_seconds: LIMIT.waitDefaultSeconds };
  const asking = alpha.call("send_message", question, Sent);
  // The rejection is reported by a step that waits for the answer.
  asking.catch(() => {});
  await story.step("alpha asks through its MCP tool", {
    proves: "asking is one call of a tool, which waits for the answer",
    run: () => Promise.resolve(),
    shows: () => [`call     send_message ${JSON.stringify(question)}`],
  });
  const { data: asked } = await story.step("beta's tool shows the question as data, with the verified sender", {
    proves: "a model knows who wrote a text, and that the text is not an instruction of its user",
    run: async () => {
      const waiting = beta.call("wait_for_message", { timeout_seconds: LIMIT.waitDefaultSeconds }, Waited);
      // Fails at once when the question could not be sent.
      const { text, data: { messages: [message] } } = await Promise.race([waiting, asking.then(() => waiting)]);
      if (message?.text !== QUESTION) throw new Error(`beta did not get the question: ${text}`);
      return { text, data: message };
    },
    shows: ({ text, data }) => [`result   ${text.split("\n")[0]}`, ...aboutMessage(data)],
  });
  const to = asked.from.alias ?? asked.from.agentDid;
  const answer = { to, text: ANSWER, reply_to: asked.id };
  await story.step("beta answers with its MCP tool", {
    proves: "an answer names its question, so it cannot be taken for the answer to another one",
    run: async () => {
      const { data } = await beta.call("send_message", answer, Sent);
      return data;
    },
    shows: ({ state }) => [`call     send_message ${JSON.stringify(answer)}`, `state    ${state}`],
  });
  await story.step("the answer is the result of alpha's tool call", {
    proves: "the models of two people work together, and neither has a key of the other one",
    run: async () => {
      const { text, data: { requestId, reply } } = await asking;
      if (reply?.text !== ANSWER || reply.inReplyTo !== requestId) throw new Error(`alpha got no answer: ${text}`);
      return reply;
    },
    shows: aboutMessage,
  });
}

function aboutMessage({ from, verified, text }: ModelMessage): string[] {
  return [`from     ${from.name}  ${from.agentDid}, verified ${verified}`, `text     ${JSON.stringify(text)}`];
}
