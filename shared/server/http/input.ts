/**
 * From untrusted input to typed values, or to the route's code with the problems by field.
 */
import * as z from "zod";
import { type ErrorCode, type ErrorDetails, ERRORS, ServiceError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { inputText, problemText } from "../../protocol/input_text.ts";

/** @throws {ServiceError} with `code` when the value does not fit */
export function parseInput<S extends z.ZodType>(schema: S, value: unknown, code: ErrorCode | undefined): z.output<S> {
  const parsed = schema.safeParse(value, { error: inputText });
  if (parsed.success) return parsed.data;
  // A body may have ten thousand problems: the first ones are reported.
  const first = new z.ZodError(parsed.error.issues.slice(0, LIMITS.inputProblems));
  const { fieldErrors, formErrors } = z.flattenError(first, problemText);
  throw invalidInput(code, { fieldErrors: fieldErrors as Record<string, string[]>, formErrors });
}

/** The error of a route for input that does not fit; the message names the first problem's field, never its value. */
export function invalidInput(code: ErrorCode | undefined, details: ErrorDetails): ServiceError {
  if (code === undefined) return new ServiceError("INTERNAL_ERROR", { message: "The route has no code for bad input" });
  const first = [...details.formErrors, ...Object.values(details.fieldErrors).flat()][0];
  const when = ERRORS[code].when;
  const message = `${when.charAt(0).toUpperCase()}${when.slice(1)}${first === undefined ? "" : `: ${first}`}`;
  if (code === "AGENT_AUTH_REFRESH_INVALID") return new ServiceError(code, { status: 400, message, details });
  return new ServiceError(code, { message, details });
}
