/**
 * The only place in the CLI and the client library that sends HTTP requests. Each has a deadline and a bound on the
 * body, and follows no redirect, because any user of the machine may run a server that never ends its answer or leads
 * elsewhere. This file also reads the error in a response, but retries nothing.
 */
import type { Clock } from "../clock.ts";
import { HEADERS } from "../protocol/proof.ts";
import { ApiError, receivedCode } from "./errors.ts";
import { unreachable } from "./tls.ts";

export interface ExchangeDeps {
  fetch: typeof fetch;
  clock: Clock;
  /** Tells whether an address accepts connections. If absent, that is not checked. */
  reach?: ((url: string) => Promise<boolean>) | undefined;
  onResponse?: ((headers: Headers) => void) | undefined;
  /** Ends every exchange, also one under way. */
  closed?: AbortSignal;
}

export interface HttpRequest {
  method: "GET" | "POST" | "DELETE";
  url: string;
  headers?: Record<string, string>;
  body?: string | undefined;
  /** Milliseconds for the whole exchange. */
  timeoutMs: number;
  /** Milliseconds for the connection alone. It needs `reach`, which takes up to 1 s of them. */
  connectMs?: number;
  /** Most bytes of the body that are read; a function decides by status. With 0 and `truncate`, no body is awaited. */
  maxBytes: number | ((status: number) => number);
  onTooLarge: "fail" | "truncate";
  /** With `truncate`: also accepts a body that breaks off or is late, because status and headers are known anyway. */
  cutsBrokenBody?: boolean;
  signal?: AbortSignal;
  /** With a body: uses the connection of an earlier request if one is open, and leaves it open for the next one. */
  keepsConnection?: boolean;
}

/** The options of `fetch`, with one that only the CLI's own `fetch` knows. */
export interface FetchOptions extends RequestInit {
  keepsConnection?: boolean;
}

/** The parameters of a query. Those that are undefined are not sent. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** Returns the query with its question mark, or an empty text if it has no parameter. */
export function searchOf(query: Query): string {
  const given = Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [[name, String(value)]]);
  return given.length > 0 ? `?${new URLSearchParams(given)}` : "";
}

export interface HttpResponse {
  status: number;
  headers: Headers;
  text: string;
  /** `large`: the body is over `maxBytes`. `broken`: it broke off or was late. If absent, `text` is the whole body. */
  cut?: "large" | "broken";
}

export type ExchangeFailure = "timeout" | "connect" | "unreachable" | "aborted" | "too_large";

/** An exchange without a response. The message is the rest of a sentence, such as "did not answer within 30 s". */
export class ExchangeError extends Error {
  override name = "ExchangeError";

  constructor(readonly reason: ExchangeFailure, message: string, cause?: unknown) {
    super(message, { cause });
  }
}

const REACH_MS = 1_000;

/**
 * Sends a request and returns the response; a redirect is returned too, not followed. It stops reading the body at
 * `maxBytes`.
 *
 * @throws {ExchangeError}
 */
export async function exchange(deps: ExchangeDeps, request: HttpRequest): Promise<HttpResponse> {
  const { method, url, headers = {}, body, timeoutMs, connectMs, signal, keepsConnection = false } = request;
  const abort = new AbortController();
  const state: { answered: boolean; late: "timeout" | "connect" | null } = { answered: false, late: null };
  const stopFor = (reason: "timeout" | "connect") => {
    state.late ??= reason;
    abort.abort();
  };
  const ends = [signal, deps.closed], end = () => abort.abort();
  // `AbortSignal.any` would be shorter, but for a signal that lives long Node would keep 110 bytes of each request.
  for (const one of ends) one?.addEventListener("abort", end);
  if (ends.some((one) => one?.aborted)) end();
  const timers = [deps.clock.after(timeoutMs, () => stopFor("timeout"))];
  if (connectMs !== undefined && deps.reach !== undefined) {
    const { reach } = deps;
    timers.push(deps.clock.after(connectMs - REACH_MS, async () => {
      const reached = state.answered || await reach(new URL(url).origin);
      if (!reached && !state.answered) stopFor("connect");
    }));
  }
  try {
    const options: FetchOptions = {
      method,
      headers,
      body: body ?? null,
      redirect: "manual",
      signal: abort.signal,
      keepsConnection,
    };
    const response = await deps.fetch(url, options);
    state.answered = true;
    deps.onResponse?.(response.headers);
    return { status: response.status, headers: response.headers, ...await readBody(response, request) };
  } catch (cause) {
    if (cause instanceof ExchangeError) throw cause;
    const reason = state.late ?? (ends.some((one) => one?.aborted) ? "aborted" : "unreachable");
    throw new ExchangeError(reason, predicateOf(reason, request), cause);
  } finally {
    for (const cancel of timers) cancel();
    for (const one of ends) one?.removeEventListener("abort", end);
  }
}

async function readBody(
  { body, status }: Response,
  { maxBytes: most, onTooLarge, cutsBrokenBody = false }: HttpRequest,
): Promise<Pick<HttpResponse, "text" | "cut">> {
  const maxBytes = typeof most === "number" ? most : most(status);
  if (maxBytes === 0 && onTooLarge === "truncate") {
    await body?.cancel();
    return { text: "" };
  }
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let left = maxBytes;
  try {
    // Leaving the loop early cancels the rest of the body.
    for await (const chunk of body ?? []) {
      if (chunk.length > left && onTooLarge === "fail") {
        throw new ExchangeError("too_large", `answered with more than ${maxBytes / 1024 / 1024} MiB`);
      }
      parts.push(decoder.decode(chunk.subarray(0, left), { stream: true }));
      if (chunk.length > left) return { text: parts.join(""), cut: "large" };
      left -= chunk.length;
    }
  } catch (error) {
    if (!cutsBrokenBody) throw error;
    return { text: parts.join(""), cut: "broken" };
  }
  return { text: parts.join("") + decoder.decode() };
}

function predicateOf(reason: ExchangeFailure, { timeoutMs, connectMs = 0 }: HttpRequest): string {
  if (reason === "timeout") return `did not answer within ${timeoutMs / 1000} s`;
  return reason === "connect" ? `did not accept a connection within ${connectMs / 1000} s` : "cannot be reached";
}

/** Returns the error to show for a failed exchange with `origin`. Any other error is returned unchanged. */
export function asUnreachable(origin: string, error: unknown): unknown {
  return error instanceof ExchangeError ? unreachable(origin, error.message, error.cause) : error;
}

/** Returns the error of a response, or `null` for 2xx. Without an error body, its code is `null`. */
export function apiErrorOf({ status, headers, text }: HttpResponse): ApiError | null {
  if (status >= 200 && status < 300) return null;
  const { code, message } = errorEnvelope(text) ??
    { code: null, message: `The service answered with status ${status}` };
  const retryAfter = wholeSeconds(headers.get("Retry-After"));
  return new ApiError(status, code, message, headers.get(HEADERS.requestId), retryAfter);
}

/** Returns the seconds of a `Retry-After` header, or `null` when it is absent or not a whole number. */
export function wholeSeconds(header: string | null): number | null {
  return header !== null && /^\d{1,9}$/.test(header) ? Number(header) : null;
}

const MAX_MESSAGE_CHARS = 2_000;

/** Returns code and message of an error body, or `null` for other text. A malformed code becomes `UNKNOWN_ERROR`. */
export function errorEnvelope(text: string): { code: string; message: string } | null {
  try {
    const { code, message } = (JSON.parse(text) as { error: { code: unknown; message: unknown } }).error;
    if (typeof message !== "string") return null;
    return {
      code: receivedCode(code),
      message: message.slice(0, MAX_MESSAGE_CHARS).toWellFormed(),
    };
  } catch {
    return null;
  }
}
