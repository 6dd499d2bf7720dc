/** A process of `svc mcp`, and what a host writes into it: JSON-RPC lines, without the work of a client library. */
import { Child } from "../bench/child.ts";
import type { Program } from "../cli/program.ts";

const REVISION = "2025-06-18";

interface Answer {
  id: number;
  // deno-lint-ignore no-explicit-any
  result: { isError?: boolean; content: { text: string }[]; structuredContent: any };
}

export class McpPipe implements AsyncDisposable {
  readonly #waiting = new Map<number, PromiseWithResolvers<Answer>>();
  #calls = 0;

  private constructor(readonly child: Child) {
    void this.#read();
  }

  /** Starts the server of an agent, and waits until its connector knows a peer. */
  static async open(program: Program, dir: string, agent: string): Promise<McpPipe> {
    return await McpPipe.over(new Child([...program.args, ...mcpArgs(dir, agent)], { NO_COLOR: "1" }, program.command));
  }

  /** The same over a process that has just started. */
  static async over(child: Child): Promise<McpPipe> {
    const pipe = new McpPipe(child);
    const clientInfo = { name: "host", version: "1" };
    await pipe.#request("initialize", { protocolVersion: REVISION, capabilities: {}, clientInfo });
    await pipe.#write({ method: "notifications/initialized" });
    // The connector reads the aliases of the peers when it connects.
    while ((await pipe.call("list_peers")).peers.length === 0) await new Promise((resolve) => setTimeout(resolve, 100));
    return pipe;
  }

  /** Calls a tool and returns its data. @throws {Error} with the text of a failed call, or when the process has ended */
  // deno-lint-ignore no-explicit-any
  async call(name: string, args: Record<string, unknown> = {}): Promise<any> {
    const { result: { isError, content, structuredContent } } = await this.#request("tools/call", {
      name,
      arguments: args,
    });
    if (isError === true) throw new Error(content[0]?.text);
    return structuredContent;
  }

  async #request(method: string, params: unknown): Promise<Answer> {
    const id = ++this.#calls;
    const answer = Promise.withResolvers<Answer>();
    this.#waiting.set(id, answer);
    await this.#write({ id, method, params });
    return await answer.promise;
  }

  async #write(message: Record<string, unknown>): Promise<void> {
    await this.child.tell(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  async #read(): Promise<void> {
    try {
      while (true) {
        const answer = JSON.parse(await this.child.line()) as Answer;
        this.#waiting.get(answer.id)?.resolve(answer);
        this.#waiting.delete(answer.id);
      }
    } catch (error) {
      for (const { reject } of this.#waiting.values()) reject(error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.child.end();
  }
}

/** The arguments of `svc` for the server of an agent. */
export function mcpArgs(dir: string, agent: string): string[] {
  return ["mcp", agent, "--config-dir", dir];
}
