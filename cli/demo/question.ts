/** The second act of the demo: a question and its answer between two programs that run a model. */
import * as z from "zod";
import { ModelMessage } from "../mcp/model_message.ts";
import type { DemoAgent } from "./demo_agent.ts";
import type { Story } from "./story.ts";
import { WAIT_DEFAULT_SECONDS } from "../mcp/waits.ts";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { type Access, keptAccess } from "../connector/attach.ts";
import { readPeers } from "../connector/peers/peers.ts";
import { McpAgent } from "../mcp/mcp_agent.ts";
import { serveMcpAgent } from "../mcp/stdio_server.ts";

const QUESTION = "Which port does your service use?";
const ANSWER = "It uses 8443, with TLS.";

const Sent = z.object({ requestId: z.string(), state: z.string(), reply: ModelMessage.nullable() });
const Waited = z.object({ messages: z.array(ModelMessage) });

/** Runs the steps of the second act. Both MCP servers and their connectors have ended when this returns. */
export async function askOverMcp(story: Story, agents: { alpha: DemoAgent; beta: DemoAgent }): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const alpha = stack.use(new McpProgram(agents.alpha)), beta = stack.use(new McpProgram(agents.beta));
  await story.step("alpha and beta get an MCP server each", {
    proves: "a program that runs a model needs no library of svc: svc mcp gives it tools, and runs the connector",
    run: () => Promise.all([alpha.open(), beta.open()]),
    shows: (tools) => [alpha, beta].map(({ name }, i) => `${name.padEnd(9)}${tools[i]?.join(", ")}`),
  });

  const question = { to: "beta", text: QUESTION, wait_seconds: WAIT_DEFAULT_SECONDS };
  const asking = alpha.call("send_message", question, Sent);
  // The step that waits reports a rejection. Without this handler, one that comes earlier would end the process.
  asking.catch(() => {});
  await story.step("alpha asks through its MCP tool", {
    proves:
      "asking is one call of a tool, which waits for the answer; the text is sealed, so the server cannot read it",
    run: () => Promise.resolve(),
    shows: () => [`call     send_message ${JSON.stringify(question)}`],
  });
  const { data: asked } = await story.step("beta's tool shows the question as data, with the verified sender", {
    proves: "a model knows who wrote a text, and that the text is not an instruction of its user",
    run: async () => {
      const waiting = beta.call("wait_for_message", { timeout_seconds: WAIT_DEFAULT_SECONDS }, Waited);
      // The race fails at once when the question could not be sent, because beta would otherwise wait for it in vain.
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
    run: async () => (await beta.call("send_message", answer, Sent)).data,
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
  const how = verified === "end-to-end" ? "end-to-end (sealed)" : verified;
  return [`from     ${from.name}  ${from.agentDid}, verified ${how}`, `text     ${JSON.stringify(text)}`];
}

const PROTOCOL = "2025-11-25";

const Response = z.object({ result: z.unknown(), error: z.object({ message: z.string() }).optional() });

const ToolList = z.object({ tools: z.array(z.object({ name: z.string() })) });

const ToolResult = z.object({
  content: z.array(z.object({ text: z.string() })),
  structuredContent: z.unknown(),
  isError: z.boolean().default(false),
});

/**
 * Stands for a program that runs a model. It calls the tools of an MCP server in this process by lines of JSON-RPC, one
 * call after another. The server runs the agent's connector.
 */
class McpProgram implements AsyncDisposable {
  readonly name: string;
  readonly #version: string;
  readonly #input = new PassThrough();
  readonly #output = new PassThrough();
  readonly #answers = createInterface({ input: this.#output })[Symbol.asyncIterator]();
  readonly #connector: Access;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  #id = 0;

  constructor({ ctx, folder, file }: DemoAgent) {
    const { clock, random, version } = ctx;
    this.name = folder.name;
    this.#version = version;
    this.#connector = keptAccess(ctx, folder, { inbox: true });
    const mcp = new McpAgent({
      identity: file,
      connector: this.#connector,
      peers: () => readPeers(folder),
      clock,
      random,
      pairingCommand: () => null,
      named: (text) => text,
      isPush: false,
      isReadOnly: false,
      only: null,
    });
    this.#ended = serveMcpAgent(mcp, {
      version,
      isChannel: false,
      report: ({ message }) => ctx.out.warn(message),
      signal: this.#stop.signal,
      streams: { input: this.#input, output: this.#output },
    });
  }

  /** Opens the connection. Returns the names of the tools. */
  async open(): Promise<string[]> {
    const clientInfo = { name: "svc-demo", version: this.#version };
    await this.#request("initialize", { protocolVersion: PROTOCOL, capabilities: {}, clientInfo });
    this.#write({ jsonrpc: "2.0", method: "notifications/initialized" });
    return ToolList.parse(await this.#request("tools/list", {})).tools.map(({ name }) => name);
  }

  /** Calls a tool. Returns its result as text for the model and as data. @throws {Error} with the text of a failure */
  async call<S extends z.ZodType>(name: string, args: object, result: S) {
    const { content, structuredContent, isError } = ToolResult.parse(
      await this.#request("tools/call", { name, arguments: args }),
    );
    const [{ text } = { text: "" }] = content;
    if (isError) throw new Error(`${name} of ${this.name}: ${text}`);
    return { text, data: result.parse(structuredContent) };
  }

  async #request(method: string, params: object): Promise<unknown> {
    this.#write({ jsonrpc: "2.0", id: ++this.#id, method, params });
    const { value: line, done } = await this.#answers.next();
    if (done) throw new Error(`The MCP server of ${this.name} has ended`);
    const { result, error } = Response.parse(JSON.parse(line));
    if (error !== undefined) throw new Error(`${method} of ${this.name}: ${error.message}`);
    return result;
  }

  #write(message: object): void {
    this.#input.write(`${JSON.stringify(message)}\n`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#ended;
    this.#output.end();
    await this.#connector[Symbol.asyncDispose]();
  }
}
