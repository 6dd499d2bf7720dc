/** A row of the table of tools: what a model may call, what it gets, and which servers have the tool. */
import type { InputRequiredResult } from "@modelcontextprotocol/server";
import type { AnsweredCall } from "./answers.ts";
import type { ReplyError } from "../../shared/client/local_shapes.ts";
import type { McpAgent } from "./mcp_agent.ts";
import { ConversationId } from "../../shared/protocol/api/relay.ts";
import { isRequestId, REQUEST_ID_FORM } from "../../shared/protocol/ids.ts";
import * as z from "zod";

export interface ToolCall extends AnsweredCall {
  /** Longest wait of the call, in seconds. A call that asks for more waits this long. */
  maxWaitSeconds: number;
  person: Person;
}

/** The way to a person through the MCP client. */
export interface Person {
  canBeAsked: boolean;
  /** The state of the question that this call answers; `null` in a first call. */
  state: string | null;
  hasAgreed: boolean;
}

export interface ToolRow {
  name: string;
  description: string;
  /** The one of a server that only reads, because a model would take a message that is shown again for a new one. */
  descriptionWhenReadOnly?: string;
  input: z.ZodObject;
  output: z.ZodObject;
  /** True when it changes nothing, so that a repeated call is harmless. */
  isLookup?: true;
  /** True when a result can hold texts of peers. */
  hasPeerText?: true;
  /** Returns the error of a peer that a result contains. With one, the result counts as that of a failed call. */
  errorOf?(result: Record<string, unknown>): ReplyError | null;
  /** Returns true when the server of an agent does not offer the tool. When absent, every server offers it. */
  absent?(mcp: McpAgent): boolean;
  run(mcp: McpAgent, args: unknown, call: ToolCall): Promise<Record<string, unknown> | InputRequiredResult>;
}

interface ToolSpec<I extends z.ZodObject, O extends z.ZodObject> extends Omit<ToolRow, "run" | "errorOf"> {
  input: I;
  output: O;
  errorOf?(result: z.output<O>): ReplyError | null;
  run(mcp: McpAgent, args: z.output<I>, call: ToolCall): Promise<z.output<O> | InputRequiredResult>;
}

/** Defines a tool. The type of the arguments follows from `input`. */
export function tool<I extends z.ZodObject, O extends z.ZodObject>(row: ToolSpec<I, O>): ToolRow {
  return row as unknown as ToolRow;
}

/** Longer than any DID. With more, a model's mistake would come back at its full length. */
const PEER_CHARACTERS_MAX = 256;

export const Peer = z.string().min(1).max(PEER_CHARACTERS_MAX).describe("Alias or DID of a peer, from list_peers");

export const Conversation = z.string().min(1).max(128).refine((id) => ConversationId.safeParse(id).success, {
  error: "must be 1 to 128 visible ASCII characters without a comma",
}).describe("ID of a conversation");

export const RequestId = z.string().min(8).max(128).refine(isRequestId, {
  error: `must be ${REQUEST_ID_FORM}`,
});

export const MessageId = z.int().min(1).max(Number.MAX_SAFE_INTEGER).describe("id of a message, from read_inbox");
