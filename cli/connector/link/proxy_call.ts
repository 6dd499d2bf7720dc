/**
 * Calls to the proxy in the agent's name: signed for its public origin, in time, no redirects, and once more when the
 * refusal is one that can be put right here. The answer is given as it is: the local API passes it on.
 */
import { HEADERS } from "../../../shared/protocol/proof.ts";
import type { Random } from "../../../shared/random.ts";
import { errorEnvelope, readText } from "../../client/answers.ts";
import { ApiError, UnreachableError } from "../../errors.ts";
import { signedHeaders } from "../../client/signed_headers.ts";
import { unreachable } from "../../client/tls.ts";
import type { EmitEvent } from "../events.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";
import type { ProxyPlace } from "./socket_link.ts";
import { remedyOf } from "./refusals.ts";
import type { ServiceClock } from "./service_clock.ts";
import type { AgentCredentials } from "./credentials.ts";

export interface ProxyRequest {
  method: "GET" | "POST";
  /** Path and query. */
  target: string;
  /** JSON text. */
  body?: string;
  recipient?: string;
  headers?: Record<string, string>;
}

export interface ProxyAnswer {
  status: number;
  /** JSON text, or empty. */
  text: string;
  requestId: string | null;
  /** Seconds. */
  retryAfter: string | null;
}

interface CallerDeps {
  fetch: typeof fetch;
  clock: ServiceClock;
  random: Random;
  session: AgentCredentials;
  emit: EmitEvent;
}

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

export class ProxyCaller {
  constructor(readonly deps: CallerDeps, readonly place: ProxyPlace) {}

  /** @throws {UnreachableError} when nobody answers */
  async call(request: ProxyRequest): Promise<ProxyAnswer> {
    const response = await this.#once(request);
    return await this.#repaired(apiErrorOf(response)) ? await this.#once(request) : response;
  }

  /**
   * The answer's body.
   *
   * @throws {ApiError} when the proxy refuses
   * @throws {UnreachableError}
   */
  async ask(request: ProxyRequest): Promise<unknown> {
    const response = await this.call(request);
    const error = apiErrorOf(response);
    if (error) throw error;
    try {
      return response.text === "" ? null : JSON.parse(response.text);
    } catch {
      throw new UnreachableError(`${this.place.dialUrl} answered with something that is not JSON`);
    }
  }

  /** Puts right what can be put right here; true when another try is worth it. */
  async #repaired(error: ApiError | null): Promise<boolean> {
    const { clock, session, emit } = this.deps;
    switch (error && remedyOf(error)) {
      case "renew_access":
        return await session.renew("access").catch(() => false);
      case "renew_identity":
        return await session.renew("identity").catch(() => false);
      case "adjust_clock":
        if (!clock.adopt()) return false;
        emit("clock_offset", { offsetMs: clock.offsetMs });
        return true;
      default:
        return false;
    }
  }

  async #once(request: ProxyRequest): Promise<ProxyAnswer> {
    const { clock, session } = this.deps;
    const { dialUrl, origin } = this.place;
    const { method, target, body, recipient } = request;
    const agent = await session.current();
    const signed = await signedHeaders(this.deps, agent, {
      method,
      url: origin,
      target,
      ...(body === undefined ? {} : { body }),
      ...(recipient === undefined ? {} : { recipient }),
    });
    const headers = {
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...signed,
      [HEADERS.access]: agent.accessToken,
      ...request.headers,
    };
    const late = new AbortController();
    const cancel = clock.after(CONNECTOR_LIMITS.proxyTimeoutMs, () => late.abort());
    try {
      const init = { method, headers, body: body ?? null, redirect: "manual", signal: late.signal } as const;
      const response = await this.deps.fetch(dialUrl + target, init);
      clock.see(response.headers.get("Date"));
      return {
        status: response.status,
        text: await readText(response, MAX_ANSWER_BYTES),
        requestId: response.headers.get(HEADERS.requestId),
        retryAfter: response.headers.get("Retry-After"),
      };
    } catch (cause) {
      const why = late.signal.aborted ? "did not answer in time" : "cannot be reached";
      throw unreachable(dialUrl, why, cause);
    } finally {
      cancel();
    }
  }
}

/** What an answer refuses; `null` when it does not. */
export function apiErrorOf({ status, text, requestId, retryAfter }: ProxyAnswer): ApiError | null {
  if (status >= 200 && status < 300) return null;
  const wait = Number(retryAfter ?? NaN);
  const more = [requestId, Number.isInteger(wait) ? wait : null] as const;
  const { code, message } = errorEnvelope(text) ?? { code: null, message: `The proxy answered with status ${status}` };
  return new ApiError(status, code, message, ...more);
}
