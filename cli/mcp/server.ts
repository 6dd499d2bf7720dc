/** The MCP server of an agent (D-127): registers its tools, in a fixed order. One per connection. */
import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  isInputRequiredResult,
  McpServer,
  type ServerContext,
  type StandardSchemaWithJSON,
} from "@modelcontextprotocol/server";
import type * as z from "zod";
import { MCP_LIMITS as LIMIT } from "./limits.ts";
import { DELIVERY_STATUS, LIST_PEERS, WHOAMI } from "./lookup_tools.ts";
import { READ_INBOX, SEND_MESSAGE, WAIT_FOR_MESSAGE } from "./message_tools.ts";
import { Confirmation, PAIR_CONFIRM, PAIR_START, QUESTION } from "./pair_tools.ts";
import type { McpAgent } from "./mcp_agent.ts";
import { INSTRUCTIONS } from "./texts.ts";
import type { Person, ToolRow } from "./tool.ts";
import { checkedArguments, toolFailure, toolResult } from "./tool_result.ts";

/** All tools, in their order. */
export const TOOLS: readonly ToolRow[] = [
  WHOAMI,
  LIST_PEERS,
  SEND_MESSAGE,
  READ_INBOX,
  WAIT_FOR_MESSAGE,
  DELIVERY_STATUS,
  PAIR_START,
  PAIR_CONFIRM,
];

/** What a server says about itself beside its tools. */
export interface ServerAbout {
  version: string;
  /** Experimental capabilities. */
  experimental?: Record<string, Record<string, never>>;
}

/** Returns a server that is not connected yet. */
export function mcpServer(mcp: McpAgent, { version, experimental }: ServerAbout): McpServer {
  const server = new McpServer({ name: "svc", version }, {
    capabilities: { tools: { listChanged: false }, ...experimental === undefined ? {} : { experimental } },
    instructions: INSTRUCTIONS,
    inputRequired: { maxRounds: 1, roundTimeoutMs: LIMIT.approvalMs },
  });
  for (const row of TOOLS.filter(({ absent }) => !absent(mcp))) register(server, mcp, row);
  return server;
}

function register(server: McpServer, mcp: McpAgent, row: ToolRow): void {
  const { name, description, input, output, isLookup, hasPeerText } = row;
  const hints = isLookup ? { readOnlyHint: true, idempotentHint: true } : { openWorldHint: true };
  server.registerTool(name, {
    description,
    inputSchema: shownSchema(input),
    outputSchema: output,
    annotations: { ...hints, destructiveHint: false },
  }, async (given, context) => {
    try {
      const call = { signal: context.mcpReq.signal, person: personOf(server, context) };
      const result = await row.run(mcp, checkedArguments(input, given), call);
      return isInputRequiredResult(result) ? result : toolResult(result, hasPeerText);
    } catch (error) {
      return toolFailure(error);
    }
  });
}

/** The schema as `tools/list` shows it. The library would answer invalid arguments with a text of its own. */
function shownSchema(schema: z.ZodObject): StandardSchemaWithJSON {
  const standard = schema["~standard"];
  return { "~standard": { ...standard, validate: (value: unknown) => ({ value }) } };
}

/** The person behind the MCP client, in both kinds of protocol revisions. */
function personOf(server: McpServer, { mcpReq }: ServerContext): Person {
  const envelope: Record<string, unknown> = { ...mcpReq.envelope };
  const ofRequest = envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined;
  const { elicitation } = ofRequest ?? server.server.getClientCapabilities() ?? {};
  // A client that names no kind of question shows forms.
  const hasForms = elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
  const state = mcpReq.requestState<string>();
  const answer = acceptedContent(mcpReq.inputResponses, QUESTION, Confirmation);
  return { canBeAsked: hasForms, state: state ?? null, hasAgreed: answer?.confirm === true };
}
