/** Results and errors of tools as MCP expects them (D-127, D-129). */
import type { CallToolResult } from "@modelcontextprotocol/server";
import type * as z from "zod";
import { ApiError } from "../../shared/client/errors.ts";
import { inputText, problemText } from "../../shared/protocol/input_text.ts";
import { LOCAL_ERRORS, type LocalCode } from "../connector/local_api/local_errors.ts";
import { describe } from "../errors.ts";
import { oneLine, printable, sentence } from "../terminal/output.ts";
import { MCP_LIMITS as LIMIT } from "./limits.ts";
import { DATA_LINE } from "./texts.ts";

/** An error of a tool with its complete text. */
export class ToolError extends Error {
  override name = "ToolError";
}

/** The error of a local route, with another message or fix. */
export function localError(code: LocalCode, message?: string, fix?: string): ApiError {
  const row = LOCAL_ERRORS[code];
  const error = new ApiError(row.status, code, message ?? row.when, null);
  error.fix = fix ?? row.fix;
  return error;
}

/** The result of a tool: JSON in one line, behind the line about texts of peers when it may hold some. */
export function toolResult(structured: Record<string, unknown>, hasPeerText: boolean): CallToolResult {
  return {
    content: [{ type: "text", text: (hasPeerText ? `${DATA_LINE}\n` : "") + resultJson(structured) }],
    structuredContent: structured,
  };
}

/** A value as JSON on one line, in which every control character and text direction is escaped. */
export function resultJson(value: unknown): string {
  return oneLine(JSON.stringify(value));
}

/** The result of a tool that failed: code, what happened, what to do. */
export function toolFailure(error: unknown): CallToolResult {
  return { content: [{ type: "text", text: errorText(error) }], isError: true };
}

function errorText(error: unknown): string {
  if (error instanceof ToolError) return error.message;
  const { code, cause, details = [], fix } = describe(error);
  const isLater = error instanceof ApiError && error.retryAfter !== null;
  const next = isLater ? `Wait ${error.retryAfter} s, then call the tool again.` : fix;
  return failureText(code, [cause, ...details], next);
}

/** `<CODE>: <what happened>. <what to do>`, on one line. */
export function failureText(code: string, what: readonly string[], fix: string): string {
  const sentences = [...what, fix].filter((text) => text !== "").map(sentence).join(" ");
  return cutText(printable(`${code}: ${sentences}`), LIMIT.errorCharacters);
}

/** The arguments of a call. @throws {ApiError} `CONNECTOR_INVALID_BODY`, which names the member and not its value */
export function checkedArguments<S extends z.ZodType>(schema: S, given: unknown): z.output<S> {
  const parsed = schema.safeParse(given ?? {}, { error: inputText });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const what = `Invalid arguments: ${issue ? problemText(issue) : "they do not fit"}`;
  throw localError("CONNECTOR_INVALID_BODY", what, "Correct the arguments; tools/list has their schema.");
}

/** A text of a peer for one line: control characters escaped, then cut. */
export function shownText(text: string, characters: number): string {
  return cutText(printable(text), characters);
}

/** The beginning of a text, at most `characters` UTF-16 units, without half of a surrogate pair at its end. */
export function cutText(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const isSplit = isHighSurrogate(text.charCodeAt(characters - 1));
  return text.slice(0, isSplit ? characters - 1 : characters);
}

export function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
