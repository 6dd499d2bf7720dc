/** How the errors of the services become errors of the client library. */
import { ContextError } from "../../protocol/message_context.ts";
import { ApiError, UnreachableError } from "../errors.ts";
import { describeError } from "../refusals.ts";
import { SvcError } from "./svc_error.ts";

/** The error as a `SvcError`. A defect of the library or of the caller is returned unchanged. */
export function asSvcError(error: unknown): unknown {
  if (error instanceof ApiError) {
    const { code, status, requestId } = error;
    return new SvcError(code ?? `HTTP_${status}`, describeError(error), { status, requestId, cause: error });
  }
  if (error instanceof UnreachableError) return new SvcError(error.code, describeError(error), { cause: error });
  if (error instanceof ContextError) return new SvcError("CLI_USAGE", error.message, { cause: error });
  return error;
}

/** Runs `work`; every rejection is a `SvcError`, as far as it is not a defect. */
export async function withSvcErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asSvcError(error);
  }
}

/** Code and text of an error, for an event. */
export function problemOf(error: unknown): { code: string | null; message: string } {
  const known = asSvcError(error);
  return { code: known instanceof SvcError ? known.code : null, message: describeError(known) };
}
