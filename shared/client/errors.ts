/** The errors of both services as a client sees them. */

const CODE = /^[A-Z0-9_]{1,64}$/;

/** Returns a received code, or `UNKNOWN_ERROR` for any other text, because that could control the terminal. */
export function receivedCode(code: unknown): string {
  return typeof code === "string" && CODE.test(code) ? code : "UNKNOWN_ERROR";
}

export class ApiError extends Error {
  override name = "ApiError";
  /** The code of the answer: `UNKNOWN_ERROR` for a text that is not a code, `null` for an answer without error body. */
  readonly code: string | null;
  /** If set, replaces the fix that the error table has for the code. */
  fix: string | undefined;

  constructor(
    readonly status: number,
    code: string | null,
    message: string,
    readonly requestId: string | null,
    /** Seconds to wait before the next attempt; `null` when the answer does not say. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
    this.code = code === null ? null : receivedCode(code);
  }
}

/** Tells whether the service has certainly changed nothing. After 408, 409 and 429 that is not certain. */
export function wasRefused(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 &&
    ![408, 409, 429].includes(error.status);
}

/**
 * Returns the messages and codes of an error and its causes, one per line. `fetch` of Node says only `fetch failed`,
 * so without the causes a refused connection would count as a lost answer.
 */
export function causesOf(error: unknown): string {
  const lines: string[] = [];
  for (let at = error, n = 0; at instanceof Error && n < 5; at = at.cause, n++) {
    lines.push("code" in at ? `${at.code}: ${at.message}` : at.message);
  }
  return lines.join("\n");
}

/** How `fetch` of Deno and sockets name a failure that came before the request was sent. */
const NO_CONNECTION = /client error \(Connect\)|connection refused|ECONNREFUSED|ENOTFOUND/i;

/** How `fetch` of Deno says that the other side has ended the connection. */
const BROKE_OFF = /connection closed before message completed|connection reset by peer/i;

/** How sockets and `fetch` say that an address cannot be reached at all, or that its name cannot be looked up. */
const NO_NETWORK =
  /ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENETDOWN|ENOTFOUND|EAI_AGAIN|network is unreachable|no route to host|dns error/i;

/** The service is unreachable, or its answer is not one of this protocol. */
export class UnreachableError extends Error {
  override name = "UnreachableError";
  /** If set, replaces the fix that the error table has for the code. */
  readonly fix: string | undefined;
  readonly code: "CLI_UNREACHABLE" | "CLI_TLS_REFUSED";
  /** False when there was no connection, because the service cannot have got the request then. */
  readonly mayHaveArrived: boolean;
  /** True when the other side has ended the connection before its answer. */
  readonly brokeOff: boolean;
  /** True when this machine seems to have no network, because nothing on the way has answered. */
  readonly hasNoNetwork: boolean;

  constructor(
    message: string,
    { cause, fix, code = "CLI_UNREACHABLE" }: { cause?: unknown; fix?: string; code?: UnreachableError["code"] } = {},
  ) {
    super(message, { cause });
    const why = causesOf(cause);
    this.mayHaveArrived = !NO_CONNECTION.test(why);
    this.brokeOff = this.mayHaveArrived && BROKE_OFF.test(why);
    this.hasNoNetwork = NO_NETWORK.test(why);
    this.fix = fix;
    this.code = code;
  }
}

/** No connector answered a request to its local API. */
export class LocalDown extends Error {
  override name = "LocalDown";
  /** False when nothing was sent. Any request can then be repeated without harm. */
  readonly wasSent: boolean;
  /** The process that has the connector and does not answer, because another one cannot start before it has ended. */
  readonly silentPid: number | null;

  /** @param what the rest of a sentence about the connector, such as "does not run" */
  constructor(
    readonly agentName: string,
    what: string,
    { cause, wasSent = false, silentPid = null }: { cause?: unknown; wasSent?: boolean; silentPid?: number | null } =
      {},
  ) {
    super(`The connector of ${agentName} ${what}`, { cause });
    this.wasSent = wasSent;
    this.silentPid = silentPid;
  }
}
