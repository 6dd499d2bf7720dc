/** A row of the table of tools: what a model may call, what it gets, and which servers have the tool (D-128). */
import type { InputRequiredResult } from "@modelcontextprotocol/server";
import type * as z from "zod";
import type { McpAgent } from "./mcp_agent.ts";

/** What a tool knows about its call. */
export interface ToolCall {
  /** Aborted when the call is cancelled, or the MCP client has gone. */
  signal: AbortSignal;
  /** The person behind the MCP client. */
  person: Person;
}

/** The way to a person through the MCP client (D-130). */
export interface Person {
  /** Whether the client can show a question. */
  canBeAsked: boolean;
  /** The state of the question that this call answers; `null` in a first call. */
  state: string | null;
  /** Whether the person has agreed. */
  hasAgreed: boolean;
}

export interface ToolRow {
  name: string;
  description: string;
  input: z.ZodObject;
  output: z.ZodObject;
  /** True when it changes nothing, so that a repeated call is harmless. */
  isLookup: boolean;
  /** True when a result can hold texts of peers. */
  hasPeerText: boolean;
  /** Whether the server of an agent is without the tool. */
  absent: (mcp: McpAgent) => boolean;
  run(mcp: McpAgent, args: unknown, call: ToolCall): Promise<Record<string, unknown> | InputRequiredResult>;
}

interface ToolSpec<I extends z.ZodObject, O extends z.ZodObject> extends Omit<ToolRow, "run"> {
  input: I;
  output: O;
  run(mcp: McpAgent, args: z.output<I>, call: ToolCall): Promise<z.output<O> | InputRequiredResult>;
}

/** Defines a tool. The type of the arguments follows from `input`. */
export function tool<I extends z.ZodObject, O extends z.ZodObject>(row: ToolSpec<I, O>): ToolRow {
  return row as unknown as ToolRow;
}

export const never = () => false;
