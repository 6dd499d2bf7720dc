/**
 * Serves an agent's tools over standard input and output. Standard output carries only lines of the protocol, because
 * the client takes every line for a message of the protocol.
 */
import type { Readable, Writable } from "node:stream";
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  isInputRequiredResult,
  type JSONRPCMessage,
  McpServer,
  type ServerCapabilities,
  type ServerContext,
  type StandardSchemaWithJSON,
} from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { settledWithin } from "../../shared/clock.ts";
import type { Answers } from "./answers.ts";
import { announce, CHANNEL_CAPABILITY } from "./channel.ts";
import { APPROVAL_MS } from "./approvals.ts";
import type { McpAgent } from "./mcp_agent.ts";
import { DELIVERY_STATUS, LIST_PEERS, WHOAMI } from "./lookup_tools.ts";
import { READ_INBOX, SEND_MESSAGE, WAIT_FOR_MESSAGE } from "./message_tools.ts";
import { Confirmation, PAIR_CONFIRM, PAIR_START, QUESTION } from "./pair_tools.ts";
import type { Person, ToolRow } from "./tool.ts";
import { longestWait, reportProgress } from "./waits.ts";
import { checkedArguments, INSTRUCTIONS, toolFailure, toolResult } from "./tool_result.ts";
import { codexThread } from "./wake.ts";
import process from "node:process";
import * as z from "zod";

/** The tools that a model may call, in the order in which it sees them. */
const TOOLS: readonly ToolRow[] = [
  WHOAMI,
  LIST_PEERS,
  SEND_MESSAGE,
  READ_INBOX,
  WAIT_FOR_MESSAGE,
  DELIVERY_STATUS,
  PAIR_START,
  PAIR_CONFIRM,
];

/** With more, a client that never ends its line fills the memory; with less, a long text is refused. */
export const REQUEST_BYTES_MAX = 1024 ** 2;

/**
 * Longest time for marking and releasing messages at the end, milliseconds. With more, a host that kills a server after
 * 2 s could end it in the middle of this work.
 */
const SETTLED_MS = 1_000;

export interface Serving {
  version: string;
  /** Announces messages as a channel, on revisions up to 2025-11-25 only. */
  isChannel: boolean;
  report(error: Error): void;
  signal: AbortSignal;
  /** Used in place of the streams of the process. */
  streams?: { input: Readable; output: Writable };
}

/** Serves until the MCP client closes its end, or `signal` aborts. */
export async function serveMcpAgent(mcp: McpAgent, serving: Serving): Promise<void> {
  const { signal, streams, report, version } = serving;
  const transport = new Transport(mcp.answers, streams ?? { input: process.stdin, output: process.stdout });
  const close = serving.isChannel
    ? await serveChannel(mcp, transport, serving)
    : serveStdio(() => mcpServer(mcp, version), { transport, onerror: report }).close;
  const stop = () => void close();
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  await transport.closed;
  await settledWithin(mcp.options.clock, mcp.answers.settled(), SETTLED_MS);
  signal.removeEventListener("abort", stop);
}

/** A client takes a server for a channel only with a revision up to 2025-11-25, so no later one is offered. */
async function serveChannel(mcp: McpAgent, transport: Transport, { version, report }: Serving) {
  const server = mcpServer(mcp, version, { experimental: { [CHANNEL_CAPABILITY]: {} } });
  const ended = new AbortController();
  server.server.onerror = report;
  server.server.onclose = () => ended.abort();
  let isAnnouncing = false;
  server.server.oninitialized = () => {
    if (isAnnouncing) return;
    isAnnouncing = true;
    void announce(mcp, (notice) => server.server.notification(notice), ended.signal);
  };
  await server.connect(transport);
  return () => server.close();
}

class Transport extends StdioServerTransport {
  readonly #output: Writable;
  readonly #closed = Promise.withResolvers<void>();
  readonly closed = this.#closed.promise;

  constructor(private readonly answers: Answers, { input, output }: { input: Readable; output: Writable }) {
    super(input, output, { maxBufferSize: REQUEST_BYTES_MAX });
    this.#output = output;
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    await this.answers.write(message, async () => {
      await super.send(message);
      await written(this.#output);
    });
  }

  override async close(): Promise<void> {
    await super.close();
    this.#closed.resolve();
  }
}

/** Resolves when the system has everything that was written to a stream. `write` itself may only have queued it. */
function written(output: Writable): Promise<void> {
  return new Promise((resolve, reject) => {
    output.write("", (error) => error ? reject(error) : resolve());
  });
}

/** Returns a server that is not connected yet. */
export function mcpServer(mcp: McpAgent, version: string, more: ServerCapabilities = {}): McpServer {
  const server = new McpServer({ name: "svc", version }, {
    capabilities: { tools: { listChanged: false }, ...more },
    instructions: INSTRUCTIONS,
    inputRequired: { maxRounds: 1, roundTimeoutMs: APPROVAL_MS },
  });
  for (const row of TOOLS.filter(({ absent }) => !absent?.(mcp))) register(server, mcp, row);
  return server;
}

function register(server: McpServer, mcp: McpAgent, row: ToolRow): void {
  const { name, input, output, isLookup, hasPeerText } = row;
  const description = mcp.options.isReadOnly && row.descriptionWhenReadOnly || row.description;
  const hints = isLookup ? { readOnlyHint: true, idempotentHint: true } : { openWorldHint: true };
  server.registerTool(name, {
    description,
    inputSchema: shownSchema(input),
    outputSchema: hasPeerText ? output.extend({ note: z.string() }) : output,
    annotations: { ...hints, destructiveHint: false },
  }, async (given, context) => {
    const { mcpReq } = context, { id, signal } = mcpReq;
    mcp.codexThread = codexThread(mcpReq._meta) ?? mcp.codexThread;
    using _progress = reportProgress(mcp.options.clock, mcpReq);
    try {
      const call = {
        signal,
        maxWaitSeconds: longestWait(mcpReq),
        person: personOf(server, context),
        answer: mcp.answers.begin(id, signal),
      };
      const result = await row.run(mcp, checkedArguments(input, given), call);
      return isInputRequiredResult(result)
        ? result
        : toolResult(result, hasPeerText === true, row.errorOf?.(result) ?? null);
    } catch (error) {
      return toolFailure(error, mcp.options.named);
    }
  });
}

/** The schema for `tools/list`. It accepts any value, because the library's own refusal would not say what to do. */
function shownSchema(schema: z.ZodObject): StandardSchemaWithJSON {
  const standard = schema["~standard"];
  return { "~standard": { ...standard, validate: (value: unknown) => ({ value }) } };
}

/** What the client says about its person: in each request, or at the start in older revisions of the protocol. */
function personOf(server: McpServer, { mcpReq }: ServerContext): Person {
  const envelope: Record<string, unknown> = { ...mcpReq.envelope };
  const ofRequest = envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined;
  const { elicitation } = ofRequest ?? server.server.getClientCapabilities() ?? {};
  // A client that names no kind of question can show forms.
  const hasForms = elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
  const state = mcpReq.requestState<string>();
  const answer = acceptedContent(mcpReq.inputResponses, QUESTION, Confirmation);
  return { canBeAsked: hasForms, state: state ?? null, hasAgreed: answer?.confirm === true };
}
