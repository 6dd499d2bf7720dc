/**
 * An agent whose model reads and writes with `svc mcp`: its connector, the program that starts `svc mcp`, and what that
 * program has shown. Each process can be killed.
 */
import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { PairedAgents } from "../cli/connector/paired_agents.ts";
import type { RunningConnector } from "../cli/connector/people.ts";
import type { Program } from "../cli/program.ts";
import { eventually, within } from "../support/process.ts";

/** Only a test that hangs reaches this time. */
export const END_MS = 60_000;

// deno-lint-ignore no-explicit-any
type Line = any;

/** A message in an answer. */
export interface Shown {
  id: number;
  requestId: string;
  text: string;
  isReply: boolean;
  mayBeRepeat: boolean;
}

/** The program that starts `svc mcp` and shows its answers to a model. */
export class Host implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #answers = new Map<number, PromiseWithResolvers<Line>>();
  #nextId = 1;
  #isOver = false;
  /** Resolves when the process has ended and everything that it wrote was read. */
  readonly ended: Promise<unknown>;

  private constructor(program: Program, dir: string, agent: string, readonly onShown: (message: Shown) => void) {
    const env = { SVC_CONFIG_DIR: dir };
    const args = [...program.args, "mcp", agent];
    this.#child = new Deno.Command(program.command, { args, env, stdin: "piped", stdout: "piped", stderr: "null" })
      .spawn();
    this.#writer = this.#child.stdin.getWriter();
    this.#writer.closed.catch(() => {});
    this.ended = Promise.all([this.#read(), this.#child.status]);
  }

  /** A host whose server has a connector. */
  static async open(
    { program, dir }: Pick<PairedAgents, "program" | "dir">,
    agent: string,
    onShown: (message: Shown) => void,
  ): Promise<Host> {
    const host = new Host(program, dir, agent, onShown);
    const clientInfo = { name: "host", version: "1" };
    await host.#answerTo("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
    host.#write({ method: "notifications/initialized" });
    await host.connected();
    return host;
  }

  #write(message: object): void {
    const text = `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`;
    this.#writer.write(new TextEncoder().encode(text)).catch(() => {});
  }

  #request(method: string, params: object): number {
    const id = this.#nextId++, answer = Promise.withResolvers<Line>();
    if (this.#isOver) answer.resolve(undefined);
    this.#answers.set(id, answer);
    this.#write({ id, method, params });
    return id;
  }

  async #answerTo(method: string, params: object): Promise<Line> {
    return await this.answer(this.#request(method, params));
  }

  /** Calls a tool. Returns the ID of the request. */
  call(name: string, args: object = {}): number {
    return this.#request("tools/call", { name, arguments: args });
  }

  cancel(requestId: number): void {
    this.#write({ method: "notifications/cancelled", params: { requestId } });
    this.#answers.get(requestId)?.resolve(undefined);
  }

  /** The answer to a request; `undefined` when it was cancelled, or when the output ended without it. */
  async answer(id: number): Promise<Line> {
    const answer = this.#answers.get(id)?.promise;
    return answer && await within(END_MS, `the answer to request ${id}`, answer);
  }

  /** What a tool returns. @throws {Error} with the text of a tool that failed */
  async use(name: string, args: object = {}): Promise<Line> {
    const { result, error } = await this.answer(this.call(name, args)) ?? {};
    if (result?.structuredContent === undefined || result.isError) {
      throw new Error(`${name} failed: ${JSON.stringify(result ?? error)}`);
    }
    return result.structuredContent;
  }

  /** Waits until the connector is there and connected. */
  async connected(): Promise<void> {
    await eventually(END_MS, "svc mcp has a connector", async () => {
      const { result } = await this.answer(this.call("whoami"));
      return result?.structuredContent?.connection === "connected" || undefined;
    });
  }

  async #read(): Promise<void> {
    let rest = "";
    for await (const piece of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + piece).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines.filter((text) => text !== "")) this.#take(JSON.parse(line));
    }
    this.#isOver = true;
    for (const { resolve } of this.#answers.values()) resolve(undefined);
  }

  #take(line: Line): void {
    const { messages = [], reply } = line.result?.structuredContent ?? {};
    for (const message of [...messages, ...reply ? [reply] : []]) this.onShown(message);
    if (line.method === undefined) this.#answers.get(line.id)?.resolve(line);
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** Ends the input, as a host does that is closed; the output is read until its end. */
  close(): void {
    this.#writer.close().catch(() => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await within(END_MS, "svc mcp ends", this.ended);
  }
}

export class ModelSide implements AsyncDisposable {
  readonly shown: Shown[] = [];
  connector: RunningConnector | null = null;
  #host: Host | null = null;

  /** @param isAttached whether a connector runs beside `svc mcp`, which then attaches to it */
  constructor(readonly agents: PairedAgents, readonly name: string, readonly isAttached: boolean) {}

  /** The host, started with what is missing. */
  async present(): Promise<Host> {
    if (this.isAttached && this.connector === null) {
      // It runs a connector itself since the other one has ended, and there is one at a time.
      await this.close();
      this.connector = await this.agents.connector(this.name);
    }
    return this.#host ??= await Host.open(this.agents, this.name, (message) => void this.shown.push(message));
  }

  /** Closes the host. */
  async close(): Promise<void> {
    await this.#host?.[Symbol.asyncDispose]();
    this.#host = null;
  }

  /** Waits for the end of a host that was killed or closed. */
  async gone(): Promise<void> {
    const host = this.#host;
    this.#host = null;
    if (host !== null) await within(END_MS, "svc mcp ends", host.ended);
  }

  /** A call of the local API, in this process or in another. */
  async call(method: "GET" | "POST", target: string, body?: object): Promise<Response> {
    const file = JSON.parse(Deno.readTextFileSync(`${this.#folder}/connector.json`));
    return await fetch(file.url + target, {
      method,
      headers: { Authorization: `Bearer ${file.token}` },
      body: body === undefined ? null : JSON.stringify(body),
    });
  }

  get #folder(): string {
    return `${this.agents.dir}/agents/${this.name}`;
  }

  /** What the connector has stored: whether each message is read, by request ID. From its file, which hides no lease. */
  stored(): Map<string, { isRead: boolean }> {
    using db = new DatabaseSync(`${this.#folder}/connector.db`, { readOnly: true });
    const rows = db.prepare("SELECT requestId, readAt FROM messages").all();
    return new Map(rows.map(({ requestId: id, readAt: at }) => [String(id), { isRead: at !== null }]));
  }

  has(requestId: string): boolean {
    return this.shown.some((message) => message.requestId === requestId);
  }

  /** Asserts that every message that is read was shown, and that every repeat says that it may be one. */
  check(): void {
    const unseen = [...this.stored()].filter(([requestId, { isRead }]) => isRead && !this.has(requestId));
    assertEquals(unseen, [], `read by ${this.name} and never shown`);
    const seen = new Set<string>();
    for (const { requestId, mayBeRepeat } of this.shown) {
      assert(!seen.has(requestId) || mayBeRepeat, `${requestId} was shown again without saying so`);
      seen.add(requestId);
    }
  }

  /** Number of messages that were shown more than once. */
  get repeats(): number {
    return this.shown.length - new Set(this.shown.map(({ requestId }) => requestId)).size;
  }

  /** Reads until these are read. One that a killed server had shown is unread again when its lease has ended. */
  async drain(requestIds: readonly string[]): Promise<void> {
    await eventually(3 * END_MS, `${this.name} has read every message`, async () => {
      const host = await this.present();
      await host.answer(host.call("wait_for_message", { timeout_seconds: 5 }));
      const stored = this.stored();
      return requestIds.every((requestId) => this.has(requestId) && stored.get(requestId)?.isRead) || undefined;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    await this.connector?.[Symbol.asyncDispose]();
  }
}
