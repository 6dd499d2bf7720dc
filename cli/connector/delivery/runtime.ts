/**
 * The request to the agent runtime: to the configured origin and nowhere else, whatever a message says; in time; without
 * following redirects. What its answer means is handover.ts' business.
 */
import type { Clock } from "../../../shared/clock.ts";
import { sha256 } from "../../../shared/protocol/base64url.ts";
import { unixSeconds } from "../../../shared/protocol/time.ts";
import type { Platform, RuntimeTarget } from "../../platforms/platform.ts";
import { CliError } from "../../errors.ts";
import { exchange, ExchangeError, type HttpRequest, wholeSeconds } from "../../client/http.ts";
import { isLoopback, parseServiceUrl } from "../../client/service_url.ts";
import { unreachable } from "../../client/tls.ts";
import type { RuntimeAnswer } from "./delivery_rules.ts";
import type { InboxMessage } from "./inbox.ts";
import { CONNECTOR_LIMITS } from "../limits.ts";

interface RuntimeDeps {
  fetch: typeof fetch;
  clock: Clock;
  /** Whether somebody accepts connections at an address. */
  reach?: ((url: string) => Promise<boolean>) | undefined;
}

/** Whether the runtime is there, and what it said. */
export interface RuntimeHealth {
  reachable: boolean;
  problem: string | null;
}

const MAX_HEALTH_BYTES = 64 * 1024;

export class Runtime {
  constructor(readonly deps: RuntimeDeps, readonly platform: Platform, readonly target: RuntimeTarget) {}

  get url(): string {
    return this.target.baseUrl + this.target.hookPath;
  }

  /** Hands a message over. */
  async post(message: InboxMessage, stopped: AbortSignal): Promise<RuntimeAnswer> {
    const { clock } = this.deps;
    const { headers, body } = await this.platform.request(
      { ...message, idempotencyKey: await idempotencyKey(message) },
      this.target,
      unixSeconds(clock.now()),
    );
    return await this.#ask({
      method: "POST",
      url: this.url,
      headers,
      body,
      timeoutMs: this.platform.timeoutMs,
      // Only status and headers count.
      maxBytes: 0,
      signal: stopped,
    });
  }

  /** Looks whether the runtime is there, without giving it anything. */
  async probe(stopped: AbortSignal = new AbortController().signal): Promise<RuntimeHealth> {
    const { health } = this.platform;
    if (health === null) {
      const reachable = await this.deps.reach?.(this.target.baseUrl) ?? true;
      return { reachable, problem: reachable ? null : "nobody accepts connections there" };
    }
    const response = await this.#ask({
      method: "GET",
      url: this.target.baseUrl + health.path,
      timeoutMs: CONNECTOR_LIMITS.probeTimeoutMs,
      maxBytes: MAX_HEALTH_BYTES,
      signal: stopped,
    });
    if (response.kind === "timeout") return { reachable: false, problem: "it does not answer" };
    if (response.kind === "unreachable") return { reachable: false, problem: response.why };
    if (health.isHealthy(response.status, response.body)) return { reachable: true, problem: null };
    return {
      reachable: false,
      problem: `${health.path} answered ${response.status}, not as ${this.platform.name} does`,
    };
  }

  async #ask(request: Omit<HttpRequest, "onTooLarge">): Promise<RuntimeAnswer & { body: string }> {
    try {
      const { fetch, clock } = this.deps;
      const { status, headers, text } = await exchange({ fetch, clock }, { ...request, onTooLarge: "truncate" });
      const seconds = wholeSeconds(headers.get("Retry-After")) ?? 0;
      return { kind: "status", status, retryAfterMs: seconds > 0 ? seconds * 1000 : null, body: text };
    } catch (error) {
      if (!(error instanceof ExchangeError)) throw error;
      if (error.reason === "timeout") return { kind: "timeout", body: "" };
      if (error.reason === "aborted") return { kind: "unreachable", why: "the connector is stopping", body: "" };
      const { code, message } = unreachable(this.target.baseUrl, error.message, error.cause);
      return { kind: "unreachable", why: code === "CLI_TLS_REFUSED" ? message : "no connection", body: "" };
    }
  }
}

/** D-88: the same for every attempt at a message, and for no other message. */
export function idempotencyKey({ fromDid, requestId }: Pick<InboxMessage, "fromDid" | "requestId">): Promise<string> {
  return sha256(`${fromDid}\n${requestId}`);
}

/** An answer in words. */
export function describeAnswer(response: RuntimeAnswer): string {
  if (response.kind === "timeout") return "no answer in time";
  return response.kind === "unreachable" ? response.why : `status ${response.status}`;
}

/**
 * Reads where the runtime is, as a person gives it (N10, D-92).
 *
 * @throws {CliError} `CLI_USAGE`, `CLI_INSECURE_URL`
 */
export function parseRuntimeUrl(text: string, what: string, allowInsecure: boolean): string {
  const origin = parseServiceUrl(text);
  if (origin === null) {
    throw new CliError("CLI_USAGE", `${what} is not an address such as http://127.0.0.1:18789: "${text}"`);
  }
  if (!allowInsecure && !isLoopback(origin)) {
    throw new CliError(
      "CLI_INSECURE_URL",
      `${what} is ${origin}, another machine: messages and the hook token go there`,
    );
  }
  return origin;
}

/** @throws {CliError} `CLI_USAGE` for anything but a plain path of its own */
export function parseHookPath(text: string, what: string): string {
  const isPath = /^\/(?!\/)[A-Za-z0-9._~!$&'()*+,;=:@%\/-]*$/.test(text);
  if (isPath && new URL(text, "http://127.0.0.1").pathname === text) return text;
  throw new CliError("CLI_USAGE", `${what} is not a path such as /hooks/agent: "${text}"`);
}

/** @throws {CliError} `CLI_USAGE` for a token that fits into no header; never shows it */
export function parseHookToken(text: string, what: string): string {
  if (/^[\x21-\x7e]{1,1024}$/.test(text)) return text;
  throw new CliError("CLI_USAGE", `${what} must be one word of visible ASCII characters`);
}
