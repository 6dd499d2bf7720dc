/**
 * A client of the MCP server in the test's process: the real client, in either kind of protocol revisions, next to a
 * connector of the bench whose local API is called without a socket.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { Client, type ClientCapabilities, type ElicitResult } from "@modelcontextprotocol/client";
import { InMemoryTransport } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { CONNECTOR_LIMITS } from "../../../cli/connector/limits.ts";
import type { LocalCalls } from "../../../shared/client/local_client.ts";
import { pairingCommand } from "../../../cli/connector/local_api/discovery_file.ts";
import { mcpServer } from "../../../cli/mcp/stdio_server.ts";
import { McpAgent, type McpAgentOptions } from "../../../cli/mcp/mcp_agent.ts";
import { REGISTRY_URL, type World } from "../../support/world.ts";
import { whileTimePasses } from "../alpha.ts";
import { Bench } from "../connector/bench.ts";
import { asker } from "../connector/local_api/local_caller.ts";

/** Protocol revisions: up to 2025-11-25, and 2026-07-28. */
export const ERAS = ["2025", "2026"] as const;
export type Era = (typeof ERAS)[number];

/** How a client asks for an era. */
export const negotiationOf = (era: Era) => ({ mode: era === "2026" ? { pin: "2026-07-28" } : "legacy" } as const);

export interface McpClientOptions extends Partial<McpAgentOptions> {
  era?: Era;
  /** What the client can do; by default it shows questions. */
  capabilities?: ClientCapabilities;
  /** Whether messages may still come that have waited at the server, so that an empty inbox is not answered at once. */
  isLinkNew?: boolean;
  /** What the person answers. */
  answer?: (question: string) => ElicitResult | Promise<ElicitResult>;
}

/** A result of a tool. */
export interface Outcome {
  isError: boolean;
  text: string;
  // deno-lint-ignore no-explicit-any
  data: any;
}

export class McpClient implements AsyncDisposable {
  /** Questions that the person was asked. */
  readonly questions: string[] = [];

  private constructor(
    readonly world: World,
    readonly client: Client,
    readonly mcp: McpAgent,
    /** Requests to the local API: method and target. */
    readonly requests: string[],
    readonly close: () => Promise<void>,
  ) {}

  /** An open client, which is closed before its world ends. */
  static async open(world: World, bench: Bench, options: McpClientOptions = {}): Promise<McpClient> {
    const { era = "2025", capabilities = { elicitation: {} }, answer, isLinkNew = false, ...more } = options;
    const requests: string[] = [];
    const { name, did, ownerDid } = bench.agent.agent;
    const mcp = new McpAgent({
      identity: { name, did, ownerDid, registryUrl: REGISTRY_URL },
      connector: connectorOf(bench, requests),
      peers: () => bench.peers,
      pairingCommand: (action, body) =>
        pairingCommand({ path: "/home/ada/it's/beta" }, "http://127.0.0.1:1", action, body),
      named: (text) => text.replaceAll("<name>", name),
      clock: world.clock,
      random: world.random,
      isPush: bench.connector.store.received.delivery === "push",
      isReadOnly: false,
      only: null,
      ...more,
    });
    const [near, far] = InMemoryTransport.createLinkedPair();
    const send = far.send.bind(far);
    far.send = (message, options) => mcp.answers.write(message, () => send(message, options));
    const handle = serveStdio(() => mcpServer(mcp, "0"), { transport: far });
    const client = new Client({ name: "program", version: "1" }, {
      capabilities,
      versionNegotiation: negotiationOf(era),
    });
    let isOpen = true;
    const opened = new McpClient(world, client, mcp, requests, async () => {
      if (!isOpen) return;
      isOpen = false;
      await client.close();
      await handle.close();
    });
    world.owned.use(opened);
    if (capabilities.elicitation !== undefined) {
      client.setRequestHandler("elicitation/create", async ({ params: { message } }) => {
        opened.questions.push(message);
        return await answer?.(message) ?? { action: "decline" };
      });
    }
    await client.connect(near);
    await client.listTools();
    if (!isLinkNew) await world.clock.advance(CONNECTOR_LIMITS.queuedWaitMs);
    return opened;
  }

  /** Calls a tool. The clock stands still. */
  async call(name: string, args: Record<string, unknown> = {}): Promise<Outcome> {
    const { content, isError, structuredContent } = await this.client.callTool({ name, arguments: args });
    const [first] = content;
    const text = first?.type === "text" ? first.text : "";
    return { isError: isError === true, text, data: structuredContent };
  }

  /** Calls a tool that must succeed; returns its data. */
  // deno-lint-ignore no-explicit-any
  async data(name: string, args: Record<string, unknown> = {}): Promise<any> {
    const { isError, text, data } = await this.call(name, args);
    if (isError) throw new Error(`${name} failed: ${text}`);
    if (JSON.stringify(JSON.parse(text)) !== JSON.stringify(data)) throw new Error(`${name} says two things: ${text}`);
    return data;
  }

  /** Calls a tool that must fail; returns the text, which has these parts. */
  async failure(name: string, args: Record<string, unknown> = {}, ...parts: string[]): Promise<string> {
    const { isError, text } = await this.call(name, args);
    if (!isError) throw new Error(`${name} did not fail: ${text}`);
    for (const part of parts) assertStringIncludes(text, part);
    return text;
  }

  /** Moves the clock in steps until a call ends. */
  async passing<T>(call: Promise<T>, stepMs = 250): Promise<T> {
    return await whileTimePasses(this.world, call, stepMs);
  }

  /** Requests to a route of the local API. */
  sent(route: string): string[] {
    return this.requests.filter((request) => request.includes(route));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Two paired agents, a connector with an MCP client for the second, and what the first writes to it. */
export async function clientOfPair(world: World, from: string, to: string, options: McpClientOptions = {}) {
  const a = await world.agent(undefined, from), b = await world.agent(undefined, to);
  await world.pair(a, b);
  const bench = await Bench.open(world, b, { platform: "inbox" });
  const client = await McpClient.open(world, bench, options);
  const write = async (text: string) => {
    assertEquals((await world.message(a, b, { body: JSON.stringify({ message: text }) })).status, 202);
  };
  return { a, b, bench, client, write };
}

/** The local API of a bench as a connector that tools call. */
function connectorOf(bench: Bench, requests: string[] = []): LocalCalls {
  const ask = asker(bench);
  return {
    agentName: bench.agent.agent.name,
    send: ({ method, target, body }) => {
      requests.push(`${method} ${target}`);
      return ask(target, { method, ...body === undefined ? {} : { body } });
    },
  };
}
