/** The one error of the client library (D-125, D-138). */

/** An error of the client library. `code` is a code of docs/errors.md. */
export class SvcError extends Error {
  override name = "SvcError";
  /** HTTP status of the refusal; absent when no service refused. */
  declare readonly status?: number;
  /** ID of the refused request, or of the message. */
  declare readonly requestId?: string;

  constructor(
    readonly code: string,
    message: string,
    { status, requestId, cause }: { status?: number; requestId?: string | null; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? {} : { cause });
    if (status !== undefined) this.status = status;
    if (typeof requestId === "string") this.requestId = requestId;
  }
}
