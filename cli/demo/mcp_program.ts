/**
 * A program that runs a model, as far as its tools go: starts the MCP server of an agent in this process and calls its
 * tools by lines of JSON-RPC (D-127). The server runs the agent's connector.
 */
import { PassThrough, type Readable } from "node:stream";
import * as z from "zod";
import { access } from "../connector/attach.ts";
import { readPeers } from "../connector/peers.ts";
import { KeptConnector } from "../mcp/kept_connector.ts";
import { MCP_LIMITS as LIMIT } from "../mcp/limits.ts";
import { McpAgent } from "../mcp/mcp_agent.ts";
import { serveMcpAgent } from "../mcp/stdio_server.ts";
import type { DemoAgent } from "./demo_agent.ts";

const PROTOCOL = "2025-11-25";

const Response = z.object({
  id: z.int(),
  result: z.unknown(),
  error: z.object({ message: z.string() }).optional(),
});
type Response = z.infer<typeof Response>;

const ToolList = z.object({ tools: z.array(z.object({ name: z.string() })) });

const ToolResult = z.object({
  content: z.array(z.object({ text: z.string() })),
  structuredContent: z.unknown(),
  isError: z.boolean().default(false),
});

/** A result of a tool: as text for the model, and as data. */
export interface ToolAnswer<T> {
  text: string;
  data: T;
}

export class McpProgram implements AsyncDisposable {
  readonly name: string;
  readonly #agent: DemoAgent;
  readonly #input = new PassThrough();
  readonly #connector: KeptConnector;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  readonly #waiting = new Map<number, PromiseWithResolvers<Response>>();
  #id = 0;

  constructor(agent: DemoAgent) {
    const { ctx, folder } = this.#agent = agent;
    const { clock, random, version } = ctx;
    this.name = folder.name;
    this.#connector = new KeptConnector(clock, this.name, () => access(ctx, folder, { inbox: true }));
    const mcp = new McpAgent({
      identity: agent.file,
      connector: this.#connector,
      peers: () => readPeers(folder),
      clock,
      random,
      isPush: false,
      isReadOnly: false,
      only: null,
    });
    const output = new PassThrough();
    this.#read(output);
    void this.#connector.watch();
    this.#ended = serveMcpAgent(mcp, {
      version,
      isChannel: false,
      report: ({ message }) => ctx.out.warn(message),
      signal: this.#stop.signal,
      streams: { input: this.#input, output },
    });
  }

  /** Opens the connection. Returns the names of the tools. */
  async open(): Promise<string[]> {
    const clientInfo = { name: "svc-demo", version: this.#agent.ctx.version };
    await this.#request("initialize", { protocolVersion: PROTOCOL, capabilities: {}, clientInfo });
    this.#write({ jsonrpc: "2.0", method: "notifications/initialized" });
    return ToolList.parse(await this.#request("tools/list", {})).tools.map(({ name }) => name);
  }

  /** Calls a tool. @throws {Error} with the text of a tool that fails, or without an answer in time */
  async call<S extends z.ZodType>(name: string, args: object, result: S): Promise<ToolAnswer<z.output<S>>> {
    const { content, structuredContent, isError } = ToolResult.parse(
      await this.#request("tools/call", { name, arguments: args }),
    );
    const [{ text } = { text: "" }] = content;
    if (isError) throw new Error(`${name} of ${this.name}: ${text}`);
    return { text, data: result.parse(structuredContent) };
  }

  async #request(method: string, params: object): Promise<unknown> {
    const id = ++this.#id;
    const answer = Promise.withResolvers<Response>();
    this.#waiting.set(id, answer);
    const late = () => answer.reject(new Error(`The MCP server of ${this.name} did not answer ${method}`));
    const cancel = this.#agent.ctx.clock.after(LIMIT.waitSeconds * 1000, late);
    try {
      this.#write({ jsonrpc: "2.0", id, method, params });
      const { result, error } = await answer.promise;
      if (error !== undefined) throw new Error(`${method} of ${this.name}: ${error.message}`);
      return result;
    } finally {
      cancel();
      this.#waiting.delete(id);
    }
  }

  #write(message: object): void {
    if (this.#stop.signal.aborted) throw ended(this.name);
    this.#input.write(`${JSON.stringify(message)}\n`);
  }

  #read(output: Readable): void {
    let rest = "";
    output.setEncoding("utf8").on("data", (chunk: string) => {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const answer = Response.parse(JSON.parse(line));
        this.#waiting.get(answer.id)?.resolve(answer);
      }
    });
  }

  /** Ends the server, then its connector. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    for (const { reject } of this.#waiting.values()) reject(ended(this.name));
    await this.#ended;
    await this.#connector[Symbol.asyncDispose]();
  }
}

function ended(name: string): Error {
  return new Error(`The MCP server of ${name} has ended`);
}
