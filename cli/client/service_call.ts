/**
 * One HTTP call to a service: in time, without following redirects, the answer checked against its wire schema. Retries
 * nothing and keeps nothing; who calls decides what an error means.
 */
import type * as z from "zod";
import type { Clock } from "../../shared/clock.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Random } from "../../shared/random.ts";
import { errorEnvelope, readText } from "./answers.ts";
import { ApiError, UnreachableError } from "../errors.ts";
import { unreachable } from "./tls.ts";

/** What a client needs from the world. */
export interface HttpDeps {
  fetch: typeof fetch;
  clock: Clock;
  random: Random;
  /** Whether somebody accepts connections at an address, asked when no answer comes; absent: it is not asked. */
  reach?: (url: string) => Promise<boolean>;
}

/** Time for a connection. `reach` takes up to a second of it. */
const CONNECT_MS = 10_000;
const REACH_MS = 1_000;
/** Time for everything. */
const TIMEOUT_MS = 30_000;
/** The largest answer is a revocation list. */
const MAX_ANSWER_BYTES = LIMITS.registryAnswerBytes;

export interface Call<S extends z.ZodType | null> {
  method: "GET" | "POST" | "DELETE";
  url: string;
  headers?: Record<string, string>;
  /** JSON text. */
  body?: string;
  /** Shape of the answer; `null` for none. */
  response: S;
}

export type Answer<S> = S extends z.ZodType ? z.output<S> : null;

/**
 * Carries a call out.
 *
 * @throws {ApiError} when the service refuses
 * @throws {UnreachableError} when nobody answers, or not as a service of this network does
 */
export async function callService<S extends z.ZodType | null>(deps: HttpDeps, request: Call<S>): Promise<Answer<S>> {
  const { method, url, body } = request;
  const origin = new URL(url).origin;
  const abort = new AbortController();
  const answered = { yet: false };
  const timers = [
    deps.clock.after(TIMEOUT_MS, () => abort.abort(`did not answer within ${TIMEOUT_MS / 1000} s`)),
    deps.clock.after(CONNECT_MS - REACH_MS, async () => {
      const reached = answered.yet || (await deps.reach?.(origin) ?? true);
      if (!reached && !answered.yet) abort.abort(`did not accept a connection within ${CONNECT_MS / 1000} s`);
    }),
  ];
  try {
    const response = await deps.fetch(url, {
      method,
      headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...request.headers },
      body: body ?? null,
      redirect: "manual",
      signal: abort.signal,
    });
    answered.yet = true;
    const text = await readText(response, MAX_ANSWER_BYTES);
    if (response.status >= 300 && response.status < 400) {
      throw new UnreachableError(`${origin} answered with a redirect, which is not followed`);
    }
    if (!response.ok) throw apiError(response, text);
    return (request.response === null ? null : parseAnswer(request.response, text, origin)) as Answer<S>;
  } catch (error) {
    if (error instanceof ApiError || error instanceof UnreachableError) throw error;
    throw unreachable(origin, abort.signal.aborted ? String(abort.signal.reason) : "cannot be reached", error);
  } finally {
    for (const cancel of timers) cancel();
  }
}

function parseAnswer(schema: z.ZodType, text: string, origin: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new UnreachableError(
      `${origin} answered with something that is not JSON: it is not a service of this network`,
    );
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const where = parsed.error.issues[0]?.path.join(".") || "the whole";
  throw new UnreachableError(`${origin} answered with something unexpected (${where}): is it of another version?`);
}

function apiError(response: Response, text: string): ApiError {
  const requestId = response.headers.get(HEADERS.requestId);
  const wait = Number(response.headers.get("Retry-After") ?? NaN);
  const retryAfter = response.status === 429 && Number.isInteger(wait) ? wait : null;
  const { code, message } = errorEnvelope(text) ??
    { code: null, message: `The service answered with status ${response.status}` };
  return new ApiError(response.status, code, message, requestId, retryAfter);
}
