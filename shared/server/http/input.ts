/** Parses untrusted input to typed values, or throws the route's code with the problems of each member. */
import * as z from "zod";
import { type ErrorCode, type ErrorDetails, ERRORS, ServiceError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { inputText, problemText } from "../../protocol/input_text.ts";

/** Returns the parsed value. @throws {ServiceError} with `code` for invalid input */
export function parseInput<S extends z.ZodType>(schema: S, value: unknown, code: ErrorCode | undefined): z.output<S> {
  const parsed = schema.safeParse(value, { error: inputText });
  if (parsed.success) return parsed.data;
  // A body may have ten thousand problems; only the first ones are reported.
  const first = new z.ZodError(parsed.error.issues.slice(0, LIMITS.inputProblems));
  const { fieldErrors, formErrors } = z.flattenError(first, problemText);
  throw invalidInput(code, { fieldErrors: fieldErrors as Record<string, string[]>, formErrors });
}

/** Returns the error for invalid input. The message names the member of the first problem, never its value. */
export function invalidInput(code: ErrorCode | undefined, details: ErrorDetails): ServiceError {
  if (code === undefined) return new ServiceError("INTERNAL_ERROR", { message: "The route has no code for bad input" });
  const first = [...details.formErrors, ...Object.values(details.fieldErrors).flat()][0];
  const when = ERRORS[code].when;
  const message = `${when.charAt(0).toUpperCase()}${when.slice(1)}${first === undefined ? "" : `: ${first}`}`;
  if (code === "AGENT_AUTH_REFRESH_INVALID") return new ServiceError(code, { status: 400, message, details });
  return new ServiceError(code, { message, details });
}
