import { ApiError, LocalDown } from "./errors.ts";
import { describeError } from "./refusals.ts";
import type { IncomingMessage } from "./agent_api.ts";

interface SvcErrorMore {
  status?: number;
  requestId?: string | null;
  retryAfter?: number | null;
  reply?: IncomingMessage;
  cause?: unknown;
}

/** An error of the client library. `code` is a code of docs/errors.md. */
export class SvcError extends Error {
  override name = "SvcError";
  /** HTTP status of the refusal; absent when no service refused. */
  declare readonly status?: number;
  /** ID of the refused request, or of the message. */
  declare readonly requestId?: string;
  /** Seconds to wait before the next attempt; absent when no service named them. */
  declare readonly retryAfter?: number;
  /** With `REPLY_ERROR`: the reply that says why there is no answer. */
  declare readonly reply?: IncomingMessage;

  constructor(readonly code: string, message: string, more: SvcErrorMore = {}) {
    const { status, requestId, retryAfter, reply, cause } = more;
    super(message, cause === undefined ? {} : { cause });
    if (status !== undefined) this.status = status;
    if (typeof retryAfter === "number") this.retryAfter = retryAfter;
    if (reply !== undefined) this.reply = reply;
    if (typeof requestId === "string") this.requestId = requestId;
  }
}

/** Returns an error of the local client as a program sees it. Any other error is returned unchanged. */
export function asSvcError(error: unknown): unknown {
  if (error instanceof LocalDown) return new SvcError("CONNECTOR_DOWN", error.message, { cause: error.cause });
  if (!(error instanceof ApiError) || error.code === null) return error;
  const { code, status, requestId, retryAfter } = error;
  return new SvcError(code, describeError(error), { status, requestId, retryAfter, cause: error });
}
