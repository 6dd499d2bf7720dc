/**
 * Calls the proxy as the agent, with requests that are signed for the proxy's public origin. A call is repeated once
 * after a refusal whose cause can be repaired. The response is returned unchanged, because the local API passes it on,
 * unless the account is suspended: the proxy knows only that the access token is not valid.
 */
import type * as z from "zod";
import { tryParse } from "../../shared/protocol/json_text.ts";
import { HEADERS } from "../../shared/protocol/proof.ts";
import type { Random } from "../../shared/random.ts";
import { apiErrorOf, asUnreachable, exchange, type HttpResponse } from "../../shared/client/http.ts";
import { ApiError, UnreachableError } from "../../shared/client/errors.ts";
import { type AgentIdentity, signedHeaders } from "./signed_headers.ts";
import type { EmitLinkEvent } from "./link_events.ts";
import type { ProxyPlace } from "./link.ts";
import type { ServiceClock } from "./service_clock.ts";
import { isSuspension, remedyOf } from "../../shared/client/refusals.ts";
import { type AgentCredentials, repair } from "./agent_credentials.ts";

/** Longer than the proxy waits for an acknowledgement (10 s). With less, messages that arrive would count as failed. */
const CALL_MS = 30_000;
/** After this time without an answer the link is checked too, because a working proxy answers sooner. */
const SLOW_MS = 3_000;
/** With more, a wrong address could fill the memory; with less, a page of peers would not fit. */
const ANSWER_BYTES_MAX = 4 * 1024 ** 2;

/** The refusal of a proxy, with the response that the local API passes on unchanged. */
export class ProxyRefusal extends ApiError {
  constructor(readonly response: HttpResponse, { status, code, message, requestId, retryAfter }: ApiError) {
    super(status, code, message, requestId, retryAfter);
  }
}

/** Whether a server that has refused to end a pair, or did not answer, still has it. It answers 401 for an ended one. */
export function isPairLeft(error: unknown): boolean {
  return !(error instanceof ProxyRefusal && error.status === 401);
}

/**
 * Returns the body of an accepted call.
 *
 * @throws {UnreachableError} for one that is not of this protocol
 */
export function answerOf<T>({ text }: HttpResponse, schema: z.ZodType<T>, { dialUrl }: ProxyPlace): T {
  const { data, success } = schema.safeParse(tryParse(text));
  if (!success) throw new UnreachableError(`${dialUrl} answered with something that is not of this protocol`);
  return data;
}

export interface ProxyRequest {
  method: "GET" | "POST";
  target: string;
  /** JSON text. */
  body?: string;
  recipient?: string;
  headers?: Record<string, string>;
}

export interface CallerDeps {
  fetch: typeof fetch;
  onResponse?: ((headers: Headers) => void) | undefined;
  clock: ServiceClock;
  random: Random;
  session: AgentCredentials;
  emit: EmitLinkEvent;
  /** Called when the proxy has not answered after 3 s, and when a call fails. */
  onSilence?: () => void;
}

/** The token that a request carries beside its proof, because the proof does not show that the session is valid. */
interface AccessSource {
  current(agent: AgentIdentity): string | Promise<string>;
  /** Called after a refusal. Returns true when `current` gives another token from now on. */
  renew(agent: AgentIdentity): Promise<boolean>;
}

export class ProxyCaller {
  readonly #access: AccessSource;
  /** Requests that have waited long for their answer. */
  readonly #slow = new Set<AbortController>();

  constructor(readonly deps: CallerDeps, readonly place: ProxyPlace, access?: AccessSource) {
    const renew = (agent: AgentIdentity) => deps.session.renew("access", agent);
    this.#access = access ?? { current: ({ accessToken }) => accessToken, renew };
  }

  /** Sends a request. @throws {UnreachableError} when the proxy does not answer */
  async call(request: ProxyRequest): Promise<HttpResponse> {
    const { clock, session } = this.deps, { offsetMs } = clock, agent = await session.current();
    const access = await this.#access.current(agent), response = await this.#once(request, agent, access);
    const error = apiErrorOf(response), remedy = remedyOf(error);
    if (error === null) return response;
    const failed = (why: unknown) => isSuspension(why) ? why : false;
    const repaired = await repair(error, this.deps, agent, () => this.#access.renew(agent)).catch(failed);
    // Of calls that are refused together only the first corrects the clock, or gets another token for a visit. Without
    // this look the messages of the others would end as refused.
    const isRepaired = remedy === "adjust_clock" && clock.offsetMs !== offsetMs ||
      remedy === "renew_access" && await this.#access.current(await session.current()) !== access;
    if (repaired === true || isRepaired) {
      const renewed = await session.current();
      return await this.#once(request, renewed, await this.#access.current(renewed));
    }
    if (repaired === false) return response;
    const { code, message } = repaired;
    return { ...response, text: JSON.stringify({ error: { code, message } }) };
  }

  /** Sends a request that the proxy accepts. @throws {ProxyRefusal} @throws {UnreachableError} as `call` */
  async accepted(request: ProxyRequest): Promise<HttpResponse> {
    const response = await this.call(request), error = apiErrorOf(response);
    if (error !== null) throw new ProxyRefusal(response, error);
    return response;
  }

  /** Sends members as JSON. @throws as `accepted` */
  post(target: string, members: Record<string, unknown>): Promise<HttpResponse> {
    return this.accepted({ method: "POST", target, body: JSON.stringify(members) });
  }

  /** Sends a request and returns the body of the response. @throws as `accepted` and `answerOf` */
  async ask<T>(request: ProxyRequest, answer: z.ZodType<T>): Promise<T> {
    return answerOf(await this.accepted(request), answer, this.place);
  }

  /**
   * Ends requests that have waited for long. Called when the link is lost or opens, because the connections of such
   * requests may be dead too.
   */
  endSlow(): void {
    for (const request of this.#slow) request.abort();
  }

  async #once(request: ProxyRequest, agent: AgentIdentity, access: string): Promise<HttpResponse> {
    const { clock, onSilence = () => {} } = this.deps;
    const { dialUrl, origin } = this.place;
    const { method, target, body, recipient } = request;
    const signed = await signedHeaders(this.deps, agent, { method, url: origin, target, body, recipient });
    const headers = {
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...signed,
      [HEADERS.access]: access,
      ...request.headers,
    };
    const onResponse = (headers: Headers) => {
      this.deps.onResponse?.(headers);
      clock.see(headers.get("Date"));
    };
    const end = new AbortController();
    const cancel = clock.after(SLOW_MS, () => {
      this.#slow.add(end);
      onSilence();
    });
    try {
      return await exchange({ fetch: this.deps.fetch, clock, onResponse }, {
        method,
        url: dialUrl + target,
        headers,
        body,
        timeoutMs: CALL_MS,
        maxBytes: ANSWER_BYTES_MAX,
        onTooLarge: "fail",
        signal: end.signal,
        // With a new connection for each request, each would take two or three round trips more to a proxy behind TLS.
        keepsConnection: true,
      });
    } catch (error) {
      onSilence();
      throw asUnreachable(dialUrl, error);
    } finally {
      cancel();
      this.#slow.delete(end);
    }
  }
}
