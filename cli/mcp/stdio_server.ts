/** Serves an agent over standard input and output (D-127). Standard output carries lines of the protocol only. */
import type { Readable, Writable } from "node:stream";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { announce, CHANNEL_CAPABILITY } from "./channel.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";
import { mcpServer } from "./server.ts";
import type { McpAgent } from "./mcp_agent.ts";

/** How an agent is served. */
export interface Serving {
  version: string;
  /** Announces messages as a channel, on revisions up to 2025-11-25 only (D-133). */
  isChannel: boolean;
  /** Called with an error of the connection. */
  report(error: Error): void;
  /** Ends the server. */
  signal: AbortSignal;
  /** Streams in place of those of the process. */
  streams?: { input: Readable; output: Writable };
}

/** Serves until the MCP client closes its end, or `signal` aborts. */
export async function serveMcpAgent(mcp: McpAgent, serving: Serving): Promise<void> {
  const { signal, streams, report, version } = serving;
  const transport = new Transport(streams?.input, streams?.output, { maxBufferSize: LIMIT.requestBytes });
  const close = serving.isChannel
    ? await serveChannel(mcp, transport, serving)
    : serveStdio(() => mcpServer(mcp, { version }), { transport, onerror: report }).close;
  const stop = () => void close();
  signal.addEventListener("abort", stop);
  if (signal.aborted) stop();
  await transport.closed;
  signal.removeEventListener("abort", stop);
}

/** A client takes a server for a channel only if it negotiates such a revision: the other ones are not offered. */
async function serveChannel(mcp: McpAgent, transport: Transport, { version, report }: Serving) {
  const server = mcpServer(mcp, { version, experimental: { [CHANNEL_CAPABILITY]: {} } });
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
  readonly #closed = Promise.withResolvers<void>();
  /** Resolves at the end of the connection. */
  readonly closed = this.#closed.promise;

  override async close(): Promise<void> {
    await super.close();
    this.#closed.resolve();
  }
}
